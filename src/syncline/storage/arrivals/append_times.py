"""When batches were appended: a sparse index of one segment, from offsets to the leader's wall clock.

One hard idea: a producer's timestamp does not say when a batch arrived, and nothing in a log does, so this index cannot
be rebuilt. It is a hint all the same: whatever is wrong with it, the log stays as it is, and a time that is missing is
estimated. One batch gets an entry if 250 ms have passed since the last entry; every other batch came less than that
after the entry before it. Times never fall, whatever the clock does.

A leader stamps entries; followers copy its entries with the records, and never use a clock of their own. Where entries
were lost, in a crash that came before they were saved, stands an entry that is a *gap*: its batch and those behind it
came after the entry before it, and nobody knows how long after.

The newest entries are in memory, all but a few on the disk: they are saved every few seconds, at the end of a segment
and at a clean stop. After a crash an entry counts only if the batch that it names is there (position, offset, and a
part of its checksum), so entries of records that are gone cannot vouch for others in their place.

Format of `<base offset>.appendtimes` (ours; Kafka has no such file, and ignores it), big endian:
    header  4 s magic "SLAT", u16 version 1, u16 step in ms, i64 base offset
    entry   u32 offset of the batch - base offset, u32 position, i64 time in ms, or of a gap ~(the time before it), i64
            bytes that this broker had written to all logs before it, u16 low bits of the batch's CRC
A partial entry at the end is ignored, a file of another version is as if it were not there.

Units: positions and sizes are bytes, times are Unix milliseconds.
Invariants: offsets and positions rise strictly, times and written bytes do not fall.
"""

import struct
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from itertools import pairwise
from typing import Final, NamedTuple, TypeAlias

from syncline.core.lag.append_time import STEP_MS, entry_time
from syncline.model.ids import NONE
from syncline.records.batch import BatchHeader
from syncline.storage.disk import Disk, File, sync_for_good
from syncline.storage.errors import is_refusal

_make: Final = tuple.__new__
# Entries in memory per segment: once there are as many, the older half is forgotten if it is saved. At four per second
# these are the last four to eight minutes.
RECENT_MAX: Final = 2_048
HEADER: Final = struct.Struct(">4sHHq")
ENTRY: Final = struct.Struct(">IIqqH")
MAGIC: Final = b"SLAT"
VERSION: Final = 1
BLOCK_ENTRIES: Final = 315  # What a look-up reads at once: 8 KiB.
_NEVER_MS: Final = 2**62  # No clock gets there: nothing more is noted.
# One entry on its way to another broker: the offset of a batch, and its time as in the file. A negative time is a gap.
CopiedTime: TypeAlias = tuple[int, int]
# An entry as a read needs it: its time, that of the next one (negative: there is none, or a gap), its position, and
# what was written before it; then the position of the next one and what was written before that, -1 without one.
Floor: TypeAlias = tuple[int, int, int, int, int, int]
# What a reader gets of a segment whose first times are lost: its first batch begins a gap.
ALL_UNKNOWN: Final = NONE


class Entry(NamedTuple):
    """One batch whose time is known."""

    offset: int
    position: int
    # Of a gap: ~(the time of the entry before it), so it is negative.
    append_ms: int
    written_bytes: int
    # The low 16 bits of the batch's CRC.
    check: int

    @property
    def is_gap(self) -> bool:
        """Whether entries are missing from this batch on."""
        return self.append_ms < 0

    @property
    def floor_ms(self) -> int:
        """The time of the batch; of a gap, the time of the last batch before it that is known."""
        return self.append_ms if self.append_ms >= 0 else ~self.append_ms

    def names(self, position: int, header: BatchHeader) -> bool:
        """Return whether the entry is of this batch at this position."""
        return (self.position, self.offset, self.check) == (position, header.base_offset, header.crc & 0xFFFF)

    def follows(self, before: "Entry") -> bool:
        """Return whether this may be the next entry of a segment."""
        is_behind = self.offset > before.offset and self.position > before.position
        return is_behind and self.floor_ms >= before.floor_ms and self.written_bytes >= before.written_bytes


class Found(NamedTuple):
    """The last entry at or before an offset, and the time of the next one, -1 if there is none or it is a gap."""

    entry: Entry
    next_ms: int


