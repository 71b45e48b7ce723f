"""Avro: Spark's types, values of older and newer writers, and what is refused."""

import datetime as dt
import decimal
import json
from typing import Any

import pyarrow as pa
import pytest

from syncline.pipeline.registry.avro import Avro
from syncline.pipeline.registry.kinds import RegisteredSchema, SchemaError, ValueRefused, spark_type

MOMENT = dt.datetime(2026, 11, 28, 1, 2, 3, 456_000, tzinfo=dt.UTC)


def schema(text: Any, schema_id: int = 1, **references: Any) -> RegisteredSchema:
    """Return a registered schema."""
    named = tuple((name, json.dumps(each)) for name, each in references.items())
    return RegisteredSchema(schema_id, "AVRO", json.dumps(text), named)


def record(*fields: tuple[str, Any], name: str = "Order", **options: Any) -> dict[str, Any]:
    """Return a record type with these fields; what else a field has comes as a dictionary."""
    return {
        "type": "record",
        "name": name,
        "fields": [{"name": each, "type": kind} for each, kind in fields],
        **options,
    }


def logical(kind: str, logic: str, **options: Any) -> dict[str, Any]:
    """Return a logical type."""
    return {"type": kind, "logicalType": logic, **options}


@pytest.mark.parametrize(
    ("kind", "spark", "value"),
    [
        ("boolean", "boolean", True),
        ("int", "int", -7),
        ("long", "bigint", 2**40),
        ("float", "float", 0.5),
        ("double", "double", 0.1),
        ("bytes", "binary", b"\0\xff"),
        ("string", "string", "ü"),
        (["null", "string"], "string", None),
        (["null", "string"], "string", "x"),
        (["int", "long", "null"], "bigint", 5),
        (["float", "double"], "double", 0.25),
        ({"type": "enum", "name": "E", "symbols": ["A", "B"]}, "string", "B"),
        ({"type": "fixed", "name": "F", "size": 2}, "binary", b"ab"),
        ({"type": "array", "items": "int"}, "array<int>", [1, 2]),
        ({"type": "map", "values": "long"}, "map<string, bigint>", {"a": 1}),
        (record(("a b", "int"), name="R"), "struct<`a b`: int>", None),
        (logical("int", "date"), "date", MOMENT.date()),
        (logical("long", "timestamp-millis"), "timestamp", MOMENT),
        (logical("long", "timestamp-micros"), "timestamp", MOMENT),
        (logical("long", "local-timestamp-micros"), "timestamp_ntz", MOMENT.replace(tzinfo=None)),
        (logical("bytes", "decimal", precision=9, scale=2), "decimal(9, 2)", decimal.Decimal("12.34")),
        (logical("string", "uuid"), "string", "00000000-0000-0000-0000-000000000001"),
        (logical("int", "time-millis"), "int", 1_000),
        (logical("long", "timestamp-nanos"), "bigint", 1),
    ],
)
def test_every_type_has_one_of_spark_and_its_values_come_back(kind: Any, spark: str, value: Any) -> None:
    """Within a record, as values of topics are; Arrow takes what is read."""
    if isinstance(kind, dict) and kind.get("name") == "R":
        # Avro's names have no blanks: another registry's may.
        kind, spark, value = record(("a", "int"), name="R"), "struct<`a`: int>", {"a": 3}
    avro = Avro(schema(record(("x", kind))))
    written = avro.write({"x": value})
    read = pa.array([avro.read(schema(record(("x", kind))), b"....." + written, 5)], avro.arrow_type)

    assert spark_type(avro.arrow_type) == f"struct<`x`: {spark}>"
    assert read.to_pylist(maps_as_pydicts="strict") == [{"x": value}]


def test_values_of_other_writers_are_resolved_to_the_readers_schema() -> None:
    """A field that is new has its default, one that is gone is left out, an int has become a long."""
    old = schema(record(("id", "int"), ("gone", "string")), 1)
    new_fields = record(("id", "long"))
    new_fields["fields"].append({"name": "tax", "type": "double", "default": 0.5})
    new = schema(new_fields, 2)
    payload = Avro(old).write({"id": 7, "gone": "x"})

    assert Avro(new).read(old, payload, 0) == {"id": 7, "tax": 0.5}


