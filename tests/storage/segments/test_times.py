"""Offsets by time, in open and finished segments, across gaps and log starts."""

from collections.abc import Callable

import pytest

from syncline.model.ids import Offset
from syncline.records.batch import HEADER_BYTES, OVERHEAD_BYTES, BatchHeader, stamp
from syncline.records.builder import BatchBuilder, assemble
from syncline.records.compression import Codec, compress
from syncline.records.varint import write_signed
from syncline.storage.log import PartitionLog
from syncline.storage.segments.times import TimestampedOffset
from tests.storage.batches import append
from tests.storage.recording_disk import RecordingDisk

TIMES = [100, 300, 200, 500, 400, 700, 700, 600, 900, 800]


@pytest.fixture
def timed_log(log: PartitionLog) -> PartitionLog:
    """Return a log of ten batches of one record over three segments."""
    for number, timestamp_ms in enumerate(TIMES):
        append(log, timestamp_ms=timestamp_ms, leader_epoch=0 if number < 3 else 1)
    return log


def cold(disk: RecordingDisk, log: PartitionLog) -> None:
    """Let the finished segments forget their indexes."""
    disk.pump()
    for segment in log.segments[:-1]:
        segment.release()


def warm(_disk: RecordingDisk, _log: PartitionLog) -> None:
    """Leave everything in memory."""


def offset_for_time(disk: RecordingDisk, log: PartitionLog, timestamp_ms: int) -> TimestampedOffset | None:
    """Return what a worker finds."""
    found: list[TimestampedOffset | Exception | None] = []
    log.offset_for_time_later(timestamp_ms, found.append)
    disk.pump()
    assert not isinstance(found[0], Exception)
    return found[0]


def offset_of_max_timestamp(disk: RecordingDisk, log: PartitionLog) -> TimestampedOffset | None:
    """Return what a worker finds."""
    found: list[TimestampedOffset | Exception | None] = []
    log.offset_of_max_timestamp_later(found.append)
    disk.pump()
    assert not isinstance(found[0], Exception)
    return found[0]


@pytest.mark.parametrize("prepare", [warm, cold])
@pytest.mark.parametrize("timestamp_ms", range(0, 1000, 50), ids=str)
def test_offset_for_time_is_the_first_that_is_not_older(
    disk: RecordingDisk,
    timed_log: PartitionLog,
    timestamp_ms: int,
    prepare: Callable[[RecordingDisk, PartitionLog], None],
) -> None:
    """In offset order, whatever order the times have."""
    prepare(disk, timed_log)
    expected = next((offset for offset, each in enumerate(TIMES) if each >= timestamp_ms), None)

    found = offset_for_time(disk, timed_log, timestamp_ms)

    assert (found.offset if found else None) == expected
    if found is not None:
        assert found.timestamp_ms == TIMES[found.offset]


def test_offset_for_time_carries_the_leader_epoch(disk: RecordingDisk, timed_log: PartitionLog) -> None:
    """The epoch that the record was written in."""
    assert offset_for_time(disk, timed_log, 450) == TimestampedOffset(Offset(3), 500, 1)  # type: ignore[arg-type]


def test_offset_for_time_ignores_what_lies_below_the_log_start(disk: RecordingDisk, timed_log: PartitionLog) -> None:
    """Records 0 to 3 were deleted."""
    timed_log.high_watermark = timed_log.log_end
    timed_log.raise_log_start(Offset(4))

    found = offset_for_time(disk, timed_log, 150)

    assert found is not None
    assert found.offset == 4


def test_offset_for_time_looks_into_compressed_batches(disk: RecordingDisk, log: PartitionLog) -> None:
    """The record counts, not its batch."""
    builder = BatchBuilder()
    for timestamp_ms in (10, 30, 20):
        builder.append(timestamp_ms, b"k", b"v")
    data = builder.build(Codec.GZIP)
    stamp(data, 0, 0, 0)
    log.append_as_leader(data, BatchHeader.parse(data))
    log.high_watermark = log.log_end

    assert offset_for_time(disk, log, 15) == TimestampedOffset(Offset(1), 30, 0)  # type: ignore[arg-type]
    log.raise_log_start(Offset(2))
    assert offset_for_time(disk, log, 15) == TimestampedOffset(Offset(2), 20, 0)  # type: ignore[arg-type]
    assert offset_for_time(disk, log, 25) is None


