"""Reads get whole batches from the right one on, from memory or through a worker."""

import errno
import random

import pytest

from syncline.model.errors import RequestError
from syncline.model.ids import Offset
from syncline.records.batch import BatchHeader
from syncline.storage.errors import DamagedLogError
from syncline.storage.log import PartitionLog
from syncline.storage.log_directory import LogDirectory
from syncline.storage.segments.reading import Search, Slice
from syncline.storage.segments.segment import TAIL_BATCHES_MAX
from syncline.storage.settings import LogSettings
from tests.storage.batches import KEY, TOPIC_ID, append, open_directory, read
from tests.storage.recording_disk import RecordingDisk, RecordingFile


def obvious(
    stored: list[tuple[int, bytes]], segments: list[int], offset: int, max_bytes: int, upper: int, at_least_one: bool
) -> tuple[bytes, bytes]:
    """Return the most that a read may get, and the least: one batch if there is any."""
    segment = max(base for base in segments if base <= offset)
    end = min((base for base in segments if base > offset), default=2**62)
    most, least = b"", b""
    for base, data in stored:
        header = BatchHeader.parse(data)
        if base < segment or base >= end or header.next_offset <= offset:
            continue
        if header.next_offset > upper or (len(most) + len(data) > max_bytes and (most or not at_least_one)):
            break
        least = least or data
        most += data
    return most, least


@pytest.mark.parametrize("seed", range(6))
def test_reads_agree_with_the_obvious_ones(disk: RecordingDisk, directory: LogDirectory, seed: int) -> None:
    """Any offset, bound and limit: whole batches, the right first one, never beyond a bound; cold or warm alike."""
    rng = random.Random(seed)
    settings = LogSettings(
        segment_bytes=rng.choice([900, 5000, 50_000]), index_interval_bytes=rng.choice([0, 300, 4096])
    )
    log = directory.create(KEY, TOPIC_ID, settings)
    stored = []
    for _ in range(120):
        base = int(log.log_end)
        stored.append((base, append(log, count=rng.choice([1, 1, 3]), value=bytes(rng.choice([1, 50, 400])))))
    disk.pump()
    segments = [int(segment.base_offset) for segment in log.segments]
    for _ in range(400):
        for segment in log.segments:
            segment.file.is_resident = rng.random() < 0.5  # type: ignore[attr-defined]
        offset = rng.randrange(log.log_end)
        upper = rng.choice([int(log.log_end), rng.randrange(log.log_end + 1)])
        max_bytes = rng.choice([0, 100, 700, 3000, 10**9])
        at_least_one = rng.random() < 0.7
        found = read(log, offset, max_bytes, upper, at_least_one)
        most, least = obvious(stored, segments, offset, max_bytes, upper, at_least_one)

        assert most.startswith(found), f"{offset} up to {upper}, {max_bytes} bytes"
        assert found.startswith(least), f"{offset} up to {upper}, {max_bytes} bytes"
        if max_bytes == 10**9:
            assert found == most, f"{offset} up to {upper}: something is missing"


def test_read_at_the_end_is_empty_and_touches_nothing(log: PartitionLog) -> None:
    """A follower that is at the end costs neither a scan nor a read."""
    append(log)

    plan = log.read_plan(Offset(1), 1000, log.log_end)

    assert plan == Slice(None, 0, 0, 0)


@pytest.mark.parametrize("offset", [-1, 2, 3], ids=["below the start", "above the end", "far above"])
def test_read_outside_the_log_is_refused(log: PartitionLog, offset: int) -> None:
    """Log start 0, log end 1."""
    append(log)

    with pytest.raises(RequestError, match=r"outside 0\.\.1"):
        log.read_plan(Offset(offset), 1000, log.log_end)


def test_tail_read_needs_no_header_from_the_disk(log: PartitionLog) -> None:
    """The newest batches are found by bisection even when nothing is in memory."""
    for _ in range(3):
        append(log)
    file = log.segments[0].file
    assert isinstance(file, RecordingFile)
    file.is_resident = False

    plan = log.read_plan(Offset(1), 10_000, Offset(2))

    assert isinstance(plan, Slice)
    assert (plan.position_bytes, plan.size_bytes) == (76, 76)


def test_tail_forgets_its_older_half(directory: LogDirectory) -> None:
    """What it still remembers is right, and older places come from the index."""
    log = directory.create(KEY, TOPIC_ID, LogSettings())
    for _ in range(TAIL_BATCHES_MAX + 5):
        append(log)
    segment = log.segments[0]

    assert len(segment.tail_ends) == TAIL_BATCHES_MAX // 2 + 5
    for offset in (0, segment.tail_floor - 1, segment.tail_floor, log.log_end - 1):
        assert BatchHeader.parse(read(log, offset, max_bytes=1)).base_offset == offset


