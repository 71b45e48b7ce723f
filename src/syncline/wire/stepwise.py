"""Long messages, read and written item by item, so that other work can run between two items.

`kio` reads or writes a whole message in one call. That takes a microsecond per item to read and ten to write, and a
legal message may have a hundred thousand items (`ITEMS_MAX`). The functions here return the same entities and the same
bytes, but are generators that yield after each item; each step takes some microseconds.

One hard idea: only arrays are taken apart, at any depth. Everything between them (numbers, strings) is left to `kio`,
in one call each, after its announced counts were checked.

Positions are bytes from the start of the buffer. Source: the Kafka protocol guide.
"""

import dataclasses
import io
import struct
from collections.abc import Callable, Generator, Mapping
from functools import cache
from types import NoneType, UnionType
from typing import Any, Final, NamedTuple, TypeAlias, Union, get_args, get_origin, get_type_hints

from syncline.records.varint import read_unsigned
from syncline.wire.announced_counts import STRING_BYTES_MAX, bytes_min_of, count_checker, field_checker
from syncline.wire.entities import build, converter, forget_converters
from syncline.wire.errors import DecodeError
from syncline.wire.primitives import INT32, ITEMS_MAX, TAGS_MAX, read_compact_count, read_count, varint
from syncline.wire.rows import SharedRows

Entity: TypeAlias = Any
# Strings that are read in one step, which takes some microseconds.
STRINGS_AT_ONCE: Final = 20
# Numbers likewise: they are read all at once by `struct`.
NUMBERS_AT_ONCE: Final = 1_000
_NUMBER_CODES: Final = {"int8": "b", "int16": "h", "int32": "i", "int64": "q"}


class _Array(NamedTuple):
    """A field that is an array of structures, and whether these contain arrays of structures or strings themselves.

    Those with arrays of numbers are read in steps as well; they are written in one call, as brokers know what is in
    them.
    """

    item_type: Entity
    is_nested: bool
    has_numbers: bool
    is_nullable: bool


class _Strings(NamedTuple):
    """A field that is an array of strings; it is written in one call."""

    is_nullable: bool


class _Numbers(NamedTuple):
    """A field that is an array of numbers; it is written in one call."""

    # As `struct` names their type.
    code: str
    is_nullable: bool


class _Field(NamedTuple):
    """One field that is not tagged; not an array for all that `kio` reads in one call."""

    name: str
    array: _Array | None
    strings: _Strings | None
    numbers: _Numbers | None
    convert: Callable[[Any], Any] | None


class _Tagged(NamedTuple):
    """A tagged field: written if its value is not the default."""

    tag: int
    name: str
    default: Any
    convert: Callable[[Any], Any] | None


class _Plan(NamedTuple):
    """How to take the entities of one class apart."""

    fields: tuple[_Field, ...]
    is_flexible: bool
    # Tagged fields, in the order of their tags; a message of many rows may have one of them at its top.
    tagged: tuple["_Tagged", ...]


@cache
def _plan(entity_type: Entity) -> _Plan:
    hints = get_type_hints(entity_type)
    every = dataclasses.fields(entity_type)
    own = [each for each in every if "tag" not in each.metadata]
    return _Plan(
        tuple(
            _Field(
                each.name,
                _array(hints[each.name]),
                _strings(hints[each.name], each.metadata.get("kafka_type")),
                _numbers(hints[each.name], each.metadata.get("kafka_type")),
                converter(hints[each.name], each.metadata.get("kafka_type")),
            )
            for each in own
        ),
        entity_type.__flexible__,
        tuple(
            _Tagged(
                each.metadata["tag"],
                each.name,
                _tagged_default(each),
                converter(hints[each.name], each.metadata.get("kafka_type")),
            )
            for each in sorted(
                (each for each in every if "tag" in each.metadata), key=lambda each: each.metadata["tag"]
            )
        ),
    )


def _without_null(hint: Any) -> tuple[Any, bool]:
    """Return a type without None, and whether it had that."""
    if get_origin(hint) not in (Union, UnionType):
        return hint, False
    (inner,) = (each for each in get_args(hint) if each is not NoneType)
    return inner, True


def _strings(hint: Any, kafka_type: str | None) -> _Strings | None:
    hint, is_nullable = _without_null(hint)
    return _Strings(is_nullable) if get_origin(hint) is tuple and kafka_type == "string" else None


def _numbers(hint: Any, kafka_type: str | None) -> _Numbers | None:
    hint, is_nullable = _without_null(hint)
    code = _NUMBER_CODES.get(kafka_type or "")
    return _Numbers(code, is_nullable) if get_origin(hint) is tuple and code is not None else None


