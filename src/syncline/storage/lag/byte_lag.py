"""How many bytes of a log lie behind a place in it: byte coordinates, by prefix sums.

One hard idea: each segment knows the bytes of all segments before it (`Segment.bytes_before`), counted since the log
was opened. A place has the *byte coordinate* `bytes_before + position`, the log ends at that of its last byte, and a
lag is the difference: one subtraction, however many segments lie between. The sums stay true without work: a roll adds
one at the end, deleting the oldest segments changes no other, a cut removes the last ones. What else changes the size
of a finished segment (mending, another broker's cleaner) happens between two lives of a log; opening it adds up anew.

So a coordinate means something to one replica, in one life of the log, until the next cut: after that, other records
may have the same.

A lag begins with the batch that holds the offset: a reader in the middle of a batch gets all of it.

Units: bytes as they are on the disk, compressed. Source: KIP-489 (byte lag of fetches), and its review (a sum over the
newer segments on every fetch).
"""

from typing import NamedTuple

from syncline.model.ids import Offset
from syncline.storage.disk import Disk
from syncline.storage.segments.batch_walk import HeaderReader, NotABatch, NotResident
from syncline.storage.segments.index import OffsetIndex
from syncline.storage.segments.segment import INDEX_SUFFIX, Segment
from syncline.storage.segments.segment_list import SegmentList


def floor(segments: SegmentList, offset: Offset) -> int:
    """Return a coordinate at or before the batch that holds `offset`, from memory alone.

    It is exact among the newest batches. Elsewhere it is too low by less than one index interval and one batch; if the
    index of a finished segment is not in memory, it is where that segment begins.
    """
    segment = segments.of(offset)
    position = segment.position_in_tail(offset)
    if position is None:
        position = 0 if segment.index is None else segment.index.position_before(offset)
    assert position <= segment.size_bytes, f"{segment!r} has no position {position}"
    return segment.bytes_before + position


class CoordinateSearch(NamedTuple):
    """What a worker needs to find the coordinate of a batch; plain numbers, so that the loop may change the log."""

    disk: Disk
    path: str
    index_path: str
    segment_base: Offset
    segment_bytes: int
    bytes_before: int
    offset: Offset

    def run(self) -> int:
        """Return the coordinate; may wait for the disk. Raises OSError, and NotABatch if the segment is damaged."""
        file = self.disk.open(self.path)
        try:
            reader = HeaderReader(file, self.segment_bytes, resident_only=False)
            position = self._position_in_index()
            try:
                if position and reader.header_at(position).base_offset > self.offset:
                    position = 0
            except NotABatch:
                # The index was damaged since it was checked; the batches are still there.
                position = 0
            return self.bytes_before + _walk(reader, position, self.offset)
        finally:
            file.close()

    def _position_in_index(self) -> int:
        try:
            index = OffsetIndex.decode(self.segment_base, self.disk.read_file(self.index_path))
        except FileNotFoundError:
            index = None
        return 0 if index is None else index.position_before(self.offset)


def find(segments: SegmentList, offset: Offset, *, is_exact: bool) -> int | CoordinateSearch:
    """Return the coordinate of the batch that holds `offset`, or what a worker needs to find it.

    Without `is_exact` no batch header is read, and the result may be too low by less than one index interval and one
    batch. The log end has the coordinate of the log's last byte.
    """
    return find_in(segments, segments.of(offset), offset, is_exact=is_exact)


def find_in(segments: SegmentList, segment: Segment, offset: Offset, *, is_exact: bool) -> int | CoordinateSearch:
    """Return the same for an offset of this segment."""
    position = segment.position_in_tail(offset)
    if position is None and segment.index is not None:
        position = segment.index.position_before(offset)
        if is_exact:
            position = _walk_resident(segment, position, offset)
    return search(segments, segment, offset) if position is None else segment.bytes_before + position


def search(segments: SegmentList, segment: Segment, offset: Offset) -> CoordinateSearch:
    """Return what a worker needs to find the batch of an offset in a segment."""
    return CoordinateSearch(
        segments.disk,
        segment.path(),
        segment.path(INDEX_SUFFIX),
        segment.base_offset,
        segment.size_bytes,
        segment.bytes_before,
        offset,
    )


def _walk_resident(segment: Segment, position: int, offset: Offset) -> int | None:
    """Walk on from an index entry in resident pages; return None if that needs the disk, or a worker's closer look."""
    try:
        return _walk(HeaderReader(segment.file, segment.size_bytes, resident_only=True), position, offset)
    except (NotResident, NotABatch, OSError):
        return None


def _walk(reader: HeaderReader, position: int, offset: Offset) -> int:
    """Return the position of the first batch from `position` on that holds `offset` or follows it."""
    while position < reader.end:
        header = reader.header_at(position)
        if header.next_offset > offset:
            break
        position += header.size_bytes
    return position
