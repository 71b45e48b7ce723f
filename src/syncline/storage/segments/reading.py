"""Finding the bytes of a read: from offsets to one stretch of a segment file.

One hard idea: the event loop plans a read from memory, that is, from the index
and the positions of the newest batches, and gets a `Slice`. If the plan would
have to wait for the disk, the loop hands the rest of the work, planning
included, to a worker as a `Search`, which carries plain numbers and touches
nothing that the loop may change meanwhile.

A slice holds whole batches, starts with the batch that contains the offset,
ends at or below the upper bound (it omits a batch that reaches across), and lies
in one segment.

Units: positions and sizes are bytes; `upper` and `max_bytes` are exclusive and
inclusive bounds. Source: KIP-74 (at least one batch), KIP-227.
"""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from syncline.model.ids import Offset
from syncline.records.buffers import Buffer
from syncline.storage.arrivals.read_facts import ReadReport
from syncline.storage.disk import Disk, File
from syncline.storage.errors import DamagedLogError
from syncline.storage.segments.batch_walk import HeaderReader, NotABatch
from syncline.storage.segments.index import OffsetIndex


class Slice(NamedTuple):
    """A stretch of a file that answers a read; empty if nothing may be read or nothing fits."""

    file: File | None
    position_bytes: int
    size_bytes: int
    # The bytes of the segments before that of the file (`byte_lag.py`).
    base_bytes: int

    def read_resident(self) -> Buffer | None:
        """Return the bytes if they are in memory, else None."""
        if self.file is None:
            return b""
        return self.file.read_resident(self.position_bytes, self.size_bytes)

    def read(self) -> Buffer:
        """Return the bytes; may wait for the disk."""
        return b"" if self.file is None else self.file.read(self.position_bytes, self.size_bytes)

    def read_later(self, done: Callable[[Buffer | Exception], None], report: ReadReport | None = None) -> None:
        """Read in a worker; `done` gets all of the bytes or an error. Not for an empty slice, which needs no worker."""
        assert self.file is not None, "an empty slice has nothing to read later"
        if report is not None:
            report.located(self.base_bytes, self.position_bytes)
        self.file.read_later(
            self.position_bytes, self.size_bytes, _whole(self.position_bytes, self.size_bytes, done), report
        )


def _whole(
    position_bytes: int, size_bytes: int, done: Callable[[Buffer | Exception], None]
) -> Callable[[Buffer | Exception], None]:
    """Return what takes the result of a read: for `done`, too few bytes are an error."""

    def read(result: Buffer | Exception) -> None:
        # A header that is looked for in too few bytes is an exception, after which the request would get no answer.
        if not isinstance(result, Exception) and len(result) != size_bytes:
            place = f"position {position_bytes}"
            result = DamagedLogError(f"{size_bytes} bytes expected at {place}, {len(result)} are there")
        done(result)

    return read


EMPTY = Slice(None, 0, 0, 0)


class Wanted(NamedTuple):
    """What a reader wants from one segment."""

    offset: Offset
    upper: Offset
    max_bytes: int
    at_least_one: bool


class Hints(NamedTuple):
    """Positions known without the disk: each is the beginning of a batch, or the end of the segment.

    `start` lies at or before the wanted batch; everything before `upper` lies
    below the upper bound; `boundary` is at most `max_bytes` after `start`.
    `is_upper_exact` says that `upper` is exactly the end of what may be read.
    """

    start: int
    boundary: int
    upper: int
    is_upper_exact: bool


def locate(reader: HeaderReader, hints: Hints, wanted: Wanted) -> tuple[int, int]:
    """Return (position, size) of the batches that answer `wanted`; walks from the hints."""
    start = hints.start
    first = reader.header_at(start)
    while first.next_offset <= wanted.offset:
        start += first.size_bytes
        first = reader.header_at(start)

    limit = start + wanted.max_bytes
    if hints.is_upper_exact and hints.upper <= limit:
        return start, max(0, hints.upper - start)
    # Everything up to `end` surely belongs to the answer; from there the headers decide.
    end = max(start, min(hints.upper, hints.boundary) if hints.boundary <= limit else start)
    if hints.upper <= limit:
        end = max(end, hints.upper)
    elif end > start and hints.upper > limit:
        # The size limit ends the read, not the bound: a few small batches less do not matter.
        return start, end - start
    return start, _extend(reader, start, end, wanted) - start


