"""Walking over the batch headers of a segment file.

One hard idea: the size in a header leads to the next header, so positions in a
file are found without reading any record. There are two ways to walk: one reads
only what is in memory and otherwise gives up (`NotResident`), so that it may run
on the event loop; the other may wait for the disk and runs at start-up and in
workers. Both read through a small window over the file: batches of a hundred
bytes cost one read per window, batches of a megabyte one per header.

Units: positions are bytes in the file, `end` is exclusive.
"""

from collections.abc import Iterator
from typing import Final

from syncline.model.ids import NONE
from syncline.records.batch import HEADER_BYTES, LENGTH_MIN, MAGIC, BatchHeader
from syncline.records.buffers import Buffer
from syncline.storage.disk import File, Residency

# A little more than `index.interval.bytes`, so that a walk from an index entry usually needs one read.
RESIDENT_WINDOW_BYTES: Final = 4096 + 512
BLOCKING_WINDOW_BYTES: Final = 65_536


class NotResident(Exception):
    """The bytes are not in memory: those at `position`, if it is not -1."""

    def __init__(self, position: int = NONE) -> None:
        super().__init__(f"position {position} is not in memory")
        self.position = position


class NotABatch(Exception):
    """No whole batch begins here; `position` says where, the message why."""

    def __init__(self, position: int, reason: str) -> None:
        super().__init__(f"no batch at position {position}: {reason}")
        self.position = position
        self.reason = reason


class HeaderReader:
    """Reads headers of `file` below `end`, through a window that moves with the walk."""

    __slots__ = ("_data", "_file", "_is_measuring", "_is_resident_only", "_start", "cold_from", "end")

    def __init__(self, file: File, end: int, *, resident_only: bool, is_measuring: bool = False) -> None:
        self.end = end
        # If it measures: the first position that was not in memory when this reader came there, `end` if all was.
        self.cold_from = end
        self._is_measuring = is_measuring
        self._file = file
        self._is_resident_only = resident_only
        self._start = 0
        self._data: Buffer = b""

    def header_at(self, position: int) -> BatchHeader:
        """Return the header of the whole batch at `position`.

        Raises NotABatch if none can be there, NotResident if the disk would have to be read.
        """
        if self.end - position < HEADER_BYTES:
            raise NotABatch(position, f"{self.end - position} bytes are left, a header needs {HEADER_BYTES}")
        at = position - self._start
        if at < 0 or at + HEADER_BYTES > len(self._data):
            self._move(position)
            at = 0
        header = BatchHeader.parse(self._data, at)
        if header.magic != MAGIC or header.batch_length < LENGTH_MIN or header.last_offset_delta < 0:
            raise NotABatch(position, "these bytes are no batch header")
        if position + header.size_bytes > self.end:
            raise NotABatch(position, f"the batch has {header.size_bytes} bytes, {self.end - position} are left")
        return header

    def _move(self, position: int) -> None:
        """Move the window to `position`."""
        window_bytes = RESIDENT_WINDOW_BYTES if self._is_resident_only else BLOCKING_WINDOW_BYTES
        size = min(window_bytes, self.end - position)
        data: Buffer | None
        if self._is_resident_only:
            data = self._file.read_resident(position, size)
        elif not self._is_measuring:
            data = self._file.read(position, size)
        else:
            residency = Residency()
            data = self._file.read(position, size, residency)
            if 0 <= residency.resident_bytes < size:
                self.cold_from = min(self.cold_from, position + residency.resident_bytes)
        if data is None:
            raise NotResident(position)
        if len(data) < size:
            raise NotABatch(position, f"the file ends after {len(data)} bytes")
        self._start, self._data = position, data


def walk(file: File, start: int, end: int, *, resident_only: bool = False) -> Iterator[tuple[int, BatchHeader]]:
    """Yield (position, header) of the batches from `start` on; may wait for the disk unless `resident_only`.

    Raises NotABatch, NotResident.
    """
    reader = HeaderReader(file, end, resident_only=resident_only)
    position = start
    while position < end:
        header = reader.header_at(position)
        yield position, header
        position += header.size_bytes
