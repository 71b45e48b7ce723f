"""Refused records of producers that want no answer (acks=0): the broker's log says why their connection closes."""

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
