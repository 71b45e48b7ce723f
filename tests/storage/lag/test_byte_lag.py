"""Byte coordinates: byte lags by prefix sums equal what adding up the files gives (KIP-489)."""

import gc
import struct
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from types import FrameType
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from syncline.model.ids import Offset
from syncline.records.batch import BatchHeader
from syncline.storage.arrivals.read_facts import ReadFacts, facts_of
from syncline.storage.lag import byte_lag
from syncline.storage.lag.byte_lag import CoordinateSearch
from syncline.storage.log import PartitionLog
from syncline.storage.log_directory import LogDirectory
from syncline.storage.segments.batch_walk import walk
from syncline.storage.segments.reading import Slice
from syncline.storage.segments.segment import INDEX_SUFFIX, TIME_INDEX_SUFFIX, Segment
from syncline.storage.segments.segment_list import SegmentList
from syncline.storage.settings import LogSettings
from tests.storage.batches import KEY, TOPIC_ID, append, batch, open_directory, truncate_to
from tests.storage.conftest import SMALL
from tests.storage.recording_disk import RecordingDisk

# The sheet's example, a thousand times smaller: segments of 100 MB, the last one of 40 MB.
KB = 1_000
THOUSANDTH = LogSettings(segment_bytes=100 * KB, index_interval_bytes=4096, file_delete_delay_ms=0)


def append_sized(log: PartitionLog, records: int, size_bytes: int) -> None:
    """Append a batch with so many offsets and exactly so many bytes; nobody reads its records."""
    data = batch(log.log_end)
    data += bytes(size_bytes - len(data))
    struct.pack_into(">i", data, 8, size_bytes - 12)
    struct.pack_into(">i", data, 23, records - 1)
    log.append_as_leader(memoryview(data), BatchHeader.parse(data))


@pytest.fixture
def example(disk: RecordingDisk) -> PartitionLog:
    """Return a log of segments at 0, 1000, 2000, 3000; offset 1500 lies at 52 kB of its segment."""
    log = open_directory(disk, THOUSANDTH).create(KEY, TOPIC_ID, THOUSANDTH)
    for records, size_bytes in ((1000, 100), (500, 52), (500, 48), (1000, 100), (1000, 40)):
        append_sized(log, records, size_bytes * KB)
    return log


def fetched_lag(log: PartitionLog, offset: int) -> int:
    """Return the byte lag that a fetch at `offset` has."""
    plan = log.read_plan(Offset(offset), 1, log.log_end)
    assert isinstance(plan, Slice)
    return behind(log, offset, plan)


def behind(log: PartitionLog, offset: int, plan: Slice) -> int:
    """Return the byte lag of a planned read."""
    facts = facts_of(*log.read_noted(Offset(offset), plan))
    return facts.end_bytes - facts.coordinate_bytes


def test_l01_a_fetch_in_an_older_segment_has_the_bytes_of_that_batch_and_all_behind_it(example: PartitionLog) -> None:
    """188 MB of 340: the rest of its segment, and two more segments."""
    assert [each.base_offset for each in example.segments] == [0, 1000, 2000, 3000]
    assert example.size_bytes == 340 * KB
    assert fetched_lag(example, 1500) == 188 * KB


def test_l03_deletions_leave_the_lag_as_it_is_and_appends_and_cuts_change_it(example: PartitionLog) -> None:
    """Deleting in front of the reader is none of its business; appending 5 MB is, and so is truncating the end."""
    example.high_watermark = example.log_end
    example.raise_log_start(Offset(1000))
    example.retention(0)
    assert example.first_base_offset == 1000
    assert fetched_lag(example, 1500) == 188 * KB

    append_sized(example, 10, 5 * KB)
    assert fetched_lag(example, 1500) == 193 * KB

    truncate_to(example, Offset(3000))
    assert fetched_lag(example, 1500) == 148 * KB
    assert example.size_bytes == 200 * KB


def test_l05_a_reader_lacks_the_batch_that_it_is_about_to_read_and_then_nothing(example: PartitionLog) -> None:
    """At the log end there is no byte behind, and no batch that could be fetched."""
    append_sized(example, 7, 10 * KB)

    assert fetched_lag(example, 4000) == 10 * KB
    assert example.bytes_from(Offset(4000)) == 10 * KB
    assert example.bytes_from(example.log_end) == 0
    assert example.coordinate(example.log_end, is_exact=True) == example.byte_bounds()[1]


