"""The columns of a row to write: which names and types there may be, and their content as record fields.

    value      string or binary, required; null is a tombstone
    key        string or binary
    headers    array<struct<key: string, value: binary>>
    topic      string; the option topic takes precedence
    partition  int; null leaves the choice to key and sink
    timestamp  timestamp; null is the time of writing

Units: timestamps are microseconds in Arrow and milliseconds in records.
"""

from collections.abc import Callable, Mapping
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from syncline.pipeline.encoding.rows import Rows
from syncline.pipeline.encoding.varints import Ints
from syncline.pipeline.errors import OptionError, PipelineError


def _is_bytes(kind: pa.DataType) -> bool:
    return kind in {pa.string(), pa.binary(), pa.large_string(), pa.large_binary()}


def _is_headers(kind: pa.DataType) -> bool:
    if not pa.types.is_list(kind) or not pa.types.is_struct(kind.value_type):
        return False
    fields = {field.name: field.type for field in kind.value_type}
    return (
        list(fields) == ["key", "value"] and pa.types.is_string(fields["key"]) and pa.types.is_binary(fields["value"])
    )


_BYTES: Final = "string or binary"
_KINDS: Final[Mapping[str, tuple[str, Callable[[pa.DataType], bool]]]] = {
    "key": (_BYTES, _is_bytes),
    "value": (_BYTES, _is_bytes),
    "headers": ("array<struct<key: string, value: binary>>", _is_headers),
    "topic": ("string", lambda kind: kind in {pa.string(), pa.large_string()}),
    "partition": ("int", pa.types.is_int32),
    "timestamp": ("timestamp", lambda kind: pa.types.is_timestamp(kind) and kind.tz is not None),
}


def check_columns(schema: pa.Schema, *, has_topic: bool) -> None:
    """Raise `OptionError` for a column that is missing, unknown, or of a wrong type."""
    for field in schema:
        if field.name not in _KINDS:
            raise OptionError(
                f"column {field.name} cannot be written: a record has the columns {', '.join(_KINDS)}; "
                "select only those, and put others into value, for instance with to_json(struct(...))"
            )
        wanted, accept = _KINDS[field.name]
        if not accept(field.type):
            raise OptionError(f"column {field.name} must be {wanted}, not {field.type}: cast it in the query")
    if "value" not in schema.names:
        raise OptionError(f"column value is missing: give this name to the content of the records ({_BYTES})")
    if not has_topic and "topic" not in schema.names:
        raise OptionError("there is no topic to write to: set the option topic, or add a column topic")


def read_rows(batch: pa.RecordBatch, now_ms: int) -> Rows:
    """Return the rows of a batch whose columns were checked; those without a time get `now_ms`."""
    names = batch.schema.names
    keys = _bytes(batch.column("key")) if "key" in names else pa.nulls(len(batch), pa.binary())
    headers = batch.column("headers") if "headers" in names else None
    timestamps = _milliseconds(batch.column("timestamp"), now_ms) if "timestamp" in names else None
    return Rows.of(
        keys,
        _bytes(batch.column("value")),
        headers,
        np.full(len(batch), now_ms, np.int64) if timestamps is None else timestamps,
    )


def _bytes(column: pa.Array) -> pa.Array:
    return column if column.type == pa.binary() else column.cast(pa.binary())


def _milliseconds(column: pa.Array, now_ms: int) -> Ints:
    micros = column.cast(pa.timestamp("us", tz=column.type.tz)).cast(pa.int64())
    found: Ints = pc.fill_null(micros, now_ms * 1000).to_numpy(zero_copy_only=False) // 1000
    if len(found) and found.min() < 0:
        raise PipelineError("a time before 1970 cannot be written: brokers refuse it; correct the column timestamp")
    return found
