"""Where an offset lies in its log, for lag: in bytes, in time, and how long it stays.

One hard idea: a fetch has found its place (`read_facts.py`), but an offset that is not fetched, such as a committed
one, takes another look: in memory where that is enough, else by a worker. The index names a stretch, the headers in it
the batch, and the append times when it came.

How exact a time is depends on what is known. A topic that stores append times in its batches is exact; a batch with an
entry is, too; any other came less than a step after its floor entry. Where entries are missing, and where a version
wrote that knew no append times, it is the producer's time, within what the neighbours allow, and marked as estimated.

Offsets are no records: markers of transactions and what compaction removed leave holes. Each segment counts its own
while it is written or scanned; only where there are some does a worker walk the headers before an offset, a bounded
number of them. After a clean stop the batches of before are not looked at again, so how many of their offsets are holes
is unknown.

Units: byte coordinates as in `byte_lag.py`, times are Unix milliseconds, -1 unknown. Readable records are counted from
the first segment.
"""

from collections.abc import Callable, Iterable
from itertools import accumulate
from typing import Final, NamedTuple

from syncline.core.lag.append_time import time_found
from syncline.model.ids import NONE, Offset
from syncline.model.lag import UNKNOWN, OffsetPlace
from syncline.records.batch import BatchHeader
from syncline.storage.arrivals.append_time_search import AppendTimeSearch
from syncline.storage.arrivals.append_times import Found
from syncline.storage.lag import byte_lag
from syncline.storage.lag.byte_lag import CoordinateSearch
from syncline.storage.segments.batch_walk import HeaderReader, NotABatch, NotResident
from syncline.storage.segments.segment import Segment
from syncline.storage.segments.segment_list import SegmentList

_make: Final = tuple.__new__
_NEVER_MS: Final = 2**62
# In a segment with holes, the records of so many batches are counted: some tens of milliseconds if they are in memory.
COUNTED_BATCHES_MAX: Final = 16_384


class Known(NamedTuple):
    """What the loop knows of a place: whatever may need the disk is still open."""

    offset: Offset
    # Coordinates of its segment's first byte and end.
    bytes_before: int
    segment_end_bytes: int
    kept_until_ms: int
    coordinate: int | CoordinateSearch
    time: Found | AppendTimeSearch | None
    # Readable records before it; before its segment, if that has holes.
    readable: int
    has_holes: bool

    def place(
        self, coordinate_bytes: int, header: BatchHeader | None, found: Found | None, readable: int = UNKNOWN
    ) -> OffsetPlace:
        """Return the place, now that the disk has answered; `header` is that of the batch at the coordinate.

        `readable` are the records before it in its segment, if that has holes.
        """
        before = self.readable
        if self.has_holes and before != UNKNOWN:
            before = UNKNOWN if readable == UNKNOWN else before + readable
        append_ms, is_estimated = _append_time(self.offset, header, found)
        return OffsetPlace(
            self.offset,
            coordinate_bytes,
            append_ms,
            UNKNOWN if header is None else header.max_timestamp,
            before,
            self.kept_until_ms,
            self.segment_end_bytes,
            is_estimated=is_estimated,
        )


class PlaceSearch(NamedTuple):
    """What a worker needs to find a place; plain numbers, so that the loop may change the log."""

    known: Known
    # Finds the batch, and has the path of its file.
    coordinates: CoordinateSearch

    def run(self, is_wanted: Callable[[], bool] = lambda: True) -> OffsetPlace:
        """Return the place; may wait for the disk. Raises OSError, and NotABatch if the segment is damaged.

        Records are counted for as long as the place `is_wanted`; if it no longer is, their number is unknown.
        """
        known, search = self
        coordinate = known.coordinate if isinstance(known.coordinate, int) else known.coordinate.run()
        file = search.disk.open(search.path)
        try:
            reader = HeaderReader(file, search.segment_bytes, resident_only=False)
            position = coordinate - known.bytes_before
            readable = _readable_before(reader, known.offset, is_wanted) if known.has_holes else UNKNOWN
            header = reader.header_at(position) if position < search.segment_bytes else None
        finally:
            file.close()
        found = known.time.run() if isinstance(known.time, AppendTimeSearch) else known.time
        return known.place(coordinate, header, found, readable)


