"""Protobuf: all kinds of fields, presence, messages within messages and files, and what is refused."""

import datetime as dt
import decimal
from typing import Any

import pyarrow as pa
import pytest
from google.protobuf import descriptor_pb2
from google.protobuf.descriptor_pb2 import FieldDescriptorProto as Field

from syncline.pipeline.registry.kinds import RegisteredSchema, SchemaError, ValueRefused, spark_type
from syncline.pipeline.registry.protobuf import Protobuf
from tests.pipeline.registry.files import TIMESTAMP_FILE, WRAPPERS_FILE, field, file, message, registered, text_of

MOMENT = dt.datetime(2026, 11, 28, 1, 2, 3, 456_789, tzinfo=dt.UTC)
COLOURS = descriptor_pb2.EnumDescriptorProto(
    name="Colour",
    value=[
        descriptor_pb2.EnumValueDescriptorProto(name=name, number=number) for number, name in enumerate(("RED", "BLUE"))
    ],
)
ENTRY = message(
    "TagsEntry",
    field("key", Field.TYPE_STRING),
    field("value", Field.TYPE_INT32),
    options=descriptor_pb2.MessageOptions(map_entry=True),
)
LINE = message("Line", field("n", Field.TYPE_INT32))


def shop() -> RegisteredSchema:
    """Return a file with a message that has a field of each kind, and another one."""
    one_of = {"oneof_index": 0}
    optional = {"oneof_index": 1, "proto3_optional": True}
    return registered(
        file(
            message(
                "Order",
                field("id", Field.TYPE_UINT64),
                field("small", Field.TYPE_UINT32),
                field("signed", Field.TYPE_SINT64),
                field("ratio", Field.TYPE_FLOAT),
                field("price", Field.TYPE_DOUBLE),
                field("paid", Field.TYPE_BOOL),
                field("note", Field.TYPE_STRING),
                field("raw", Field.TYPE_BYTES),
                field("colour", Field.TYPE_ENUM, ".shop.Colour"),
                field("lines", Field.TYPE_MESSAGE, ".shop.Order.Line", repeated=True),
                field("tags", Field.TYPE_MESSAGE, ".shop.Order.TagsEntry", repeated=True),
                field("at", Field.TYPE_MESSAGE, ".google.protobuf.Timestamp"),
                field("name", Field.TYPE_MESSAGE, ".google.protobuf.StringValue"),
                field("card", Field.TYPE_STRING, **one_of),
                field("cash", Field.TYPE_INT32, **one_of),
                field("seen", Field.TYPE_INT32, **optional),
                field("numbers", Field.TYPE_INT64, repeated=True),
                nested_type=[LINE, ENTRY],
                oneof_decl=[
                    descriptor_pb2.OneofDescriptorProto(name="paid_by"),
                    descriptor_pb2.OneofDescriptorProto(name="_seen"),
                ],
            ),
            message("Other", field("x", Field.TYPE_INT32)),
            uses=(TIMESTAMP_FILE, WRAPPERS_FILE),
            enums=(COLOURS,),
        )
    )


FULL: dict[str, Any] = {
    "id": decimal.Decimal(2**64 - 1),
    "small": 2**32 - 1,
    "signed": -5,
    "ratio": 0.5,
    "price": 0.1,
    "paid": True,
    "note": "ü",
    "raw": b"\0\xff",
    "colour": "BLUE",
    "lines": [{"n": 1}, {"n": 2}],
    "tags": {"a": 1},
    "at": MOMENT,
    "name": "n",
    "card": None,
    "cash": 3,
    "seen": 0,
    "numbers": [1, 2**40],
}


def test_fields_of_every_kind_come_back() -> None:
    """As Arrow has them, with the first message of the file named by one byte."""
    kind = Protobuf(shop())
    payload = kind.write(FULL)
    read = pa.array([kind.read(shop(), b"....." + payload, 5)], kind.arrow_type)

    assert payload[0] == 0
    assert spark_type(kind.arrow_type) == (
        "struct<`id`: decimal(20, 0), `small`: bigint, `signed`: bigint, `ratio`: float, `price`: double,"
        " `paid`: boolean, `note`: string, `raw`: binary, `colour`: string, `lines`: array<struct<`n`: int>>,"
        " `tags`: map<string, int>, `at`: timestamp, `name`: string, `card`: string, `cash`: int, `seen`: int,"
        " `numbers`: array<bigint>>"
    )
    assert read.to_pylist(maps_as_pydicts="strict") == [FULL]


def test_what_is_not_set_is_null_where_protobuf_can_say_so() -> None:
    """Else it is the default."""
    kind = Protobuf(shop())
    read = pa.array([kind.read(shop(), b"\0", 0)], kind.arrow_type).to_pylist(maps_as_pydicts="strict")[0]

    assert {name for name, value in read.items() if value is None} == {"at", "name", "card", "cash", "seen"}
    assert (read["id"], read["note"], read["colour"], read["lines"], read["tags"]) == (0, "", "RED", [], {})


