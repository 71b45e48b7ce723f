"""Requests of any API with one list, or one string, as large as is legal: found in the schemas, so none is forgotten.

One hard idea: building a hundred thousand entities takes longer than the attack. So a request is encoded twice, with
an empty list and with one item. Where the two differ is the list's count; behind it is the item. The item is repeated
as bytes, and marks in it become numbers, so that all items name different things.

A path names a field from the request down: ("topics", "partitions"). Every list above the field has one item.
"""

import dataclasses
import struct
import typing
from collections.abc import Iterator, Mapping
from typing import Any, Final

from kio.index import load_request_schema

from syncline.wire.api import LISTS_BYTES_MAX, ApiKey
from syncline.wire.primitives import ITEMS_MAX, varint
from tests.attack.frames import frame_of
from tests.conformance.kio_tree import encode_request, is_flexible

Path = tuple[str, ...]

STRING_BYTES_MAX: Final = 32_767
# In an item, these become its number: as digits, or as an int32 (also the end of an id).
TEXT_MARK: Final = "000000"
INT_MARK: Final = 0x5E7E5E7E
ID_MARK: Final = "61747461-636b-6572-7320-6964" + f"{INT_MARK:08x}"
# Room for the header and what is around the list.
AROUND_BYTES: Final = 40_000
_INT32: Final = struct.Struct(">i")

# What a field holds unless a case says otherwise: values that let a request pass the first checks.
USUAL: Final[Mapping[str, Any]] = {
    "acks": 1,
    "timeout": 1_000,
    "replica_id": -1,
    "current_leader_epoch": -1,
    "last_fetched_epoch": -1,
    "session_epoch": -1,
    "max_bytes": 1 << 20,
    "partition_max_bytes": 1 << 10,
    "timestamp": -1,
    "generation_id": -1,
    "generation_id_or_member_epoch": -1,
    "member_epoch": -1,
    "session_timeout": 10_000,
    "rebalance_timeout": 10_000,
    "protocol_type": "consumer",
    "num_partitions": 1,
    "replication_factor": 1,
    "count": 50,
    "validate_only": True,
    "resource_type": 2,
    "include_synonyms": True,
    "include_documentation": True,
    "producer_id": -1,
    "producer_epoch": -1,
    "partition": INT_MARK,
    "partition_index": INT_MARK,
    "index": INT_MARK,
    "partitions": INT_MARK,
    "partition_indexes": INT_MARK,
    "broker_ids": INT_MARK,
    "topic_id": ID_MARK,
}


def list_paths(key: ApiKey, version: int) -> list[Path]:
    """Return the path of every list in a request."""
    return [path for path, is_list, _ in _fields(load_request_schema(key, version)) if is_list]


def string_paths(key: ApiKey, version: int) -> list[Path]:
    """Return the path of every string in a request, also of those that are items of lists."""
    return [path for path, _, kafka_type in _fields(load_request_schema(key, version)) if kafka_type == "string"]


def frame_with_list(key: ApiKey, version: int, path: Path, values: Mapping[str, Any], items_max: int) -> bytes:
    """Return a request whose list at `path` has as many items as are legal, at most `items_max`.

    `values` maps fields, by name or by path joined with dots, to what they hold; others hold what is usual.
    """
    schema = load_request_schema(key, version)
    empty = encode_request(key, version, _tree(schema, path, values, has_item=False))
    single = encode_request(key, version, _tree(schema, path, values, has_item=True))
    at = next(index for index, (old, new) in enumerate(zip(empty, single, strict=False)) if old != new)
    item = single[at + 1 : at + 1 + len(single) - len(empty)]
    count = min(items_max, ITEMS_MAX, (LISTS_BYTES_MAX - AROUND_BYTES) // len(item))
    # Only the last byte of a count of four bytes differs.
    head = single[:at] + varint(count + 1) if is_flexible(key, version) else single[: at - 3] + _INT32.pack(count)
    return frame_of(key, version, b"".join((head, _numbered(item, count), single[at + 1 + len(item) :])))


def frame_with_string(key: ApiKey, version: int, path: Path, values: Mapping[str, Any]) -> bytes:
    """Return a request whose string at `path` is as long as a string may be."""
    longest = {**values, ".".join(path): "s" * STRING_BYTES_MAX}
    tree = _tree(load_request_schema(key, version), path, longest, has_item=True)
    return frame_of(key, version, encode_request(key, version, tree))


def _numbered(item: bytes, count: int) -> bytes:
    text_mark, int_mark = TEXT_MARK.encode(), _INT32.pack(INT_MARK)
    if text_mark not in item and int_mark not in item:
        return item * count
    return b"".join(
        item.replace(text_mark, b"%06d" % number).replace(int_mark, _INT32.pack(number)) for number in range(count)
    )


def _fields(schema: Any, above: Path = ()) -> Iterator[tuple[Path, bool, str | None]]:
    """Yield (path, whether it is a list, its or its items' Kafka type) of every field; a struct has no such type."""
    hints = typing.get_type_hints(schema)
    for field in dataclasses.fields(schema):
        path, hint = (*above, field.name), hints[field.name]
        inner = _struct_in(hint)
        yield path, _is_list(hint), field.metadata.get("kafka_type")
        if inner is not None:
            yield from _fields(inner, path)


def _tree(schema: Any, path: Path, values: Mapping[str, Any], *, has_item: bool, above: Path = ()) -> dict[str, Any]:
    """Return the fields of a request in which every list on the way to `path` has one item, and others have none."""
    hints = typing.get_type_hints(schema)
    tree: dict[str, Any] = {}
    for field in dataclasses.fields(schema):
        here, hint = (*above, field.name), hints[field.name]
        inner, is_on_path = _struct_in(hint), path[: len(here)] == here
        if _is_list(hint):
            if is_on_path and (here != path or has_item):
                single = _tree(inner, path, values, has_item=has_item, above=here) if inner else None
                tree[field.name] = [_value(here, field, hint, values) if single is None else single]
            else:
                tree[field.name] = []
        elif inner is None:
            tree[field.name] = _value(here, field, hint, values)
        elif is_on_path:
            tree[field.name] = _tree(inner, path, values, has_item=has_item, above=here)
    return tree


def _value(path: Path, field: Any, hint: Any, values: Mapping[str, Any]) -> Any:
    for name in (".".join(path), field.name):
        for known in (values, USUAL):
            if name in known:
                return known[name]
    kafka_type = field.metadata["kafka_type"]
    if kafka_type == "string":
        is_null = type(None) in typing.get_args(hint) and not _is_list(hint)
        return None if is_null else f"absent-{TEXT_MARK}"
    return {"bool": False, "bytes": b"", "records": None, "uuid": ID_MARK}.get(kafka_type, 0)


def _struct_in(hint: Any) -> Any:
    if isinstance(hint, type) and dataclasses.is_dataclass(hint):
        return hint
    return next((found for each in typing.get_args(hint) if (found := _struct_in(each)) is not None), None)


def _is_list(hint: Any) -> bool:
    return typing.get_origin(hint) is tuple or any(_is_list(each) for each in typing.get_args(hint))
