"""The append times of one log, over its segments: look-ups, saves, and what followers copy.

One hard idea: a follower's clock says when a batch reached the follower, which may be hours later. So a leader sends
its entries with the records, and a follower stores those, for the batches they name. Where the follower's segment
begins with a batch that has no entry, it gets one with the time before it, less than a step ago.

Units: as in `append_times.py`. Failure: as in `log.py`.
"""

from bisect import bisect_left
from collections.abc import Sequence
from contextlib import suppress
from typing import Final, NamedTuple

from syncline.model.ids import Offset
from syncline.storage.arrivals.append_time_search import AppendTimesBetween, AppendTimeSearch
from syncline.storage.arrivals.append_times import RECENT_MAX, CopiedTime, Entry, Found
from syncline.storage.arrivals.kept_times import KeptTimes
from syncline.storage.availability import Availability
from syncline.storage.lag import byte_lag
from syncline.storage.pages.written import Written
from syncline.storage.segments.batch_walk import HeaderReader, NotABatch, NotResident
from syncline.storage.segments.incoming import Incoming
from syncline.storage.segments.segment_list import SegmentList

NOTHING: Final[tuple[CopiedTime, ...]] = ()
# A gap that its leader knows in more segments stays.
SEGMENTS_MAX: Final = 8


class Missing(NamedTuple):
    """A gap in the active segment of a log: its first batch, and the next that is known, or the log end."""

    start: Offset
    end: Offset
    # What the places of batches depend on.
    base_offset: Offset
    generation: int


class LogTimes:
    """What one log knows of when its batches were appended."""

    __slots__ = ("_availability", "_segments", "_written")

    def __init__(self, segments: SegmentList, availability: Availability, written: Written) -> None:
        self._segments = segments
        self._availability = availability
        self._written = written

    def find(self, offset: Offset) -> Found | AppendTimeSearch | None:
        """Return what is known of when the batch at `offset` was appended, or what a worker needs to look it up.

        None: nothing is. The batch came less than a step after the entry that is found, or with it.
        """
        self._availability.check()
        return self._segments.of(offset).append_times.find(offset)

    def save(self) -> bool:
        """Write the append times of the last few seconds beside the log, unsynced; return whether there were any.

        Raises DiskFullError; they then wait for the next call.
        """
        self._availability.check()
        with self._availability.refusing("save append times of"):
            return self._segments.active.append_times.save(for_good=False)

    def between(
        self, offset: int, position: int, size_bytes: int, *, with_floor: bool
    ) -> Sequence[CopiedTime] | AppendTimesBetween:
        """Return the entries of batches that were read, or what a worker needs to find them.

        The batches begin at `position` in the segment of `offset`. `with_floor`: and, if the first of them has no
        entry, the one before, for a reader that has nothing before.
        """
        active = self._segments.active
        if offset >= active.base_offset:
            recent = active.append_times.recent
            assert recent is not None, f"{active!r} grows, its append times are in memory"
            if recent.last_position < position and recent.latest_ms >= 0 and not with_floor:
                return NOTHING
            times = active.append_times
        else:
            times = self._segments.of(Offset(offset)).append_times
        return times.between(position, position + size_bytes, with_floor=with_floor)

    def missing(self) -> Missing | None:
        """Return where entries of the active segment are missing, None if they are not."""
        active = self._segments.active
        recent = active.append_times.recent
        gap = None if recent is None else recent.newest_gap()
        if gap is None:
            return None
        start, end = Offset(gap[0]), Offset(gap[1]) if gap[1] >= 0 else active.end_offset
        assert active.base_offset < start < end <= active.end_offset, f"{active!r} has a gap at {start}..{end}"
        return Missing(start, end, active.base_offset, active.generation)

    def known_between(self, start: Offset, end: Offset) -> list[list[CopiedTime] | AppendTimesBetween]:
        """Return the entries from `start` to `end`, in parts, each as it is or as what a worker needs to find it.

        The first part begins with the entry at `start` or before. Nothing, if this is not a stretch of the log or lies
        in many segments.
        """
        if self._availability.failure is not None or not self._segments.first.base_offset <= start < end:
            return []
        parts: list[list[CopiedTime] | AppendTimesBetween] = []
        segment = self._segments.of(start)
        while True:
            parts.append(segment.append_times.between(start, end, with_floor=not parts, by_offset=True))
            behind = segment.end_offset
            if end <= behind or segment is self._segments.active:
                return parts
            if len(parts) == SEGMENTS_MAX:
                return []
            segment = self._segments.of(behind)

    def locate(self, copied: Sequence[CopiedTime]) -> list[Entry] | None:
        """Return entries of the active segment with the places of their batches; None if the disk would be read."""
        active = self._segments.active
        entries = []
        try:
            reader = HeaderReader(active.file, active.size_bytes, resident_only=True)
            for offset, append_ms in copied:
                found = byte_lag.find(self._segments, Offset(offset), is_exact=True)
                if not isinstance(found, int) or not active.base_offset <= offset < active.end_offset:
                    return None
                position = found - active.bytes_before
                header = reader.header_at(position)
                if header.base_offset != offset:
                    # No batch of this log begins there, whatever the leader says.
                    return None
                entries.append(Entry(offset, position, append_ms, 0, header.crc & 0xFFFF))
        except (NotResident, NotABatch, OSError):
            return None
        return entries

    def fill(self, gap: Missing, entries: Sequence[Entry]) -> bool:
        """Put located entries in the place of a gap; return False if the log has changed, or they do not fit."""
        active = self._segments.active
        if (active.base_offset, active.generation) != (gap.base_offset, gap.generation):
            return False
        is_filled = active.append_times.fill(gap.start, entries)
        if is_filled:
            self._written.has_times(self._availability.topic_partition)
        return is_filled