def _array(hint: Any) -> _Array | None:
    hint, is_nullable = _without_null(hint)
    if get_origin(hint) is not tuple:
        return None
    item_type = get_args(hint)[0]
    if not dataclasses.is_dataclass(item_type):
        return None
    plan = _plan(item_type)  # type: ignore[arg-type]
    is_nested = any(field.array is not None or field.strings is not None for field in plan.fields)
    has_numbers = any(field.numbers is not None for field in plan.fields)
    return _Array(item_type, is_nested, has_numbers, is_nullable)


def decode_in_steps(
    entity_type: Entity,
    view: memoryview,
    position: int,
    kept_max: Mapping[str, int] | None = None,
    named: list[Any] | None = None,
) -> Generator[None, None, tuple[Entity, int]]:
    """Return the entity at `position` and the position after it; `view` is read-only. Raises DecodeError.

    Of its arrays named in `kept_max`, only so many items are kept; the others are read and dropped. The items of arrays
    at any depth are also added to `named`, so that they can be freed some at a time.
    """
    named = [] if named is None else named
    plan = _plan(entity_type)
    values: dict[str, Any] = {}
    for field in plan.fields:
        if field.strings is not None:
            values[field.name], position = yield from _decode_strings(field.strings, view, position, plan)
            named += values[field.name] or ()
        elif field.numbers is not None:
            values[field.name], position = yield from _decode_numbers(field.numbers, view, position, plan)
        elif field.array is None:
            read, check = _field_reader(entity_type, field.name)
            if check is not None:
                check(view, position)
            values[field.name], size = read(view, position)
            position += size
        else:
            values[field.name], position = yield from _decode_array(
                field.array, view, position, plan, (kept_max or {}).get(field.name, ITEMS_MAX), named
            )
    if plan.is_flexible:
        position = _decode_tags(entity_type, view, position, values)
    return entity_type(**values), position


def _decode_array(
    array: _Array, view: memoryview, position: int, plan: _Plan, kept_max: int, named: list[Any]
) -> Generator[None, None, tuple[tuple[Entity, ...] | None, int]]:
    count_of = read_compact_count if plan.is_flexible else read_count
    count, position = count_of(view, position, bytes_min_of(array.item_type))
    if count < 0:
        if not array.is_nullable:
            raise DecodeError("null where the schema wants an array")
        return None, position
    items: list[Entity] = []
    if array.is_nested or array.has_numbers:
        for _ in range(count):
            item, position = yield from decode_in_steps(array.item_type, view, position, named=named)
            if len(items) < kept_max:
                items.append(item)
            yield
    else:
        read, check = _item_reader(array.item_type)
        for _ in range(count):
            if check is not None:
                check(view, position)
            try:
                item, size = read(view, position)
                position += size
            except KeyError:
                # It has a tagged field that `kio` does not know.
                item, position = yield from decode_in_steps(array.item_type, view, position)
            if len(items) < kept_max:
                items.append(item)
            yield
    assert len(items) == min(count, kept_max), f"{len(items)} items of {count}"
    named += items
    return tuple(items), position


def _decode_strings(
    strings: _Strings, view: memoryview, position: int, plan: _Plan
) -> Generator[None, None, tuple[tuple[str, ...] | None, int]]:
    from kio.serial._parse import get_reader

    count_of = read_compact_count if plan.is_flexible else read_count
    count, position = count_of(view, position, 1 if plan.is_flexible else 2)
    if count < 0:
        if not strings.is_nullable:
            raise DecodeError("null where the schema wants an array")
        return None, position
    items: list[str] = []
    read = get_reader("string", plan.is_flexible, False)
    while len(items) < count:
        for _ in range(min(STRINGS_AT_ONCE, count - len(items))):
            item, size = read(view, position)
            # Up to three bytes say how long a string is.
            if size > STRING_BYTES_MAX + 3:
                raise DecodeError(f"a string at {position} has {size - 3} bytes, {STRING_BYTES_MAX} are allowed")
            position += size
            items.append(item)
        yield
    return tuple(items), position


def _decode_numbers(
    numbers: _Numbers, view: memoryview, position: int, plan: _Plan
) -> Generator[None, None, tuple[tuple[int, ...] | None, int]]:
    count_of = read_compact_count if plan.is_flexible else read_count
    size = struct.calcsize(">" + numbers.code)
    count, position = count_of(view, position, size)
    if count < 0:
        if not numbers.is_nullable:
            raise DecodeError("null where the schema wants an array")
        return None, position
    items: list[int] = []
    while len(items) < count:
        some = min(NUMBERS_AT_ONCE, count - len(items))
        items += struct.unpack_from(f">{some}{numbers.code}", view, position)
        position += some * size
        if len(items) < count:
            yield
    return tuple(items), position


