"""What two followers are woken for is read once, and remembered for no longer than they look."""

import gc
from collections.abc import Sequence

import pytest

from syncline.model.errors import ErrorCode
from syncline.node.fetching.known_partitions import KNOWN_MAX, KnownPartitions
from syncline.node.fetching.operation import FetchOperation
from syncline.node.fetching.shared_reads import SharedReads
from syncline.records.buffers import Buffer
from syncline.storage.log import PartitionLog
from syncline.storage.segments.reading import EMPTY, Slice
from syncline.virtual.disk.disk import SimFile
from syncline.virtual.network.transport import VirtualTransport
from syncline.wire.api import ApiKey
from syncline.wire.fetch import encode_fetch_request
from syncline.wire.fetch_response import parse_fetch_response
from tests.node.wire_client import WireClient, at, batch, fetch_request
from tests.node.world import World


class CountingFile:
    """A file of ten digits, of which only some are in memory."""

    def __init__(self, resident_to: int = 10) -> None:
        self.reads: list[tuple[int, int]] = []
        self.resident_to = resident_to

    def read_resident(self, position: int, size: int) -> Buffer | None:
        """Return the digits if all of them are in memory."""
        self.reads.append((position, size))
        return b"0123456789"[position : position + size] if position + size <= self.resident_to else None


def _slice(file: CountingFile, position: int, size: int) -> Slice:
    return Slice(file, position, size, 0)  # type: ignore[arg-type]


def test_the_same_bytes_are_read_once_while_reads_are_kept() -> None:
    """The very object is passed on; another stretch, or another file, is read."""
    file, other, reads = CountingFile(), CountingFile(), SharedReads()
    reads.begin()
    first, again = reads.read(_slice(file, 2, 3)), reads.read(_slice(file, 2, 3))

    assert first is again
    assert first == b"234"
    assert [reads.read(_slice(file, 2, 4)), reads.read(_slice(other, 2, 4))] == [b"2345", b"2345"]
    assert (file.reads, other.reads) == ([(2, 3), (2, 4)], [(2, 4)])


def test_nothing_is_kept_before_and_after() -> None:
    """A log may be cut and written again between two callbacks."""
    file, reads = CountingFile(), SharedReads()
    for _ in range(2):
        reads.read(_slice(file, 0, 1))
    reads.begin()
    reads.read(_slice(file, 0, 1))
    reads.end()
    reads.read(_slice(file, 0, 1))
    reads.begin()
    reads.read(_slice(file, 0, 1))

    assert len(file.reads) == 5


def test_what_is_not_in_memory_is_looked_for_each_time() -> None:
    """Each reader's worker learns from its own look what was missing."""
    file, reads = CountingFile(resident_to=4), SharedReads()
    reads.begin()

    assert [reads.read(_slice(file, 3, 3)), reads.read(_slice(file, 3, 3)), reads.read(EMPTY)] == [None, None, b""]
    assert len(file.reads) == 2