class _Walk:
    """What the offsets of one answer have in common: the log stays as it is meanwhile."""

    __slots__ = (
        "_batches",
        "_reader",
        "append_ms",
        "begin",
        "coordinate_bytes",
        "end",
        "end_bytes",
        "event_ms",
        "is_estimated",
        "kept_until_ms",
        "readable",
        "segment",
    )

    def __init__(self) -> None:
        # The segment of the last offset.
        self.segment: Segment | None = None
        self.end_bytes = 0
        self.kept_until_ms = self.readable = UNKNOWN
        # From the last offset to the end of its batch: what is known holds for all of them.
        self.begin = self.end = NONE
        self.coordinate_bytes = self.append_ms = self.event_ms = UNKNOWN
        self.is_estimated = False
        self._batches: dict[int, BatchHeader | None] = {}
        self._reader: HeaderReader | None = None

    def enter(self, segment: Segment, kept_until_ms: int, readable: int) -> None:
        """Go on in this segment, before which there are so many readable records."""
        self.segment, self._reader = segment, None
        self.end_bytes = segment.bytes_before + segment.size_bytes
        self.kept_until_ms, self.readable = kept_until_ms, readable

    def batch(self, coordinate_bytes: int) -> BatchHeader | None:
        """Return the header of the batch there, None if the index or the log is damaged.

        Raises NotResident or OSError if the disk has to be read.
        """
        batches = self._batches
        if coordinate_bytes in batches:
            return batches[coordinate_bytes]
        segment, reader = self.segment, self._reader
        assert segment is not None, "an offset lies in a segment"
        if reader is None:
            reader = self._reader = HeaderReader(segment.file, segment.size_bytes, resident_only=True)
        try:
            header: BatchHeader | None = reader.header_at(coordinate_bytes - segment.bytes_before)
        except NotABatch:
            header = None
        batches[coordinate_bytes] = header
        return header


class Places:
    """Finds places in one log."""

    __slots__ = ("_added_up", "_holes", "_newest_ms", "_segments", "_uncounted")

    def __init__(self, segments: SegmentList) -> None:
        self._segments = segments
        # Up to each finished segment: the largest timestamp, holes, and segments with uncounted holes.
        self._newest_ms: list[int] = []
        self._holes: list[int] = []
        self._uncounted: list[int] = []
        # The count of `SegmentList.changes` for which these sums hold, NONE before the first.
        self._added_up: int = NONE

    def find(
        self, offsets: Iterable[Offset], log_end: Offset, retention_ms: int, *, is_exact: bool
    ) -> list[OffsetPlace | PlaceSearch]:
        """Return the place of each offset of the log, or what a worker needs to find it.

        Without `is_exact` no headers are walked, and the coordinate may be too low by less than one index interval and
        one batch. At the log end there is no batch yet: nothing but the coordinate is known. Offsets in ascending order
        take the least time: groups that keep up are in the same batches.
        """
        walk = _Walk()
        found: list[OffsetPlace | PlaceSearch] = []
        for offset in offsets:
            if walk.begin <= offset < walk.end:
                found.append(self._in_batch(offset, walk))
            elif offset >= log_end:
                end_bytes = self._segments.end_bytes
                at_end = (end_bytes, UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN, end_bytes)
                found.append(OffsetPlace(offset, *at_end, is_estimated=False))
            else:
                found.append(self._find(offset, walk, retention_ms, is_exact=is_exact))
        return found

    def _find(self, offset: Offset, walk: _Walk, retention_ms: int, *, is_exact: bool) -> OffsetPlace | PlaceSearch:
        segments = self._segments
        segment = segments.of(offset)
        if walk.segment is not segment:
            walk.enter(segment, self._kept_until_ms(segment, retention_ms), self._readable_in(segment))
        coordinate = byte_lag.find_in(segments, segment, offset, is_exact=is_exact)
        time = segment.append_times.find(offset)
        has_holes = segment.holes > 0
        # In a segment with holes, records are counted for exact answers only.
        if isinstance(coordinate, int) and not isinstance(time, AppendTimeSearch) and not (has_holes and is_exact):
            try:
                # Where the index is damaged, or damage lies in the log, its place stands, its time does not.
                header = walk.batch(coordinate)
            except (NotResident, OSError):
                pass
            else:
                walk.coordinate_bytes = coordinate
                walk.append_ms, walk.is_estimated = _append_time(offset, header, time)
                walk.event_ms = UNKNOWN if header is None else header.max_timestamp
                walk.begin = walk.end = NONE
                if header is not None and header.base_offset <= offset < header.next_offset:
                    # No index names another batch for what follows in this one, so all of it has the same answer.
                    walk.begin, walk.end = offset, header.next_offset
                return self._in_batch(offset, walk)
        readable = walk.readable
        if not has_holes and readable != UNKNOWN:
            readable += offset - segment.base_offset
        known = Known(
            offset, segment.bytes_before, walk.end_bytes, walk.kept_until_ms, coordinate, time, readable, has_holes
        )
        return PlaceSearch(known, byte_lag.search(segments, segment, offset))

    @staticmethod
    def _in_batch(offset: Offset, walk: _Walk) -> OffsetPlace:
        """Return the place of an offset of the batch that was looked at last."""
        segment, readable = walk.segment, walk.readable
        assert segment is not None, "an offset lies in a segment"
        if readable != UNKNOWN:
            readable = UNKNOWN if segment.holes > 0 else readable + offset - segment.base_offset
        bounds = (readable, walk.kept_until_ms, walk.end_bytes, walk.is_estimated)
        return _make(OffsetPlace, (offset, walk.coordinate_bytes, walk.append_ms, walk.event_ms, *bounds))

    def readable_before(self, offset: Offset) -> int:
        """Return how many records consumers can read below an offset; -1 if that is not known without the disk."""
        segment = self._segments.of(offset)
        readable = self._readable_in(segment)
        if readable == UNKNOWN:
            return UNKNOWN
        if offset >= segment.end_offset:
            return readable + segment.end_offset - segment.base_offset - segment.holes
        return UNKNOWN if segment.holes else readable + offset - segment.base_offset

    def _readable_in(self, segment: Segment) -> int:
        """Return the records before a segment; -1 if the holes of this one or of a newer one are uncounted.

        Uncounted holes before it cancel out where two results are subtracted.
        """
        segments = self._segments
        self._add_up()
        number = segments.number_of(segment)
        holes, uncounted = (sums[number - 1] if number else 0 for sums in (self._holes, self._uncounted))
        all_uncounted = (self._uncounted[-1] if self._uncounted else 0) + (segments.active.holes < 0)
        if all_uncounted > uncounted:
            return UNKNOWN
        return segment.base_offset - segments.first.base_offset - holes

    def _add_up(self) -> None:
        """Add up what is known of the finished segments, if these are others than before.

        Their offsets do not tell that: after a cut, other batches may fill segments with the same ones.
        """
        segments = self._segments
        if segments.changes != self._added_up:
            self._added_up = segments.changes
            finished = segments.finished
            self._newest_ms = list(accumulate(map(_latest_ms, finished), max))
            self._holes = list(accumulate(max(0, each.holes) for each in finished))
            self._uncounted = list(accumulate(each.holes < 0 for each in finished))

    def _kept_until_ms(self, segment: Segment, retention_ms: int) -> int:
        """Return when retention by time may delete a segment; -1: never.

        Segments go in order, so an older one with a later timestamp protects it, and one without any for ever. The
        active one is not exempt: it is finished first.
        """
        if retention_ms < 0:
            return UNKNOWN
        segments = self._segments
        self._add_up()
        if segment is segments.active:
            newest_ms = max(_latest_ms(segment), self._newest_ms[-1] if self._newest_ms else NONE)
        else:
            newest_ms = self._newest_ms[segments.number_of(segment)]
        return newest_ms + retention_ms if newest_ms < _NEVER_MS else UNKNOWN


