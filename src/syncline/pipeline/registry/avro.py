"""Avro: values are read with the schema of their writer and resolved to that of the reader (`fastavro` does both).

Spark's types are those of its own `from_avro`, but for unions: of a type and null it is the type, of int and long, or
of float and double, the larger one; any other union is refused, as is a schema that contains itself. Times of day have
no type in Spark and stay numbers, as timestamps in nanoseconds do; durations stay bytes. A logical type that does not
fit what it is laid upon is ignored, as Avro has it.

Source: the Avro specification 1.12 (schema resolution, logical types).
"""

import io
import json
from collections.abc import Iterable
from typing import Any, Final

import pyarrow as pa
from fastavro import parse_schema, schemaless_reader, schemaless_writer

from syncline.pipeline.registry.kinds import (
    TIMESTAMP,
    TIMESTAMP_NTZ,
    RegisteredSchema,
    SchemaError,
    refusing,
)

_SIMPLE: Final = {
    "null": pa.null(),
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "bytes": pa.binary(),
    "string": pa.string(),
    "fixed": pa.binary(),
    "enum": pa.string(),
}
# By logical type: the type that it is laid upon, and Arrow's.
_LOGICAL: Final = {
    "date": ("int", pa.date32()),
    "timestamp-millis": ("long", TIMESTAMP),
    "timestamp-micros": ("long", TIMESTAMP),
    "local-timestamp-millis": ("long", TIMESTAMP_NTZ),
    "local-timestamp-micros": ("long", TIMESTAMP_NTZ),
}
_WIDER: Final = ({"int", "long"}, {"float", "double"})
_DECIMAL_DIGITS_MAX: Final = 38
# Where a schema has schemas.
_INNER: Final = ("type", "items", "values")


class Avro:
    """One reader's or writer's schema."""

    def __init__(self, schema: RegisteredSchema) -> None:
        self._schema = schema
        self._own, named = _parsed(schema)
        self.arrow_type = _Types(schema, named).of(self._own)
        # By writer's id, so that ten thousand values parse a schema once.
        self._writers: dict[int, Any] = {schema.schema_id: self._own}

    def read(self, writer: RegisteredSchema, value: bytes, position: int) -> Any:
        """Return a value; what its writer's schema has, resolved to the reader's."""
        written = self._writers.get(writer.schema_id)
        if written is None:
            written = self._writers[writer.schema_id] = _parsed(writer)[0]
        stream = io.BytesIO(value)
        stream.seek(position)
        what = f"a value of {writer} cannot be read as {self._schema}"
        return refusing(lambda: schemaless_reader(stream, written, self._own), what)

    def write(self, value: Any) -> bytes:
        """Return the payload of a value."""
        stream = io.BytesIO()
        what = f"a row does not fit {self._schema}"
        refusing(lambda: schemaless_writer(stream, self._own, value, strict_allow_default=True), what)
        return stream.getvalue()


def _parsed(schema: RegisteredSchema) -> tuple[Any, dict[str, Any]]:
    """Return a schema, and all named ones by their full names."""
    named: dict[str, Any] = {}
    try:
        for _, text in schema.references:
            parse_schema(_without_strange_logic(_loaded(text)), named)
        parsed = parse_schema(_without_strange_logic(_loaded(schema.text)), named)
    except Exception as error:
        raise SchemaError(f"{schema} cannot be read: {error}") from error
    return parsed, named


def _loaded(text: str) -> Any:
    """Return the JSON of a schema; a registry may keep a primitive one without quotation marks."""
    return text if text in _SIMPLE else json.loads(text)


def _without_strange_logic(schema: Any) -> Any:
    """Return the schema without logical types that have no counterpart in Spark, or do not fit what they are laid upon.

    Their numbers and texts stay, as Avro has it. A type that is written as an object without need is its name.
    """
    if isinstance(schema, list):
        return [_without_strange_logic(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    kept = {key: _without_strange_logic(each) if key in _INNER else each for key, each in schema.items()}
    if isinstance(kept.get("fields"), list):
        kept["fields"] = [
            {**each, "type": _without_strange_logic(each["type"])}
            if isinstance(each, dict) and "type" in each
            else each
            for each in kept["fields"]
        ]
    if "logicalType" in kept and not _is_known_logic(kept):
        del kept["logicalType"]
    kind = kept.get("type")
    is_bare = isinstance(kind, str) and kind in _SIMPLE and kind not in ("fixed", "enum")
    return kind if is_bare and "logicalType" not in kept else kept


def _is_known_logic(schema: dict[str, Any]) -> bool:
    kind, logic = schema.get("type"), schema["logicalType"]
    if logic == "decimal":
        digits, scale = schema.get("precision"), schema.get("scale", 0)
        is_decimal = type(digits) is int and type(scale) is int and digits > 0 and 0 <= scale <= digits
        return kind in ("bytes", "fixed") and is_decimal
    return isinstance(logic, str) and logic in _LOGICAL and kind == _LOGICAL[logic][0]


class _Types:
    """The Arrow types of one schema; the schemas that it is in the middle of are not to come again."""

    def __init__(self, schema: RegisteredSchema, named: dict[str, Any]) -> None:
        self._schema = schema
        self._named = named
        self._open: list[str] = []

    def of(self, schema: Any) -> pa.DataType:
        """Return the type of a part of the schema."""
        if isinstance(schema, list):
            return self._union(schema)
        if isinstance(schema, str):
            return _SIMPLE[schema] if schema in _SIMPLE else self.of(self._named[schema])
        kind, logic = schema["type"], schema.get("logicalType")
        if logic == "decimal":
            return self._decimal(schema)
        if logic in _LOGICAL:
            return _LOGICAL[logic][1]
        if kind == "array":
            return pa.list_(self.of(schema["items"]))
        if kind == "map":
            return pa.map_(pa.string(), self.of(schema["values"]))
        if kind in ("record", "error"):
            return self._record(schema)
        return _SIMPLE[kind] if isinstance(kind, str) and kind in _SIMPLE else self.of(kind)

    def _record(self, schema: Any) -> pa.DataType:
        name = schema["name"]
        if name in self._open:
            raise SchemaError(f"{self._schema} contains itself ({name}), which no Spark type can express")
        self._open.append(name)
        fields = [pa.field(each["name"], self.of(each["type"])) for each in schema["fields"]]
        self._open.pop()
        return pa.struct(fields)

    def _union(self, branches: Iterable[Any]) -> pa.DataType:
        rest = [each for each in branches if each != "null"]
        if not rest:
            return pa.null()
        if len(rest) == 1:
            return self.of(rest[0])
        for wider in _WIDER:
            if all(isinstance(each, str) and each in wider for each in rest):
                return self.of("long" if "long" in rest else "double")
        names = ", ".join(each if isinstance(each, str) else each.get("name", each["type"]) for each in rest)
        raise SchemaError(
            f"{self._schema} has a union of {names}, which no Spark type can hold: give a reader's schema without it"
        )

    def _decimal(self, schema: Any) -> pa.DataType:
        digits, scale = schema["precision"], schema.get("scale", 0)
        if digits > _DECIMAL_DIGITS_MAX:
            raise SchemaError(f"{self._schema} has a decimal of {digits} digits; Spark's decimals have at most 38")
        return pa.decimal128(digits, scale)