def test_cold_read_becomes_a_search_that_a_worker_does(disk: RecordingDisk, log: PartitionLog) -> None:
    """Not even the headers are read on the loop."""
    for _ in range(10):
        append(log)
    disk.pump()
    for segment in log.segments:
        segment.release()
    file = log.segments[0].file
    assert isinstance(file, RecordingFile)
    file.is_resident = False
    results: list[object] = []

    plan = log.read_plan(Offset(2), 10_000, log.log_end)
    assert isinstance(plan, Search)
    plan.read_later(results.append)
    append(log)
    disk.pump()

    assert isinstance(results[0], bytes)
    assert BatchHeader.parse(results[0]).base_offset == 2


def test_read_of_a_file_that_became_shorter_is_an_error(disk: RecordingDisk, log: PartitionLog) -> None:
    """Guards: the loop looked for a header in what came, failed, and never answered the request."""
    append(log)
    plan = log.read_plan(Offset(0), 10_000, log.log_end)
    assert isinstance(plan, Slice)
    disk.image.contents[disk.inode(log.segments[0].path(".log"))][40:] = b""
    results: list[object] = []

    plan.read_later(results.append)
    disk.pump()

    assert [type(result) for result in results] == [DamagedLogError]


def test_read_finds_its_way_when_the_index_is_damaged(disk: RecordingDisk, directory: LogDirectory) -> None:
    """Bit rot in an index costs time, never records: places that make no sense are not believed."""
    log = directory.create(KEY, TOPIC_ID, LogSettings(segment_bytes=4000, index_interval_bytes=200))
    for _ in range(60):
        append(log)
    disk.pump()
    inode = disk.inode(log.segments[0].path(".index"))
    good = bytes(disk.image.contents[inode])
    rng = random.Random(3)
    for _ in range(60):
        damaged = bytearray(good)
        damaged[rng.randrange(len(damaged))] ^= 1 << rng.randrange(8)
        disk.image.contents[inode] = damaged
        log.segments[0].release()
        log.segments[0].file.is_resident = False  # type: ignore[attr-defined]
        offset = rng.randrange(log.segments[0].end_offset)

        data = read(log, offset, max_bytes=500)

        assert BatchHeader.parse(data).base_offset == offset
        assert len(data) % 76 == 0


def test_only_a_few_finished_segments_stay_open(disk: RecordingDisk, log: PartitionLog) -> None:
    """Descriptors and indexes of the others are given back."""
    for _ in range(50):
        append(log)
    disk.pump()

    for offset in range(0, 48, 4):
        read(log, offset)

    assert len([segment for segment in log.segments if segment.open_file is not None]) <= 5
    assert len([segment for segment in log.segments if segment.index is not None]) <= 5


def test_readable_is_exact_in_the_tail_and_positive_elsewhere(disk: RecordingDisk, log: PartitionLog) -> None:
    """It decides only whether a parked fetch wakes."""
    for _ in range(10):
        append(log)
    disk.pump()

    assert log.readable(Offset(9), log.log_end).size_bytes == 76
    assert log.readable(Offset(8), Offset(9)).size_bytes == 76
    assert log.readable(Offset(10), log.log_end).size_bytes == 0
    older = log.readable(Offset(1), log.log_end)
    assert older.is_on_older_segment
    assert older.size_bytes >= 1


def test_reads_after_a_restart_need_no_worker_when_all_is_cached(disk: RecordingDisk, log: PartitionLog) -> None:
    """The index is taken from the file."""
    for _ in range(10):
        append(log)
    log.flush()
    again = open_directory(RecordingDisk(disk.image.copy(), boot="boot-2"), log.settings).logs[KEY]

    for offset in range(10):
        assert BatchHeader.parse(read(again, offset, max_bytes=1)).base_offset == offset


def test_read_that_cannot_open_its_segment_is_left_to_the_worker(
    disk: RecordingDisk, log: PartitionLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The reader gets the error, the log stays usable."""
    for _ in range(6):
        append(log)
    disk.pump()
    log.segments[0].release()

    def no_descriptor(*_: object, **__: object) -> None:
        raise OSError(errno.EMFILE, "Too many open files")

    results: list[object] = []
    with monkeypatch.context() as patch:
        patch.setattr(RecordingDisk, "open", no_descriptor)
        log.read_plan(Offset(0), 100, log.log_end).read_later(results.append)
        disk.pump()

    assert isinstance(results[0], OSError)
    assert BatchHeader.parse(read(log, 0)).base_offset == 0
