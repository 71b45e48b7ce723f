"""Consumers' large fetches: the loop does not copy megabytes, and reads under way are counted as memory."""

import pytest

from syncline.node.fetching.reader import READ_AT_ONCE_BYTES
from tests.node.wire_client import WireClient, at, batch
from tests.node.world import World

LIMIT_BYTES = 32 << 20
BATCHES, BATCH_BYTES = 8, 900_000
CLIENTS = 40
LARGE = 1 << 25

small_memory = pytest.mark.brokers(
    1, queued_max_request_bytes=LIMIT_BYTES, socket_request_max_bytes=4 << 20, message_max_bytes=4 << 20
)


async def filled(world: World) -> WireClient:
    """Return a client that has produced a few megabytes."""
    await world.topic()
    client = await world.client()
    for _ in range(BATCHES):
        await client.produce("t", batch(size_bytes=BATCH_BYTES))
    return client


async def test_large_read_of_a_consumer_is_made_beside_the_loop(world: World) -> None:
    """Copying 16 MiB takes the loop 10 ms, and 40 clients may ask at one moment. A small read stays in the loop."""
    client = await filled(world)
    counters = world.broker().counters
    small = await client.fetch("t", max_bytes=1 << 20)
    in_loop_bytes, beside_bytes = counters.memory_read_bytes, counters.disk_read_bytes
    large = await client.fetched_row(client.send_fetch({"t": [at(0, max_bytes=LARGE)]}))

    assert (in_loop_bytes, beside_bytes) == (len(small.records), 0)
    assert len(large.records) > BATCH_BYTES * 5 > READ_AT_ONCE_BYTES
    # All of it was in memory.
    assert counters.memory_read_bytes == in_loop_bytes + len(large.records)
    assert counters.disk_read_bytes == 0


@small_memory
async def test_reads_under_way_are_held_for_their_clients(world: World) -> None:
    """Forty that begin at one moment do not get a share each of the room that only one of them can have."""
    await filled(world)
    clients = [await world.client() for _ in range(CLIENTS)]
    for bad in clients:
        bad.transport.pause_reading()
        bad.send_fetch({"t": [at(0, max_bytes=LARGE)]})
    await world.later(3)
    unread_bytes = sum(each.transport.get_write_buffer_size() for each in world.connections() if each.transport)

    assert unread_bytes <= LIMIT_BYTES
