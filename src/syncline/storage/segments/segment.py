"""One segment: a file of batches, its two indexes, and what memory holds of both.

One hard idea: the newest batches of a log are read most (by followers at the end
of the log, by consumers at the high watermark), so the active segment remembers
where each of the last few hundred begins. A read of them finds its position by
bisection and touches the file only for the bytes themselves; an older position
takes the sparse index and a short walk.

The first batch creates the segment's file: a partition without records costs no
file.

Units: offsets count records, `end_offset` is exclusive; positions are bytes.
Invariants: `base_offset <= end_offset`; the indexes describe only batches below
`size_bytes`; `tail_ends`, `tail_positions` and `tail_marks` are parallel, and the first two rise strictly.
"""

from array import array
from bisect import bisect_left, bisect_right
from typing import Final, NamedTuple

from syncline.model.ids import NONE, Offset
from syncline.records.batch import CONTROL_BIT, BatchHeader
from syncline.records.unread import MARK_MASK, sum_of
from syncline.storage.arrivals.kept_times import KeptTimes
from syncline.storage.disk import Disk, File, sync_for_good
from syncline.storage.segments.batch_walk import HeaderReader, NotABatch
from syncline.storage.segments.index import OFFSET_ENTRY_BYTES, OffsetIndex, TimeIndex
from syncline.storage.segments.reading import Hints, Search, Wanted, hints_from_index
from syncline.storage.segments.times import Place

LOG_SUFFIX: Final = ".log"
INDEX_SUFFIX: Final = ".index"
TIME_INDEX_SUFFIX: Final = ".timeindex"
SNAPSHOT_SUFFIX: Final = ".snapshot"
DELETED_SUFFIX: Final = ".deleted"
APPEND_TIMES_SUFFIX: Final = ".appendtimes"
# What lies beside the batches and is of no use without them.
HINT_SUFFIXES: Final = (INDEX_SUFFIX, TIME_INDEX_SUFFIX, APPEND_TIMES_SUFFIX)

# A segment remembers between half of these and all of them: some 24 KB per partition that is written to.
TAIL_BATCHES_MAX: Final = 1024


def file_name(offset: int, suffix: str) -> str:
    """Return Kafka's name for a file that begins at, or describes the state at, `offset`."""
    return f"{offset:020d}{suffix}"


class Figures(NamedTuple):
    """The totals of a segment that an append changes."""

    end_offset: Offset
    size_bytes: int
    first_timestamp_ms: int
    max_timestamp_ms: int
    max_timestamp_offset: int
    bytes_since_index: int
    holes: int


