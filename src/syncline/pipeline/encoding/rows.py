"""Rows that are to become records: keys, values and headers as bytes, and times.

Headers are encoded here, once for all rows: a row's tail is the number of its headers and the headers themselves, which
is how they end a record.

Units: timestamps are Unix milliseconds; sizes are bytes.
"""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from syncline.pipeline.encoding.varints import Ints, rows_of
from syncline.pipeline.errors import PipelineError

# More than the integers of any record take: seven of at most five bytes, and a time of at most ten.
RECORD_OVERHEAD_BYTES_MAX = 45


@dataclass(frozen=True, slots=True)
class Rows:
    """Columns of equal length: `keys` and `values` are binary and may be null, `tails` are binary."""

    keys: pa.Array
    values: pa.Array
    tails: pa.Array
    timestamps_ms: Ints

    @classmethod
    def of(cls, keys: pa.Array, values: pa.Array, headers: pa.Array | None, timestamps_ms: Ints) -> "Rows":
        """Return rows with the given headers, of the type `list<struct<key: string, value: binary>>`."""
        assert len(keys) == len(values) == len(timestamps_ms), "columns of different lengths"
        return cls(keys, values, _tails(headers, len(values)), timestamps_ms)

    def __len__(self) -> int:
        return len(self.values)

    def take(self, indexes: Ints) -> "Rows":
        """Return the rows with the given numbers."""
        wanted = pa.array(indexes)
        return Rows(
            self.keys.take(wanted), self.values.take(wanted), self.tails.take(wanted), self.timestamps_ms[indexes]
        )

    def between(self, start: int, end: int) -> "Rows":
        """Return the rows from `start` below `end`, without a copy."""
        count = end - start
        return Rows(
            self.keys.slice(start, count),
            self.values.slice(start, count),
            self.tails.slice(start, count),
            self.timestamps_ms[start:end],
        )

    @property
    def record_bytes_max(self) -> Ints:
        """Return what each row takes at most as a record."""
        return _payload(self.keys) + _payload(self.values) + _payload(self.tails) + RECORD_OVERHEAD_BYTES_MAX


def lengths(column: pa.Array) -> Ints:
    """Return the length of each value, -1 for null."""
    found: Ints = pc.fill_null(pc.binary_length(column), -1).to_numpy(zero_copy_only=False).astype(np.int64)
    return found


def _payload(column: pa.Array) -> Ints:
    return np.maximum(lengths(column), 0)


def binary_of(data: np.ndarray, starts: np.ndarray) -> pa.Array:
    """Return pieces of a byte array as a binary array."""
    return pa.Array.from_buffers(
        pa.binary(), len(starts) - 1, [None, pa.py_buffer(starts.astype(np.int32)), pa.py_buffer(data)]
    )


def joined(*parts: pa.Array) -> pa.Array:
    """Return the values of each row, one after the other; null counts as empty."""
    return pc.binary_join_element_wise(
        *parts, pa.scalar(b"", pa.binary()), null_handling="replace", null_replacement=b""
    )


def _tails(headers: pa.Array | None, row_count: int) -> pa.Array:
    if headers is None or headers.null_count == len(headers):
        return pa.repeat(pa.scalar(b"\0", pa.binary()), row_count)
    counts = pc.fill_null(pc.list_value_length(headers), 0).to_numpy(zero_copy_only=False).astype(np.int64)
    # Flattened lists leave out what null rows may hide, so that the counts alone say where each row's headers are.
    pairs = headers.flatten()
    names, contents = pairs.field("key"), pairs.field("value")
    if pairs.null_count or names.null_count:
        raise PipelineError("a header without a key cannot be written: give each header of the column headers a key")
    names = names.cast(pa.binary())
    each = joined(_sized(names), names, _sized(contents), contents)
    ends = np.frombuffer(each.buffers()[1], np.int32)[: len(each) + 1]
    row_starts = np.concatenate([[0], np.cumsum(counts)])
    data = each.buffers()[2]
    grouped = binary_of(np.frombuffer(data, np.uint8) if data else np.empty(0, np.uint8), ends[row_starts])
    return joined(binary_of(*rows_of([counts])), grouped)


def _sized(column: pa.Array) -> pa.Array:
    return binary_of(*rows_of([lengths(column)]))
