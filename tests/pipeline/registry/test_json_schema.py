"""JSON Schema: what a schema says of a value's form, and what becomes of the rest."""

import datetime as dt
import json
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from syncline.pipeline.registry.json_schema import JsonSchema
from syncline.pipeline.registry.kinds import RegisteredSchema, SchemaError, ValueRefused, spark_type

ORDER = {
    "type": "object",
    "properties": {
        "id": {"type": "integer"},
        "price": {"type": "number"},
        "paid": {"type": "boolean"},
        "note": {"type": ["string", "null"]},
        "lines": {"type": "array", "items": {"$ref": "#/$defs/line"}},
        "tags": {"type": "object", "additionalProperties": {"type": "string"}},
        "free": {},
        "either": {"oneOf": [{"type": "string"}, {"type": "integer"}]},
        "maybe": {"oneOf": [{"type": "null"}, {"type": "integer"}]},
    },
    "$defs": {"line": {"type": "object", "properties": {"n": {"type": "integer"}}}},
}
VALUE = {
    "id": 1,
    "price": 2,
    "paid": True,
    "note": None,
    "lines": [{"n": 1}, {"n": 2, "more": 0}],
    "tags": {"a": "b"},
    "free": {"x": [1]},
    "either": 5,
    "maybe": 3,
    "unknown": 1,
}


def schema(text: Any, schema_id: int = 1, **references: Any) -> RegisteredSchema:
    """Return a registered schema."""
    named = tuple((name, json.dumps(each)) for name, each in references.items())
    return RegisteredSchema(schema_id, "JSON", json.dumps(text), named)


def read(kind: JsonSchema, value: Any) -> Any:
    """Return a value as its column would have it."""
    payload = json.dumps(value).encode()
    return pa.array([kind.read(schema({}), b"....." + payload, 5)], kind.arrow_type).to_pylist(
        maps_as_pydicts="strict"
    )[0]


def test_object_is_a_struct_and_what_has_no_one_type_is_its_json() -> None:
    """Properties that the schema does not name are left out; those that are not there are null."""
    kind = JsonSchema(schema(ORDER))

    assert spark_type(kind.arrow_type) == (
        "struct<`id`: bigint, `price`: double, `paid`: boolean, `note`: string, `lines`: array<struct<`n`: bigint>>,"
        " `tags`: map<string, string>, `free`: string, `either`: string, `maybe`: bigint>"
    )
    assert read(kind, VALUE) == {
        "id": 1,
        "price": 2.0,
        "paid": True,
        "note": None,
        "lines": [{"n": 1}, {"n": 2}],
        "tags": {"a": "b"},
        "free": '{"x":[1]}',
        "either": "5",
        "maybe": 3,
    }
    assert read(kind, {"id": 1.0}) == {**dict.fromkeys(ORDER["properties"]), "id": 1}


def test_row_is_written_as_json_without_its_nulls() -> None:
    """What was read comes out again."""
    kind = JsonSchema(schema(ORDER))
    written = json.loads(kind.write(read(kind, VALUE)))

    expected = {key: value for key, value in VALUE.items() if key not in {"note", "unknown"}}
    assert written == {**expected, "lines": [{"n": 1}, {"n": 2}]}


def test_references_are_followed() -> None:
    """To another registered schema, and to a place in it."""
    other = {"$defs": {"n": {"type": "integer"}}, "type": "object", "properties": {"m": {"$ref": "#/$defs/n"}}}
    kind = JsonSchema(
        schema(
            {"properties": {"a": {"$ref": "other.json"}, "b": {"$ref": "other.json#/$defs/n"}}}, **{"other.json": other}
        )
    )

    assert spark_type(kind.arrow_type) == "struct<`a`: struct<`m`: bigint>, `b`: bigint>"


@pytest.mark.parametrize(
    ("text", "spark"),
    [
        ({"allOf": [{"properties": {"a": {"type": "integer"}}}], "properties": {"b": {}}}, "`a`: bigint, `b`: string"),
        (
            {"$ref": "#/$defs/a", "properties": {"b": {}}, "$defs": {"a": {"properties": {"a": {"type": "number"}}}}},
            "`a`: double, `b`: string",
        ),
        ({"properties": {"a": {"type": "integer"}}, "anyOf": [{"required": ["a"]}, {"required": []}]}, "`a`: bigint"),
        ({"properties": {"a": {"oneOf": [{"type": "null", "title": "none"}, {"type": "integer"}]}}}, "`a`: bigint"),
        (
            {"properties": {"": {"type": "integer"}, "b": True, "c": {"type": "array"}}},
            "``: bigint, `b`: string, `c`: array<string>",
        ),
        ({"properties": {"a": {"$ref": "#/$defs/x%20y"}}, "$defs": {"x y": {"type": "boolean"}}}, "`a`: boolean"),
        ({"properties": {"a": {"$ref": "#/list/1"}}, "list": [{}, {"type": "boolean"}]}, "`a`: boolean"),
        ({"$id": "o.json", "properties": {"a": {"$ref": "o.json#/d"}}, "d": {"type": "boolean"}}, "`a`: boolean"),
    ],
)
def test_columns_are_added_up_and_found_wherever_a_schema_has_them(text: Any, spark: str) -> None:
    """Beside `allOf`, `$ref` and alternatives that only forbid; by every kind of way."""
    assert spark_type(JsonSchema(schema(text)).arrow_type) == f"struct<{spark}>"