class Segment:
    """A stretch of a log in a file of its own."""

    __slots__ = (
        "_bytes_since_index",
        "_directory",
        "_disk",
        "_file",
        "_index_interval_bytes",
        "_max_timestamp_offset",
        "append_times",
        "base_offset",
        "bytes_before",
        "dropped_to",
        "end_offset",
        "first_timestamp_ms",
        "generation",
        "holes",
        "index",
        "is_index_saved",
        "is_synced",
        "max_timestamp_ms",
        "size_bytes",
        "synced_end",
        "tail_ends",
        "tail_floor",
        "tail_marks",
        "tail_positions",
        "times",
    )

    def __init__(self, disk: Disk, directory: str, base_offset: Offset, index_interval_bytes: int) -> None:
        self._disk = disk
        self._directory = directory
        self._index_interval_bytes = index_interval_bytes
        self._file: File | None = None
        self.base_offset = base_offset
        self.end_offset = base_offset
        self.size_bytes = 0
        # The bytes of all segments before this one, counted since the log was opened (`byte_lag.py`).
        self.bytes_before = 0
        # The page cache was told that it need not keep what lies before this position.
        self.dropped_to = 0
        # Both in memory or both on the disk.
        self.index: OffsetIndex | None = OffsetIndex(base_offset)
        self.times: TimeIndex | None = TimeIndex(base_offset)
        # Offsets without a record that consumers can read: markers, and what compaction has removed; -1: not counted.
        self.holes = 0
        self.append_times = KeptTimes(disk, self.path(APPEND_TIMES_SUFFIX), self.path(), base_offset)
        self.max_timestamp_ms = NONE
        self.first_timestamp_ms = NONE
        # Below this offset the file's bytes are safe from a power cut.
        self.synced_end = base_offset
        # Whether all of a finished segment, indexes included, is safe from a power cut.
        self.is_synced = False
        self.is_index_saved = False
        # Counts cuts: background work that began before the last cut does not count.
        self.generation = 0
        self._max_timestamp_offset: int = base_offset
        self._bytes_since_index = 0
        self.tail_floor: int = base_offset
        self.tail_ends = array("q")
        self.tail_positions = array("q")
        # What each adds to the sum by which a follower tells others from them (`records/unread.py`).
        self.tail_marks = array("q")

    def __repr__(self) -> str:
        return f"Segment({self.base_offset}..{self.end_offset}, {self.size_bytes} bytes)"

    def path(self, suffix: str = LOG_SUFFIX) -> str:
        """Return the path of one of the segment's files."""
        return f"{self._directory}/{file_name(self.base_offset, suffix)}"

    @property
    def file(self) -> File:
        """The open log file; the first use opens it, or creates it for a new segment."""
        if self._file is None:
            self._file = self._disk.open(self.path(), create=self.size_bytes == 0)
        return self._file

    @property
    def open_file(self) -> File | None:
        """The log file if it is open."""
        return self._file

    def drop_before(self, position: int) -> None:
        """Have the page cache give back what lies before a position, unless the file is closed."""
        if self._file is not None and position > self.dropped_to:
            self.dropped_to = max(self.dropped_to, self._file.drop_before(min(position, self.size_bytes)))
            assert self.dropped_to <= self.size_bytes, f"{self!r} has pages dropped up to {self.dropped_to}"

    def is_full_for(self, added_bytes: int, header: BatchHeader, segment_bytes: int, segment_ms: int) -> bool:
        """Return whether a batch with `header` belongs in the next segment."""
        if not self.size_bytes:
            return False
        if self.size_bytes > segment_bytes - added_bytes or not self.has_room_for(header):
            return True
        age_ms = header.max_timestamp - self.first_timestamp_ms
        return self.first_timestamp_ms >= 0 and header.max_timestamp >= 0 and age_ms > segment_ms

    def has_room_for(self, header: BatchHeader) -> bool:
        """Return whether the batch's offsets fit into the indexes, which count from the base offset in 31 bits."""
        return header.base_offset + header.last_offset_delta - self.base_offset < 2**31

    def has_full_index(self, segment_index_bytes: int) -> bool:
        """Return whether the offset index has reached its maximum size."""
        assert self.index is not None, "a segment that grows has its index in memory"
        return (len(self.index) + 1) * OFFSET_ENTRY_BYTES > segment_index_bytes

    def add_batch(self, header: BatchHeader, position: int) -> None:
        """Account for a stored batch. The hot path: no allocation beyond array growth."""
        end_offset = header.base_offset + header.last_offset_delta + 1
        timestamp_ms = header.max_timestamp
        if header.record_count != end_offset - self.end_offset or header.attributes & CONTROL_BIT:
            self._add_holes(header, end_offset - self.end_offset)
        if timestamp_ms > self.max_timestamp_ms:
            self.max_timestamp_ms = timestamp_ms
            self._max_timestamp_offset = end_offset - 1
        if not position:
            self.first_timestamp_ms = timestamp_ms
        if self._bytes_since_index > self._index_interval_bytes:
            self._add_index_entry(end_offset - 1, position)
        size = header.batch_length + 12
        self._bytes_since_index += size
        self.size_bytes = position + size
        tail_ends = self.tail_ends
        tail_ends.append(end_offset)
        self.tail_positions.append(position)
        # As `mark_of`, in line.
        self.tail_marks.append((header.crc + 1) * (2 * end_offset + 1) & MARK_MASK)
        # Only the type checker needs `Offset(...)`, and the call costs as much as the assignment.
        self.end_offset = end_offset  # type: ignore[assignment]
        if len(tail_ends) > TAIL_BATCHES_MAX:
            self._shorten_tail()

    def _add_holes(self, header: BatchHeader, offset_count: int) -> None:
        """Count the offsets up to the end of a batch that hold no record for consumers."""
        if self.holes >= 0:
            self.holes += offset_count - (0 if header.is_control else header.record_count)

    def _add_index_entry(self, last_offset: int, position: int) -> None:
        assert self.index is not None, "a segment that grows has its indexes in memory"
        assert self.times is not None, "a segment that grows has its indexes in memory"
        self.index.append(last_offset, position)
        self.times.append(self.max_timestamp_ms, self._max_timestamp_offset)
        self._bytes_since_index = 0

    def _shorten_tail(self) -> None:
        half = TAIL_BATCHES_MAX // 2
        self.tail_floor = self.tail_ends[half - 1]
        del self.tail_ends[:half], self.tail_positions[:half], self.tail_marks[:half]

    def drop_tail(self) -> None:
        """Forget where the newest batches lie, once the segment is no longer the active one."""
        self.tail_floor = self.end_offset
        del self.tail_ends[:], self.tail_positions[:], self.tail_marks[:]

    def find_in_tail(self, wanted: Wanted) -> tuple[int, int] | None:
        """Return (position, size) of the answer if it lies within the remembered batches, else None."""
        ends = self.tail_ends
        if wanted.offset < self.tail_floor or not ends:
            return None
        positions = self.tail_positions
        count = len(ends)
        first = bisect_right(ends, wanted.offset)
        behind = count if wanted.upper >= self.end_offset else bisect_right(ends, wanted.upper)
        if behind <= first:
            return 0, 0
        start = positions[first]
        end = positions[behind] if behind < count else self.size_bytes
        if end - start > wanted.max_bytes:
            # The last batch that begins within the limit is the first that does not fit.
            behind = bisect_right(positions, start + wanted.max_bytes) - 1
            if behind <= first:
                if not wanted.at_least_one:
                    return 0, 0
                behind = first + 1
            end = positions[behind] if behind < count else self.size_bytes
        return start, end - start

    def check_sum(self, position: int, size_bytes: int) -> int | None:
        """Return the sum over the batches of a stretch, None unless it is remembered where all of them begin."""
        positions = self.tail_positions
        first, behind = bisect_left(positions, position), bisect_left(positions, position + size_bytes)
        if first == behind or positions[first] != position:
            return None
        end = positions[behind] if behind < len(positions) else self.size_bytes
        return sum_of(sum(self.tail_marks[first:behind])) if end == position + size_bytes else None

    def position_in_tail(self, offset: Offset) -> int | None:
        """Return where the batch that holds `offset`, or follows it, begins; None if it is not among the remembered.

        At the end of the segment that is its size.
        """
        ends = self.tail_ends
        if offset < self.tail_floor or not ends:
            return None
        at = bisect_right(ends, offset)
        return self.tail_positions[at] if at < len(ends) else self.size_bytes

    def hints(self, wanted: Wanted) -> Hints | None:
        """Return what memory knows about the position of `wanted`, None if the index is not in memory."""
        if self.index is None:
            return None
        hints = hints_from_index(self.index, self.size_bytes, self.end_offset, wanted)
        if hints.is_upper_exact or wanted.upper < self.tail_floor or not self.tail_ends:
            return hints
        behind = bisect_right(self.tail_ends, wanted.upper)
        upper = self.tail_positions[behind] if behind < len(self.tail_ends) else self.size_bytes
        return Hints(hints.start, hints.boundary, upper, is_upper_exact=True)

    def place(self, timestamp_ms: int) -> Place:
        """Return what a worker needs to look for `timestamp_ms` here."""
        start = None
        if self.index is not None and self.times is not None:
            start = self.index.position_before(self.times.offset_before(timestamp_ms))
        return Place(
            self._disk,
            self.path(),
            self.path(INDEX_SUFFIX),
            self.path(TIME_INDEX_SUFFIX),
            self.base_offset,
            self.size_bytes,
            self.max_timestamp_ms,
            start,
        )

    def search(self, wanted: Wanted, hints: Hints | None, cold_from: int) -> Search:
        """Return what a worker needs to find and read `wanted` here; `cold_from` as in `Search`."""
        return Search(
            self._disk,
            self.path(),
            self.base_offset,
            self.size_bytes,
            self.end_offset,
            wanted,
            hints,
            self.path(INDEX_SUFFIX),
            self.bytes_before,
            cold_from,
        )

    def finish(self) -> None:
        """Complete the indexes: the last entry of the time index is the largest timestamp of all."""
        assert self.times is not None, "only a segment that grew is finished"
        self.times.append(self.max_timestamp_ms, self._max_timestamp_offset)

    def save_indexes(self, *, sync: bool) -> None:
        """Write both indexes."""
        assert self.index is not None, "an index that is not in memory has been saved"
        assert self.times is not None, "an index that is not in memory has been saved"
        self._disk.replace_file(self.path(INDEX_SUFFIX), self.index.encode(), sync=sync)
        self._disk.replace_file(self.path(TIME_INDEX_SUFFIX), self.times.encode(), sync=sync)
        self.is_index_saved = True

    def save_for_good(self) -> None:
        """Write what spares the next start a scan: the indexes, if they say anything, and the append times."""
        if self.size_bytes and self.index is not None and len(self.index):
            self.finish()
            self.save_indexes(sync=True)
        self.append_times.save(for_good=True)

    def load_indexes(self) -> bool:
        """Read both indexes from the disk; return whether they can be trusted up to their last entries.

        The last entry must name an existing batch. `resume` restores whatever was
        lost after it.
        """
        index = OffsetIndex.decode(self.base_offset, self._read(INDEX_SUFFIX))
        times = TimeIndex.decode(self.base_offset, self._read(TIME_INDEX_SUFFIX))
        if index is None or times is None or index.last is None or times.last is None:
            return False
        last_offset, position = index.last
        try:
            header = HeaderReader(self.file, self.file.size_bytes, resident_only=False).header_at(position)
        except NotABatch:
            return False
        if header.last_offset != last_offset or header.base_offset < self.base_offset:
            return False
        self.index, self.times = index, times
        self.max_timestamp_ms, self._max_timestamp_offset = times.last
        return True

    def _read(self, suffix: str) -> bytes:
        try:
            return self._disk.read_file(self.path(suffix))
        except FileNotFoundError:
            return b""

    def need_indexes(self) -> None:
        """Load the indexes, or rebuild them from the batches if their files cannot be trusted. Raises NotABatch."""
        if self.index is None:
            if not self.load_indexes():
                self.index, self.times = OffsetIndex(self.base_offset), TimeIndex(self.base_offset)
                self.max_timestamp_ms = NONE
            self.resume(end=self.size_bytes)

    def resume(self, *, end: int, resident_only: bool = False) -> None:
        """Walk from the last index entry to position `end` and account for every batch. Raises NotABatch."""
        assert self.index is not None, "resuming needs the index in memory"
        self._bytes_since_index = 0
        self.tail_ends, self.tail_positions, self.tail_marks = array("q"), array("q"), array("q")
        last = self.index.last
        position = 0 if last is None else last[1]
        # What lies before the entry is not walked; a part of a segment without holes has none.
        holes_then = NONE if position and self.holes else 0
        self.holes = NONE if position else 0
        reader = HeaderReader(self.file, end, resident_only=resident_only)
        self.tail_floor = self.end_offset = self.base_offset
        if position:
            # A bound on the end of what lies before the entry, not the exact end: its batch may begin after a gap.
            self.tail_floor = reader.header_at(position).base_offset
        while position < end:
            header = reader.header_at(position)
            if header.base_offset < self.end_offset:
                raise NotABatch(position, f"offset {header.base_offset} where {self.end_offset} or more is due")
            if not self.has_room_for(header):
                raise NotABatch(position, f"offset {header.last_offset} is too far for its segment")
            self.add_batch(header, position)
            position += header.size_bytes
        self.size_bytes = end
        if self.holes < 0:
            self.holes = holes_then

    def cut(self, position: int, end_offset: Offset) -> None:
        """Forget everything from `position` on, in memory and on the disk; may wait for the disk.

        `end_offset` is the new end.
        """
        self.append_times.cut(end_offset)
        self._cut_file(position)
        self.forget_from(position, end_offset)

    def cut_to(self, rest: "Segment") -> None:
        """Become `rest`, a copy without what is to be cut off; reads nothing, and may be repeated if it was refused."""
        assert rest.base_offset == self.base_offset, f"{self!r} cannot become {rest!r}"
        assert rest.end_offset <= self.end_offset, f"{self!r} is cut, not extended to {rest!r}"
        self.append_times.cut(rest.end_offset)
        self._cut_file(rest.size_bytes)
        self.synced_end = rest.end_offset
        self.index, self.times = rest.index, rest.times
        self._take(rest.figures)
        self.tail_floor, self.tail_ends = rest.tail_floor, rest.tail_ends
        self.tail_positions, self.tail_marks = rest.tail_positions, rest.tail_marks

    def _cut_file(self, position: int) -> None:
        self.generation += 1
        file = self.file
        assert position <= file.size_bytes, f"{self!r} is cut at {position}, its file ends at {file.size_bytes}"
        file.truncate(position)
        self.dropped_to = min(self.dropped_to, position)
        sync_for_good(file)
        self.forget_saved_indexes()
        self.is_synced = False

    def forget_from(self, position: int, end_offset: Offset, *, resident_only: bool = False) -> None:
        """Forget everything from `position` on in memory; `end_offset` is the new end. Raises NotABatch."""
        assert self.index is not None, "a segment is cut with its indexes in memory"
        assert self.times is not None, "a segment is cut with its indexes in memory"
        self.index.cut(position)
        self.times.cut(end_offset)
        last_time = self.times.last
        self.max_timestamp_ms, self._max_timestamp_offset = last_time or (NONE, self.base_offset)
        if not position:
            self.first_timestamp_ms = NONE
        self.resume(end=position, resident_only=resident_only)
        self.end_offset = end_offset

    def cut_place(self, offset: Offset, *, resident_only: bool = False) -> tuple[int, Offset]:
        """Return the position of the batch that holds `offset` or follows it, and the end offset after a cut there."""
        assert self.index is not None, "a segment is cut with its indexes in memory"
        if offset >= self.end_offset:
            return self.size_bytes, self.end_offset
        reader = HeaderReader(self.file, self.size_bytes, resident_only=resident_only)
        position = self.index.position_before(offset)
        header = reader.header_at(position)
        while header.next_offset <= offset:
            position += header.size_bytes
            header = reader.header_at(position)
        return position, Offset(min(offset, header.base_offset))

    def copy(self, file: File | None = None) -> "Segment":
        """Return an independent copy of this segment, without the positions of the newest batches.

        It reads from `file`, which the caller keeps and closes, or opens a file of its own.
        """
        other = Segment(self._disk, self._directory, self.base_offset, self._index_interval_bytes)
        other._file = file
        other._take(self.figures)
        other.bytes_before = self.bytes_before
        other.index = None if self.index is None else self.index.copy()
        other.times = None if self.times is None else self.times.copy()
        return other

    @property
    def figures(self) -> Figures:
        """The totals over the batches."""
        return Figures(
            self.end_offset,
            self.size_bytes,
            self.first_timestamp_ms,
            self.max_timestamp_ms,
            self._max_timestamp_offset,
            self._bytes_since_index,
            self.holes,
        )

    def _take(self, figures: Figures) -> None:
        self.end_offset, self.size_bytes, self.first_timestamp_ms = figures[:3]
        self.max_timestamp_ms, self._max_timestamp_offset, self._bytes_since_index, self.holes = figures[3:]

    def forget_saved_indexes(self) -> None:
        """Remove the index files, which describe more than the segment now holds."""
        for suffix in (INDEX_SUFFIX, TIME_INDEX_SUFFIX):
            if self._disk.exists(self.path(suffix)):
                self._disk.remove(self.path(suffix))
        self.is_index_saved = False

    def read_first_timestamp(self) -> None:
        """Read the first timestamp, which defines the segment's age, if only its end was walked."""
        if self.size_bytes and self.first_timestamp_ms < 0:
            header = HeaderReader(self.file, self.size_bytes, resident_only=False).header_at(0)
            self.first_timestamp_ms = header.max_timestamp

    def release(self) -> None:
        """Close the file, and drop the indexes if they can be read again."""
        if self._file is not None:
            self._file.close()
            self._file = None
        if self.is_index_saved:
            self.index = self.times = None
            self.append_times.release()
