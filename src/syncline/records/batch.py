"""Record batch headers: the 61 bytes that a broker reads of what it stores.

One hard idea: a batch is opaque. Everything that replication needs (offsets,
epochs, timestamps, producer, size, checksum) is in a header of fixed size; a
broker moves the records behind it and never reads them. The two fields that the
leader sets, base offset and leader epoch, lie before the part that the CRC
covers, so stamping them costs two stores and no checksum.

Units: positions and sizes are bytes; `last_offset` is inclusive, `next_offset`
exclusive; timestamps are milliseconds since the Unix epoch, -1 for none.
Layout (big endian), by byte position:

    0 base offset   8 length after this field   12 leader epoch   16 magic 2
    17 CRC-32C of 21..end   21 attributes   23 last offset delta
    27 base timestamp   35 max timestamp   43 producer id   51 producer epoch
    53 base sequence   57 record count   61 records, compressed as one block

Source: KIP-98, KIP-320 (leader epoch), the Kafka protocol guide.
"""

import struct
from collections.abc import Iterator
from typing import Final, NamedTuple

from syncline.records.buffers import Buffer, WritableBuffer
from syncline.records.checksum import crc32c
from syncline.records.errors import DecodeError

HEADER_BYTES: Final = 61
# Base offset and length: a reader needs these bytes to learn the size of a batch.
OVERHEAD_BYTES: Final = 12
LENGTH_MIN: Final = HEADER_BYTES - OVERHEAD_BYTES
MAGIC: Final = 2
CRC_START: Final = 21
NO_TIMESTAMP: Final = -1

COMPRESSION_BITS: Final = 0x07
APPEND_TIME_BIT: Final = 0x08
TRANSACTIONAL_BIT: Final = 0x10
CONTROL_BIT: Final = 0x20

_HEADER: Final = struct.Struct(">qiibIhiqqqhii")
_LENGTH: Final = struct.Struct(">i")
_OFFSET: Final = struct.Struct(">q")
# What a leader writes before the part that the checksum covers: base offset, length, leader epoch.
STAMP: Final = struct.Struct(">qii")
_CRC: Final = struct.Struct(">I")
_ATTRIBUTES: Final = struct.Struct(">h")

assert _HEADER.size == HEADER_BYTES, "the header's layout and its size must agree"


class BatchHeader(NamedTuple):
    """The header of one batch, as it is in a buffer."""

    base_offset: int
    batch_length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @classmethod
    def parse(cls, buffer: Buffer, position: int = 0) -> "BatchHeader":
        """Return the header at `position` without checking its values.

        Raises DecodeError if the buffer ends inside it.
        """
        try:
            return _make(BatchHeader, _unpack(buffer, position))
        except struct.error:
            raise DecodeError(
                f"a batch header has {HEADER_BYTES} bytes, {len(buffer) - position} are left at {position}"
            ) from None

    def placed(self, base_offset: int, leader_epoch: int) -> "BatchHeader":
        """Return the header of the same batch in a log, as `stamp` writes it."""
        # `_replace` takes three times as long.
        return _make(BatchHeader, (base_offset, self[1], leader_epoch, *self[3:]))

    @property
    def size_bytes(self) -> int:
        """The size of the whole batch, including its first twelve bytes."""
        return self.batch_length + OVERHEAD_BYTES

    @property
    def last_offset(self) -> int:
        """The offset of the last record (inclusive)."""
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        """The offset after this batch."""
        return self.base_offset + self.last_offset_delta + 1

    @property
    def compression(self) -> int:
        """The codec's number: 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd, 5-7 unassigned."""
        return self.attributes & COMPRESSION_BITS

    @property
    def is_append_time(self) -> bool:
        """Whether `max_timestamp` is the time of the append, and thus the timestamp of every record."""
        return bool(self.attributes & APPEND_TIME_BIT)

    @property
    def is_transactional(self) -> bool:
        """Whether the records belong to a transaction."""
        return bool(self.attributes & TRANSACTIONAL_BIT)

    @property
    def is_control(self) -> bool:
        """Whether this is a transaction marker, which applications never see."""
        return bool(self.attributes & CONTROL_BIT)

    @property
    def last_sequence(self) -> int:
        """The sequence number of the last record; sequences wrap from 2^31 - 1 to 0."""
        return (self.base_sequence + self.last_offset_delta) & 0x7FFFFFFF if self.base_sequence >= 0 else -1


