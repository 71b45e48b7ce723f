"""What a damaged log still holds: every sound batch, wherever it lies.

One hard idea: damage ends what may be served, not what can be read. Behind a bad
place the next sound batch is found byte by byte, since no size there can be
trusted; its checksum, and an offset that its segment can hold, make a false
match unlikely.

Everything here may wait for the disk: call it in a worker. Units: positions are
bytes in a file, `end` offsets are exclusive.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

from syncline.model.ids import LeaderEpoch, Offset
from syncline.records.batch import HEADER_BYTES, LENGTH_MIN, MAGIC, BatchHeader, crc_matches
from syncline.storage.disk import Disk, File
from syncline.storage.recovery.scan import scan
from syncline.storage.segments.segment import LOG_SUFFIX

SEARCH_BLOCK_BYTES: Final = 1 << 20
_MAGIC_AT: Final = 16


class Tail(NamedTuple):
    """The last sound batch of a log: where it ends, and the term that wrote it."""

    end_offset: Offset
    leader_epoch: LeaderEpoch


def bases_of(disk: Disk, directory: str) -> list[Offset]:
    """Return the base offsets of a log's segments, oldest first."""
    names = disk.list(directory)
    return [Offset(int(name[:20])) for name in names if name.endswith(LOG_SUFFIX) and name[:20].isdecimal()]


def sound_batches(file: File, base_offset: Offset) -> Iterator[tuple[int, BatchHeader]]:
    """Yield (position, header) of every sound batch of a segment, in the order of the file, past any damage."""
    end = file.size_bytes
    position: int | None = 0
    behind = 0
    while position is not None and position < end:
        for at, found in scan(file, end, start=position):
            if isinstance(found, str):
                position = _next_sound(file, at + 1, end, base_offset)
                break
            assert at >= behind, f"{file.path}: a batch at {at} begins in the one before, which ends at {behind}"
            behind = at + found.size_bytes
            yield at, found
        else:
            return


def _next_sound(file: File, start: int, end: int, base_offset: Offset) -> int | None:
    """Return where the next sound batch begins, at or behind `start`; None if there is none."""
    magic = bytes([MAGIC])
    while end - start >= HEADER_BYTES:
        data = file.read(start, min(SEARCH_BLOCK_BYTES, end - start))
        if len(data) < HEADER_BYTES:
            return None
        text = bytes(data)
        at = text.find(magic, _MAGIC_AT)
        while 0 <= at and at - _MAGIC_AT + HEADER_BYTES <= len(text):
            begin = at - _MAGIC_AT
            if _is_sound(file, BatchHeader.parse(text, begin), start + begin, end, base_offset):
                return start + begin
            at = text.find(magic, at + 1)
        # The next block repeats the bytes in which a header may have begun.
        start += len(text) - HEADER_BYTES + 1
    return None


def _is_sound(file: File, header: BatchHeader, position: int, end: int, base_offset: Offset) -> bool:
    is_near = base_offset <= header.base_offset < base_offset + 2**31
    is_sized = header.batch_length >= LENGTH_MIN and header.size_bytes <= end - position
    if not is_near or not is_sized or header.last_offset_delta < 0:
        return False
    return crc_matches(file.read(position, header.size_bytes), 0, header)


def tail_of(disk: Disk, directory: str, below: Offset | None) -> Tail | None:
    """Return the last sound batch of a log (that ends at or below `below`), None if it has none. Raises OSError."""
    for base_offset in reversed(bases_of(disk, directory)):
        if below is not None and base_offset >= below:
            continue
        file = disk.open(f"{directory}/{base_offset:020d}{LOG_SUFFIX}")
        try:
            last: BatchHeader | None = None
            for _, header in sound_batches(file, base_offset):
                if below is None or header.next_offset <= below:
                    last = header
        finally:
            file.close()
        if last is not None:
            assert last.next_offset > base_offset, f"{directory}: a batch at {last.base_offset} in {base_offset}"
            return Tail(Offset(last.next_offset), LeaderEpoch(last.leader_epoch))
    return None
