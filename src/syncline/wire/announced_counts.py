"""Counts that a message announces, checked before a decoder allocates for them.

One hard idea: `kio` allocates as many items as an array announces before it
reads the first. Five bytes may announce four thousand million items, and the
kernel kills a process that cannot get 32 GB. So a message with arrays is walked
once beforehand: this module makes a walker from the schema's own classes that
steps over every field and compares each count with the bytes left.

It also refuses counts above any real use, since a frame of 100 MB holds millions
of items, each of which costs time; and null arrays where the schema allows none,
since `kio` returns None for them, whatever the type says.

A walker takes (buffer, position) and returns the position after what it walked.
It checks only counts; if bytes are missing, it raises IndexError or
struct.error or returns a position past the end, and the decoder refuses.
"""

import dataclasses
from collections.abc import Callable
from functools import cache
from types import NoneType, UnionType
from typing import Any, Final, NamedTuple, TypeAlias, Union, get_args, get_origin

from syncline.records.varint import read_unsigned
from syncline.wire.errors import DecodeError
from syncline.wire.primitives import INT16, INT32, TAGS_MAX, read_compact_count, read_count

Walk: TypeAlias = Callable[[memoryview, int], int]

STRING_BYTES_MAX: Final = 32_767

_FIXED_BYTES: Final = {
    "bool": 1,
    "int8": 1,
    "uint8": 1,
    "int16": 2,
    "uint16": 2,
    "error_code": 2,
    "int32": 4,
    "uint32": 4,
    "timedelta_i32": 4,
    "int64": 8,
    "uint64": 8,
    "float64": 8,
    "timedelta_i64": 8,
    "datetime_i64": 8,
    "uuid": 16,
}


class _Shape(NamedTuple):
    """How to step over one thing: a fixed size, or a walk of at least `bytes_min`."""

    bytes_min: int
    walk: Walk | None = None
    has_arrays: bool = False


def count_checker(entity_type: Any) -> Walk | None:
    """Return the walker of a `kio` class, None if it has no arrays."""
    shape = _entity_shape(entity_type)
    return shape.walk if shape.has_arrays else None


def field_checker(entity_type: Any, field: Any) -> Walk | None:
    """Return the walker of one field of a `kio` class, None if it has no arrays."""
    shape = _field_shape(field.type, field.metadata.get("kafka_type"), flexible=entity_type.__flexible__)
    return shape.walk if shape.has_arrays else None


def bytes_min_of(entity_type: Any) -> int:
    """Return the fewest bytes that an entity of a `kio` class takes."""
    return _entity_shape(entity_type).bytes_min


@cache
def _entity_shape(entity_type: Any) -> _Shape:
    flexible = entity_type.__flexible__
    shapes = []
    tagged = {}
    for field in dataclasses.fields(entity_type):
        shape = _field_shape(field.type, field.metadata.get("kafka_type"), flexible=flexible)
        if "tag" in field.metadata:
            tagged[field.metadata["tag"]] = shape
        else:
            shapes.append(shape)
    if flexible:
        shapes.append(_tags_shape(tagged))
    bytes_min = sum(shape.bytes_min for shape in shapes)
    if all(shape.walk is None for shape in shapes):
        return _Shape(bytes_min)
    return _Shape(bytes_min, _sequence(shapes), any(shape.has_arrays for shape in shapes))


def _sequence(shapes: list[_Shape]) -> Walk:
    """Return a walk over one shape after the other; join neighbours of fixed size."""
    steps: list[int | Walk] = []
    for shape in shapes:
        if shape.walk is not None:
            steps.append(shape.walk)
        elif steps and isinstance(steps[-1], int):
            steps[-1] += shape.bytes_min
        else:
            steps.append(shape.bytes_min)

    def walk(buffer: memoryview, position: int) -> int:
        for step in steps:
            position = position + step if isinstance(step, int) else step(buffer, position)
        return position

    return walk


def _field_shape(hint: Any, kafka_type: str | None, *, flexible: bool) -> _Shape:
    is_nullable = False
    if get_origin(hint) in (Union, UnionType):
        (hint,) = (each for each in get_args(hint) if each is not NoneType)
        is_nullable = True
    if get_origin(hint) is tuple:
        item = _field_shape(get_args(hint)[0], kafka_type, flexible=flexible)
        return _array_shape(item, flexible=flexible, is_nullable=is_nullable)
    if hasattr(hint, "__dataclass_fields__"):
        shape = _entity_shape(hint)
        return _nullable_entity_shape(shape) if is_nullable else shape
    assert kafka_type is not None, f"a field of type {hint} does not say how it is written"
    fixed = _FIXED_BYTES.get(kafka_type)
    if fixed is not None:
        return _Shape(fixed)
    if flexible:
        return _Shape(1, _over_compact_string if kafka_type == "string" else _over_compact_bytes)
    return _Shape(2, _over_string) if kafka_type == "string" else _Shape(4, _over_bytes)


def _over_compact_bytes(buffer: memoryview, position: int) -> int:
    size = buffer[position]
    if size >= 0x80:
        size, position = read_unsigned(buffer, position)
        return position + size - 1
    return position + size if size else position + 1


def _over_compact_string(buffer: memoryview, position: int) -> int:
    """Step over a string no longer than a legacy string can be, since other versions return it in that form."""
    end = _over_compact_bytes(buffer, position)
    if end - position > STRING_BYTES_MAX + 3:
        raise DecodeError(f"a string at {position} has {end - position - 3} bytes, {STRING_BYTES_MAX} are allowed")
    return end


def _over_string(buffer: memoryview, position: int) -> int:
    return position + 2 + max(int(INT16.unpack_from(buffer, position)[0]), 0)


def _over_bytes(buffer: memoryview, position: int) -> int:
    return position + 4 + max(int(INT32.unpack_from(buffer, position)[0]), 0)


def _array_shape(item: _Shape, *, flexible: bool, is_nullable: bool) -> _Shape:
    count_of = read_compact_count if flexible else read_count
    bytes_min = item.bytes_min
    step = item.walk

    def walk(buffer: memoryview, position: int) -> int:
        count, position = count_of(buffer, position, bytes_min)
        if count <= 0:
            if count < 0 and not is_nullable:
                raise DecodeError("null where the schema wants an array")
            return position
        if step is None:
            return position + count * bytes_min
        for _ in range(count):
            position = step(buffer, position)
        return position

    return _Shape(1 if flexible else 4, walk, has_arrays=True)


def _nullable_entity_shape(shape: _Shape) -> _Shape:
    """Return the shape of a structure after a byte that is negative for null."""

    def walk(buffer: memoryview, position: int) -> int:
        if buffer[position] >= 0x80:
            return position + 1
        return shape.walk(buffer, position + 1) if shape.walk else position + 1 + shape.bytes_min

    return _Shape(1, walk, shape.has_arrays)


def _tags_shape(known: dict[int, _Shape]) -> _Shape:
    def walk(buffer: memoryview, position: int) -> int:
        count = buffer[position]
        if count == 0:
            return position + 1
        count, position = read_unsigned(buffer, position)
        if count > TAGS_MAX:
            raise DecodeError(f"{count} tagged fields announced before {position}")
        for _ in range(count):
            tag, position = read_unsigned(buffer, position)
            size, position = read_unsigned(buffer, position)
            shape = known.get(tag)
            if shape is not None and shape.walk is not None:
                shape.walk(buffer, position)
            position += size
        return position

    return _Shape(1, walk, any(shape.has_arrays for shape in known.values()))
