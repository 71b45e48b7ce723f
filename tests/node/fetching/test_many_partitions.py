"""Thousands of partitions with new records: a follower is sent each record once, however many have some at a time."""

import pytest

from syncline.core.fetching.fetcher import LISTED_MAX
from tests.node.wire_client import WireClient, batch
from tests.node.world import World

COUNT = 2 * LISTED_MAX + 10


def sent_bytes(world: World) -> int:
    """Return the bytes of records that followers were sent by the brokers that live."""
    return sum(world.broker(each).fetching.counters.replication.bytes_out for each in world.living())


async def produce_to_each(world: World) -> int:
    """Send a record to each partition at once, as a producer does; return how many bytes of records they are."""
    image = world.broker().image
    clients: dict[int, WireClient] = {}
    sent = []
    for number in range(COUNT):
        leader = image.partition("t", number).leader
        if leader not in clients:
            clients[leader] = await world.client(leader)
        sent.append((clients[leader], clients[leader].send_produce("t", batch(), partition=number, acks=-1)))
    for client, correlation_id in sent:
        assert not (await client.produced(correlation_id)).error_code
    return COUNT * len(batch())


@pytest.mark.brokers(2, is_checked=False)
async def test_followers_are_sent_each_record_once(world: World) -> None:
    """Guards: what a follower's next request could not list was sent again with each answer, forty times."""
    await world.topic(partitions=COUNT, replicas=(1, 2))
    before = sent_bytes(world)
    produced = await produce_to_each(world)

    assert sent_bytes(world) - before == produced


@pytest.mark.brokers(2, is_checked=False)
async def test_broker_that_starts_is_sent_each_record_once(world: World) -> None:
    """While it lists its partitions, some hundred with each request, those that it has listed have records already."""
    await world.topic(partitions=COUNT, replicas=(1, 2))
    world.kill(2)
    await world.until(lambda: all(world.partition(1, "t", each).record.isr == (1,) for each in range(COUNT)))
    produced = await produce_to_each(world)
    await world.start(2)
    await world.until(lambda: all(world.partition(1, "t", each).record.isr == (1, 2) for each in range(COUNT)))

    assert sent_bytes(world) == produced
