"""Records that followers get from files: the right ones, in answers that leave in the callback that found them.

Connections of brokers get a sender here that reads what it should send, and files give out ranges that end with their
callback, as the real ones' contents may. What arrives late is in `tests/virtual/network/test_unread.py`.
"""

import asyncio
import errno
from collections.abc import Sequence
from typing import Any

import pytest

from syncline.model.ids import LeaderEpoch
from syncline.node.serving.connection import Connection
from syncline.node.unix_sockets.sending import read_files
from syncline.records.batch import BatchHeader, stamp
from syncline.records.buffers import Buffer, FileRange, Part
from syncline.virtual.disk.disk import SimFile
from syncline.wire.api import ApiKey
from tests.node.faults.test_requests import add
from tests.node.wire_client import at, batch
from tests.node.world import World

LARGE = batch(size_bytes=60_000)
SMALL = batch(size_bytes=20_000)

# They replace methods of classes that a compiled build fixes.
pytestmark = pytest.mark.interpreted


class Expiring:
    """A file that can be read until the current callback ends."""

    # How many reads fail from now on.
    failing = 0

    def __init__(self, file: SimFile) -> None:
        self._file = file
        self._is_over = False
        asyncio.get_running_loop().call_soon(self._end)

    def _end(self) -> None:
        self._is_over = True

    def read(self, position: int, size: int) -> Buffer:
        """Return bytes."""
        assert not self._is_over, "records were read later than they were found"
        if Expiring.failing:
            Expiring.failing -= 1
            raise OSError(errno.EIO, "the disk fails")
        return self._file.read(position, size)

    def send(self, socket_descriptor: int, position: int, size: int) -> int:
        """There is no socket."""
        raise NotImplementedError


class Sender:
    """Sends over one connection."""

    def __init__(self) -> None:
        self.range_bytes: list[int] = []

    def send(self, parts: Sequence[Part]) -> list[Buffer]:
        """Leave everything to the transport."""
        self.range_bytes += [len(part) for part in parts if isinstance(part, FileRange)]
        return read_files(parts)


@pytest.fixture
def sender(monkeypatch: pytest.MonkeyPatch) -> Sender:
    """What all connections between brokers send files with."""
    sender = Sender()
    connection_made = Connection.connection_made

    def has_sender(connection: Connection, transport: asyncio.BaseTransport) -> None:
        connection_made(connection, transport)
        if connection.listener == "internal":
            connection.files = sender  # type: ignore[assignment]

    def hot_range(file: SimFile, position: int, size: int) -> FileRange | None:
        return FileRange(Expiring(file), position, size) if position + size <= file.size_bytes else None

    monkeypatch.setattr(Expiring, "failing", 0)
    monkeypatch.setattr(Connection, "connection_made", has_sender)
    monkeypatch.setattr(SimFile, "hot_range", hot_range)
    return sender


@pytest.fixture
def world(sender: Sender, request: pytest.FixtureRequest) -> World:
    """Brokers that send from files."""
    marker = request.node.get_closest_marker("brokers")
    return World(*marker.args, **marker.kwargs) if marker else World()


def log_of(world: World, broker_id: int, number: int = 0) -> bytes:
    """Return all that a replica has."""
    file = world.partition(broker_id, number=number).log.segments[-1].file
    return bytes(file.read(0, file.size_bytes))


@pytest.mark.brokers(3)
async def test_followers_get_large_records_from_the_file_and_small_ones_from_memory(
    world: World, sender: Sender
) -> None:
    """Both get the bytes that the leader has; consumers get what is read."""
    await world.topic(replicas=(1, 2, 3))
    client = await world.client()
    await client.produce("t", LARGE)
    assert sender.range_bytes == [len(LARGE)] * 2
    await client.produce("t", SMALL)
    assert len(sender.range_bytes) == 2
    row = await client.fetch("t", 0)
    await world.until(lambda: world.partition(2).log.log_end == world.partition(3).log.log_end == 2)

    assert len(row.records) == len(LARGE) + len(SMALL)
    assert len(sender.range_bytes) == 2
    assert log_of(world, 2) == log_of(world, 3) == log_of(world, 1)


