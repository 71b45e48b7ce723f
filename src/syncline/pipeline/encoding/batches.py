"""Rows to record batches v2: cut to size, numbered, compressed and sealed with a checksum.

One hard idea: a record is five pieces (integers, key, integer, value, headers), and Arrow joins the pieces of all rows
in C++; its result is, byte for byte, the records one after the other. No row is touched in Python.

    batch    base offset 8 | length 4 | leader epoch 4 | magic 1 | CRC 4 | attributes 2 | last offset delta 4
             base timestamp 8 | max timestamp 8 | producer id 8 | producer epoch 2 | base sequence 4 | count 4

Where batches are cut depends on the rows alone, not on how well they compress, so that a second attempt with the same
rows has the same batches.

Units: timestamps are Unix milliseconds; sequences count records and wrap after 2^31 - 1.
Source: KIP-98 (record batch v2).
"""

import struct
from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np

from syncline.pipeline.encoding.rows import Rows, binary_of, joined, lengths
from syncline.pipeline.encoding.varints import rows_of, sizes_of
from syncline.pipeline.errors import PipelineError
from syncline.records.checksum import crc32c
from syncline.records.compression import compress

SEQUENCE_MAX: Final = 2**31 - 1
HEADER_BYTES: Final = 61
_TRANSACTIONAL: Final = 0x10
_MAGIC: Final = 2
_LENGTH_END: Final = 12
_CRC_START: Final = 21
# Base offset, length, leader epoch, magic, CRC; then what the CRC covers.
_BEFORE_CRC: Final = struct.Struct(">qiibI")
_COVERED: Final = struct.Struct(">hiqqqhii")


class ProducerId(NamedTuple):
    """Who writes: an idempotent producer, within a transaction or not."""

    producer_id: int
    producer_epoch: int
    is_transactional: bool = False


def cuts(rows: Rows, batch_bytes_max: int) -> Iterator[tuple[int, int]]:
    """Yield first row and end of each batch, none larger than the limit; raise `PipelineError` for a larger row."""
    ends = np.cumsum(rows.record_bytes_max)
    start, before = 0, 0
    while start < len(rows):
        end = int(np.searchsorted(ends, before + batch_bytes_max - HEADER_BYTES, side="right"))
        if end == start:
            raise PipelineError(
                f"a record of {int(ends[start]) - before} bytes is larger than kafka.max.request.size, "
                f"{batch_bytes_max} bytes: raise that option, and max.message.bytes of the topic if it is smaller"
            )
        yield start, end
        start, before = end, int(ends[end - 1])


def seal(rows: Rows, producer: ProducerId, *, base_sequence: int, codec: int) -> bytes:
    """Return one batch of all rows; the broker sets its offset and leader epoch."""
    assert len(rows), "a batch has at least one record"
    records = compress(codec, encode(rows))
    covered = _COVERED.pack(
        codec | (_TRANSACTIONAL if producer.is_transactional else 0),
        len(rows) - 1,
        int(rows.timestamps_ms[0]),
        int(rows.timestamps_ms.max()),
        producer.producer_id,
        producer.producer_epoch,
        base_sequence,
        len(rows),
    )
    body = covered + records
    size = _CRC_START - _LENGTH_END + len(body)
    return _BEFORE_CRC.pack(0, size, -1, _MAGIC, crc32c(body)) + body


def encode(rows: Rows) -> memoryview:
    """Return the rows as records, uncompressed."""
    count = len(rows)
    key_bytes, value_bytes = lengths(rows.keys), lengths(rows.values)
    time_deltas = rows.timestamps_ms - rows.timestamps_ms[0]
    offset_deltas = np.arange(count, dtype=np.int64)
    # The attributes of a record are one byte, 0, which is also how the integer 0 looks.
    attributes = np.zeros(count, np.int64)
    sizes = 1 + np.maximum(key_bytes, 0) + np.maximum(value_bytes, 0) + lengths(rows.tails)
    for field in (time_deltas, offset_deltas, key_bytes, value_bytes):
        sizes += sizes_of(field)
    heads = binary_of(*rows_of([sizes, attributes, time_deltas, offset_deltas, key_bytes]))
    middles = binary_of(*rows_of([value_bytes]))
    records = joined(heads, rows.keys, middles, rows.values, rows.tails)
    assert records.offset == 0, "Arrow joins into an array of its own"
    total = int(np.frombuffer(records.buffers()[1], np.int32)[count])
    return memoryview(records.buffers()[2])[:total]


def following(sequence: int, count: int) -> int:
    """Return the sequence after `count` records."""
    return (sequence + count) & SEQUENCE_MAX
