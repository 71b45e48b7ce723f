"""Error responses for any request.

Kafka's responses mirror their requests: one row with an error code for each requested topic, partition or group. So a
response is built from the schemas of the two messages: rows that may carry an error repeat the names in the request's
rows, and all other fields are empty.
"""

import dataclasses
import datetime as dt
from types import NoneType, UnionType
from typing import Any, Final, Union, get_args, get_origin, get_type_hints
from uuid import UUID

from syncline.model.errors import ErrorCode
from syncline.wire.codec import response_type
from syncline.wire.entities import build

# Errors of the request as a whole; all others belong to the rows, if there are any.
_WHOLE: Final = frozenset(
    {
        ErrorCode.NOT_CONTROLLER,
        ErrorCode.STALE_BROKER_EPOCH,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.REBALANCE_IN_PROGRESS,
        ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
        ErrorCode.INVALID_FETCH_SESSION_EPOCH,
    }
)
# Fields that identify a response row when the request's row is a number or a text.
_NAMES: Final = ("partition_index", "partition", "index", "name", "topic", "group_id", "key")
_SYNONYMS: Final = (("partition_index", "partition", "index"), ("name", "topic", "topic_name"))
_ZERO: Final = frozenset({"session_id", "api_keys"})


def error_reply(request: Any, key: int, version: int, code: ErrorCode, message: str) -> Any:
    """Return the answer to a decoded request that refuses it with `code`."""
    shape = response_type(key, version)
    has_rows = any(
        _carries_error(row) and asked for (_, row), asked in zip(_rows_of(shape), _asked_rows(request), strict=False)
    )
    fields = _fields(shape, request, code, message)
    if has_rows and code not in _WHOLE and "error_code" in fields:
        fields["error_code"] = ErrorCode.NONE
        if "error_message" in fields:
            fields["error_message"] = None
    return build(shape, fields)


def _fields(shape: Any, asked: Any, code: ErrorCode, message: str) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    hints = get_type_hints(shape)
    requested = _asked_rows(asked)
    for field in dataclasses.fields(shape):
        name, hint = field.name, hints[field.name]
        row = _row_shape(hint)
        if field.metadata.get("kafka_type") == "error_code":
            fields[name] = code
        elif row is not None:
            rows = requested.pop(0) if requested and _carries_error(row) else ()
            fields[name] = [_fields(row, each, code, message) for each in rows]
        elif name == "error_message":
            fields[name] = message
        elif (known := _known(name, asked)) is not None:
            fields[name] = known
        elif field.default is dataclasses.MISSING:
            fields[name] = _nothing(name, hint)
    if not dataclasses.is_dataclass(asked):
        named = next((name for name in _NAMES if name in fields), None)
        if named is not None:
            fields[named] = asked
    return fields


def _known(name: str, asked: Any) -> Any:
    """Return the request's value of a field, by its name or by another name for the same thing."""
    names = next((each for each in _SYNONYMS if name in each), (name,))
    values = (getattr(asked, each, None) for each in (name, *names))
    return next((value for value in values if value is not None and not isinstance(value, tuple)), None)


def _asked_rows(asked: Any) -> list[Any]:
    """Return the lists of a request, or of one of its rows, in order: lists of rows, otherwise of numbers or texts."""
    if not dataclasses.is_dataclass(asked):
        return []
    lists = [getattr(asked, field.name) for field in dataclasses.fields(asked)]
    return [values for values in lists if isinstance(values, tuple)]


def _rows_of(shape: Any) -> list[tuple[str, Any]]:
    hints = get_type_hints(shape)
    rows = [(field.name, _row_shape(hints[field.name])) for field in dataclasses.fields(shape)]
    return [(name, row) for name, row in rows if row is not None and _carries_error(row)]


def _row_shape(hint: Any) -> Any:
    """Return the class of the rows in a list; None if it is not a list of rows."""
    if get_origin(hint) in (Union, UnionType):
        return next((row for each in get_args(hint) if (row := _row_shape(each)) is not None), None)
    if get_origin(hint) is tuple and dataclasses.is_dataclass(get_args(hint)[0]):
        return get_args(hint)[0]
    return None


def _carries_error(shape: Any) -> bool:
    """Return whether rows of this class, or rows in them, have an error code."""
    if any(field.metadata.get("kafka_type") == "error_code" for field in dataclasses.fields(shape)):
        return True
    return any(True for _ in _rows_of(shape))


def _nothing(name: str, hint: Any) -> Any:
    """Return the empty value of a field."""
    if get_origin(hint) in (Union, UnionType):
        if NoneType in get_args(hint):
            return None
        hint = get_args(hint)[0]
    if get_origin(hint) is tuple:
        return ()
    if not isinstance(hint, type):
        return None
    for kind, value in ((bool, False), (str, ""), (bytes, b""), (UUID, UUID(int=0))):
        if issubclass(hint, kind):
            return value
    if issubclass(hint, dt.timedelta):
        return 0
    if issubclass(hint, dt.datetime):
        return -1
    if dataclasses.is_dataclass(hint):
        return {
            field.name: _nothing(field.name, get_type_hints(hint)[field.name])
            for field in dataclasses.fields(hint)
            if field.default is dataclasses.MISSING
        }
    return 0 if name in _ZERO else -1