# Bound once: NamedTuple's own constructor costs three times as much.
_make: Final = tuple.__new__
_unpack: Final = _HEADER.unpack_from


def iterate(buffer: Buffer, start: int, end: int) -> Iterator[tuple[int, BatchHeader]]:
    """Yield (position, header) of every whole batch in `buffer[start:end]`; skip a partial batch at the end.

    Raises DecodeError where no batch can begin: at an impossible length or another magic.
    """
    position = start
    while end - position >= HEADER_BYTES:
        header = _make(BatchHeader, _unpack(buffer, position))
        length = header.batch_length
        if length < LENGTH_MIN:
            raise DecodeError(f"the batch at {position} says that it has {length} bytes, at least {LENGTH_MIN} needed")
        if header.magic != MAGIC:
            raise DecodeError(f"the batch at {position} has magic {header.magic}, only {MAGIC} is stored here")
        if length + OVERHEAD_BYTES > end - position:
            return
        yield position, header
        position += length + OVERHEAD_BYTES
    # The rest is too short to have a magic, but may show an impossible length.
    if end - position >= OVERHEAD_BYTES and _LENGTH.unpack_from(buffer, position + 8)[0] < LENGTH_MIN:
        raise DecodeError(f"the batch at {position} has an impossible length")


def crc_matches(buffer: Buffer, position: int, header: BatchHeader) -> bool:
    """Return whether the checksum matches the bytes after it."""
    end = position + header.batch_length + OVERHEAD_BYTES
    if end > len(buffer) or header.batch_length < LENGTH_MIN:
        return False
    view = buffer if isinstance(buffer, memoryview) else memoryview(buffer)
    return crc32c(view[position + CRC_START : end]) == header.crc


def stamp(buffer: WritableBuffer, position: int, base_offset: int, leader_epoch: int) -> None:
    """Write the fields that the leader sets; both lie before the CRC's range."""
    _OFFSET.pack_into(buffer, position, base_offset)
    _LENGTH.pack_into(buffer, position + 12, leader_epoch)


def stamp_append_time(buffer: WritableBuffer, position: int, header: BatchHeader, now_ms: int) -> BatchHeader:
    """Make `now_ms` the timestamp of every record of the batch; return the new header.

    The base timestamp and the records' deltas stay: readers ignore them if the type bit is set.
    """
    return rewrite(buffer, position, header, attributes=header.attributes | APPEND_TIME_BIT, max_timestamp=now_ms)


def rewrite(
    buffer: WritableBuffer, position: int, header: BatchHeader, *, attributes: int, max_timestamp: int
) -> BatchHeader:
    """Change two fields that the CRC covers, and recompute it; return the new header."""
    _ATTRIBUTES.pack_into(buffer, position + 21, attributes)
    _OFFSET.pack_into(buffer, position + 35, max_timestamp)
    return reseal(buffer, position, header.size_bytes)


def reseal(buffer: WritableBuffer, position: int, size_bytes: int) -> BatchHeader:
    """Compute the CRC of the batch at `position` and store it; return the new header."""
    view = buffer if isinstance(buffer, memoryview) else memoryview(buffer)
    _CRC.pack_into(buffer, position + 17, crc32c(view[position + CRC_START : position + size_bytes]))
    return BatchHeader.parse(buffer, position)


def write_header(buffer: WritableBuffer, position: int, header: BatchHeader) -> None:
    """Write every field of `header` as it is; the caller computes the CRC (`reseal`)."""
    _HEADER.pack_into(buffer, position, *header)
