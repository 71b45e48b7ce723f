"""Raw record batches to Arrow columns, without touching a record in Python.

One hard idea: variable-length integers precede a record's fields, so the place of each record is known only once the
length of the previous one has been read. That chain is the only loop over records here, and it reads one integer per
record. Everything else works on all records at once: NumPy reads the other integers at known positions, and Arrow
cuts keys and values out of the chunk as every second element of one binary array whose offsets are the cutting points
("cut and take"), which costs one copy in C++.

    batch    base offset 8 | length 4 | leader epoch 4 | magic 1 | CRC 4 | attributes 2 | last offset delta 4
             base timestamp 8 | max timestamp 8 | producer id 8 | producer epoch 2 | base sequence 4 | count 4
    record   length | attributes 1 | timestamp delta | offset delta | key length, key | value length, value
             header count, headers: key length, key | value length, value         (lengths and deltas: zigzag varint)

It drops control batches, batches of aborted transactions (when the fetch names them), records outside the wanted
offsets (a fetch answers with whole batches) and an incomplete batch at the end. It verifies every CRC. A chunk must be
below 2 GiB, also when decompressed, because Arrow's binary offsets are 32 bits wide. A batch may decompress to at
most the size that brokers accept (`DECOMPRESSED_BYTES_MAX`).

Units: offsets count records, `end_offset` is exclusive; timestamps are Unix milliseconds on the wire and
microseconds in Arrow, as Spark wants them; -1 is "no timestamp" and becomes null.
Source: KIP-98 (record batch v2), KIP-107, KIP-110 (zstd).
"""

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

import crc32c
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from syncline.records.compression import DECOMPRESSED_BYTES_MAX, decompress
from syncline.records.errors import DecodeError as BatchError

Buffer: TypeAlias = bytes | bytearray | memoryview
Ints: TypeAlias = npt.NDArray[np.int64]

_HEADER: Final = struct.Struct(">qiibIhiqqqhii")
_CRC_START: Final = 21
_LENGTH_END: Final = 12
_CODEC_MASK: Final = 0x07
_LOG_APPEND_TIME: Final = 0x08
_TRANSACTIONAL: Final = 0x10
_CONTROL: Final = 0x20
_ABORT: Final = 0
_VARINT_BYTES_MAX: Final = 10
# Length, attributes, two deltas, two lengths and the number of headers, one byte each.
_RECORD_BYTES_MIN: Final = 7
CHUNK_BYTES_MAX: Final = 2**31 - 1
_HEADERS_TYPE: Final = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))

# The available columns with their Arrow types: those of Spark's own Kafka connector, and two more.
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
}


class DecodeError(ValueError):
    """The bytes are not valid record batches; the message names the broken rule and the offset."""


@dataclass(frozen=True, slots=True)
class Decoded:
    """Columns of equal length by name, and the offset at which the next fetch continues."""

    columns: Mapping[str, pa.Array]
    row_count: int
    next_offset: int


@dataclass(frozen=True, slots=True)
class _Batch:
    """One batch to be decoded: header fields, and its records in the chunk (`start` to `end`, compressed or not)."""

    base_offset: int
    leader_epoch: int
    attributes: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    record_count: int
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


def decode(
    chunk: Buffer,
    *,
    topic: str,
    partition: int,
    first_offset: int,
    end_offset: int,
    columns: Sequence[str],
    aborted: Sequence[tuple[int, int]] = (),
) -> Decoded:
    """Return the wanted `columns` of the records from `first_offset` below `end_offset` in a fetched chunk.

    `aborted` are the aborted transactions of the fetch answer as (first offset, producer id). `next_offset` is
    after the last whole batch, or `first_offset` when there is none. Raises `DecodeError`.
    """
    view = memoryview(chunk)
    batches, next_offset = _batches(view, first_offset, end_offset, _Aborted(sorted(aborted)))
    records = _Records.read(*_uncompressed(view, batches))
    keep = (records.offsets >= first_offset) & (records.offsets < end_offset)
    if not keep.all():
        records = records.only(np.flatnonzero(keep))
    constants = {"topic": topic, "partition": partition}
    arrays = {name: _column(name, records, constants) for name in columns}
    assert next_offset >= first_offset, f"the next fetch would go back, from {first_offset} to {next_offset}"
    assert all(len(array) == len(records.offsets) for array in arrays.values()), "columns of different lengths"
    return Decoded(arrays, len(records.offsets), next_offset)


