"""Columns of Spark: values that Confluent's own clients have written, and values that they read."""

import json
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest
from google.protobuf import message_factory
from google.protobuf.descriptor_pb2 import FieldDescriptorProto as Field
from google.protobuf.descriptor_pool import DescriptorPool

from pyspark_syncline import SchemaRegistry
from syncline.pipeline.errors import OptionError, PipelineError
from syncline.pipeline.registry.columns import Decoder
from syncline.pipeline.registry.framing import FramingError, frame
from syncline.pipeline.registry.kinds import SchemaError, ValueRefused
from syncline.pipeline.registry.schemas import Registry
from tests.pipeline.registry.files import field, file, message
from tests.pipeline.registry.server import schema_server

ORDER = json.dumps(
    {
        "type": "record",
        "name": "Order",
        "fields": [{"name": "id", "type": "long"}, {"name": "note", "type": ["null", "string"], "default": None}],
    }
)
JSON_ORDER = json.dumps(
    {"title": "Order", "type": "object", "properties": {"id": {"type": "integer"}, "note": {"type": "string"}}}
)
PROTO_ORDER = file(message("Order", field("id", Field.TYPE_INT64), field("note", Field.TYPE_STRING)))
ROWS = [{"id": number, "note": f"n{number}"} for number in range(5)]
spark_test = pytest.mark.spark


def _message_class() -> Any:
    pool = DescriptorPool()
    pool.Add(PROTO_ORDER)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("shop.Order"))


def _theirs(kind: str, client: Any) -> tuple[Any, Any]:
    """Return Confluent's serializer and deserializer for one kind."""
    from confluent_kafka.schema_registry import avro, json_schema, protobuf

    if kind == "AVRO":
        return avro.AvroSerializer(client, ORDER), avro.AvroDeserializer(client)
    if kind == "JSON":
        return json_schema.JSONSerializer(JSON_ORDER, client), json_schema.JSONDeserializer(
            JSON_ORDER, schema_registry_client=client
        )
    order = _message_class()
    write = protobuf.ProtobufSerializer(order, client, {"use.deprecated.format": False})
    read = protobuf.ProtobufDeserializer(order, {"use.deprecated.format": False}, client)
    return lambda row, at: write(order(**row), at), lambda data, at: {
        name: getattr(read(data, at), name) for name in ("id", "note")
    }


@spark_test
@pytest.mark.parametrize("kind", ["AVRO", "JSON", "PROTOBUF"])
def test_what_confluents_clients_write_is_read_and_the_other_way_round(spark, kind: str) -> None:
    """In Spark's workers, which ask the registry themselves; null stays null."""
    from confluent_kafka.schema_registry import SchemaRegistryClient
    from confluent_kafka.serialization import MessageField, SerializationContext

    with schema_server() as server, SchemaRegistryClient({"url": server.url}) as client:
        at = SerializationContext("orders", MessageField.VALUE)
        serialize, deserialize = _theirs(kind, client)
        values = [serialize(row, at) for row in ROWS]
        registry = SchemaRegistry(server.url)
        frame_of_bytes = spark.createDataFrame([(value,) for value in [*values, None]], "value binary").repartition(2)
        orders = frame_of_bytes.select(registry.decoded("value", subject="orders-value").alias("order"))
        read = orders.collect()
        written = orders.select(registry.encoded("order", subject="orders-value").alias("value")).collect()

        rows = [None if row.order is None else row.order.asDict() for row in read]
        assert sorted((row for row in rows if row is not None), key=lambda row: row["id"]) == ROWS
        assert rows.count(None) == 1
        assert orders.schema["order"].dataType.simpleString() == "struct<id:bigint,note:string>"
        theirs = [deserialize(bytes(row.value), at) for row in written if row.value is not None]
        assert sorted(theirs, key=lambda row: row["id"]) == ROWS


@spark_test
def test_failure_in_a_task_is_a_sentence(spark) -> None:
    """Of ours, within Spark's words and without frames of our code; and permissive, the value is null."""
    with schema_server() as server:
        server.register("orders-value", {"schema": ORDER})
        registry = SchemaRegistry(server.url)
        plain = spark.createDataFrame([(b'{"id":1}',)], "value binary")
        with pytest.raises(Exception, match="FramingError: the value begins with 0x7b") as unread:
            plain.select(registry.decoded("value", subject="orders-value")).collect()
        wrong = plain.selectExpr("named_struct('ident', 1L) as order")
        with pytest.raises(Exception, match="ValueRefused: a row does not fit schema") as unwritten:
            wrong.select(registry.encoded("order", subject="orders-value")).collect()
        quiet = plain.select(registry.decoded("value", subject="orders-value", mode="permissive").alias("order"))

        assert quiet.collect()[0].order is None
        assert "Traceback" not in str(unread.value) + str(unwritten.value)


