"""Looking append times up in files: what a worker does for segments whose entries are not in memory.

A file may be older than its log, or damaged, so an entry counts only if the batch that it names is there.

Units and format: `append_times.py`. Failure: the methods that a worker runs raise OSError.
"""

import struct
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

from syncline.model.ids import NONE
from syncline.records.batch import HEADER_BYTES, BatchHeader
from syncline.storage.arrivals.append_times import (
    ALL_UNKNOWN,
    BLOCK_ENTRIES,
    ENTRY,
    HEADER,
    CopiedTime,
    Entry,
    Found,
    count_entries,
    read_entries,
)
from syncline.storage.disk import Disk, File

# The offset, counted from the base offset, and the position of an entry.
_PLACE: Final = struct.Struct(">II")


class AppendTimeSearch(NamedTuple):
    """What a worker needs to look an offset up in a file."""

    disk: Disk
    path: str
    log_path: str
    base_offset: int
    offset: int

    def run(self) -> Found | None:
        """Return the last entry at or before the offset, None if none is known. Raises OSError.

        It reads one entry per halving of the file, then one block, and the headers of the batches that the result
        names.
        """
        try:
            file = self.disk.open(self.path)
        except FileNotFoundError:
            return None
        try:
            count = count_entries(file, self.base_offset) or 0
            first = _block(file, count, lambda delta, _: self.base_offset + delta <= self.offset)
            # One more than the block: it says how long the last of them counts.
            entries = read_entries(file, self.base_offset, first, min(count, first + BLOCK_ENTRIES + 1))
        finally:
            file.close()
        at = bisect_right(entries, self.offset, key=lambda entry: entry.offset) - 1
        if at < 0 or not _are_there(self.disk, self.log_path, (entries[at],)):
            return None
        follower = entries[at + 1] if at + 1 < len(entries) else None
        if follower is None or not follower.follows(entries[at]):
            return Found(entries[at], NONE)
        is_next = _are_there(self.disk, self.log_path, (follower,))
        return Found(entries[at], max(NONE, follower.append_ms) if is_next else NONE)


class AppendTimesBetween(NamedTuple):
    """What a worker needs to find the entries of a stretch of a segment."""

    disk: Disk
    path: str
    log_path: str
    base_offset: int
    # Positions in the segment, or offsets.
    start: int
    end: int
    # Whether the entry before the stretch is wanted, too, if none is of the batch at its start.
    with_floor: bool
    by_offset: bool = False

    def run_later(self, done: Callable[[list[CopiedTime] | Exception], None]) -> None:
        """Look in a worker; `done` gets the entries, or the error."""
        self.disk.run_later(self.run, done)

    def run(self) -> list[CopiedTime]:
        """Return the entries, a gap in which `start` lies included. Raises OSError."""
        unknown: list[CopiedTime] = [(self.base_offset, ALL_UNKNOWN)]
        try:
            file = self.disk.open(self.path)
        except FileNotFoundError:
            return unknown
        try:
            count = count_entries(file, self.base_offset) or 0
            is_before = self._is_offset_before if self.by_offset else self._is_position_before
            first = _block(file, count, is_before)
            found: list[Entry] = []
            while first < count and (not found or self._place(found[-1]) < self.end):
                found += read_entries(file, self.base_offset, first, min(count, first + BLOCK_ENTRIES))
                first += BLOCK_ENTRIES
        finally:
            file.close()
        start = max(self.start, self.base_offset) if self.by_offset else self.start
        begin = bisect_right(found, start, key=self._place) - 1
        behind = bisect_left(found, self.end, key=self._place)
        # The first is that of the batch at the start, or the one before, which says whether the start lies in a gap.
        found = found[max(0, begin) : behind]
        if not found or not all(later.follows(earlier) for earlier, later in pairwise(found)):
            return unknown
        # A file that fits at both ends is that of this segment.
        if not _are_there(self.disk, self.log_path, (found[0], found[-1])):
            return unknown
        copied = [(entry.offset, entry.append_ms) for entry in found]
        if begin < 0:
            return unknown + copied
        has_floor = self._place(found[0]) < start
        return copied[1:] if has_floor and not self.with_floor and not found[0].is_gap else copied

    def _place(self, entry: Entry) -> int:
        return entry.offset if self.by_offset else entry.position

    def _is_offset_before(self, delta: int, _position: int) -> bool:
        return self.base_offset + delta <= self.start

    def _is_position_before(self, _delta: int, position: int) -> bool:
        return position <= self.start


def _block(file: File, count: int, is_before: Callable[[int, int], bool]) -> int:
    """Return the number of the first entry of the last block whose first entry `is_before`, 0 if none is."""
    low, high = 0, -(-count // BLOCK_ENTRIES)
    while high - low > 1:
        middle = (low + high) // 2
        data = file.read(HEADER.size + middle * BLOCK_ENTRIES * ENTRY.size, _PLACE.size)
        # If it is not there, the segment was cut meanwhile.
        if len(data) == _PLACE.size and is_before(*_PLACE.unpack(data)):
            low = middle
        else:
            high = middle
    return low * BLOCK_ENTRIES


def _are_there(disk: Disk, log_path: str, entries: Sequence[Entry]) -> bool:
    """Return whether the batches that these entries name are where they should be."""
    try:
        file = disk.open(log_path)
    except FileNotFoundError:
        # Retention has deleted it meanwhile.
        return False
    try:
        for entry in entries:
            data = file.read(entry.position, HEADER_BYTES)
            if len(data) != HEADER_BYTES or not entry.names(entry.position, BatchHeader.parse(data)):
                return False
    finally:
        file.close()
    return True
