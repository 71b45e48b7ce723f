"""Refused records of producers that want no answer (acks=0): the broker's log says why their connection closes."""

import pytest

from syncline.node.producing.unanswered_refusals import LOG_INTERVAL_MS
from tests.node.wire_client import batch
from tests.node.world import World


async def refuse(world: World, count: int = 1) -> None:
    """Send records for a topic that does not exist, each over a connection of its own."""
    for _ in range(count):
        client = await world.client()
        client.send_produce("nope", batch(), acks=0)
        await client.lost()


async def test_refusal_names_client_partition_and_error(world: World) -> None:
    """The client hears nothing, so this line is all there is."""
    await refuse(world)

    (line,) = world.errors.warnings
    assert "client 'test'" in line
    assert "'nope-0'" in line
    assert "UNKNOWN_TOPIC_OR_PARTITION" in line


async def test_refusals_do_not_fill_the_log(world: World) -> None:
    """A line in ten seconds, which counts those between."""
    await refuse(world, count=5)
    await world.later(LOG_INTERVAL_MS / 1000)
    await refuse(world, count=2)

    assert len(world.errors.warnings) == 2
    assert "(4 more since the last line)" in world.errors.warnings[1]


async def test_accepted_records_are_no_news(world: World) -> None:
    """Nothing is logged about them."""
    await world.topic()
    client = await world.client()
    client.send_produce("t", batch(), acks=0)
    await client.produce("t", batch())

    assert world.errors.warnings == []
    assert world.partition().log.log_end == 2


@pytest.mark.brokers(2)
async def test_c15_a_produce_without_acknowledgement_closes_when_it_is_refused(world: World) -> None:
    """acks=0 to a follower: no answer can carry the error, so the connection ends."""
    await world.topic(replicas=(1, 2))
    await world.until(lambda: world.partition(2).follower is not None)
    follower, leader = await world.client(2), await world.client(1)

    follower.send_produce("t", batch(), acks=0)
    leader.send_produce("t", batch(), acks=0)
    await follower.lost()

    assert follower.answers == {}
    await world.until(lambda: world.partition(1).log.log_end == 1)
    assert not leader.is_lost