@pytest.mark.brokers(2)
async def test_answer_that_waits_for_its_turn_is_read(world: World, sender: Sender) -> None:
    """Until it is sent, the file may be cut, or its pages given back."""
    await world.topic("t", replicas=(1, 2))
    await world.topic("u", replicas=(1, 2))
    client, peer = await world.client(), await world.peer()
    await client.produce("t", LARGE)
    sender.range_bytes.clear()
    began_s = world.loop.time()
    parked = peer.send_fetch({"u": [at(0)]}, max_wait_ms=500, replica_id=2)
    ready = peer.send_fetch({"t": [at(0)]}, max_wait_ms=500, replica_id=2)
    row = await peer.fetched_row(ready)

    assert list(peer.answers) == [parked, ready]
    assert world.loop.time() >= began_s + 0.5
    assert len(row.records) == len(LARGE)
    assert sender.range_bytes == []


@pytest.mark.brokers(2, fault_injection_enable="true")
async def test_answer_that_a_fault_delays_is_read(world: World, sender: Sender) -> None:
    """api-throttle sends it much later."""
    await world.topic(replicas=(1, 2))
    client = await world.client()
    await add(world, "api-throttle", apis=["FETCH"], delay_ms=200, listener="internal")
    # A fetch that is parked already is spared.
    await client.produce("t", SMALL)
    await client.produce("t", LARGE)

    assert log_of(world, 2) == log_of(world, 1)
    assert sender.range_bytes == []


@pytest.mark.brokers(2, fault_injection_enable="true")
async def test_connection_ends_when_a_delayed_answer_cannot_be_read(world: World) -> None:
    """The follower connects again at once; without an answer it would wait for seconds."""
    await world.topic(replicas=(1, 2))
    client = await world.client()
    await add(world, "api-throttle", apis=["FETCH"], delay_ms=20, listener="internal")
    await client.produce("t", SMALL)
    Expiring.failing = 1
    began_s = world.loop.time()
    await client.produce("t", LARGE)

    assert Expiring.failing == 0
    assert world.loop.time() < began_s + 0.5
    assert log_of(world, 2) == log_of(world, 1)


@pytest.mark.brokers(2)
async def test_connection_ends_when_an_answer_that_waits_for_its_turn_cannot_be_read(world: World) -> None:
    """It would be sent without what it has announced, or never."""
    await world.topic("t", replicas=(1, 2))
    await world.topic("u", replicas=(1, 2))
    client, peer = await world.client(), await world.peer()
    await client.produce("t", LARGE)
    peer.send_fetch({"u": [at(0)]}, max_wait_ms=500, replica_id=2)
    Expiring.failing = 1
    peer.send_fetch({"t": [at(0)]}, max_wait_ms=500, replica_id=2)
    await peer.lost()

    assert Expiring.failing == 0
    assert peer.answers == {}


@pytest.mark.brokers(1)
async def test_only_what_is_left_to_the_transport_counts_as_unsent(world: World) -> None:
    """Memory is held for it; the rest is in the socket."""
    await world.peer()
    connection = [each for each in world.broker().dispatcher.connections if each.listener == "internal"][-1]

    class Partly:
        def send(self, parts: Sequence[Part]) -> list[Buffer]:
            return [bytes(read_files(parts)[-1][-5_000:])]

    connection.files = Partly()  # type: ignore[assignment]
    connection.pause_writing()
    connection._unwritten, connection._unwritten_bytes = [bytes(30_000)], 30_000
    connection.send()

    assert connection.holding.unsent_bytes == 5_000