def test_l12_an_offset_in_a_batch_counts_the_whole_batch_and_without_a_walk_one_index_interval_more(
    disk: RecordingDisk,
) -> None:
    """1,537 lies in the batch at 52 kB, which a reader gets whole; the index knows a place a little before."""
    log = open_directory(disk, THOUSANDTH).create(KEY, TOPIC_ID, THOUSANDTH)
    append_sized(log, 1000, 100 * KB)
    for records, size_bytes in [(10, KB)] * 52 + [(40, KB)] + [(10, KB)] * 43 + [(10, 4 * KB)]:
        append_sized(log, records, size_bytes)
    append_sized(log, 1000, 100 * KB)
    append_sized(log, 1000, 40 * KB)
    end = log.byte_bounds()[1]

    exact = log.coordinate(Offset(1537), is_exact=True)
    quick = log.coordinate(Offset(1537), is_exact=False)

    assert isinstance(exact, int)
    assert isinstance(quick, int)
    assert end - exact == end - 152 * KB == 188 * KB
    assert 0 < exact - quick <= 4096 + KB
    assert log.bytes_from(Offset(1537)) == end - quick


def test_an_offset_in_a_segment_that_is_not_in_memory_is_found_by_a_worker(
    disk: RecordingDisk, directory: LogDirectory, log: PartitionLog
) -> None:
    """Released segments have their index on the disk alone; without it, the worker walks from the segment's start."""
    for _ in range(40):
        append(log)
        disk.pump()
    size_bytes = log.size_bytes // 40
    cold = log.segments[0]
    assert cold.index is None

    found = log.coordinate(Offset(2), is_exact=False)
    assert isinstance(found, CoordinateSearch)
    assert found.run() == 2 * size_bytes
    # What memory knows of it is where the segment begins.
    assert log.bytes_from(Offset(2)) == log.size_bytes

    disk.open(cold.path(INDEX_SUFFIX)).truncate(0)
    disk.open(cold.path(INDEX_SUFFIX)).append([struct.pack(">ii", 0, size_bytes + 1)])
    assert found.run() == 2 * size_bytes
    disk.remove(cold.path(INDEX_SUFFIX))
    assert found.run() == 2 * size_bytes


