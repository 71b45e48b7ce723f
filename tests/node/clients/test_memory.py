"""One budget for the memory held for all clients: who is not read, who is closed, and who never notices."""

import asyncio
import struct
from collections.abc import Iterator
from typing import Any

import pytest

from syncline.model.errors import ErrorCode
from syncline.node.clients.memory import Holding, MemoryBudget, holding_most, limit_bytes, stuck_most
from syncline.virtual.time.loop import VirtualLoop
from syncline.wire.api import ApiKey
from tests.node.wire_client import WireClient, at, batch
from tests.node.world import World

REQUEST_BYTES_MAX = 4 << 20
LIMIT_BYTES = 16 << 20
SMALL = {
    "socket_request_max_bytes": REQUEST_BYTES_MAX,
    "queued_max_request_bytes": LIMIT_BYTES,
    "message_max_bytes": REQUEST_BYTES_MAX,
}
small_memory = pytest.mark.brokers(1, **SMALL)


def unread_bytes(world: World) -> int:
    """Return what the transports of a broker keep for peers that do not read."""
    return sum(each.transport.get_write_buffer_size() for each in world.connections() if each.transport)


async def fill_topic(client: WireClient, batches: int = 8) -> None:
    """Produce that many batches of 900 kB."""
    for _ in range(batches):
        await client.produce("t", batch(size_bytes=900_000))