@pytest.mark.interpreted
@pytest.mark.brokers(3)
async def test_an_append_is_read_once_and_reaches_each_follower_before_the_next_is_looked_for(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Guards: the second follower's read came before the first one's answer, and delayed the acknowledgement."""
    await world.topic(replicas=(1, 2, 3))
    client = await world.client()
    await client.produce("t", batch())
    await world.later(0.2)
    story: list[str] = []
    wake, read, write = FetchOperation.wake, SimFile.read_resident, VirtualTransport.write

    def spied_wake(operation: FetchOperation) -> None:
        story.append("look" if operation.is_follower else "consumer")
        wake(operation)

    def spied_read(file: SimFile, position: int, size: int) -> Buffer | None:
        if file.path.endswith(".log"):
            story.append("read")
        return read(file, position, size)

    def spied_write(transport: VirtualTransport, data: Buffer) -> None:
        story.append("write")
        write(transport, data)

    monkeypatch.setattr(FetchOperation, "wake", spied_wake)
    monkeypatch.setattr(SimFile, "read_resident", spied_read)
    monkeypatch.setattr(VirtualTransport, "write", spied_write)
    await client.produce("t", batch())

    began = story.index("look")
    assert story[began : began + 5] == ["look", "read", "write", "look", "write"]


@pytest.mark.interpreted
@pytest.mark.brokers(3)
async def test_a_commit_is_acknowledged_before_the_fetch_that_proved_it_parks(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Parking takes longer than writing the answer."""
    await world.topic(replicas=(1, 2, 3))
    client = await world.client()
    await client.produce("t", batch())
    await world.later(0.2)
    broker, story = world.broker(), []
    park, leave = FetchOperation._park, type(broker.fetching.outgoing).leave

    def spied_park(operation: FetchOperation) -> None:
        story.append("park")
        park(operation)

    def spied_leave(outgoing: object) -> None:
        if outgoing is broker.fetching.outgoing and broker.fetching.outgoing.senders:
            story.append("answers")
        leave(outgoing)  # type: ignore[arg-type]

    monkeypatch.setattr(FetchOperation, "_park", spied_park)
    monkeypatch.setattr(type(broker.fetching.outgoing), "leave", spied_leave)
    await client.produce("t", batch())
    await world.later(0.01)

    # One follower's fetch proves nothing yet, the other's commits.
    assert story[:3] == ["park", "answers", "park"]


async def test_woken_fetches_keep_no_read_when_they_have_looked(world: World) -> None:
    """Also if one of them fails."""
    woken = world.broker().fetching.woken

    class Failing:
        def wake(self) -> None:
            woken.reads.read(_slice(CountingFile(), 0, 1))
            raise AssertionError("a failing fetch")

    woken.wake(Failing())
    woken.settle()

    assert woken.reads._data is None
    assert woken.reads._plan is None
    assert [error for error in world.errors.take() if "a parked fetch failed" in error]


async def _fetch_by_id(client: WireClient, topic_id: bytes, indexes: Sequence[int]) -> list[tuple[int, int, bytes]]:
    """Return index, error and records of a fetch without a session that names a topic by its id."""
    request = fetch_request({})._replace(topics=[(topic_id, [at(0, partition=index) for index in indexes])])
    number = client.send(ApiKey.FETCH, 13, encode_fetch_request(request, 13))
    ((_, rows),) = parse_fetch_response(await client.body(number), 13).topics
    return [(row.partition, row.error_code, bytes(row.records)) for row in rows]


async def test_partitions_are_known_by_topic_id_until_they_are_gone(world: World) -> None:
    """A topic of the same name is another one, and what is remembered keeps nothing of a deleted one in memory."""
    await world.topic(partitions=2)
    client, known = await world.client(), world.broker().fetching.known
    await client.produce("t", batch())
    topic_id = world.partition().topic_id.bytes
    answers = [await _fetch_by_id(client, topic_id, (0, 1)) for _ in range(3)]
    assert len(known) == 2
    assert known.find((topic_id, 0)) is world.partition(number=0)
    assert known.find((topic_id, 1)) is world.partition(number=1)
    (first, second), *others = answers
    assert (first[:2], bool(first[2]), second) == ((0, ErrorCode.NONE), True, (1, ErrorCode.NONE, b""))
    assert others == [answers[0]] * 2
    log = id(world.partition().log)
    assert log in _logs()
    await world.delete_topic()
    await world.later(5)
    gc.collect()
    assert log not in _logs()
    await world.topic(partitions=2)

    assert known.find((topic_id, 0)) is None
    codes = {code for _, code, _ in await _fetch_by_id(client, topic_id, (0, 1))}
    assert codes == {ErrorCode.UNKNOWN_TOPIC_ID}
    assert await _fetch_by_id(client, world.partition().topic_id.bytes, (0,)) == [(0, ErrorCode.NONE, b"")]


async def test_a_session_does_not_keep_deleted_partitions_in_memory(world: World) -> None:
    """It keeps their names: a partition takes far more memory than a session is counted for."""
    await world.topic()
    client, topic_id = await world.client(), world.partition().topic_id.bytes
    log = id(world.partition().log)
    request = fetch_request({}, session=(0, 0))._replace(topics=[(topic_id, [at(0)])])
    opened = parse_fetch_response(
        await client.body(client.send(ApiKey.FETCH, 13, encode_fetch_request(request, 13))), 13
    )
    assert log in _logs()
    await world.delete_topic()
    await world.later(5)
    request = fetch_request({}, session=(opened.session_id, 1))
    answer = parse_fetch_response(
        await client.body(client.send(ApiKey.FETCH, 13, encode_fetch_request(request, 13))), 13
    )
    gc.collect()

    ((_, (row,)),) = answer.topics
    assert row.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert log not in _logs()


def _logs() -> set[int]:
    """Return the identities of all logs in memory; compiled objects have no weak references."""
    return {id(each) for each in gc.get_objects() if isinstance(each, PartitionLog)}


async def test_a_bounded_number_of_partitions_is_known(world: World) -> None:
    """Each takes some memory, and a client may name as many as there are."""
    await world.topic()
    partition = world.partition()
    known = KnownPartitions({partition.key: partition})
    for number in range(3 * KNOWN_MAX + 1):
        known.found((partition.topic_id.bytes, number), partition)
        assert len(known) <= KNOWN_MAX
