"""The segments of one log, in order, and which finished ones stay open.

One hard idea: descriptors and indexes in memory are expensive if there are
thousands of segments, so a finished segment releases both unless it is one of
the last few that were read. The last segment, the only one that grows, keeps both.

A segment's files are deleted in three steps: close, rename, remove. A name that
ends in `.deleted` is never loaded, so a crash between steps leaves no half segment.

Invariants: segments follow each other without a gap, in offsets and in bytes (`byte_lag.py`); there is always one.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from itertools import pairwise
from typing import Final

from syncline.model.ids import NONE, Offset
from syncline.storage.disk import Disk
from syncline.storage.segments import segment_checks
from syncline.storage.segments.segment import (
    DELETED_SUFFIX,
    HINT_SUFFIXES,
    LOG_SUFFIX,
    SNAPSHOT_SUFFIX,
    Segment,
)
from syncline.storage.segments.times import Place

_SUFFIXES: Final = (LOG_SUFFIX, *HINT_SUFFIXES, SNAPSHOT_SUFFIX)
# Finished segments whose file stays open and whose index stays in memory; the least recently read is released first.
WARM_SEGMENTS_MAX: Final = 4


class SegmentList:
    """All segments of a log; `active` is the last."""

    def __init__(self, disk: Disk, directory: str, segments: list[Segment]) -> None:
        assert segments, "a log has at least the segment of the next write"
        self.disk = disk
        self._directory = directory
        self._segments = segments
        bytes_before = 0
        for segment in segments:
            segment.bytes_before = bytes_before
            bytes_before += segment.size_bytes
        self._bases = [segment.base_offset for segment in segments]
        self._warm: list[Segment] = []
        self.active = segments[-1]
        # Counts segments that were added or removed: what was added up over segments holds for one count.
        self.changes = 0

    def __len__(self) -> int:
        return len(self._segments)

    def __iter__(self) -> Iterator[Segment]:
        return iter(self._segments)

    def __contains__(self, segment: object) -> bool:
        return segment in self._segments

    @property
    def first(self) -> Segment:
        """The oldest segment."""
        return self._segments[0]

    @property
    def finished(self) -> list[Segment]:
        """All but the active one, oldest first."""
        return self._segments[:-1]

    @property
    def size_bytes(self) -> int:
        """The size of all log files."""
        return self.active.bytes_before + self.active.size_bytes - self._segments[0].bytes_before

    @property
    def end_bytes(self) -> int:
        """The byte coordinate of the log end."""
        return self.active.bytes_before + self.active.size_bytes

    @property
    def max_timestamp_ms(self) -> int:
        """The largest timestamp, -1 if no record has one."""
        return max(segment.max_timestamp_ms for segment in self._segments)

    @property
    def newest_timestamp_ms(self) -> int:
        """The largest timestamp of the newest segment that has one, -1 if none has."""
        newest_ms = self.active.max_timestamp_ms
        if newest_ms >= 0:
            return newest_ms
        return next((each.max_timestamp_ms for each in self.newest_first() if each.max_timestamp_ms >= 0), NONE)

    def places(self, timestamp_ms: int) -> list[Place]:
        """Return what a look-up by time needs from each segment that may hold a record not older than that."""
        return [
            segment.place(timestamp_ms)
            for segment in self._segments
            if segment.size_bytes and segment.max_timestamp_ms >= timestamp_ms
        ]

    def newest_first(self) -> Iterator[Segment]:
        """Iterate over the segments, newest first."""
        return reversed(self._segments)

    def of(self, offset: Offset) -> Segment:
        """Return the segment that holds `offset`, or would hold it."""
        if offset >= self.active.base_offset:
            return self.active
        return self._segments[max(0, bisect_right(self._bases, offset) - 1)]

    def number_of(self, segment: Segment) -> int:
        """Return which of the segments one is, the oldest being 0."""
        number = bisect_left(self._bases, segment.base_offset)
        assert self._segments[number] is segment, f"{segment!r} is not of this log"
        return number

    def add(self, base_offset: Offset, index_interval_bytes: int) -> Segment:
        """Add a new active segment."""
        assert not self._segments or base_offset == self.active.end_offset, (
            f"{self.active!r} is not followed by a segment at {base_offset}"
        )
        segment = Segment(self.disk, self._directory, base_offset, index_interval_bytes)
        # If all segments were destroyed, the new one takes the place of the oldest.
        segment.bytes_before = self.end_bytes if self._segments else self.active.bytes_before
        if self._segments:
            segment.append_times.begin_after(self.active.append_times)
        self._segments.append(segment)
        self._bases.append(segment.base_offset)
        self.active = segment
        self.changes += 1
        return segment

    def keep_warm(self, segment: Segment) -> None:
        """Count a finished segment as just read; release the least recently read one."""
        self._cool(segment)
        self._warm.append(segment)
        # A segment that is not synced yet keeps its descriptor and is released later.
        too_many = len(self._warm) - WARM_SEGMENTS_MAX
        for coldest in [each for each in self._warm[:-1] if each.is_synced][: max(0, too_many)]:
            self._cool(coldest)
            coldest.release()

    def _cool(self, segment: Segment) -> None:
        if segment in self._warm:
            self._warm.remove(segment)

    def bury_first(self, segment: Segment) -> Iterator[str]:
        """Take `segment` out of the list and rename its files; yield the new name of each. Raises OSError.

        Does nothing if it is not the first any more, so that what was refused half-way can be repeated.
        """
        if self.first is not segment:
            return
        assert len(self._segments) > 1, "the active segment is not taken out at the front"
        self._close(segment)
        yield from self._bury(segment)
        self._segments.pop(0)
        self._bases.pop(0)
        self.changes += 1

    def _close(self, segment: Segment) -> None:
        self._cool(segment)
        segment.release()

    def _bury(self, segment: Segment) -> Iterator[str]:
        """Rename the files of a closed segment to `.deleted` names, which are yielded. Raises OSError.

        Names that an earlier try has given are yielded again.
        """
        for suffix in _SUFFIXES:
            path = segment.path(suffix)
            deleted = path + DELETED_SUFFIX
            if self.disk.exists(path):
                self.disk.rename(path, deleted)
                yield deleted
            elif self.disk.exists(deleted):
                yield deleted

    def destroy_behind(self, segment: Segment) -> None:
        """Remove all segments behind `segment`, which grows again; the caller syncs the names. Raises OSError."""
        assert segment in self._segments, f"{segment!r} is not of this log"
        while self.active is not segment:
            self._destroy_last()

    def destroy_all(self) -> None:
        """Remove all segments and their files; the caller adds the next one and syncs the names. Raises OSError."""
        while self._segments:
            self._destroy_last()

    def _destroy_last(self) -> None:
        """Remove the newest segment, in an order that leaves a whole log if a crash interrupts it.

        It stays in the list until its files are gone, so what was refused half-way can be repeated.
        """
        segment = self._segments[-1]
        self._close(segment)
        for path in list(self._bury(segment)):
            self.disk.remove(path)
        self._segments.pop()
        self._bases.pop()
        self.changes += 1
        if self._segments:
            self.active = self._segments[-1]
            self._cool(self.active)

    def release(self) -> None:
        """Close all files."""
        for segment in self._segments:
            segment.release()
        self._warm.clear()

    def check_invariants(self) -> None:
        """Assert that each segment begins where the one before ends, and that only the last one grows."""
        bases = [segment.base_offset for segment in self._segments]
        assert bases == self._bases, f"segments begin at {bases}, remembered is {self._bases}"
        assert self.active is self._segments[-1], f"{self.active!r} grows, the last is {self._segments[-1]!r}"
        for older, newer in pairwise(self._segments):
            assert older.end_offset == newer.base_offset, f"{older!r} is not followed by {newer!r}"
            assert older.bytes_before + older.size_bytes == newer.bytes_before, (
                f"{older!r} and the bytes before it are not the {newer.bytes_before} before {newer!r}"
            )
            assert not older.tail_ends, f"{older!r} is finished but remembers where its newest batches lie"
        for segment in self._warm:
            assert segment in self._segments[:-1], f"{segment!r} is kept warm but is no finished segment"
        for segment in self._segments:
            segment_checks.check(segment)
