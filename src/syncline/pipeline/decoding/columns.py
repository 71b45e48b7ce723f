"""The columns of records, as Arrow arrays, built from NumPy's buffers.

Arrow cuts keys and values out of the records' buffer as every second element of one binary array whose offsets are the
cutting points ("cut and take"), which costs one copy in C++. Arrays are made of buffers, never by `pa.array` or
`pa.scalar`: these import pandas to ask whether their argument is one of its own, which takes each of Spark's processes
half a second.

Units: timestamps are Unix milliseconds on the wire and microseconds in Arrow, as Spark wants them; -1 is "no
timestamp" and becomes null.
"""

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from syncline.pipeline.decoding.fields import Records
from syncline.pipeline.decoding.headers import TRANSACTIONAL, Buffer
from syncline.pipeline.decoding.varints import Ints, lengths_at, varints_at
from syncline.pipeline.errors import DecodeError

_HEADERS_TYPE: Final = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))

COLUMNS: Final[Mapping[str, pa.DataType]] = {
    "key": pa.binary(),
    "value": pa.binary(),
    "topic": pa.string(),
    "partition": pa.int32(),
    "offset": pa.int64(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "timestampType": pa.int32(),
    "headers": _HEADERS_TYPE,
    "leaderEpoch": pa.int32(),
    "producerId": pa.int64(),
    "batchBytes": pa.int32(),
    "isTransactional": pa.bool_(),
}


def column(name: str, records: Records) -> pa.Array:
    """Return one column by its name in `COLUMNS`."""
    batches = records.batches
    match name:
        case "key":
            return _cut(records.buffer, *records.keys)
        case "value":
            return _cut(records.buffer, *records.values)
        case "headers":
            return _headers(records)
        case "topic":
            return _topics(records)
        case "timestamp":
            return _timestamps(records.timestamps)
        case "isTransactional":
            flags = records.of_batches([batch.attributes & TRANSACTIONAL for batch in batches]) != 0
            return pa.Array.from_buffers(pa.bool_(), len(flags), [None, _bits(flags)])
    numbers: Ints
    match name:
        case "offset":
            numbers = records.offsets
        case "timestampType":
            numbers = records.append_time.astype(np.int64)
        case "partition":
            numbers = records.of_batches([batch.part.partition for batch in batches])
        case "leaderEpoch":
            numbers = records.of_batches([batch.leader_epoch for batch in batches])
        case "producerId":
            numbers = records.of_batches([batch.producer_id for batch in batches])
        case "batchBytes":
            numbers = records.of_batches([batch.size_bytes for batch in batches])
        case _:
            raise KeyError(name)
    return _integers(numbers, COLUMNS[name])


def _integers(numbers: Ints, kind: pa.DataType, absent: npt.NDArray[np.bool_] | None = None) -> pa.Array:
    """Return 64-bit integers, or others of the width of `kind`, as an array that is null where they are absent."""
    narrow = numbers if kind.bit_width == 64 else numbers.astype(f"i{kind.bit_width // 8}")
    validity = None if absent is None else _bits(~absent)
    return pa.Array.from_buffers(kind, len(narrow), [validity, pa.py_buffer(np.ascontiguousarray(narrow))])


def _bits(flags: npt.NDArray[np.bool_]) -> pa.Buffer:
    """Return a bitmap as Arrow keeps it."""
    return pa.py_buffer(np.packbits(flags, bitorder="little"))


def _timestamps(timestamps: Ints) -> pa.Array:
    absent = timestamps == -1
    # The largest timestamps that fit in 64 bits of microseconds: up to the year 294,246.
    limit = np.iinfo(np.int64).max // 1000
    micros = np.clip(timestamps, -limit, limit) * 1000
    return _integers(micros, COLUMNS["timestamp"], absent if absent.any() else None)


def _topics(records: Records) -> pa.Array:
    names = sorted({batch.part.topic for batch in records.batches})
    if len(names) == 1:
        return pa.repeat(_strings(names)[0], records.count)
    numbers = {name: number for number, name in enumerate(names)}
    wanted = records.of_batches([numbers[batch.part.topic] for batch in records.batches])
    return _strings(names).take(_integers(wanted, pa.int64()))


def _strings(texts: Sequence[str | None]) -> pa.Array:
    encoded = [(text or "").encode() for text in texts]
    offsets = np.cumsum([0, *map(len, encoded)], dtype=np.int32)
    validity = _bits(np.array([text is not None for text in texts], np.bool_))
    return pa.Array.from_buffers(
        pa.string(), len(texts), [validity, pa.py_buffer(offsets), pa.py_buffer(b"".join(encoded))]
    )


def _cut(buffer: Buffer, starts: Ints, lengths: Ints) -> pa.Array:
    """Return the pieces of the buffer as a binary array; a length below 0 is null. The starts must ascend."""
    count = len(starts)
    absent = lengths < 0
    null_count = np.count_nonzero(absent)
    if null_count == count:
        return pa.nulls(count, pa.binary())
    cuts = np.empty(2 * count + 2, np.int32)
    cuts[0] = 0
    cuts[1:-1:2] = starts
    cuts[2:-1:2] = starts + (np.maximum(lengths, 0) if null_count else lengths)
    cuts[-1] = len(buffer)
    if (cuts[1:] < cuts[:-1]).any():
        raise DecodeError("the fields of two records overlap")
    pieces = pa.Array.from_buffers(pa.binary(), 2 * count + 1, [None, pa.py_buffer(cuts), pa.py_buffer(buffer)])
    wanted = _integers(np.arange(1, 2 * count + 1, 2), pa.int32(), absent if null_count else None)
    return pieces.take(wanted)


def _headers(records: Records) -> pa.Array:
    """Return the headers of each record, null where it has none; the n-th headers of all records at once."""
    data = records.data
    value_starts, value_lengths = records.values
    counts, place = varints_at(data, value_starts + np.maximum(value_lengths, 0))
    if (counts < 0).any():
        raise DecodeError("a record has a negative number of headers")
    list_starts = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])
    total = int(list_starts[-1])
    if total == 0:
        return pa.nulls(len(counts), _HEADERS_TYPE)
    if total > len(data):
        raise DecodeError("a record claims more headers than it has bytes")
    fields = np.empty((4, total), np.int64)
    key_starts, key_lengths, value_starts, value_lengths = fields
    for nth in range(int(counts.max(initial=0))):
        rows = np.flatnonzero(counts > nth)
        slots = list_starts[rows] + nth
        key_lengths[slots], key_starts[slots] = lengths_at(data, place[rows])
        value_lengths[slots], value_starts[slots] = lengths_at(
            data, key_starts[slots] + np.maximum(key_lengths[slots], 0)
        )
        place[rows] = value_starts[slots] + np.maximum(value_lengths[slots], 0)
        if (place[rows] > records.ends[rows]).any():
            raise DecodeError("a header is longer than its record")
    keys = _text(_cut(records.buffer, key_starts, key_lengths))
    values = _cut(records.buffer, value_starts, value_lengths)
    pairs = pa.StructArray.from_arrays([keys, values], names=["key", "value"])
    offsets = pa.py_buffer(list_starts.astype(np.int32))
    return pa.Array.from_buffers(_HEADERS_TYPE, len(counts), [_bits(counts > 0), offsets], children=[pairs])


def _text(binary: pa.Array) -> pa.Array:
    """Return bytes as text; invalid UTF-8 becomes replacement characters instead of failing the query."""
    try:
        return binary.cast(pa.string())
    except pa.ArrowInvalid:
        return _strings([None if raw is None else raw.decode(errors="replace") for raw in binary.to_pylist()])