class Unsaved(NamedTuple):
    """What a segment's file lacks: `data`, from position `at` on, where it may hold what no longer counts."""

    path: str
    at: int
    data: bytes
    entry_count: int

    def write(self, disk: Disk, *, sync: bool) -> bool:
        """Bring the file up to date; may wait for the disk. Return False if that failed for good.

        Raises OSError if the disk refuses; then it may be repeated.
        """
        try:
            file = disk.open(self.path, create=True)
            try:
                if file.size_bytes != self.at:
                    file.truncate(self.at)
                if self.data:
                    file.append((self.data,))
                if sync:
                    sync_for_good(file)
            finally:
                file.close()
        except OSError as error:
            if is_refusal(error):
                raise
            return False
        return True


class AppendTimes:
    """The append times of one segment, as far as they are in memory."""

    __slots__ = (
        "_base_offset",
        "_begun_ms",
        "_checks",
        "_is_unsynced",
        "_offsets",
        "_older_count",
        "_positions",
        "_saved_count",
        "_times",
        "_written",
        "due_ms",
        "last_append_ms",
        "last_position",
        "preceding_ms",
    )

    def __init__(self, base_offset: int, last_append_ms: int = NONE, preceding_ms: int = NONE) -> None:
        self._base_offset = base_offset
        self._offsets = array("I")
        self._positions = array("I")
        self._times = array("q")
        self._written = array("q")
        self._checks = array("H")
        # Entries that are only in the file, and how many of those in memory are there, too.
        self._older_count = 0
        self._saved_count = 0
        # Whether the file was changed, or has to be, since it was synced last.
        self._is_unsynced = False
        # No entry of this log is later; that of the segment before comes first, and is all once no entry is left here.
        self.last_append_ms = self._begun_ms = last_append_ms
        # The segment's first batch came less than a step after this; -1: that is unknown.
        self.preceding_ms = preceding_ms
        # Where the batch of the newest entry begins.
        self.last_position = NONE
        # From this time on, the next batch gets an entry; the first of a segment always does.
        self.due_ms = 0

    def __len__(self) -> int:
        return len(self._offsets)

    def __repr__(self) -> str:
        return f"AppendTimes({self._base_offset}, {self._older_count} + {len(self._offsets)} entries)"

    @property
    def last_written_bytes(self) -> int:
        """What this broker had written to all logs when the newest entry was made, 0 if there is none."""
        return self._written[-1] if self._written else 0

    def written_up_to(self, size_bytes: int) -> int:
        """Return what this broker had written to all logs, at least, when the segment had this size."""
        return self._written[-1] + size_bytes - self._positions[-1] if self._written else 0

    @property
    def latest_ms(self) -> int:
        """The time from which the next batch is less than a step away, unless it is due; -1 if entries are missing."""
        return self._times[-1] if self._times and self._times[-1] >= 0 else NONE

    @property
    def is_lost(self) -> bool:
        """Whether nothing is noted any more."""
        return self.due_ms == _NEVER_MS

    @property
    def is_saved(self) -> bool:
        """Whether all of it can be read from the file."""
        return self._saved_count == len(self._offsets) and not self._is_unsynced

    def add(self, offset: int, position: int, append_ms: int, written_bytes: int, crc: int) -> None:
        """Note when a batch was appended, with a time that is due; an earlier clock than before does not count."""
        append_ms = entry_time(self.last_append_ms, append_ms)
        self.last_append_ms = append_ms
        self.due_ms = append_ms + STEP_MS
        self._add(offset, position, append_ms, written_bytes, crc)

    def add_gap(self, offset: int, position: int, written_bytes: int, crc: int) -> None:
        """Note that from this batch on entries are missing. Without an entry before it, that is known anyway."""
        if self.latest_ms >= 0:
            # The next batch gets an entry, so that the gap ends there.
            self.due_ms = 0
            self._add(offset, position, ~self.latest_ms, written_bytes, crc)

    def _add(self, offset: int, position: int, append_ms: int, written_bytes: int, crc: int) -> None:
        self._offsets.append(offset - self._base_offset)
        self._positions.append(position)
        self._times.append(append_ms)
        self._written.append(written_bytes)
        self._checks.append(crc & 0xFFFF)
        self.last_position = position
        if len(self._offsets) > 2 * RECENT_MAX:
            # The disk has refused them for a quarter of an hour.
            self.lose()

    def at_offset(self, offset: int) -> Found | None:
        """Return the last entry at or before `offset`, None if memory has none (`needs_file`)."""
        at = bisect_right(self._offsets, offset - self._base_offset) - 1
        if at < 0:
            return None
        times, behind = self._times, at + 1
        next_ms = times[behind] if behind < len(times) else NONE
        return _make(Found, (self._entry(at), max(NONE, next_ms)))

    def floor_at(self, position: int) -> Floor | None:
        """Return the last entry at or before a position, None if memory has none. For each fetch: no named tuples."""
        positions, times = self._positions, self._times
        if position >= self.last_position >= 0:
            return times[-1], NONE, self.last_position, self._written[-1], NONE, NONE
        behind = bisect_right(positions, position)
        if not behind:
            return None
        written, at = self._written, behind - 1
        return times[at], times[behind], positions[at], written[at], positions[behind], written[behind]

    def between(self, start: int, end: int, *, with_floor: bool, by_offset: bool = False) -> list[CopiedTime] | None:
        """Return the entries of the batches at positions from `start` to `end`, None if that needs the file.

        A gap in which `start` lies comes first. `with_floor`: and, if no entry is of the batch at `start`, the one
        before. `by_offset`: these are offsets.
        """
        places = self._positions
        if by_offset:
            places, start, end = self._offsets, max(0, start - self._base_offset), end - self._base_offset
        first = bisect_left(places, start)
        found: list[CopiedTime] = []
        if not first and (not places or places[0] > start):
            if self._older_count:
                return None
            # Nobody knows when the first batches came: a leader begins each segment with an entry, and it was lost.
            found = [(self._base_offset, ALL_UNKNOWN)]
        elif first and (first == len(places) or places[first] > start) and (with_floor or self._times[first - 1] < 0):
            first -= 1
        behind = bisect_left(places, end)
        return found + [(self._base_offset + self._offsets[at], self._times[at]) for at in range(first, behind)]

    def newest_gap(self) -> tuple[int, int] | None:
        """Return the offsets of the newest gap and of the next entry, -1 if there is none; None without a gap."""
        for at in range(len(self._times) - 1, -1, -1):
            if self._times[at] < 0:
                behind = at + 1
                end = self._base_offset + self._offsets[behind] if behind < len(self._times) else NONE
                return self._base_offset + self._offsets[at], end
        return None

    def fill(self, gap_offset: int, entries: Sequence[Entry]) -> bool:
        """Put entries in the place of a gap; return False if they do not fit there, or there is no gap any more."""
        at = bisect_left(self._offsets, gap_offset - self._base_offset)
        is_there = at < len(self._offsets) and self._entry(at).is_gap and self._entry(at).offset == gap_offset
        if not is_there or len(self) + len(entries) > 2 * RECENT_MAX:
            return False
        # What the broker had written when they came is not known: as much as when the gap began.
        gap = self._entry(at)
        entries = [entry._replace(written_bytes=gap.written_bytes) for entry in entries]
        here = [gap, *entries, *([self._entry(at + 1)] if at + 1 < len(self) else ())]
        # The first of them may be that of the gap's own batch.
        if any(not later.follows(earlier) for earlier, later in pairwise(here[1:])):
            return False
        if entries and (entries[0].offset < gap_offset or entries[0].floor_ms < gap.floor_ms):
            return False
        place = slice(at, at + 1)
        self._offsets[place] = array("I", [entry.offset - self._base_offset for entry in entries])
        self._positions[place] = array("I", [entry.position for entry in entries])
        self._times[place] = array("q", [entry.append_ms for entry in entries])
        self._written[place] = array("q", [entry.written_bytes for entry in entries])
        self._checks[place] = array("H", [entry.check for entry in entries])
        self._saved_count = min(self._saved_count, at)
        self._is_unsynced = True
        self.last_position = self._positions[-1] if self._positions else NONE
        newest = self._entry(len(self) - 1) if len(self) else gap
        self.last_append_ms = max(self.last_append_ms, newest.floor_ms)
        self.due_ms = 0 if newest.is_gap else newest.append_ms + STEP_MS
        return True

    @property
    def needs_file(self) -> bool:
        """Whether entries older than those in memory are in the file."""
        return self._older_count > 0

    def _entry(self, at: int) -> Entry:
        offset = self._base_offset + self._offsets[at]
        return _make(Entry, (offset, self._positions[at], self._times[at], self._written[at], self._checks[at]))

    def cut(self, offset: int) -> None:
        """Forget entries at or above `offset`; if memory does not reach back to there, forget all."""
        keep = bisect_right(self._offsets, offset - self._base_offset - 1)
        if keep == len(self._offsets):
            return
        if not keep:
            self._older_count = 0
        self._keep(slice(0, keep))
        self._saved_count = min(self._saved_count, keep)
        self._is_unsynced = True
        # A cut does not tell whether the entry before the next batch is recent.
        self.due_ms = min(self.due_ms, 0)
        # What comes next may have another leader, which appended it before this one appended what is cut.
        self.last_append_ms = self._entry(keep - 1).floor_ms if keep else self._begun_ms

    def lose(self) -> None:
        """Forget everything, and note nothing more: the file cannot be written."""
        self._older_count = self._saved_count = 0
        self._keep(slice(0, 0))
        self._is_unsynced = False
        self.due_ms = _NEVER_MS

    def _keep(self, kept: slice) -> None:
        self._offsets, self._positions, self._times = self._offsets[kept], self._positions[kept], self._times[kept]
        self._written, self._checks = self._written[kept], self._checks[kept]
        self.last_position = self._positions[-1] if self._positions else NONE

    def unsaved(self, path: str, *, for_good: bool) -> Unsaved | None:
        """Return what the file lacks, None if nothing; `for_good`: also if it was only not synced."""
        if self._saved_count == len(self._offsets) and not (for_good and self._is_unsynced):
            return None
        fresh = [self._entry(number) for number in range(self._saved_count, len(self._offsets))]
        data = b"".join(ENTRY.pack(entry.offset - self._base_offset, *entry[1:]) for entry in fresh)
        if not self._file_bytes:
            data = HEADER.pack(MAGIC, VERSION, STEP_MS, self._base_offset) + data
        return Unsaved(path, self._file_bytes, data, len(fresh))

    @property
    def _file_bytes(self) -> int:
        """How many bytes of the file count."""
        count = self._older_count + self._saved_count
        return HEADER.size + count * ENTRY.size if count else 0

    def saved(self, unsaved: Unsaved, *, is_synced: bool) -> None:
        """Count what was written as saved; forget the older half if there are many."""
        assert unsaved.at == self._file_bytes, f"{self!r} was cut while it was saved from position {unsaved.at} on"
        self._saved_count += unsaved.entry_count
        self._is_unsynced = not is_synced
        assert self._saved_count <= len(self._offsets), f"{self!r}: {self._saved_count} entries in memory are saved"
        if self._saved_count >= RECENT_MAX:
            gone = self._saved_count - RECENT_MAX // 2
            self._keep(slice(gone, None))
            self._older_count += gone
            self._saved_count -= gone

    def doubt_file(self) -> None:
        """Have the file checked at the next opportunity: it may hold more than counts."""
        self._is_unsynced = True

    def check_invariants(self, end_offset: int, size_bytes: int) -> None:
        """Assert that the entries rise and lie within a segment of this end and size."""
        assert all(low < high for low, high in pairwise(self._offsets)), f"{self!r}: offsets do not rise"
        assert all(low < high for low, high in pairwise(self._positions)), f"{self!r}: positions do not rise"
        floors = [time if time >= 0 else ~time for time in self._times]
        assert all(low <= high for low, high in pairwise(floors)), f"{self!r}: times fall"
        assert all(low <= high for low, high in pairwise(self._written)), f"{self!r}: written bytes fall"
        assert self._saved_count <= len(self._offsets), f"{self!r}: {self._saved_count} of them are saved"
        if self._offsets:
            assert self._base_offset + self._offsets[-1] < end_offset, f"{self!r} knows offsets behind {end_offset}"
            assert self._positions[-1] < size_bytes, f"{self!r} knows positions behind {size_bytes}"
            assert floors[-1] <= self.last_append_ms, f"{self!r}: {self.last_append_ms} ms is the latest"
            assert self._positions[-1] == self.last_position, f"{self!r}: the newest is not at {self.last_position}"

    @classmethod
    def of_file(cls, base_offset: int, entries: Sequence[Entry], *, older_count: int, is_whole: bool) -> "AppendTimes":
        """Return the append times with these entries, which follow `older_count` in the file.

        `is_whole`: the file has them and nothing else.
        """
        times = cls(base_offset)
        gone = max(0, len(entries) - RECENT_MAX // 2)
        for entry in entries[gone:]:
            times.last_append_ms = entry.floor_ms
            times.due_ms = 0 if entry.is_gap else entry.append_ms + STEP_MS
            times._add(*entry)
        times._older_count = older_count + gone
        times._saved_count = len(entries) - gone
        times._is_unsynced = not is_whole
        return times


class StoredTimes(NamedTuple):
    """What the file of a segment holds."""

    # From the file's beginning; the newest may be missing if only a part was read.
    entries: tuple[Entry, ...]
    # How many come before them in the file.
    older_count: int
    # Whether nothing else is in the file.
    is_whole: bool

    @classmethod
    def read(cls, disk: Disk, path: str, base_offset: int, *, newest: int | None = None) -> "StoredTimes":
        """Read a file, or its `newest` entries; may wait for the disk. Raises OSError if the disk refuses.

        A file that is missing, strange or unreadable has no entries.
        """
        try:
            file = disk.open(path)
            try:
                count = count_entries(file, base_offset)
                if count is None:
                    return cls((), 0, is_whole=False)
                first = 0 if newest is None else max(0, count - newest)
                is_whole = file.size_bytes == HEADER.size + count * ENTRY.size
                return cls(tuple(read_entries(file, base_offset, first, count)), first, is_whole)
            finally:
                file.close()
        except FileNotFoundError:
            return cls((), 0, is_whole=True)
        except OSError as error:
            if is_refusal(error):
                raise
            return cls((), 0, is_whole=False)

    def below(self, base_offset: int, end_offset: int, size_bytes: int) -> AppendTimes:
        """Return the entries of a segment with this end and size, in which all that was synced can be trusted."""
        sound: list[Entry] = []
        for entry in self.entries:
            if entry.offset >= end_offset or entry.position >= size_bytes or (sound and not entry.follows(sound[-1])):
                break
            sound.append(entry)
        is_whole = self.is_whole and len(sound) == len(self.entries)
        older_count = self.older_count if sound else 0
        return AppendTimes.of_file(base_offset, sound, older_count=older_count, is_whole=is_whole)


class Matching:
    """The entries of a file, compared with the batches of a scan: what follows the first that does not fit is void."""

    __slots__ = ("_base_offset", "_behind", "_is_over", "_matched", "_stored")

    def __init__(self, base_offset: int, stored: StoredTimes) -> None:
        assert not stored.older_count, f"{stored.older_count} entries would not be compared"
        self._base_offset = base_offset
        self._stored = stored
        self._matched = 0
        # The first batch behind that of the last entry that was right.
        self._behind: tuple[int, BatchHeader] | None = None
        self._is_over = False

    def saw(self, position: int, header: BatchHeader) -> None:
        """Compare the next entry with a batch that is there."""
        entries, at = self._stored.entries, self._matched
        if not self._is_over and at < len(entries) and entries[at].position <= position:
            entry = entries[at]
            if entry.names(position, header) and (not at or entry.follows(entries[at - 1])):
                self._matched, self._behind = at + 1, None
                return
            self._is_over = True
        if self._behind is None:
            self._behind = (position, header)

    def result(self) -> AppendTimes:
        """Return the entries that are right, and the gap behind them."""
        entries = self._stored.entries[: self._matched]
        is_whole = self._stored.is_whole and self._matched == len(self._stored.entries)
        times = AppendTimes.of_file(self._base_offset, entries, older_count=0, is_whole=is_whole)
        if self._behind is not None:
            position, header = self._behind
            times.add_gap(header.base_offset, position, times.last_written_bytes, header.crc)
        return times


def count_entries(file: File, base_offset: int) -> int | None:
    """Return how many whole entries a file has, None if it is not one of ours."""
    data = file.read(0, HEADER.size)
    if len(data) < HEADER.size or HEADER.unpack(data) != (MAGIC, VERSION, STEP_MS, base_offset):
        return None
    return (file.size_bytes - HEADER.size) // ENTRY.size


def read_entries(file: File, base_offset: int, first: int, behind: int) -> list[Entry]:
    """Return entries of a file by their numbers; fewer, if it ends before."""
    data = file.read(HEADER.size + first * ENTRY.size, (behind - first) * ENTRY.size)
    whole = bytes(data)[: len(data) // ENTRY.size * ENTRY.size]
    return [Entry(base_offset + fields[0], *fields[1:]) for fields in ENTRY.iter_unpack(whole)]
