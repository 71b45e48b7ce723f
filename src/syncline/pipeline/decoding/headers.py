"""The headers of record batches: which batches of a fetch answer hold wanted records, and where these lie.

    batch    base offset 8 | length 4 | leader epoch 4 | magic 1 | CRC 4 | attributes 2 | last offset delta 4
             base timestamp 8 | max timestamp 8 | producer id 8 | producer epoch 2 | base sequence 4 | count 4

Every CRC is verified. Control batches, batches of aborted transactions (when the fetch names them), batches outside
the wanted offsets (a fetch answers with whole batches) and an incomplete batch at the end are left out.

Units: offsets count records, `end_offset` is exclusive; timestamps are Unix milliseconds.
Source: KIP-98 (record batch v2, control records), KIP-107.
"""

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple, TypeAlias

import crc32c

from syncline.pipeline.decoding.varints import VARINT_BYTES_MAX
from syncline.pipeline.errors import DecodeError

Buffer: TypeAlias = bytes | bytearray | memoryview

CODEC_MASK: Final = 0x07
LOG_APPEND_TIME: Final = 0x08
TRANSACTIONAL: Final = 0x10
_CONTROL: Final = 0x20
_ABORT: Final = 0
_HEADER: Final = struct.Struct(">qiibIhiqqqhii")
_CRC_START: Final = 21
_LENGTH_END: Final = 12


class Part(NamedTuple):
    """One partition's part of a fetch answer: raw batches from `start` to `end` of its bytes, and what is wanted.

    Wanted are the records from `first_offset` below `end_offset`, except those of `aborted` transactions, which the
    answer lists as (first offset, producer id).
    """

    topic: str
    partition: int
    start: int
    end: int
    first_offset: int
    end_offset: int
    aborted: Sequence[tuple[int, int]] = ()


class Batch(NamedTuple):
    """One batch to be decoded: header fields, and its records in the buffer (`start` to `end`, compressed or not)."""

    part: Part
    base_offset: int
    last_offset: int
    leader_epoch: int
    attributes: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    record_count: int
    size_bytes: int
    start: int
    end: int


@dataclass(slots=True)
class _Aborted:
    """The producers whose transactions are aborted at the current place in the log (read_committed only)."""

    pending: list[tuple[int, int]]
    active: set[int] = field(default_factory=set)

    def hides(self, producer_id: int, last_offset: int) -> bool:
        """Return whether the producer's transactional batch that ends at `last_offset` was aborted."""
        while self.pending and self.pending[0][0] <= last_offset:
            self.active.add(self.pending.pop(0)[1])
        return producer_id in self.active


def batches_of(view: memoryview, part: Part) -> list[Batch]:
    """Return the batches of one part that hold wanted records, CRCs verified."""
    found: list[Batch] = []
    aborted = _Aborted(sorted(part.aborted))
    position, size = part.start, part.end
    while position + _HEADER.size <= size:
        base, length, epoch, magic, crc, attributes, last_delta, base_ts, max_ts, producer, _, _, count = (
            _HEADER.unpack_from(view, position)
        )
        end = position + _LENGTH_END + length
        if length < _HEADER.size - _LENGTH_END:
            raise DecodeError(f"the batch at offset {base} claims {length} bytes, less than its own header")
        if end > size:
            break
        if magic != 2:
            raise DecodeError(f"the batch at offset {base} has format version {magic}; only version 2 is supported")
        if crc32c.crc32c(view[position + _CRC_START : end]) != crc:
            raise DecodeError(f"the batch at offset {base} does not match its checksum")
        if base >= part.end_offset:
            break
        start, last = position + _HEADER.size, base + last_delta
        if attributes & _CONTROL:
            if _control_type(view, start) == _ABORT:
                aborted.active.discard(producer)
        elif attributes & TRANSACTIONAL and aborted.hides(producer, last):
            pass
        elif last >= part.first_offset and count > 0:
            found.append(
                Batch(
                    *(part, base, last, epoch, attributes, base_ts, max_ts, producer, count),
                    *(end - position, start, end),
                )
            )
        position = end
    return found


def _control_type(view: memoryview, position: int) -> int:
    """Return the type of the control record at `position`: its key is a version and a type, two bytes each."""
    body = bytes(view[position : position + 3 * VARINT_BYTES_MAX])
    place = 0
    try:
        for skip in (0, 1, 0, 0):  # length; then one byte of attributes and timestamp delta; offset delta; key length
            place += skip
            while body[place] & 0x80:
                place += 1
            place += 1
    except IndexError:
        raise DecodeError("a control record ends before its key does") from None
    return int.from_bytes(body[place + 2 : place + 4], "big")