def copy_times(
    kept: KeptTimes,
    batches: Sequence[Incoming],
    shift: int,
    copied: Sequence[CopiedTime],
    written_bytes: int,
    *,
    counts_as_written: bool,
) -> bool:
    """Store a leader's entries for batches that were appended to one segment; return whether there were any.

    `shift` is what leads from their place in the answer to their position in the segment, `written_bytes` what this
    broker had written to all logs before the first of them; `counts_as_written`: each adds to it. Entries of batches
    that are not among these do not count.
    """
    times, first = kept.recent, batches[0]
    assert times is not None, f"{kept!r} is of a segment that grows, and not in memory"
    is_changed = False

    def written_before(start: int) -> int:
        return written_bytes + start - first.start if counts_as_written else written_bytes

    if not first.start + shift:
        begins_at = first.header.base_offset
        if times.last_append_ms < 0 and copied and 0 <= copied[0][0] < begins_at and copied[0][1] >= 0:
            # This replica was empty, and so asked for the entry before: nothing else says when its log begins.
            times.preceding_ms = copied[0][1]
        # With a gap at the first batch, nobody knows how long after the segment before it came.
        is_told = any(offset == begins_at or (offset < begins_at and time < 0) for offset, time in copied)
        if times.preceding_ms >= 0 and not is_told:
            times.add(begins_at, 0, times.preceding_ms, written_bytes, first.header.crc)
            is_changed = True
    for offset, append_ms in copied:
        at = bisect_left(batches, offset, key=_offset_of)
        if at == len(batches) or times.is_lost:
            break
        start, _, header = batches[at]
        if start + shift <= times.last_position:
            continue
        if append_ms < 0:
            times.add_gap(header.base_offset, start + shift, written_before(start), header.crc)
        elif header.base_offset == offset:
            times.add(offset, start + shift, append_ms, written_before(start), header.crc)
        is_changed = True
        if len(times) >= 2 * RECENT_MAX:
            # The next save may be seconds away, and this the copy of weeks. What is refused now is tried again then.
            with suppress(OSError):
                kept.save(for_good=False)
    return is_changed


def _offset_of(batch: Incoming) -> int:
    return batch.header.base_offset