def _decode_tags(entity_type: Entity, view: memoryview, position: int, values: dict[str, Any]) -> int:
    """Put the known tagged fields into `values`, ignore others; return the position after the section."""
    count, position = read_unsigned(view, position)
    if count > TAGS_MAX:
        raise DecodeError(f"{count} tagged fields announced before {position}")
    known = {each.tag: each for each in _plan(entity_type).tagged}
    for each in known.values():
        values[each.name] = each.default
    for _ in range(count):
        tag, position = read_unsigned(view, position)
        size, position = read_unsigned(view, position)
        if size > len(view) - position:
            raise DecodeError(f"tagged field {tag} has {size} bytes, {len(view) - position} are left")
        if tag in known:
            read, check = _field_reader(entity_type, known[tag].name)
            if check is not None:
                check(view, position)
            values[known[tag].name], _ = read(view, position)
        position += size
    return position


def _tagged_default(field: Any) -> Any:
    """Return the value of a tagged field that is not there."""
    from kio.serial._implicit_defaults import get_tagged_field_default

    if field.default is not dataclasses.MISSING:
        return field.default
    return get_tagged_field_default(field)


@cache
def _field_reader(entity_type: Entity, name: str) -> tuple[Callable[..., Any], Callable[..., Any] | None]:
    from kio.serial._parse import get_field_reader

    (field,) = (each for each in dataclasses.fields(entity_type) if each.name == name)
    return get_field_reader(entity_type, field, False, "tag" in field.metadata), field_checker(entity_type, field)


@cache
def _item_reader(item_type: Entity) -> tuple[Callable[..., Any], Callable[..., Any] | None]:
    from kio.serial import entity_reader

    return entity_reader(item_type), count_checker(item_type)


def encode_in_steps(entity_type: Entity, fields: Mapping[str, Any]) -> Generator[None, None, bytes]:
    """Return the bytes of the entity that `build` would make of `fields`."""
    out = io.BytesIO()
    yield from _encode(entity_type, fields, out)
    return out.getvalue()


def _encode(entity_type: Entity, fields: Mapping[str, Any], out: io.BytesIO) -> Generator[None, None, None]:
    plan = _plan(entity_type)
    for field in plan.fields:
        value = fields[field.name]
        if field.array is None or value is None:
            write = _field_writer(entity_type, field.name)
            write(out, value if field.convert is None else field.convert(value))
        else:
            yield from _encode_array(field.array, value, out, is_flexible=plan.is_flexible)
    if plan.is_flexible:
        _encode_tags(entity_type, plan, fields, out)


def _encode_tags(entity_type: Entity, plan: _Plan, fields: Mapping[str, Any], out: io.BytesIO) -> None:
    encoded: list[tuple[int, bytes]] = []
    for each in plan.tagged:
        value = fields.get(each.name, each.default)
        value = value if each.convert is None else each.convert(value)
        if value != each.default:
            own = io.BytesIO()
            _field_writer(entity_type, each.name)(own, value)
            encoded.append((each.tag, own.getvalue()))
    out.write(varint(len(encoded)))
    out.writelines(varint(tag) + varint(len(content)) + content for tag, content in encoded)


def _encode_array(array: _Array, rows: Any, out: io.BytesIO, *, is_flexible: bool) -> Generator[None, None, None]:
    if isinstance(rows, SharedRows):
        if rows.encoded is None:
            shared = io.BytesIO()
            yield from _encode_array(array, rows.rows, shared, is_flexible=is_flexible)
            rows.encoded = shared.getvalue()
        out.write(rows.encoded)
        return
    out.write(varint(len(rows) + 1) if is_flexible else INT32.pack(len(rows)))
    write = None if array.is_nested else _item_writer(array.item_type)
    written = 0
    for row in rows:
        if write is None:
            yield from _encode(array.item_type, row, out)
        else:
            write(out, build(array.item_type, row))
        written += 1
        yield
    assert written == len(rows), f"{written} rows were made, {len(rows)} announced"


@cache
def _field_writer(entity_type: Entity, name: str) -> Callable[[io.BytesIO, Any], None]:
    from kio.serial._serialize import get_field_writer

    (field,) = (each for each in dataclasses.fields(entity_type) if each.name == name)
    is_tag = "tag" in field.metadata
    return get_field_writer(field, flexible=entity_type.__flexible__, is_request_header=False, is_tag=is_tag)


@cache
def _item_writer(item_type: Entity) -> Callable[[io.BytesIO, Any], None]:
    from kio.serial import entity_writer

    return entity_writer(item_type)


def forget_plans() -> None:
    """Forget how entities are read and written; that of a class is found out again when needed, in 0.1 ms.

    What was found out while a long request was served lies all over what that took (`local.memory`).
    """
    for found_out in (_plan, _field_reader, _item_reader, _field_writer, _item_writer):
        found_out.cache_clear()
    forget_converters()