def _batches(view: memoryview, first_offset: int, end_offset: int, aborted: _Aborted) -> tuple[list[_Batch], int]:
    """Return the batches that hold wanted records, CRCs verified, and the offset after the last whole batch."""
    found: list[_Batch] = []
    position, next_offset, size = 0, first_offset, len(view)
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
        if base >= end_offset:
            return found, end_offset
        next_offset = max(next_offset, base + last_delta + 1)
        start = position + _HEADER.size
        if attributes & _CONTROL:
            if _control_type(view, start) == _ABORT:
                aborted.active.discard(producer)
        elif attributes & _TRANSACTIONAL and aborted.hides(producer, base + last_delta):
            pass
        elif base + last_delta >= first_offset and count > 0:
            found.append(_Batch(base, epoch, attributes, base_ts, max_ts, producer, count, start, end))
        position = end
    return found, next_offset


def _control_type(view: memoryview, position: int) -> int:
    """Return the type of the control record at `position`: its key is a version and a type, two bytes each."""
    body = bytes(view[position : position + 3 * _VARINT_BYTES_MAX])
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


def _uncompressed(view: memoryview, batches: list[_Batch]) -> tuple[Buffer, list[_Batch]]:
    """Return one buffer with all records decompressed, and the batches with their places in it."""
    if not any(batch.attributes & _CODEC_MASK for batch in batches):
        return view, batches
    parts, moved, position = [], [], 0
    for batch in batches:
        # A small batch may decompress to gigabytes: both each batch and the whole chunk are bounded.
        room = min(DECOMPRESSED_BYTES_MAX, CHUNK_BYTES_MAX - position)
        body = _decompress(batch.attributes & _CODEC_MASK, view[batch.start : batch.end], batch.base_offset, room)
        parts.append(body)
        moved.append(
            _Batch(
                batch.base_offset,
                batch.leader_epoch,
                batch.attributes,
                batch.base_timestamp,
                batch.max_timestamp,
                batch.producer_id,
                batch.record_count,
                position,
                position + len(body),
            )
        )
        position += len(body)
    return b"".join(parts), moved


def _decompress(codec: int, body: memoryview, base_offset: int, bytes_max: int) -> Buffer:
    try:
        return decompress(codec, body, bytes_max)
    except BatchError as error:
        raise DecodeError(f"the batch at offset {base_offset} cannot be decompressed: {error}") from error


@dataclass(frozen=True, slots=True)
class _Records:
    """All records of a chunk as parallel arrays: the places of their fields in `buffer`, and their batches' fields."""

    buffer: Buffer
    bytes_: npt.NDArray[np.uint8]
    offsets: Ints
    timestamps: Ints
    append_time: npt.NDArray[np.bool_]
    leader_epochs: Ints
    producer_ids: Ints
    key_starts: Ints
    key_lengths: Ints
    value_starts: Ints
    value_lengths: Ints
    ends: Ints

    @classmethod
    def read(cls, buffer: Buffer, batches: Sequence[_Batch]) -> "_Records":
        """Return the records of the batches; raise `DecodeError` where a record leaves its bounds."""
        if len(buffer) > CHUNK_BYTES_MAX:
            raise DecodeError(f"a chunk of {len(buffer)} bytes is too large: fetch less than 2 GiB at once")
        starts, ends = _record_bounds(buffer, batches)
        data = np.frombuffer(buffer, np.uint8)
        counts = np.array([batch.record_count for batch in batches], np.int64)
        assert len(starts) == len(ends) == counts.sum(), f"{len(starts)} places of {counts.sum()} records"

        def per_record(values: list[int]) -> Ints:
            return np.repeat(np.array(values, np.int64), counts)

        timestamp_deltas, place = _varints(data, starts + 1)
        offset_deltas, place = _varints(data, place)
        key_lengths, key_starts = _lengths(data, place)
        value_lengths, value_starts = _lengths(data, key_starts + np.maximum(key_lengths, 0))
        records_end = value_starts + np.maximum(value_lengths, 0)
        if (records_end > ends).any():
            raise DecodeError("a record's key or value is longer than the record")
        append_time = per_record([batch.attributes & _LOG_APPEND_TIME for batch in batches]) != 0
        created = per_record([batch.base_timestamp for batch in batches]) + timestamp_deltas
        appended = per_record([batch.max_timestamp for batch in batches])
        return cls(
            buffer=buffer,
            bytes_=data,
            offsets=per_record([batch.base_offset for batch in batches]) + offset_deltas,
            timestamps=np.where(append_time, appended, created),
            append_time=append_time,
            leader_epochs=per_record([batch.leader_epoch for batch in batches]),
            producer_ids=per_record([batch.producer_id for batch in batches]),
            key_starts=key_starts,
            key_lengths=key_lengths,
            value_starts=value_starts,
            value_lengths=value_lengths,
            ends=ends,
        )

    def only(self, rows: Ints) -> "_Records":
        """Return the records with the given row numbers."""
        return _Records(
            self.buffer,
            self.bytes_,
            self.offsets[rows],
            self.timestamps[rows],
            self.append_time[rows],
            self.leader_epochs[rows],
            self.producer_ids[rows],
            self.key_starts[rows],
            self.key_lengths[rows],
            self.value_starts[rows],
            self.value_lengths[rows],
            self.ends[rows],
        )