def _extend(reader: HeaderReader, start: int, end: int, wanted: Wanted) -> int:
    """Return `end` moved past the batches that still fit."""
    while end < reader.end:
        header = reader.header_at(end)
        if header.next_offset > wanted.upper:
            break
        if end + header.size_bytes - start > wanted.max_bytes:
            if end == start and wanted.at_least_one:
                end += header.size_bytes
            break
        end += header.size_bytes
    return end


def hints_from_index(index: OffsetIndex, segment_bytes: int, segment_end: int, wanted: Wanted) -> Hints:
    """Return where a segment's index places `wanted`."""
    start = index.position_before(wanted.offset)
    is_whole = wanted.upper >= segment_end
    upper = segment_bytes if is_whole else index.position_before(wanted.upper)
    return Hints(start, index.boundary_up_to(start + wanted.max_bytes), upper, is_whole)


class Search(NamedTuple):
    """A read whose position is not known yet: a worker finds it and reads it."""

    disk: Disk
    path: str
    segment_base: Offset
    segment_bytes: int
    segment_end: Offset
    wanted: Wanted
    # None: the index is not in memory and must be read from `index_path`.
    hints: Hints | None
    index_path: str
    # As in `Slice`.
    base_bytes: int
    # From this position on nothing was in memory when the loop looked for headers, -1 if it did not get so far.
    cold_from: int

    def read_resident(self) -> None:
        """Return None: the position has to be found first."""
        return

    def read_later(self, done: Callable[[Buffer | Exception], None], report: ReadReport | None = None) -> None:
        """Find and read in a worker; `done` gets the bytes or the error."""
        self.disk.run_later(partial(self.read, report), done)

    def read(self, report: ReadReport | None = None) -> Buffer:
        """Return the bytes; may wait for the disk. Opens the file itself, since the log may close its own."""
        file = self.disk.open(self.path)
        file.expect_jumps()
        try:
            reader = HeaderReader(file, self.segment_bytes, resident_only=False, is_measuring=report is not None)
            position, size = locate(reader, self.hints, self.wanted) if self.hints else self._locate_by_file(reader)
            data = file.read(position, size, report)
        finally:
            file.close()
        if report is not None:
            cold_from = reader.cold_from if self.cold_from < 0 else min(self.cold_from, reader.cold_from)
            if report.resident_bytes > 0:
                # What looking for the headers has brought in was not in memory before.
                report.resident_bytes = min(report.resident_bytes, max(0, cold_from - position))
            assert report.resident_bytes <= size, f"{report.resident_bytes} of {size} bytes were in memory"
            report.located(self.base_bytes, position)
            report.search()
        if len(data) != size:
            raise DamagedLogError(f"{self.path}: {size} bytes expected at {position}, {len(data)} are there")
        return data

    def _locate_by_file(self, reader: HeaderReader) -> tuple[int, int]:
        """Find the position with the index on the disk, which may have been damaged since it was checked."""
        try:
            index = OffsetIndex.decode(self.segment_base, self.disk.read_file(self.index_path))
        except FileNotFoundError:
            index = None
        if index is not None:
            hints = hints_from_index(index, self.segment_bytes, self.segment_end, self.wanted)
            try:
                place = locate(reader, hints, self.wanted)
                if self._is_plausible(reader, hints.start, sum(place)):
                    return place
            except NotABatch:
                pass  # The index is wrong; the batches themselves are still there.
        return locate(reader, Hints(0, 0, 0, is_upper_exact=False), self.wanted)

    def _is_plausible(self, reader: HeaderReader, start: int, end: int) -> bool:
        """Return whether the positions from an index are starts of batches on the right sides of the offset."""
        if start and reader.header_at(start).last_offset > self.wanted.offset:
            return False
        return end == self.segment_bytes or reader.header_at(end).base_offset > self.wanted.offset
