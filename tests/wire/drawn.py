"""Messages at random, from their schemas: whatever the type of each field allows, its limits above all."""

import dataclasses
import datetime as dt
import random
import uuid
from collections.abc import Callable
from functools import cache
from types import NoneType
from typing import Any, get_args, get_origin, get_type_hints

from kio.schema.errors import ErrorCode

ITEMS_MAX = 3
DEFAULT_SHARE = NULL_SHARE = 0.25
# Their sizes take one byte, or two of a varint.
LENGTHS = (0, 1, 5, 30, 127, 200)
LETTERS = "az09.-_ äß€😀\x00"
SECONDS_MAX = 250_000_000_000
MS_MAX = 10**15
Draw = Callable[[random.Random], Any]


def drawn(entity_type: type[Any], rng: random.Random) -> Any:
    """Return an entity of a schema, with other entities in it."""
    given = {}
    for name, draw, has_default in _fields(entity_type):
        if not has_default or rng.random() >= DEFAULT_SHARE:
            given[name] = draw(rng)
    return entity_type(**given)


@cache
def _fields(entity_type: type[Any]) -> tuple[tuple[str, Draw, bool], ...]:
    hints = get_type_hints(entity_type)
    return tuple(
        (
            field.name,
            _draw(hints[field.name], field.metadata.get("kafka_type")),
            field.default is not dataclasses.MISSING or field.default_factory is not dataclasses.MISSING,
        )
        for field in dataclasses.fields(entity_type)
    )


def _draw(hint: Any, kafka_type: str | None) -> Draw:
    """Return what draws a value of a type; whatever that does not know is an error of the test."""
    arguments = get_args(hint)
    if NoneType in arguments:
        (other,) = (each for each in arguments if each is not NoneType)
        value = _draw(other, kafka_type)
        return lambda rng: None if rng.random() < NULL_SHARE else value(rng)
    if get_origin(hint) is tuple:
        item = _draw(arguments[0], kafka_type)
        return lambda rng: tuple(item(rng) for _ in range(rng.randint(0, ITEMS_MAX)))
    if dataclasses.is_dataclass(hint):
        return lambda rng: drawn(hint, rng)
    return _PLAIN[str(kafka_type)]


def _integer(bits: int, *, is_signed: bool = True) -> Draw:
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if is_signed else (0, (1 << bits) - 1)
    limits = (low, high, 0, 1, max(low, -1))

    def draw(rng: random.Random) -> int:
        return rng.choice(limits) if rng.random() < 0.5 else rng.randint(low, high)

    return draw


def _text(rng: random.Random) -> str:
    return "".join(rng.choices(LETTERS, k=rng.choice(LENGTHS)))


def _milliseconds(low: int, high: int) -> Draw:
    return lambda rng: dt.timedelta(milliseconds=rng.choice((low, high, 0, -1, rng.randint(low, high))))


_PLAIN: dict[str, Draw] = {
    "bool": lambda rng: rng.random() < 0.5,
    "bytes": lambda rng: rng.randbytes(rng.choice(LENGTHS)),
    "datetime_i64": lambda rng: dt.datetime.fromtimestamp(rng.choice((0, 1, rng.randint(0, SECONDS_MAX))), dt.UTC),
    "error_code": lambda rng: rng.choice(list(ErrorCode)),
    "int8": _integer(8),
    "int16": _integer(16),
    "int32": _integer(32),
    "int64": _integer(64),
    "string": _text,
    "timedelta_i32": _milliseconds(-(1 << 31), (1 << 31) - 1),
    "timedelta_i64": _milliseconds(-MS_MAX, MS_MAX),
    "uint16": _integer(16, is_signed=False),
    "uuid": lambda rng: uuid.UUID(int=rng.getrandbits(128)),
}