def malformed(deltas: tuple[tuple[int, int], ...] | None, compression: Codec = Codec.GZIP) -> bytearray:
    """Return two records with these deltas of offset and time, at 20 and 30 ms by their header; None: no records."""
    builder = BatchBuilder()
    builder.append(20, b"k", b"v")
    builder.append(30, b"k", b"v")
    header = BatchHeader.parse(builder.build(compression))
    records = bytearray(b"these are no records")
    if deltas is not None:
        records = bytearray()
        for offset_delta, time_delta in deltas:
            body = bytearray(1)
            for number in (time_delta, offset_delta, -1, -1, 0):
                write_signed(body, number)
            write_signed(records, len(body))
            records += body
        records = bytearray(compress(compression, records)) if compression else records
    size_bytes = HEADER_BYTES + len(records)
    return assemble(header._replace(batch_length=size_bytes - OVERHEAD_BYTES), records)


@pytest.mark.parametrize(
    "batch",
    [
        pytest.param(malformed(None), id="no-gzip"),
        pytest.param(malformed(((0, 0), (1, 2**63 - 1))), id="time-beyond-64-bits"),
        pytest.param(malformed(((0, 2**63 - 1), (1, 10)), Codec.NONE), id="time-beyond-64-bits-not-compressed"),
        pytest.param(malformed(((2**30, 0), (2**30 + 1, 10))), id="offsets-far-away"),
        pytest.param(malformed(((-5, 0), (-4, 10))), id="offsets-before-the-batch"),
    ],
)
def test_of_a_malformed_batch_the_header_alone_is_believed(
    batch: bytearray, disk: RecordingDisk, log: PartitionLog
) -> None:
    """Guards: such a batch, which is stored unopened, made each look-up by time fail that reached it, for good."""
    append(log, timestamp_ms=10)
    stamp(batch, 0, 1, 0)
    log.append_as_leader(batch, BatchHeader.parse(batch))
    append(log, timestamp_ms=25)
    log.high_watermark = log.log_end

    found = offset_for_time(disk, log, 29)
    assert found == TimestampedOffset(Offset(1), 30, 0)  # type: ignore[arg-type]
    assert offset_of_max_timestamp(disk, log) == TimestampedOffset(Offset(2), 30, 0)  # type: ignore[arg-type]
    log.raise_log_start(Offset(2))
    assert offset_for_time(disk, log, 29) == TimestampedOffset(Offset(2), 30, 0)  # type: ignore[arg-type]
    assert offset_for_time(disk, log, 31) is None


def test_offset_of_max_timestamp_is_the_first_of_equals(disk: RecordingDisk, timed_log: PartitionLog) -> None:
    """900 is the largest; a second 900 changes nothing."""
    append(timed_log, timestamp_ms=900, leader_epoch=1)

    assert offset_of_max_timestamp(disk, timed_log) == TimestampedOffset(Offset(8), 900, 1)  # type: ignore[arg-type]


def test_empty_log_has_no_offset_for_any_time(disk: RecordingDisk, log: PartitionLog) -> None:
    """Nothing to find."""
    assert offset_for_time(disk, log, 0) is None
    assert offset_of_max_timestamp(disk, log) is None


def test_look_ups_later_give_the_same(disk: RecordingDisk, timed_log: PartitionLog) -> None:
    """The log goes on meanwhile; the worker sees it as it was."""
    results: list[object] = []
    timed_log.offset_for_time_later(850, results.append)
    timed_log.offset_of_max_timestamp_later(results.append)
    append(timed_log, timestamp_ms=5000, leader_epoch=1)

    disk.pump()

    assert results == [TimestampedOffset(Offset(8), 900, 1)] * 2  # type: ignore[arg-type]
