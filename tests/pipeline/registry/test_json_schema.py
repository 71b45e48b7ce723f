"""JSON Schema: what a schema says of a value's form, and what becomes of the rest."""

import json
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
    ("text", "words"),
    [
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
        ({"id": "1"}, 'id is "1" instead of a value of type integer'),
        ({"id": True}, "id is true"),
        ({"lines": {}}, "lines is {} instead of an array"),
        ([], "the value is \\[\\] instead of an object"),
        ({"tags": 1}, "tags is 1"),
    ],
)
def test_value_of_another_form_is_refused_by_its_place(value: Any, words: str) -> None:
    """A query would otherwise have wrong rows."""
    with pytest.raises(ValueRefused, match=words):
        read(JsonSchema(schema(ORDER)), value)


def test_bytes_that_are_no_json_are_refused() -> None:
    """With the numbers of both schemas."""
    with pytest.raises(ValueRefused, match=r"schema 2 \(JSON\) cannot be read as schema 1"):
        JsonSchema(schema(ORDER)).read(schema({}, 2), b"\xff", 0)
