"""Files as Kafka writes them: byte for byte where it matters, refused where they are damaged."""

import struct
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from syncline.core.producer_state import ProducedBatch, ProducerState, ProducerTable
from syncline.model.ids import LeaderEpoch, Offset, TopicPartition
from syncline.records.checksum import crc32c
from syncline.storage.checkpoints import formats as checkpoints
from syncline.storage.checkpoints import producer_snapshot
from syncline.storage.checkpoints.formats import CheckpointError
from syncline.storage.segments.index import OffsetIndex, TimeIndex

ENTRY = (TopicPartition("a.b-c", 3), Offset(17))


def test_offset_checkpoint_has_version_count_and_lines() -> None:
    """As in 5.4; reading gives the same back."""
    data = checkpoints.encode_offsets(dict([ENTRY]))

    assert data == b"0\n1\na.b-c 3 17\n"
    assert checkpoints.decode_offsets("file", data) == dict([ENTRY])


def test_empty_checkpoint_file_has_no_entries() -> None:
    """Kafka creates such files."""
    assert checkpoints.decode_offsets("file", b"") == {}


@pytest.mark.parametrize(
    ("data", "message"),
    [
        pytest.param(b"1\n0\n", "version 0 expected, found '1'", id="another version"),
        pytest.param(b"0\n", "how many entries", id="no count"),
        pytest.param(b"0\nx\n", "how many entries", id="count is no number"),
        pytest.param(b"0\n2\na 0 1\n", "2 entries expected, 1 found", id="fewer lines"),
        pytest.param(b"0\n1\na 0 1\nb 0 1\n", "1 entries expected, 2 found", id="more lines"),
        pytest.param(b"0\n1\na 0\n", "expected 'topic partition offset'", id="two fields"),
        pytest.param(b"0\n1\na 0 x\n", "expected 'topic partition offset'", id="no number"),
        pytest.param(b"\xff\n", "is no text", id="not UTF-8"),
    ],
)
def test_damaged_checkpoint_is_refused(data: bytes, message: str) -> None:
    """A file that ends early must not pass for a short one."""
    with pytest.raises(CheckpointError, match=message):
        checkpoints.decode_offsets("file", data)


@given(st.dictionaries(st.tuples(st.from_regex(r"[a-zA-Z0-9._-]+", fullmatch=True), st.integers(0, 9)), st.integers(0)))
def test_offset_checkpoint_round_trips(entries: dict[tuple[str, int], int]) -> None:
    """Any topic name that Kafka allows."""
    offsets = {TopicPartition(*key): Offset(offset) for key, offset in entries.items()}

    assert checkpoints.decode_offsets("file", checkpoints.encode_offsets(offsets)) == offsets


def test_epoch_checkpoint_has_epoch_and_start() -> None:
    """As in 6.2; negative numbers are refused."""
    entries = [(LeaderEpoch(0), Offset(0)), (LeaderEpoch(4), Offset(11))]
    data = checkpoints.encode_epochs(entries)

    assert data == b"0\n2\n0 0\n4 11\n"
    assert checkpoints.decode_epochs("file", data) == entries
    with pytest.raises(CheckpointError, match="negative"):
        checkpoints.decode_epochs("file", b"0\n1\n0 -1\n")


def test_e27_an_epoch_checkpoint_with_fewer_entries_than_it_declares_is_refused() -> None:
    """Three are declared and two are there: the file was cut, and a shorter history would be a wrong one."""
    with pytest.raises(CheckpointError, match="3 entries expected, 2 found"):
        checkpoints.decode_epochs("leader-epoch-checkpoint", b"0\n3\n0 0\n1 5\n")


def test_partition_metadata_has_the_topic_id_in_base64() -> None:
    """22 characters, without padding."""
    topic_id = UUID("6ba7b810-9dad-11d1-80b4-00c04fd430c8")
    data = checkpoints.encode_partition_metadata(topic_id)

    assert data == b"version: 0\ntopic_id: a6e4EJ2tEdGAtADAT9QwyA"
    assert checkpoints.decode_partition_metadata(data) == topic_id
    assert checkpoints.decode_partition_metadata(b"version: 0\ntopic_id: short") is None