def test_same_way_in_two_documents_is_no_circle() -> None:
    """Both call a part `#/$defs/address`."""
    other = {"$defs": {"address": {"properties": {"street": {"type": "string"}}}}, "$ref": "#/$defs/address"}
    whole = {"properties": {"to": {"$ref": "#/$defs/address"}}, "$defs": {"address": {"$ref": "address.json"}}}

    kind = JsonSchema(schema(whole, **{"address.json": other}))
    assert spark_type(kind.arrow_type) == "struct<`to`: struct<`street`: string>>"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ({"properties": {"a": {"$ref": 5}}}, "that is not text"),
        ({"properties": {"a": {"$ref": "#anchor"}}}, "anchor"),
        ({"properties": {"a": {"$ref": "#/nowhere"}}}, "refers to #/nowhere"),
        ({"properties": {"a": {"$ref": "other.json"}}}, "refers to other.json"),
        ({"properties": {"a": {"$ref": "#"}}}, "contains itself"),
    ],
)
def test_schema_that_cannot_be_followed_is_refused(text: Any, words: str) -> None:
    """By the reference."""
    with pytest.raises(SchemaError, match=words):
        JsonSchema(schema(text))


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ({"id": "1"}, "id is '1' instead of an integer"),
        ({"id": True}, "id is 'True' instead of an integer"),
        ({"lines": {}}, "lines is '{}' instead of an array"),
        ([], r"the value is '\[\]' instead of an object"),
        ({"tags": 1}, "tags is '1' instead of an object"),
    ],
)
def test_value_of_another_form_is_refused_by_its_place(value: Any, words: str) -> None:
    """A query would otherwise have wrong rows."""
    with pytest.raises(ValueRefused, match=words):
        read(JsonSchema(schema(ORDER)), value)


def test_schema_without_end_is_refused() -> None:
    """Of two thousand levels; and odd words are no reason to fail."""
    deep: Any = {}
    for _ in range(200):
        deep = {"properties": {"a": deep}}
    with pytest.raises(SchemaError, match="levels deep"):
        JsonSchema(schema(deep))
    for odd in (
        {"properties": ["a"]},
        {"type": {"a": 1}},
        {"type": "object", "additionalProperties": True},
        {"items": 1},
    ):
        assert spark_type(JsonSchema(schema(odd)).arrow_type) == "string"


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ({"a": "abc"}, "a is 'abc' instead of an integer"),
        ({"n": float("nan")}, "n is 'nan' instead of a number"),
        ({"n": float("inf")}, "instead of a number"),
        ({"a": 1.5}, "instead of an integer"),
        ({"s": b"bytes"}, "instead of a string"),
        ({"m": {dt.date(2026, 1, 1): "x"}}, "instead of a string"),
        ({"s": "\ud800"}, "does not fit"),
        ({"x": 1}, "has the field x"),
    ],
)
def test_row_of_another_form_is_not_written(row: Any, words: str) -> None:
    """A consumer would not be able to read it."""
    properties = {"a": {"type": "integer"}, "n": {"type": "number"}, "s": {"type": "string"}}
    kind = JsonSchema(
        schema({"properties": {**properties, "m": {"type": "object", "additionalProperties": {"type": "string"}}}})
    )
    with pytest.raises(ValueRefused, match=words):
        kind.write(row)


def test_large_decimal_is_written_as_the_integer_that_it_is() -> None:
    """And not as the nearest double."""
    kind = JsonSchema(schema({"properties": {"a": {"type": "integer"}}}))

    assert kind.write({"a": Decimal(2**60 + 1)}) == b'{"a":%d}' % (2**60 + 1)


def test_bytes_that_are_no_json_are_refused() -> None:
    """With the numbers of both schemas."""
    with pytest.raises(ValueRefused, match=r"schema 2 \(JSON\) cannot be read as schema 1"):
        JsonSchema(schema(ORDER)).read(schema({}, 2), b"\xff", 0)