@pytest.mark.brokers(2)
async def test_records_that_wait_for_those_of_another_partition_are_read(
    world: World, sender: Sender, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One is in memory, the other one has to be read from the disk: both come in one answer, later."""
    await world.topic("t", replicas=(1, 2))
    await world.topic("u", replicas=(1, 2))
    client, peer = await world.client(), await world.peer()
    await client.produce("t", LARGE)
    await client.produce("u", LARGE)
    sender.range_bytes.clear()
    hot_range = SimFile.hot_range

    def only_of_t(file: SimFile, position: int, size: int) -> FileRange | None:
        return hot_range(file, position, size) if "/t-0/" in file.path else None

    monkeypatch.setattr(SimFile, "hot_range", only_of_t)
    world.slow_disk(1, 50)
    answer = await peer.fetched(peer.send_fetch({"t": [at(0)], "u": [at(0)]}, replica_id=2))
    world.slow_disk(1, 0)
    rows = [row for _, rows in answer.topics for row in rows]

    assert [(row.error_code, len(row.records)) for row in rows] == [(0, len(LARGE))] * 2
    assert sender.range_bytes == []


@pytest.mark.brokers(2)
async def test_records_of_a_look_in_steps_are_read(world: World, sender: Sender) -> None:
    """Its answer leaves some callbacks after the first of them were found."""
    await world.topic(partitions=60, replicas=(1, 2))
    client, peer = await world.client(), await world.peer()
    led = [number for number in range(60) if world.partition(1, number=number).leader is not None]
    for number in led[:3]:
        await client.produce("t", LARGE, partition=number)
    sender.range_bytes.clear()
    many = [at(0, partition=number) for number in range(60)]
    answer = await peer.fetched(peer.send_fetch({"t": many}, replica_id=2))
    sizes = [len(row.records) for _, rows in answer.topics for row in rows if row.records]

    assert sizes == [len(LARGE)] * 3
    assert sender.range_bytes == []


@pytest.mark.parametrize("error", [EOFError("the file ends too early"), OSError(errno.EIO, "the disk fails")])
@pytest.mark.brokers(2)
async def test_connection_ends_when_its_file_cannot_be_read(world: World, sender: Sender, error: Exception) -> None:
    """The answer has announced how long it is; the follower asks again."""
    await world.topic(replicas=(1, 2))
    client = await world.client()
    failed: list[Any] = []
    send = sender.send

    def fail_once(parts: Sequence[Part]) -> list[Buffer]:
        if not failed and any(isinstance(part, FileRange) for part in parts):
            failed.append(parts)
            raise error
        return send(parts)

    sender.send = fail_once  # type: ignore[method-assign]
    await client.produce("t", LARGE)

    assert failed
    assert log_of(world, 2) == log_of(world, 1)


@pytest.mark.brokers(2)
async def test_records_that_have_changed_on_the_way_are_fetched_again(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The leader said of which epoch they are: others are not stored, and no log is in doubt."""
    await world.topic(replicas=(1, 2))
    client = await world.client()
    await client.produce("t", SMALL)
    read, changed = Expiring.read, []

    def change_once(file: Expiring, position: int, size: int) -> Buffer:
        data = bytearray(read(file, position, size))
        if not changed:
            changed.append(bytes(data))
            stamp(data, 0, BatchHeader.parse(data).base_offset, LeaderEpoch(7))
        return data

    monkeypatch.setattr(Expiring, "read", change_once)
    await client.produce("t", LARGE)

    assert changed
    assert log_of(world, 2) == log_of(world, 1)
    assert [line for line in world.errors.lines if "doubt" in line or "damaged" in line] == []


@pytest.mark.brokers(3, eligible_leader_replicas_enable="false")
async def test_records_of_earlier_leaders_are_read(world: World, sender: Sender) -> None:
    """What is sent from a file is of the leader's own epoch, which followers check."""
    await world.topic(replicas=(1, 2, 3))
    world.kill(3)
    client = await world.client()
    await client.produce("t", LARGE)
    await world.until(lambda: world.partition(2).log.log_end == 1)
    world.kill(1)
    await world.until(lambda: world.partition(2).leader is not None)
    sender.range_bytes.clear()
    await world.start(3)
    await world.until(lambda: world.partition(3).log.log_end == 1)
    assert sender.range_bytes == []

    await (await world.client(2)).produce("t", LARGE)
    await world.until(lambda: world.partition(3).log.log_end == 2)
    assert sender.range_bytes == [len(LARGE)]
    assert log_of(world, 3) == log_of(world, 2)


@pytest.mark.brokers(1)
async def test_other_answers_of_large_size_go_the_same_way(world: World, sender: Sender) -> None:
    """A sender that has nothing to send from files leaves them to the transport."""
    peer = await world.peer()
    answers = [peer.send(ApiKey.API_VERSIONS, 0) for _ in range(300)]
    for each in answers:
        await peer.body(each)

    assert sender.range_bytes == []
