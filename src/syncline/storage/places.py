"""Where an offset lies in its log, for lag: in bytes, in time, and how long it stays.

One hard idea: a fetch has found its place (`read_facts.py`), but an offset that nobody fetches, such as a committed
one, takes another look: in memory where that is enough, else by a worker. The index names a stretch, the headers in it
the batch, and the append times when it came.

How exact a time is depends on what is known. A topic that stores append times in its batches is exact; a batch with an
entry is, too; any other came less than a step after its floor entry. Where entries are missing, and where a version
wrote that knew no append times, it is the producer's time, within what the neighbours allow, and marked as estimated.

Units: byte coordinates as in `byte_lag.py`, times are Unix milliseconds, -1 unknown.
"""

from itertools import accumulate
from typing import Final, NamedTuple

from syncline.core.lag.append_time import time_found
from syncline.model.ids import NONE, Offset
from syncline.model.lag import UNKNOWN, OffsetPlace
from syncline.records.batch import BatchHeader
from syncline.storage import byte_lag
from syncline.storage.append_time_search import AppendTimeSearch
from syncline.storage.append_times import Found
from syncline.storage.batch_walk import HeaderReader, NotABatch, NotResident
from syncline.storage.byte_lag import CoordinateSearch
from syncline.storage.log_times import LogTimes
from syncline.storage.segment import Segment
from syncline.storage.segment_list import SegmentList

_NEVER_MS: Final = 2**62


class Known(NamedTuple):
    """What the loop knows of a place: whatever may need the disk is still open."""

    offset: Offset
    # Coordinates of its segment's first byte and end.
    bytes_before: int
    segment_end_bytes: int
    kept_until_ms: int
    coordinate: int | CoordinateSearch
    time: Found | AppendTimeSearch | None

    def place(self, coordinate_bytes: int, header: BatchHeader | None, found: Found | None) -> OffsetPlace:
        """Return the place, now that the disk has answered; `header` is that of the batch at the coordinate."""
        event_ms = UNKNOWN if header is None else header.max_timestamp
        append_ms, is_estimated = _append_time(self.offset, header, found)
        return OffsetPlace(
            self.offset,
            coordinate_bytes,
            append_ms,
            event_ms,
            UNKNOWN,
            self.kept_until_ms,
            self.segment_end_bytes,
            is_estimated=is_estimated,
        )


class PlaceSearch(NamedTuple):
    """What a worker needs to find a place; plain numbers, so that the loop may change the log."""

    known: Known
    # Finds the batch, and has the path of its file.
    coordinates: CoordinateSearch

    def run(self) -> OffsetPlace:
        """Return the place; may wait for the disk. Raises OSError, and NotABatch if the segment is damaged."""
        known, search = self
        coordinate = known.coordinate if isinstance(known.coordinate, int) else known.coordinate.run()
        file = search.disk.open(search.path)
        try:
            reader = HeaderReader(file, search.segment_bytes, resident_only=False)
            position = coordinate - known.bytes_before
            header = reader.header_at(position) if position < search.segment_bytes else None
        finally:
            file.close()
        found = known.time.run() if isinstance(known.time, AppendTimeSearch) else known.time
        return known.place(coordinate, header, found)


class Places:
    """Finds places in one log."""

    __slots__ = ("_newest_ms", "_segments", "_shape", "_times")

    def __init__(self, segments: SegmentList, times: LogTimes) -> None:
        self._segments = segments
        self._times = times
        # The largest timestamp up to each finished segment, and which segments these are.
        self._newest_ms: list[int] = []
        self._shape: tuple[int, int, int] | None = None

    def find(self, offset: Offset, log_end: Offset, retention_ms: int, *, is_exact: bool) -> OffsetPlace | PlaceSearch:
        """Return the place of an offset of the log, or what a worker needs to find it.

        Without `is_exact` no headers are walked, and the coordinate may be too low by less than one index interval and
        one batch. At the log end there is no batch yet: nothing but the coordinate is known.
        """
        segments = self._segments
        if offset >= log_end:
            end_bytes = segments.end_bytes
            return OffsetPlace(offset, end_bytes, UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN, end_bytes, is_estimated=False)
        segment = segments.of(offset)
        known = Known(
            offset,
            segment.bytes_before,
            segment.bytes_before + segment.size_bytes,
            self._kept_until_ms(segment, retention_ms),
            byte_lag.find(segments, offset, is_exact=is_exact),
            self._times.find(offset),
        )
        if isinstance(known.coordinate, int) and not isinstance(known.time, AppendTimeSearch):
            try:
                reader = HeaderReader(segment.file, segment.size_bytes, resident_only=True)
                header = reader.header_at(known.coordinate - segment.bytes_before)
            except NotABatch:
                # The index is damaged, or damage lies in the log: its place stands, its time does not.
                return known.place(known.coordinate, None, known.time)
            except (NotResident, OSError):
                pass
            else:
                return known.place(known.coordinate, header, known.time)
        return PlaceSearch(known, byte_lag.search(segments, segment, offset))

    def _kept_until_ms(self, segment: Segment, retention_ms: int) -> int:
        """Return when retention by time may delete a segment; -1: never.

        Segments go in order, so an older one with a later timestamp protects it, and one without any for ever. The
        active one is not exempt: it is finished first.
        """
        if retention_ms < 0:
            return UNKNOWN
        segments = self._segments
        shape = (segments.first.base_offset, segments.active.base_offset, len(segments))
        if shape != self._shape:
            self._shape = shape
            self._newest_ms = list(accumulate(map(_latest_ms, segments.finished), max))
        if segment is segments.active:
            newest_ms = max(_latest_ms(segment), self._newest_ms[-1] if self._newest_ms else NONE)
        else:
            newest_ms = self._newest_ms[segments.number_of(segment)]
        return newest_ms + retention_ms if newest_ms < _NEVER_MS else UNKNOWN


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