def test_another_message_of_the_file_is_chosen_by_name() -> None:
    """A value says which message it is; one that is another is refused, also by the number of a newer file."""
    schema = shop()
    line, other = Protobuf(schema, "shop.Order.Line"), Protobuf(schema, "shop.Other")
    payload = line.write({"n": 4})

    assert line.read(schema, payload, 0) == {"n": 4}
    with pytest.raises(ValueRefused, match=r"is the message shop\.Order\.Line, not shop\.Other"):
        other.read(schema, payload, 0)
    newer = registered(file(message("First"), message("Other", field("x", Field.TYPE_INT32))), 2)
    assert other.read(newer, Protobuf(newer, "shop.Other").write({"x": 1}), 0) == {"x": 1}
    with pytest.raises(ValueRefused, match=r"schema 2 \(PROTOBUF\) is the message shop\.First, not shop\.Other"):
        other.read(newer, Protobuf(newer).write({}), 0)
    with pytest.raises(ValueRefused, match=r"is the message \(9,\)"):
        other.read(schema, b"\x02\x12", 0)
    with pytest.raises(SchemaError, match=r"has no message Nobody; it has shop\.Order, shop\.Order\.Line, shop\.Other"):
        Protobuf(schema, "Nobody")


def test_value_of_a_newer_file_is_read_with_the_older_one() -> None:
    """Fields that are unknown are left out."""
    old = registered(file(message("M", field("a", Field.TYPE_INT32))), 1)
    new = registered(file(message("M", field("a", Field.TYPE_INT32), field("b", Field.TYPE_INT32))), 2)

    assert Protobuf(old).read(new, Protobuf(new).write({"a": 1, "b": 2}), 0) == {"a": 1}


def test_files_that_a_file_uses_come_with_it() -> None:
    """By the name by which it uses them, whatever they call themselves."""
    line = file(message("Line", field("n", Field.TYPE_INT32)), name="elsewhere.proto")
    order_file = file(message("Order", field("line", Field.TYPE_MESSAGE, ".shop.Line")), uses=("line.proto",))
    whole = registered(order_file)._replace(references=(("line.proto", text_of(line)),))
    kind = Protobuf(whole)

    assert kind.read(whole, kind.write({"line": {"n": 3}}), 0) == {"line": {"n": 3}}
    # A message that is set and empty is not one that is not set.
    assert kind.read(whole, kind.write({"line": {}}), 0) == {"line": {"n": 0}}
    assert kind.read(whole, kind.write({"line": None}), 0) == {"line": None}
    with pytest.raises(SchemaError, match="schema 1"):
        Protobuf(registered(order_file, 1))


def test_what_cannot_be_read_is_refused() -> None:
    """Files that are none, have no message or contain themselves; a damaged value, and a row of other types."""
    with pytest.raises(SchemaError, match="schema 7"):
        Protobuf(RegisteredSchema(7, "PROTOBUF", 'syntax = "proto3";'))
    with pytest.raises(SchemaError, match="no message"):
        Protobuf(registered(file()))
    with pytest.raises(SchemaError, match="contains itself"):
        Protobuf(registered(file(message("Tree", field("left", Field.TYPE_MESSAGE, ".shop.Tree")))))
    kind = Protobuf(shop())
    with pytest.raises(ValueRefused, match=r"shop\.Order"):
        kind.read(shop(), b"\0\xff\xff", 0)
    with pytest.raises(ValueRefused, match="does not fit"):
        kind.write({**FULL, "small": "text"})
    with pytest.raises(ValueRefused, match="does not fit"):
        kind.write({**FULL, "colour": "GREEN"})
    with pytest.raises(ValueRefused, match=r"shop\.Order has no field Id"):
        kind.write({"Id": 5})


def test_files_that_come_with_protobuf_need_no_registration() -> None:
    """Custom options use `descriptor.proto`; some registries list the timestamp among the references all the same."""
    for name in ("descriptor", "api", "type", "any", "struct", "duration"):
        Protobuf(registered(file(message("M"), uses=(f"google/protobuf/{name}.proto",))))
    stamped = file(message("M", field("at", Field.TYPE_MESSAGE, ".google.protobuf.Timestamp")), uses=(TIMESTAMP_FILE,))
    Protobuf(registered(stamped)._replace(references=((TIMESTAMP_FILE, "AA=="),)))


def test_moment_before_1970_and_keys_of_every_kind_come_back() -> None:
    """Keys of 64 bits without a sign are decimals in Spark."""
    entry = message(
        "ByIdEntry",
        field("key", Field.TYPE_UINT64),
        field("value", Field.TYPE_MESSAGE, ".google.protobuf.Timestamp"),
        options=descriptor_pb2.MessageOptions(map_entry=True),
    )
    schema = registered(
        file(
            message("M", field("by_id", Field.TYPE_MESSAGE, ".shop.M.ByIdEntry", repeated=True), nested_type=[entry]),
            uses=(TIMESTAMP_FILE,),
        )
    )
    kind = Protobuf(schema)
    row = {"by_id": {decimal.Decimal(2**64 - 1): dt.datetime(1969, 12, 31, 23, 59, 59, 250_000, tzinfo=dt.UTC)}}
    read = pa.array([kind.read(schema, kind.write(row), 0)], kind.arrow_type)

    assert read.to_pylist(maps_as_pydicts="strict") == [row]


def test_message_that_lacks_a_required_field_is_not_written() -> None:
    """Of proto2."""
    content = file(message("M", field("x", Field.TYPE_INT32)))
    content.syntax = "proto2"
    content.message_type[0].field[0].label = Field.LABEL_REQUIRED
    with pytest.raises(ValueRefused, match="does not fit"):
        Protobuf(registered(content)).write({})


def test_value_of_an_enumeration_without_a_name_is_its_number() -> None:
    """A newer writer knows more of them."""
    kind = Protobuf(shop())
    payload = kind.write({"colour": "7"})

    assert kind.read(shop(), payload, 0)["colour"] == "7"
