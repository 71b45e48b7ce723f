"""Thousands of partitions with new records: a follower is sent each record once, however many have some at a time."""

import pytest

from syncline.core.fetching.fetcher import LISTED_MAX
from syncline.core.fetching.limits import RECORD_ROWS_MAX
from tests.node.throttle.quotas import raw_follower
from tests.node.wire_client import WireClient, at, batch
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


@pytest.mark.brokers(2, is_checked=False)
async def test_what_a_request_lists_counts_although_the_answer_has_no_room_for_more(world: World) -> None:
    """A follower lists what it has just stored, and lacks more of it; the records of others come first, and fill it."""
    await world.topic(partitions=COUNT, replicas=(1, 2))
    world.kill(2)
    await world.until(lambda: all(world.partition(1, "t", each).record.isr == (1,) for each in range(COUNT)))
    for _ in range(3):
        await produce_to_each(world)
    follower, size = await raw_follower(world), len(batch())
    await follower.fetch({"t": [at(0, partition=each, max_bytes=size) for each in range(COUNT)]})
    # The first request of a session does not change whose turn it is.
    for offset in (1, 2):
        rows = [at(offset, partition=each, max_bytes=size) for each in range(RECORD_ROWS_MAX)]
        answered = await follower.fetch({"t": rows})
    ends = [world.partition(1, "t", each).leader.followers[0].log_end for each in range(COUNT)]
    with_records = [number for number, row in answered.items() if row.records]

    assert ends == [2] * RECORD_ROWS_MAX + [0] * (COUNT - RECORD_ROWS_MAX)
    assert with_records == list(range(RECORD_ROWS_MAX, 2 * RECORD_ROWS_MAX))