async def send_most_of_a_frame(client: WireClient, size_bytes: int = REQUEST_BYTES_MAX, percent: int = 94) -> None:
    """Announce a produce request of that size, and send only so much of it."""
    frame = struct.pack(">ihhih", size_bytes, ApiKey.PRODUCE, 9, 1, -1) + b"\0"
    client.transport.write(frame + bytes(size_bytes * percent // 100))


@small_memory
async def test_answers_that_nobody_reads_are_bounded_for_all_connections_together(world: World) -> None:
    """Forty clients that ask for seven megabytes each and read nothing do not make the broker hold 280."""
    await world.topic()
    good = await world.client()
    await fill_topic(good)
    for _ in range(40):
        bad = await world.client()
        bad.transport.pause_reading()
        bad.send_fetch({"t": [at(0, max_bytes=1 << 25)]})
    await world.later(3)
    held_bytes = unread_bytes(world)
    result = await good.produce("t", batch(size_bytes=100_000))
    await world.later(10)
    row = await good.fetch("t", 0)

    assert held_bytes <= LIMIT_BYTES * 1.1
    assert result.error_code == ErrorCode.NONE
    assert len(row.records) > 0


@small_memory
async def test_answers_of_one_connection_are_bounded_when_parked_fetches_wake_together(world: World) -> None:
    """A thousand fetches that wait for records are not all answered with them if their client does not read."""
    await world.topic()
    good, bad = await world.client(), await world.client()
    bad.transport.pause_reading()
    for _ in range(1_000):
        bad.send_fetch({"t": [at(0, max_bytes=1 << 25)]}, max_wait_ms=2_000, max_bytes=1 << 25)
    await world.later(0.1)
    await fill_topic(good, 2)
    await world.later(1)

    assert unread_bytes(world) <= LIMIT_BYTES * 1.1


@small_memory
async def test_frames_being_filled_are_bounded_for_all_connections_together(world: World) -> None:
    """Twelve requests of which 94 % are sent: the broker receives no more of them than it may hold."""
    await world.topic()
    bad = [await world.client() for _ in range(12)]
    for each in bad:
        await send_most_of_a_frame(each)
    await world.later(3)
    sent_bytes = 12 * (REQUEST_BYTES_MAX * 94 // 100)
    received_bytes = sent_bytes - sum(each.transport.outgoing.in_flight_bytes for each in bad)
    good = await world.client()
    result = await good.produce("t", batch(size_bytes=100_000))

    assert received_bytes <= LIMIT_BYTES * 1.3
    assert result.error_code == ErrorCode.NONE


@small_memory
async def test_connections_that_keep_memory_full_are_closed(world: World) -> None:
    """What only their peers can complete ends after ten seconds, so that others are read again."""
    await world.topic()
    bad = [await world.client() for _ in range(12)]
    for each in bad:
        await send_most_of_a_frame(each)
    await world.later(3)
    early_count = sum(each.is_lost for each in bad)
    memory = world.broker().dispatcher.clients.memory
    await world.until(lambda: not memory.held_back_count)

    assert early_count == 0
    assert 0 < sum(each.is_lost for each in bad) < len(bad)
    assert memory.held_bytes <= LIMIT_BYTES


@small_memory
async def test_connection_that_was_not_read_goes_on_when_there_is_room(world: World) -> None:
    """Requests of clients that were held back are answered once others have let go."""
    await world.topic()
    bad = [await world.client() for _ in range(12)]
    for each in bad[:6]:
        await send_most_of_a_frame(each)
    sent = [each.send_produce("t", batch(size_bytes=3_900_000)) for each in bad[6:]]
    memory = world.broker().dispatcher.clients.memory
    await world.until(lambda: memory.held_back_count)
    for each in bad[:6]:
        each.transport.abort()
    results = [await each.produced(number) for each, number in zip(bad[6:], sent, strict=True) if not each.is_lost]

    await world.until(lambda: not memory.held_back_count)

    assert {result.error_code for result in results} == {ErrorCode.NONE}


@small_memory
async def test_other_brokers_are_read_when_memory_for_clients_is_full(world: World) -> None:
    """Requests of brokers neither count nor wait."""
    for _ in range(12):
        await send_most_of_a_frame(await world.client())
    await world.later(1)
    peer = await world.peer()
    await send_most_of_a_frame(peer)
    await world.later(1)

    assert peer.transport.outgoing.in_flight_bytes == 0


@small_memory
async def test_closed_connections_hold_nothing(world: World) -> None:
    """Buffers, pieces of frames, unread answers and waiting bytes are counted off when their connection ends."""
    await world.topic()
    bad = [await world.client() for _ in range(3)]
    await fill_topic(bad[2], 2)
    await send_most_of_a_frame(bad[0], percent=50)
    bad[1].transport.pause_reading()
    bad[1].send_fetch({"t": [at(0, max_bytes=1 << 25)]})
    bad[2].transport.write(b"\0\0\0")
    await world.later(1)
    memory = world.broker().dispatcher.clients.memory
    held_bytes = memory.held_bytes
    for each in bad:
        each.transport.abort()
    await world.later(1)

    assert held_bytes > 3_000_000
    assert memory.held_bytes == 0


async def test_large_request_is_refused_by_its_first_bytes(world: World) -> None:
    """A request for an unknown API, or a list of 50 MB, gets no buffer: its connection is closed at once."""
    for key, version in ((4, 0), (ApiKey.PRODUCE, 2), (ApiKey.METADATA, 9)):
        client = await world.client()
        client.transport.write(struct.pack(">ihhih", 50 << 20, key, version, 1, -1) + bytes(1_000))
        await client.lost()


async def test_idle_connections_own_no_receive_buffer(world: World) -> None:
    """A hundred clients that wait share one buffer."""
    clients = [await world.client() for _ in range(100)]
    for each in clients:
        await each.body(each.send(ApiKey.API_VERSIONS, 0))
    held = [each.holding.received_bytes for each in world.connections()]

    assert held == [0] * 100


@small_memory
async def test_receive_buffer_is_freed_when_no_large_request_follows(world: World) -> None:
    """A producer of large batches keeps its buffer between them, and loses it when it falls silent."""
    await world.topic()
    client = await world.client()
    await client.produce("t", batch(size_bytes=900_000))
    (connection,) = world.connections()
    kept_bytes = connection.holding.received_bytes
    await world.later(30)

    assert kept_bytes > 900_000
    assert connection.holding.received_bytes == 0


# The rules.


class Somebody:
    """A holder that only remembers."""

    def __init__(self) -> None:
        self.updates = 0
        self.reasons: list[str] = []

    def update_reading(self) -> None:
        """Count."""
        self.updates += 1

    def close(self, reason: str, /) -> None:
        """Remember why."""
        self.reasons.append(reason)


@pytest.fixture
def loop() -> Iterator[VirtualLoop]:
    """Return a loop of virtual time."""
    made = VirtualLoop()
    yield made
    made.close()


def holdings(loop: VirtualLoop, *sizes: tuple[int, int]) -> list[Holding]:
    """Return holdings of (received bytes, waiting bytes)."""
    budget = MemoryBudget(loop, 1 << 30)
    found = []
    for received_bytes, waiting_bytes in sizes:
        holding = budget.open(Somebody())
        holding.receive(received_bytes)
        holding.wait(waiting_bytes)
        found.append(holding)
    return found


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [
        pytest.param([(100, 0), (100, 0)], [0, 1], id="equal"),
        pytest.param([(150, 0), (5, 0), (0, 5)], [0], id="one-holds-most"),
        pytest.param([(0, 0), (0, 60), (50, 0), (10, 0), (0, 0)], [1, 2], id="a-quarter-of-an-even-share"),
    ],
)
def test_connections_that_hold_most_are_held_back(
    loop: VirtualLoop, sizes: list[tuple[int, int]], expected: list[int]
) -> None:
    """Those that hold little are read on, and can add no more than a quarter of the limit, here 120."""
    found = holdings(loop, *sizes)

    assert [found.index(each) for each in holding_most(found, 120)] == expected


def test_connections_with_most_stuck_bytes_are_closed_first(loop: VirtualLoop) -> None:
    """So many as are needed; bytes that wait for acknowledgement are not the peer's fault."""
    found = holdings(loop, (10, 500), (40, 0), (30, 0), (20, 0))

    assert [found.index(each) for each in stuck_most(found, 45)] == [1, 2]
    assert stuck_most(found, 0) == []
    assert len(stuck_most(found, 1_000)) == 4


@pytest.mark.parametrize(
    ("configured", "memory", "expected"),
    [(-1, 8 << 30, 2 << 30), (-1, 64 << 30, 4 << 30), (0, 8 << 30, 2 << 30), (1 << 27, 64 << 30, 1 << 27)],
)
def test_limit_is_as_configured_or_a_share_of_memory(configured: int, memory: int, expected: int) -> None:
    """A quarter, at most 4 GiB."""
    assert limit_bytes(configured, memory) == expected


def test_closed_holding_counts_nothing_more(loop: VirtualLoop) -> None:
    """A produce request may still be released after its connection was closed."""
    budget = MemoryBudget(loop, 1_000)
    holding: Any = budget.open(Somebody())
    holding.wait(100)
    holding.end()
    holding.wait(-100)
    holding.receive(50)
    holding.set_unsent(50)

    assert budget.held_bytes == 0


def test_holding_adds_up_for_how_long_it_was_held_back(loop: VirtualLoop) -> None:
    """Also while it is; once it is closed, nothing is added."""
    holding: Any = MemoryBudget(loop, 1_000).open(Somebody())
    found = []
    for is_held_back in (True, True, False, False, True):
        holding.hold_back(is_held_back=is_held_back)
        loop.run_until_complete(asyncio.sleep(1))
        found.append(holding.held_back_ms)
    holding.end()

    assert found == [1_000, 2_000, 2_000, 2_000, 3_000]
    assert not holding.is_open
    assert holding.held_back_ms == 2_000


def test_freeing_unused_buffers_may_be_enough(loop: VirtualLoop) -> None:
    """Guards: the budget was eased while it looked for connections to hold back; those were not read ever again."""
    budget = MemoryBudget(loop, 1_000)
    idle, busy = budget.open(Somebody()), budget.open(Somebody())
    idle.receive(950)
    idle.free_unused = lambda: idle.receive(-idle.received_bytes)
    busy.wait(300)

    budget.check_invariants()
    assert (budget.held_bytes, busy.is_held_back) == (300, False)