def test_schema_is_read_with_those_that_it_refers_to() -> None:
    """By name, also where a strange logical type lies in the other one."""
    address = record(("since", logical("int", "time-millis")), name="Address", namespace="shop")
    order = schema(record(("to", "shop.Address"), ("then", "shop.Address")), 2, address=address)
    avro = Avro(order)
    payload = avro.write({"to": {"since": 5}, "then": {"since": 6}})

    assert spark_type(avro.arrow_type) == "struct<`to`: struct<`since`: int>, `then`: struct<`since`: int>>"
    assert Avro(order).read(order, payload, 0) == {"to": {"since": 5}, "then": {"since": 6}}


def test_primitive_schema_is_read_with_and_without_quotation_marks() -> None:
    """Registries keep either."""
    for text in ('"string"', "string"):
        avro = Avro(RegisteredSchema(1, "AVRO", text))
        assert avro.read(RegisteredSchema(1, "AVRO", text), avro.write("x"), 0) == "x"


@pytest.mark.parametrize(
    ("kind", "spark", "value"),
    [
        (logical("string", "date"), "string", "2026"),
        (logical("string", "timestamp-millis"), "string", "2026"),
        (logical("bytes", "decimal"), "binary", b"1"),
        (logical("bytes", "decimal", precision=0), "binary", b"1"),
        (logical("bytes", "decimal", precision=2, scale=3), "binary", b"1"),
        (logical("int", "timestamp-micros"), "int", 1),
        ({"type": "fixed", "name": "D", "size": 12, "logicalType": "duration"}, "binary", bytes(12)),
        ([{"type": "int"}, {"type": "long"}], "bigint", 1),
        ([{"type": "null"}, "int"], "int", None),
        ({"type": {"type": "string"}}, "string", "x"),
    ],
)
def test_logical_type_that_does_not_fit_is_ignored_and_names_may_be_objects(kind: Any, spark: str, value: Any) -> None:
    """As Avro has it: what lies below is read."""
    avro = Avro(schema(record(("x", kind))))

    assert spark_type(avro.arrow_type) == f"struct<`x`: {spark}>"
    read = avro.read(schema(record(("x", kind)), 2), avro.write({"x": value}), 0)
    assert pa.array([read], avro.arrow_type).to_pylist() == [{"x": value}]


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        (["int", "string"], "union of int, string"),
        (record(("x", "int"), ("next", ["null", "Order"])), "contains itself"),
        (logical("bytes", "decimal", precision=40, scale=2), "40 digits"),
    ],
)
def test_schema_without_a_type_in_spark_is_refused(kind: Any, words: str) -> None:
    """By what is in its way."""
    text = kind if isinstance(kind, dict) and kind["type"] == "record" else record(("x", kind))
    with pytest.raises(SchemaError, match=words):
        Avro(schema(text))


@pytest.mark.parametrize("text", ["{", '"Nobody"', '{"type": "record"}'])
def test_text_that_is_no_schema_is_refused(text: str) -> None:
    """With the number of the schema."""
    with pytest.raises(SchemaError, match="schema 9"):
        Avro(RegisteredSchema(9, "AVRO", text))


def test_value_that_does_not_fit_is_refused() -> None:
    """Damaged bytes, a writer that cannot be resolved, and a row of other fields."""
    avro = Avro(schema(record(("x", "long"))))
    with pytest.raises(ValueRefused, match="schema 1"):
        avro.read(schema(record(("x", "long"))), b"", 0)
    with pytest.raises(ValueRefused, match="schema 2"):
        avro.read(schema(record(("x", "string")), 2), b"\2a", 0)
    for row in ({"x": "text"}, {}, {"x": 1, "y": 2}):
        with pytest.raises(ValueRefused, match="does not fit"):
            avro.write(row)
