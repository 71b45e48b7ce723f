"""Reading every batch of a segment file without trusting any of them.

One hard idea: a batch counts only if its checksum matches, and the first place
without such a batch ends the scan. Whether a sound batch lies behind that place
is a separate question; it takes a search byte by byte, since no size there can
be trusted.

Units: positions are bytes in the file, `end` is exclusive.
"""

from collections.abc import Iterator
from typing import Final, Protocol

from syncline.model.ids import Offset
from syncline.records.batch import HEADER_BYTES, LENGTH_MIN, MAGIC, OVERHEAD_BYTES, BatchHeader, crc_matches
from syncline.records.buffers import Buffer
from syncline.storage.disk import File

SCAN_BLOCK_BYTES: Final = 1 << 20


class Reads(Protocol):
    """A file, as far as a scan uses it."""

    def read(self, position: int, size: int, /) -> Buffer:
        """Return up to `size` bytes, fewer only at the end of the file."""


def scan(file: Reads, end: int, start: int = 0) -> Iterator[tuple[int, BatchHeader | str]]:
    """Yield (position, header) of each sound batch from `start` on, then (position, reason) of the first bad one."""
    position = start
    data: Buffer = b""
    while position < end:
        at = position - start
        needed = HEADER_BYTES
        if len(data) - at >= needed:
            header = BatchHeader.parse(data, at)
            if header.magic != MAGIC or header.batch_length < LENGTH_MIN or header.last_offset_delta < 0:
                yield position, "these bytes are no batch header"
                return
            needed = header.size_bytes
            if len(data) - at >= needed:
                if not crc_matches(data, at, header):
                    yield position, f"the checksum of the batch at offset {header.base_offset} does not match"
                    return
                yield position, header
                position += needed
                continue
        if position + needed > end:
            yield position, f"a batch of {needed} bytes or more, but {end - position} are left"
            return
        start, data = position, file.read(position, min(max(needed, SCAN_BLOCK_BYTES), end - position))
        if len(data) < needed:
            yield position, "the file is shorter than its size"
            return


def is_unfinished(file: Reads, position: int, end: int) -> bool:
    """Return whether the bytes from `position` to the end of the file may be the begin of a batch, cut short.

    Without a power cut an interrupted write leaves just that. A batch that is all there, or whose header says nothing
    sensible, was damaged later; so was one that is whole but for the size that it states.
    """
    data = file.read(position, end - position)
    if len(data) < HEADER_BYTES:
        return True
    header = BatchHeader.parse(data, 0)
    if header.magic != MAGIC or header.last_offset_delta < 0 or header.size_bytes <= len(data):
        return False
    return not crc_matches(data, 0, header._replace(batch_length=len(data) - OVERHEAD_BYTES))


def holds_batch_behind(file: File, position: int, offset: Offset, end: int) -> bool:
    """Return whether a sound batch with a higher offset begins anywhere in the file behind `position`.

    Tries every byte that could be a magic number. The checksum makes a false
    match unlikely; it is computed only where the other fields make sense.
    """
    data = bytes(file.read(position, end - position))
    magic = bytes([MAGIC])
    at = data.find(magic, 17)
    while at >= 0:
        start = at - 16
        if len(data) - start < HEADER_BYTES:
            return False
        header = BatchHeader.parse(data, start)
        is_near = offset <= header.base_offset < offset + 2**32
        is_sized = LENGTH_MIN <= header.batch_length <= len(data) - start - 12
        if is_near and is_sized and header.last_offset_delta >= 0 and crc_matches(data, start, header):
            return True
        at = data.find(magic, at + 1)
    return False
