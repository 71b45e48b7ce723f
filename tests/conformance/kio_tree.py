"""Messages as trees of plain data, in both directions, through kio's generated schemas.

Requests are dictionaries with Kafka's field names in snake case. A field that this version of the message does not have
is left out if another version has it; a field that no version has is a mistake. What is not given takes the schema's
default, or the zero of its type. Answers are dictionaries: durations and instants as ms, error codes as numbers, ids as
text, null ids as None.
"""

import dataclasses
import datetime as dt
import enum
import functools
import typing
import uuid
from io import BytesIO
from types import NoneType
from typing import Any

from kio.index import load_request_schema, load_response_schema
from kio.schema.index import api_key_map, schema_name_map
from kio.serial import entity_reader, entity_writer

from syncline.wire.describe_log_dirs_v4 import DescribeLogDirsResponse
from syncline.wire.list_reassignments_v0 import ListPartitionReassignmentsResponse

EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
MS = dt.timedelta(milliseconds=1)
# kio refuses tags that its schema does not have.
WITH_OWN_TAGS: dict[tuple[int, int], Any] = {
    (35, 4): DescribeLogDirsResponse,
    (46, 0): ListPartitionReassignmentsResponse,
}
Kind = typing.Literal["request", "response"]
ZEROS: dict[str, Any] = {
    "string": "", "bytes": b"", "bool": False, "float64": 0.0,
    "timedelta_i32": dt.timedelta(0), "timedelta_i64": dt.timedelta(0),
}  # fmt: skip


def encode_request(key: int, version: int, body: dict[str, Any]) -> bytes:
    """Return the body of a request."""
    schema = load_request_schema(key, version)
    out = BytesIO()
    entity_writer(schema)(out, _entity(schema, body, key))
    return out.getvalue()


def decode_response(key: int, version: int, data: bytes) -> dict[str, Any]:
    """Return the answer as a tree; bytes behind it are a mistake of the broker and raise `ValueError`.

    Kafka's clients ignore tagged fields that they do not know, and so does this.
    """
    schema = load_response_schema(key, version)
    entity, used = entity_reader(WITH_OWN_TAGS.get((key, version), schema))(data, 0)
    if used != len(data):
        raise ValueError(f"{len(data) - used} bytes behind the answer")
    tree: dict[str, Any] = _plain(entity)
    return _known_part(schema, tree)


def known_part(key: int, version: int, body: dict[str, Any]) -> dict[str, Any]:
    """Return the part of a request that this version can carry; values may still be symbols."""
    return _known_part(load_request_schema(key, version), body)


def _known_part(schema: type, body: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, (_, hint) in _fields(schema).items():
        if name in body:
            value, inner = body[name], _inner_schema(hint)
            if inner and isinstance(value, dict):
                value = _known_part(inner, value)
            elif inner and isinstance(value, list | tuple):
                value = [_known_part(inner, each) for each in value]
            found[name] = value
    return found


def is_flexible(key: int, version: int) -> bool:
    """Return whether headers of this version have tagged fields."""
    return bool(load_request_schema(key, version).__flexible__)


@functools.cache
def _fields(schema: type) -> dict[str, tuple[dataclasses.Field[Any], Any]]:
    hints = typing.get_type_hints(schema)
    return {each.name: (each, hints[each.name]) for each in dataclasses.fields(schema)}


@functools.cache
def _names_in_any_version(key: int) -> frozenset[str]:
    """Return every field name that any version of this request has."""
    found: set[str] = set()

    def collect(schema: type) -> None:
        for name, (_, hint) in _fields(schema).items():
            found.add(name)
            if (inner := _inner_schema(hint)) is not None:
                collect(inner)

    for version in schema_name_map[api_key_map[key]]:
        collect(load_request_schema(key, version))
    return frozenset(found)


def _inner_schema(hint: Any) -> type | None:
    if isinstance(hint, type) and dataclasses.is_dataclass(hint):
        return hint
    return next((found for each in typing.get_args(hint) if (found := _inner_schema(each)) is not None), None)


def _is_array(hint: Any) -> bool:
    return typing.get_origin(hint) is tuple or any(_is_array(each) for each in typing.get_args(hint))


def _entity(schema: type, body: dict[str, Any], key: int) -> Any:
    known = _fields(schema)
    for unknown in body.keys() - known.keys():
        assert unknown in _names_in_any_version(key), f"{schema.__name__} has no field {unknown} in any version"
    values = {}
    for name, (each, hint) in known.items():
        if name in body:
            values[name] = _value(body[name], each, hint, key)
        elif each.default is dataclasses.MISSING:
            values[name] = _zero(each, hint)
    return schema(**values)


def _zero(each: dataclasses.Field[Any], hint: Any) -> Any:
    if _is_array(hint):
        return ()
    if NoneType in typing.get_args(hint):
        return None
    return ZEROS.get(each.metadata["kafka_type"], 0)


def _value(given: Any, each: dataclasses.Field[Any], hint: Any, key: int) -> Any:
    if given is None:
        return None
    inner = _inner_schema(hint)
    if _is_array(hint):
        return tuple(_entity(inner, item, key) if inner else _scalar(item, each) for item in given)
    return _entity(inner, given, key) if inner else _scalar(given, each)


def _scalar(given: Any, each: dataclasses.Field[Any]) -> Any:
    kafka_type = each.metadata["kafka_type"]
    if kafka_type.startswith("timedelta"):
        return given * MS
    if kafka_type == "uuid":
        return uuid.UUID(given)
    return given


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value):
        return {each.name: _plain(getattr(value, each.name)) for each in dataclasses.fields(value)}
    if isinstance(value, tuple | list):
        return [_plain(each) for each in value]
    if isinstance(value, enum.Enum):
        return int(value.value)
    if isinstance(value, uuid.UUID):
        return str(value)
    if isinstance(value, dt.timedelta):
        return value // MS
    if isinstance(value, dt.datetime):
        return (value - EPOCH) // MS
    if isinstance(value, bool | bytes | str | NoneType):
        return value
    if isinstance(value, float):
        return float(value)
    return int(value)