def _record_bounds(buffer: Buffer, batches: Sequence[_Batch]) -> tuple[Ints, Ints]:
    """Return where each record's body starts, after its length, and where it ends: the only loop over records."""
    starts: list[int] = []
    ends: list[int] = []
    for batch in batches:
        position, batch_end = batch.start, batch.end
        # A few compressed bytes may claim to be millions of records: refused before anything is kept of them.
        if batch.record_count * _RECORD_BYTES_MIN > batch_end - position:
            raise DecodeError(
                f"the batch at offset {batch.base_offset} claims {batch.record_count} records in"
                f" {batch_end - position} bytes"
            )
        try:
            for _ in range(batch.record_count):
                byte = buffer[position]
                position += 1
                if byte < 0x80:
                    length = byte >> 1
                else:
                    length, shift = byte & 0x7F, 7
                    while (byte := buffer[position]) >= 0x80:
                        if shift >= 7 * _VARINT_BYTES_MAX:
                            raise DecodeError(
                                f"the batch at offset {batch.base_offset} has an integer that does not end"
                            )
                        length |= (byte & 0x7F) << shift
                        shift += 7
                        position += 1
                    length = (length | byte << shift) >> 1
                    position += 1
                starts.append(position)
                position += length
                ends.append(position)
        except IndexError:
            position = batch_end + 1
        if position > batch_end:
            raise DecodeError(f"the batch at offset {batch.base_offset} ends inside a record")
    return np.array(starts, np.int64), np.array(ends, np.int64)


def _varints(data: npt.NDArray[np.uint8], positions: Ints) -> tuple[Ints, Ints]:
    """Return the zigzag integers at the given places, and the places after them.

    Most integers have one or two bytes, so the loop over bytes ends early: each turn looks only at unfinished ones.
    """
    if not len(positions):
        return positions, positions
    if positions.max() >= len(data):
        raise DecodeError("a record ends before its fields do")
    byte = data[positions].astype(np.uint64)
    value = byte & 0x7F
    place = positions + 1
    open_rows = np.flatnonzero(byte >= 0x80)
    shift = 7
    while len(open_rows):
        at = place[open_rows]
        if shift >= 7 * _VARINT_BYTES_MAX or at.max() >= len(data):
            raise DecodeError("a record holds an integer that does not end")
        byte = data[at].astype(np.uint64)
        value[open_rows] |= (byte & 0x7F) << np.uint64(shift)
        place[open_rows] += 1
        open_rows = open_rows[byte >= 0x80]
        shift += 7
    decoded = (value >> np.uint64(1)).astype(np.int64) ^ -(value & np.uint64(1)).astype(np.int64)
    return decoded, place