def test_offset_index_entries_are_relative_and_big_endian() -> None:
    """Last offset of the batch, position of the batch."""
    index = OffsetIndex(1000)
    index.append(1004, 0x10)
    index.append(1300, 0x1234)

    assert index.encode() == struct.pack(">iiii", 4, 0x10, 300, 0x1234)
    again = OffsetIndex.decode(1000, index.encode())
    assert again is not None
    assert again.last == (1300, 0x1234)
    assert [again.position_before(offset) for offset in (1000, 1003, 1004, 1299, 1300, 2**40)] == [
        0, 0, 0x10, 0x10, 0x1234, 0x1234
    ]  # fmt: skip
    assert [again.boundary_up_to(position) for position in (0, 0x10, 0x1233, 0x1234)] == [0, 0x10, 0x10, 0x1234]


def test_time_index_entries_are_times_and_relative_offsets() -> None:
    """Only a larger timestamp is an entry."""
    index = TimeIndex(1000)
    index.append(50, 1004)
    index.append(50, 1010)
    index.append(-1, 1012)
    index.append(70, 1020)

    assert index.encode() == struct.pack(">qiqi", 50, 4, 70, 20)
    again = TimeIndex.decode(1000, index.encode())
    assert again is not None
    assert again.last == (70, 1020)
    assert [again.offset_before(timestamp) for timestamp in (0, 50, 51, 70, 71)] == [1000, 1000, 1004, 1004, 1020]


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(struct.pack(">ii", 1, 2)[:-1], id="cut"),
        pytest.param(struct.pack(">iiii", 5, 10, 4, 20), id="offsets fall"),
        pytest.param(struct.pack(">iiii", 5, 10, 6, 10), id="equal positions"),
        pytest.param(bytes(16), id="zeros, as preallocated by Kafka"),
        pytest.param(struct.pack(">ii", -5, 10), id="negative"),
    ],
)
def test_damaged_index_is_not_believed(data: bytes) -> None:
    """It is made anew from the batches."""
    assert OffsetIndex.decode(0, data) is None


def test_index_forgets_what_is_cut() -> None:
    """Batches at or behind the cut."""
    index = OffsetIndex(0)
    times = TimeIndex(0)
    for number in range(1, 5):
        index.append(number * 10 - 1, number * 100)
        times.append(number, number * 10 - 1)

    index.cut(300)
    times.cut(20)

    assert index.last == (19, 200)
    assert times.last == (2, 19)


def two_batches() -> ProducerTable:
    """Return producer 9 with two batches and producer 5 with a transaction's marker only."""
    table = ProducerTable()
    table.restore(9, ProducerState(2, last_timestamp_ms=800))
    table.entries[9].batches.extend([ProducedBatch(0, 1, 101, 1, 700), ProducedBatch(2, 4, 104, 2, 800)])
    table.restore(5, ProducerState(0, last_timestamp_ms=300))
    return table


def test_producer_snapshot_has_kafkas_layout() -> None:
    """Version, checksum, count, then 46 bytes per batch, oldest first."""
    data = producer_snapshot.encode(two_batches())
    version, checksum, count = struct.unpack_from(">hIi", data)

    assert (version, checksum, count) == (1, crc32c(data[6:]), 3)
    assert len(data) == 10 + 3 * 46
    assert struct.unpack_from(">qhiqiqiq", data, 10 + 46) == (9, 2, 4, 104, 2, 800, -1, -1)
    assert producer_snapshot.decode(data, Offset(105)) == two_batches()


@pytest.mark.parametrize("position", range(0, 56, 5), ids=str)
def test_damaged_snapshot_is_not_believed(position: int) -> None:
    """Any bit: the log is replayed instead."""
    data = bytearray(producer_snapshot.encode(two_batches()))
    data[position] ^= 2

    assert producer_snapshot.decode(bytes(data), Offset(105)) is None
    assert producer_snapshot.decode(bytes(data[:-1]), Offset(105)) is None


def test_sequences_that_wrapped_keep_their_beginning_in_a_snapshot() -> None:
    """Kafka stores the last sequence and how many came before it."""
    table = ProducerTable()
    table.restore(1, ProducerState(0, last_timestamp_ms=5))
    table.entries[1].batches.append(ProducedBatch(2**31 - 2, 1, 50, 3, 5))

    assert producer_snapshot.decode(producer_snapshot.encode(table), Offset(51)) == table
