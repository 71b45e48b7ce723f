"""Records inside a batch, for the few callers that must open it: look-ups by time, checks of keys, consumers.

A record is a length and, relative to its batch, a time and an offset; then key,
value and headers, each with a length (-1 for null). All lengths are zig-zag
varints. With LogAppendTime the batch's time is that of every record, and the
deltas mean nothing.

Units: timestamps are milliseconds since the Unix epoch, offsets absolute.
Malformed batches raise DecodeError; a count in the header is never trusted
beyond the bytes that follow. Source: KIP-98.
"""

from collections.abc import Iterator
from typing import NamedTuple

from syncline.records.batch import HEADER_BYTES, BatchHeader
from syncline.records.buffers import Buffer
from syncline.records.compression import DECOMPRESSED_BYTES_MAX, decompress
from syncline.records.errors import DecodeError
from syncline.records.varint import read_signed


class Record(NamedTuple):
    """One record, copied out of its batch."""

    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()


def read_records(
    buffer: Buffer, position: int, header: BatchHeader, bytes_max: int = DECOMPRESSED_BYTES_MAX
) -> list[Record]:
    """Return all records of the batch at `position`. Raises DecodeError."""
    block = records_block(buffer, position, header, bytes_max)
    records = []
    for start, end in _bounds(block, header):
        records.append(_read(block, start, end, header))
    return records


def records_block(
    buffer: Buffer, position: int, header: BatchHeader, bytes_max: int = DECOMPRESSED_BYTES_MAX
) -> memoryview:
    """Return the records of the batch at `position` as one block, decompressed if necessary."""
    end = position + header.size_bytes
    if end > len(buffer) or header.size_bytes < HEADER_BYTES:
        raise DecodeError(f"the batch at {position} has {header.size_bytes} bytes, {len(buffer) - position} are there")
    view = memoryview(buffer)[position + HEADER_BYTES : end]
    if header.compression == 0:
        return view
    return memoryview(decompress(header.compression, view, bytes_max))


def timestamps(buffer: Buffer, position: int, header: BatchHeader) -> Iterator[tuple[int, int]]:
    """Yield (offset, timestamp) of each record without reading keys and values."""
    block = records_block(buffer, position, header)
    for start, _ in _bounds(block, header):
        time_delta, after = read_signed(block, start + 1)
        offset_delta, _ = read_signed(block, after)
        timestamp_ms = header.max_timestamp if header.is_append_time else header.base_timestamp + time_delta
        yield header.base_offset + offset_delta, timestamp_ms


def first_at_or_after(buffer: Buffer, position: int, header: BatchHeader, timestamp_ms: int) -> tuple[int, int] | None:
    """Return (offset, timestamp) of the batch's first record not older than `timestamp_ms`, in offset order."""
    if header.is_append_time:
        return (header.base_offset, header.max_timestamp) if header.max_timestamp >= timestamp_ms else None
    for offset, found_ms in timestamps(buffer, position, header):
        if found_ms >= timestamp_ms:
            return offset, found_ms
    return None


def latest(buffer: Buffer, position: int, header: BatchHeader) -> tuple[int, int] | None:
    """Return (offset, timestamp) of the first record with the largest timestamp; None in a batch without records."""
    if header.is_append_time:
        return header.base_offset, header.max_timestamp
    best: tuple[int, int] | None = None
    for offset, found_ms in timestamps(buffer, position, header):
        if best is None or found_ms > best[1]:
            best = offset, found_ms
    return best


def keyless(buffer: Buffer, position: int, header: BatchHeader) -> list[int]:
    """Return the indexes in the batch (from 0) of the records without a key."""
    block = records_block(buffer, position, header)
    found = []
    for index, (start, _) in enumerate(_bounds(block, header)):
        _, after = read_signed(block, start + 1)
        _, after = read_signed(block, after)
        if read_signed(block, after)[0] < 0:
            found.append(index)
    return found


def _bounds(block: memoryview, header: BatchHeader) -> Iterator[tuple[int, int]]:
    """Yield (start, end) of each record's body; check that they fill the block exactly."""
    position, end = 0, len(block)
    for index in range(header.record_count):
        size, start = read_signed(block, position)
        position = start + size
        if size < 1 or position > end:
            raise DecodeError(
                f"record {index} of {header.record_count} has {size} bytes, {end - start} are left in its batch"
            )
        yield start, position
    if position != end:
        raise DecodeError(f"{end - position} bytes follow the {header.record_count} records of a batch")


def _read(block: memoryview, start: int, end: int, batch: BatchHeader) -> Record:
    # Skip the attributes byte of a record, which has no meaning yet.
    time_delta, position = read_signed(block, start + 1)
    offset_delta, position = read_signed(block, position)
    key, position = _read_bytes(block, position, end)
    value, position = _read_bytes(block, position, end)
    header_count, position = read_signed(block, position)
    # A header has two lengths of at least one byte each.
    if header_count < 0 or header_count * 2 > end - position:
        raise DecodeError(f"a record announces {header_count} headers in {end - position} bytes")
    headers = []
    for _ in range(header_count):
        name, position = _read_bytes(block, position, end)
        if name is None:
            raise DecodeError("the key of a record's header is null")
        content, position = _read_bytes(block, position, end)
        try:
            headers.append((name.decode(), content))
        except UnicodeDecodeError as error:
            raise DecodeError(f"the key of a record's header is not UTF-8: {error}") from None
    if position != end:
        raise DecodeError(f"a record ends at {end}, its fields at {position}")
    timestamp_ms = batch.max_timestamp if batch.is_append_time else batch.base_timestamp + time_delta
    return Record(batch.base_offset + offset_delta, timestamp_ms, key, value, tuple(headers))


def _read_bytes(block: memoryview, position: int, end: int) -> tuple[bytes | None, int]:
    size, position = read_signed(block, position)
    if size < 0:
        return None, position
    if size > end - position:
        raise DecodeError(f"a field of {size} bytes at {position} in a record that ends at {end}")
    return bytes(block[position : position + size]), position + size