def _lengths(data: npt.NDArray[np.uint8], positions: Ints) -> tuple[Ints, Ints]:
    """Return the lengths at the given places, -1 for null, and the places after them; none is beyond the data."""
    lengths, place = _varints(data, positions)
    # Checked before anything is added to them: a sum that overflows is a place before the data.
    if (lengths < -1).any() or (lengths > len(data)).any():
        raise DecodeError("a field of a record is longer than all records")
    return lengths, place


def _cut(buffer: Buffer, starts: Ints, lengths: Ints) -> pa.Array:
    """Return the pieces of the buffer as a binary array; a length below 0 is null. The starts must ascend."""
    count = len(starts)
    cuts = np.empty(2 * count + 2, np.int32)
    cuts[0] = 0
    cuts[1:-1:2] = starts
    cuts[2:-1:2] = starts + np.maximum(lengths, 0)
    cuts[-1] = len(buffer)
    if (np.diff(cuts) < 0).any():
        raise DecodeError("the fields of two records overlap")
    pieces = pa.Array.from_buffers(pa.binary(), 2 * count + 1, [None, pa.py_buffer(cuts), pa.py_buffer(buffer)])
    wanted = pa.array(np.arange(1, 2 * count + 1, 2, dtype=np.int32), mask=lengths < 0)
    return pieces.take(wanted)


def _headers(records: _Records) -> pa.Array:
    """Return the headers of each record, null where it has none; the n-th headers of all records at once."""
    data = records.bytes_
    counts, place = _varints(data, records.value_starts + np.maximum(records.value_lengths, 0))
    if (counts < 0).any():
        raise DecodeError("a record has a negative number of headers")
    list_starts = np.concatenate([[0], np.cumsum(counts)])
    total = int(list_starts[-1])
    if total > len(data):
        raise DecodeError("a record claims more headers than it has bytes")
    fields = np.empty((4, total), np.int64)
    key_starts, key_lengths, value_starts, value_lengths = fields
    for nth in range(int(counts.max(initial=0))):
        rows = np.flatnonzero(counts > nth)
        slots = list_starts[rows] + nth
        key_lengths[slots], key_starts[slots] = _lengths(data, place[rows])
        value_lengths[slots], value_starts[slots] = _lengths(
            data, key_starts[slots] + np.maximum(key_lengths[slots], 0)
        )
        place[rows] = value_starts[slots] + np.maximum(value_lengths[slots], 0)
        if (place[rows] > records.ends[rows]).any():
            raise DecodeError("a header is longer than its record")
    keys = _text(_cut(records.buffer, key_starts, key_lengths))
    values = _cut(records.buffer, value_starts, value_lengths)
    pairs = pa.StructArray.from_arrays([keys, values], names=["key", "value"])
    return pa.ListArray.from_arrays(
        pa.array(list_starts, pa.int32()), pairs, type=_HEADERS_TYPE, mask=pa.array(counts == 0)
    )


def _text(binary: pa.Array) -> pa.Array:
    """Return bytes as text; invalid UTF-8 becomes replacement characters instead of failing the query."""
    try:
        return binary.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array([None if raw is None else raw.decode(errors="replace") for raw in binary.to_pylist()])


def _column(name: str, records: _Records, constants: Mapping[str, Any]) -> pa.Array:
    """Return one column by its name in `COLUMNS`."""
    if name in constants:
        return pa.repeat(pa.scalar(constants[name], COLUMNS[name]), len(records.offsets))
    match name:
        case "key":
            return _cut(records.buffer, records.key_starts, records.key_lengths)
        case "value":
            return _cut(records.buffer, records.value_starts, records.value_lengths)
        case "headers":
            return _headers(records)
        case "timestamp":
            absent = records.timestamps == -1
            # The largest timestamps that fit in 64 bits of microseconds: up to the year 294,246.
            limit = np.iinfo(np.int64).max // 1000
            micros = np.clip(records.timestamps, -limit, limit) * 1000
            return pc.cast(pa.array(micros, mask=absent), COLUMNS[name])
    numbers = {
        "offset": records.offsets,
        "timestampType": records.append_time,
        "leaderEpoch": records.leader_epochs,
        "producerId": records.producer_ids,
    }[name]
    return pa.array(numbers.astype(np.int64), COLUMNS[name])
