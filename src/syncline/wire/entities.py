"""From plain data to a kio entity of any version.

The versions of a message differ in a field or two, and kio has a class for each.
Handlers build one dict with all fields of the newest version. `build` makes an
entity of the requested class from it: it omits fields that the version lacks and
turns nested dicts into nested entities, and numbers into kio's error codes and
time spans. It analyses each class once.
"""

import dataclasses
import datetime as dt
from collections.abc import Callable, Mapping
from functools import cache
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

Convert = Callable[[Any], Any]

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


def build(entity_type: Any, fields: Mapping[str, Any]) -> Any:
    """Return an entity of `entity_type`; names in `fields` that it does not have are ignored."""
    converters = _converters(entity_type)
    return entity_type(
        **{name: convert(fields[name]) if convert else fields[name] for name, convert in converters if name in fields}
    )


@cache
def _converters(entity_type: Any) -> tuple[tuple[str, Convert | None], ...]:
    hints = get_type_hints(entity_type)
    return tuple(
        (each.name, converter(hints[each.name], each.metadata.get("kafka_type")))
        for each in dataclasses.fields(entity_type)
    )


def forget_converters() -> None:
    """Forget what turns plain data into values; `build` finds it out again."""
    _converters.cache_clear()


def converter(hint: Any, kafka_type: str | None) -> Convert | None:
    """Return what turns plain data into the value of a field, None where they are the same."""
    if get_origin(hint) in (Union, UnionType):
        (inner,) = (each for each in get_args(hint) if each is not NoneType)
        convert = converter(inner, kafka_type)
        return None if convert is None else _unless_none(convert)
    if get_origin(hint) is tuple:
        convert = converter(get_args(hint)[0], None if kafka_type == "error_code" else kafka_type)
        return tuple if convert is None else lambda values: tuple([convert(value) for value in values])
    if dataclasses.is_dataclass(hint):
        return lambda value: build(hint, value) if isinstance(value, Mapping) else value
    if kafka_type == "error_code":
        from kio.schema.errors import ErrorCode

        return lambda code: ErrorCode(int(code))
    if kafka_type in ("timedelta_i32", "timedelta_i64"):
        return lambda span: span if isinstance(span, dt.timedelta) else dt.timedelta(milliseconds=span)
    if kafka_type == "datetime_i64":
        return _instant
    return None


def _unless_none(convert: Convert) -> Convert:
    return lambda value: None if value is None else convert(value)


def _instant(value: Any) -> Any:
    if isinstance(value, dt.datetime) or value is None:
        return value
    return _EPOCH + dt.timedelta(milliseconds=value)