@spark_test
def test_failure_in_a_task_names_the_record(spark) -> None:
    """Guards: of a topic with millions of records, the error said only that one value cannot be read."""
    with schema_server() as server:
        server.register("orders-value", {"schema": ORDER})
        rows = spark.createDataFrame(
            [("orders", 3, 41, None), ("orders", 3, 42, b"{}")],
            "topic string, partition int, offset long, value binary",
        )
        read = SchemaRegistry(server.url).decoded("value", subject="orders-value", at=["topic", "partition", "offset"])
        with pytest.raises(Exception, match=r"id of a schema \(topic orders, partition 3, offset 42\)"):
            rows.select(read).collect()


def _decoder(server: Any, mode: Any, at: Sequence[str] = ()) -> Decoder:
    registry = Registry(server.url)
    return Decoder(registry, registry.of_subject("orders-value"), None, mode, at)


def test_error_names_the_first_record_that_cannot_be_read() -> None:
    """Whatever is wrong: no frame, an unknown schema, damage, a number that no column holds."""
    huge = json.dumps({"id": 2**70}).encode()
    with schema_server() as server:
        number = server.register("orders-value", {"schema": JSON_ORDER, "schemaType": "JSON"})
        good = frame(number) + b'{"id":1}'
        for bad in (b"{}", b"", frame(99) + b"{}", frame(number) + b"{", frame(number) + huge):
            column = pa.array([None, good, bad, good], pa.binary())
            offsets = pa.array([7, 8, 9, 10], pa.int64())
            with pytest.raises(PipelineError, match=r" \(offset 9\)$"):
                _decoder(server, "failfast", ["offset"]).decode(column, offsets)
            with pytest.raises(PipelineError, match='at=\\["topic", "partition", "offset"\\]\\) shows which record'):
                _decoder(server, "failfast").decode(column)


def test_permissive_leaves_out_what_cannot_be_read_and_nothing_else() -> None:
    """No frame, an unknown schema, another kind, damage, and a number that no column holds."""
    huge = json.dumps({"id": 2**70}).encode()
    with schema_server() as server:
        number = server.register("orders-value", {"schema": JSON_ORDER, "schemaType": "JSON"})
        other = server.register("other", {"schema": ORDER})
        good = frame(number) + b'{"id":1}'
        bad = [
            b"",
            frame(99) + b"{}",
            frame(99) + b"[]",
            frame(other) + b"{}",
            frame(number) + b"{",
            frame(number) + huge,
        ]
        read = _decoder(server, "permissive").decode(pa.array([good, *bad, good], pa.binary()))
        strict = _decoder(server, "failfast")

        row = {"id": 1, "note": None}
        assert read.to_pylist() == [row, *[None] * len(bad), row]
        errors = (FramingError, SchemaError, SchemaError, ValueRefused, ValueRefused, ValueRefused)
        for value, error in zip(bad, errors, strict=True):
            with pytest.raises(error):
                strict.decode(pa.array([value], pa.binary()))
        assert sum("/99" in each for each in server.asked) == 1 + 2, (
            "a permissive query asks for an unknown schema once"
        )


def test_wrong_requests_are_refused_when_the_query_is_made() -> None:
    """The subject, the mode, and a message where there are none."""
    with schema_server() as server:
        server.register("orders-value", {"schema": ORDER})
        server.register("odd", {"schema": "x", "schemaType": "XML"})
        registry = SchemaRegistry(server.url)
        with pytest.raises(SchemaError, match="subject orders"):
            registry.decoded("value", subject="orders")
        with pytest.raises(OptionError, match="one of failfast, permissive"):
            registry.decoded("value", subject="orders-value", mode="dropmalformed")  # type: ignore[arg-type]
        with pytest.raises(SchemaError, match="has no messages"):
            registry.encoded("value", subject="orders-value", message="M")
        with pytest.raises(SchemaError, match="known are AVRO, JSON and PROTOBUF"):
            registry.encoded("value", subject="odd")
        assert registry.register("more", '"int"') == 3