def operations(work: Callable[[], object]) -> int:
    """Return how many instructions Python executes for `work`, in all functions that it calls."""
    count = 0

    def note(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal count
        frame.f_trace_opcodes = True
        count += event == "opcode"
        return note

    before = sys.gettrace()
    # A collection would count, too: what others have it call.
    gc.disable()
    sys.settrace(note)
    try:
        work()
    finally:
        sys.settrace(before)
        gc.enable()
    return count


def segments_of_a_kilobyte(count: int) -> SegmentList:
    """Return a list of finished segments of 1 kB without files, each with one record."""
    header = BatchHeader.parse(batch())._replace(batch_length=KB - 12)
    segments = []
    for offset in range(count):
        segment = Segment(RecordingDisk(), "/data", Offset(offset), 4096)
        segment.add_batch(header._replace(base_offset=offset), 0)
        segment.drop_tail()
        segments.append(segment)
    return SegmentList(RecordingDisk(), "/data", segments)


def test_l06_a_lag_takes_as_many_operations_over_ten_thousand_segments_as_over_ten() -> None:
    """A sum over the newer segments would take a thousand times as many; 120 instructions are 3 or 4 microseconds."""
    few, many = (counted(segments_of_a_kilobyte(count)) for count in (10, 10_000))

    assert few == many
    assert few[0] <= 120


def counted(segments: SegmentList) -> tuple[int, int, int]:
    """Return how many instructions the lag of a fetch, of an offset, and the size of the log take."""

    def fetched() -> ReadFacts:
        state = (segments.end_bytes, segments.newest_timestamp_ms, 0, 0, True)
        return facts_of(state, segments.first.bytes_before, 0, None)

    assert fetched().end_bytes - fetched().coordinate_bytes == len(segments) * KB
    assert segments.end_bytes - byte_lag.floor(segments, Offset(1)) == (len(segments) - 1) * KB
    return (
        operations(fetched),
        operations(lambda: byte_lag.floor(segments, Offset(1))),
        operations(lambda: segments.size_bytes),
    )


class Life:
    """A log over several lives, with what an adding-up of its files says of it."""

    def __init__(self) -> None:
        self.disk = RecordingDisk()
        self.directory = open_directory(self.disk, SMALL)
        self.log = self.directory.create(KEY, TOPIC_ID, SMALL)

    def places(self) -> Iterator[tuple[BatchHeader, int]]:
        """Yield each batch with the bytes from it up to the log end, added up from the files."""
        behind_bytes = sum(each.size_bytes for each in self.log.segments)
        for segment in self.log.segments:
            if segment.size_bytes:
                file = self.disk.open(segment.path())
                assert file.size_bytes == segment.size_bytes
                for position, header in walk(file, 0, segment.size_bytes):
                    yield header, behind_bytes - position
            behind_bytes -= segment.size_bytes

    def check(self) -> None:
        """Compare what the log says of each place with the files."""
        log = self.log
        self.directory.check_invariants()
        end = log.byte_bounds()[1]
        places = list(self.places())
        assert log.size_bytes == (places[0][1] if places else 0)
        # The index has an entry for the first batch after so many bytes.
        too_much_bytes = SMALL.index_interval_bytes + max((header.size_bytes for header, _ in places), default=0)
        for header, behind_bytes in places:
            for offset in {header.base_offset, header.last_offset}:
                if offset < log.log_start:
                    continue
                plan = log.read_plan(Offset(offset), 1, log.log_end)
                assert not isinstance(plan, Slice) or behind(log, offset, plan) == behind_bytes
                exact = log.coordinate(Offset(offset), is_exact=True)
                assert end - (exact.run() if isinstance(exact, CoordinateSearch) else exact) == behind_bytes
                quick = log.coordinate(Offset(offset), is_exact=False)
                if isinstance(quick, int):
                    assert 0 <= end - quick - behind_bytes <= too_much_bytes
                assert log.bytes_from(Offset(offset)) >= behind_bytes

    def append(self, number: int) -> None:
        """Append as leader."""
        append(self.log, max(self.log.epochs.latest_epoch, 0), count=1 + number % 3)

    def leap(self, number: int) -> None:
        """Append as follower, where the leader's log has a gap: compaction removed what was there."""
        data = batch(self.log.log_end + 1 + number % 5, leader_epoch=max(self.log.epochs.latest_epoch, 0))
        self.log.append_as_follower(data)

    def roll(self, _number: int) -> None:
        """Begin a new segment, and finish the old one unless a later step does."""
        self.log.roll()

    def finish(self, _number: int) -> None:
        """Let the background sync finished segments, so that the older ones leave the memory."""
        self.disk.pump()

    def retain(self, number: int) -> None:
        """Delete the oldest segments, by size or by DeleteRecords."""
        log = self.log
        log.high_watermark = log.log_end
        if number % 2:
            log.settings = replace(SMALL, retention_bytes=log.size_bytes // 2)
        else:
            log.raise_log_start(Offset(min(log.log_end, log.log_start + number % 20)))
        log.retention(0)
        log.settings = SMALL

    def truncate(self, number: int) -> None:
        """Cut one of the last batches off, and all behind it."""
        ends = [header.next_offset for header, _ in self.places()][-10:-1]
        if ends:
            truncate_to(self.log, Offset(ends[number % len(ends)]))

    def empty(self, number: int) -> None:
        """Drop everything, as a follower far behind does."""
        if not number % 4:
            self.log.restart_at(Offset(self.log.log_end + number))

    def restart(self, number: int) -> None:
        """Stop and start, cleanly or not."""
        self.disk.pump()
        if number % 2:
            self.directory.close(1)
        else:
            self.directory.abandon()
        self._open()

    def resize(self, number: int) -> None:
        """Stop, take a batch out of a finished segment, as a cleaner would, and start."""
        self.disk.pump()
        self.directory.close(1)
        finished = [each for each in self.log.segments[:-1] if each.size_bytes]
        if finished:
            segment = finished[number % len(finished)]
            file = self.disk.open(segment.path())
            batches = list(walk(file, 0, file.size_bytes))
            if len(batches) > 1:
                # Not the last one: the next segment begins where that ends.
                position, header = batches[number % (len(batches) - 1)]
                data = file.read(0, position) + file.read(position + header.size_bytes, file.size_bytes)
                self.disk.replace_file(segment.path(), data)
                for suffix in (INDEX_SUFFIX, TIME_INDEX_SUFFIX):
                    if self.disk.exists(segment.path(suffix)):
                        self.disk.remove(segment.path(suffix))
        self._open()

    def _open(self) -> None:
        self.directory = open_directory(self.disk, SMALL)
        self.log = self.directory.logs.get(KEY) or self.directory.create(KEY, TOPIC_ID, SMALL)


STEPS = ("append",) * 6 + ("leap", "leap", "roll", "finish", "retain", "truncate", "empty", "restart", "resize")


# Making such a story shorter would take minutes.
@settings(max_examples=100, deadline=None, phases=[Phase.generate])
@given(st.lists(st.tuples(st.sampled_from(STEPS), st.integers(0, 1000)), min_size=50, max_size=50))
def test_l07_after_any_operations_the_lag_of_every_batch_equals_the_sum_over_the_files(
    steps: list[tuple[str, int]],
) -> None:
    """5,000 operations: appends, gaps, rolls, deletions, cuts, restarts, and segments that shrink between two lives."""
    life = Life()
    for step, number in steps:
        getattr(life, step)(number)
        if step != "append":
            life.check()
    life.check()