def _readable_before(reader: HeaderReader, offset: Offset, is_wanted: Callable[[], bool]) -> int:
    """Return how many records of a segment consumers can read below an offset. May wait for the disk.

    -1 if more than `COUNTED_BATCHES_MAX` batches lie before it, or if the answer is no longer wanted.
    """
    position = count = batches = 0
    while position < reader.end:
        header = reader.header_at(position)
        if header.base_offset >= offset:
            break
        batches += 1
        if batches > COUNTED_BATCHES_MAX or not is_wanted():
            return UNKNOWN
        if not header.is_control:
            # Which offsets of a batch compaction has removed is written in its records alone.
            count += min(header.record_count, offset - header.base_offset)
        position += header.size_bytes
    return count


def _latest_ms(segment: Segment) -> int:
    """Return the largest timestamp of a segment; without any, it is never too old."""
    return segment.max_timestamp_ms if segment.max_timestamp_ms >= 0 else _NEVER_MS


def _append_time(offset: Offset, header: BatchHeader | None, found: Found | None) -> tuple[int, bool]:
    """Return when a batch was appended, and whether that is an estimate; (-1, True) if nothing is known."""
    if header is not None and header.is_append_time:
        return header.max_timestamp, False
    event_ms = UNKNOWN if header is None else header.max_timestamp
    if found is None:
        return event_ms, True
    entry = found.entry
    if entry.is_gap:
        return max(entry.floor_ms, event_ms if found.next_ms < 0 else min(event_ms, found.next_ms)), True
    is_entry = entry.offset == offset or (header is not None and entry.offset == header.base_offset)
    next_ms = None if found.next_ms < 0 else found.next_ms
    return time_found(entry.append_ms, next_ms, is_entry=is_entry)
