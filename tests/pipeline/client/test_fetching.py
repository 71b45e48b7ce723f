"""Fetches are asked for as brokers expect it, and their answers read without a copy."""

import io
import struct
from datetime import timedelta

from kio.schema.errors import ErrorCode
from kio.schema.fetch.v11 import request as fetch_request
from kio.schema.fetch.v11 import response as fetch_v11
from kio.schema.types import TopicName
from kio.serial import entity_reader, entity_writer
from kio.static.primitive import i32, i32Timedelta, i64

from syncline.model.ids import TopicPartition
from syncline.pipeline.client import fetching
from syncline.pipeline.client.settings import ClientSettings
from tests.pipeline.batches import Record, batch, control_batch

FLIGHTS = TopicPartition("flights", 3)


def _row(partition: int, records: bytes | None, aborted=(), error: ErrorCode = ErrorCode.none):
    return fetch_v11.PartitionData(
        partition_index=i32(partition),
        error_code=error,
        high_watermark=i64(90),
        last_stable_offset=i64(80),
        log_start_offset=i64(7),
        aborted_transactions=aborted,
        preferred_read_replica=-1,
        records=records,
    )


def _answer(*topics, error: ErrorCode = ErrorCode.none) -> memoryview:
    message = fetch_v11.FetchResponse(
        throttle_time=i32Timedelta.parse(timedelta(0)),
        error_code=error,
        session_id=i32(0),
        responses=tuple(
            fetch_v11.FetchableTopicResponse(topic=TopicName(name), partitions=tuple(rows)) for name, rows in topics
        ),
    )
    buffer = io.BytesIO()
    entity_writer(fetch_v11.FetchResponse)(buffer, message)
    return memoryview(buffer.getvalue())


def test_fetch_answer_is_read_without_copying_the_records() -> None:
    """The records are a window into the very bytes that came from the socket."""
    raw = _answer(("flights", [_row(3, b"batches")]))

    code, parts = fetching.answer(raw)

    fetched = parts[FLIGHTS]
    assert (code, fetched.code) == (0, 0)
    assert fetched.records.obj is raw.obj
    assert bytes(fetched.records) == b"batches"
    assert (fetched.high_watermark, fetched.last_stable_offset, fetched.log_start) == (90, 80, 7)


def test_fetch_answer_tells_partitions_of_several_topics_apart() -> None:
    """Each partition has its own part, error and aborted transactions; null records and null lists are empty."""
    aborted = (fetch_v11.AbortedTransaction(producer_id=11, first_offset=i64(70)),)
    raw = _answer(
        ("flights", [_row(3, None, aborted), _row(4, b"four")]),
        ("delays", [_row(3, None, None, ErrorCode.offset_out_of_range)]),
    )

    _, parts = fetching.answer(raw)

    assert {place: bytes(part.records) for place, part in parts.items()} == {
        FLIGHTS: b"",
        TopicPartition("flights", 4): b"four",
        TopicPartition("delays", 3): b"",
    }
    assert [part.code for part in parts.values()] == [0, 0, 1]
    assert [part.aborted for part in parts.values()] == [((70, 11),), (), ()]


def test_fetch_answer_as_a_whole_may_be_an_error() -> None:
    """The broker's error is returned, and no partition."""
    assert fetching.answer(_answer(error=ErrorCode.unknown_server_error)) == (-1, {})


def test_fetched_part_says_where_the_next_fetch_continues() -> None:
    """The next fetch begins after the last whole batch, markers and removed records included."""
    batches = batch([Record(None, b"v", 1)] * 2, base_offset=10, deltas=[0, 5]) + control_batch(
        base_offset=16, producer_id=9, commit=True
    )
    cut = batch([Record(None, b"v", 1)], base_offset=17)[:-1]

    def next_offset(raw: bytes) -> int:
        return fetching.answer(_answer(("flights", [_row(3, raw)])))[1][FLIGHTS].next_offset(12)

    assert next_offset(batches) == 17
    assert next_offset(batches + cut) == 17
    assert next_offset(b"") == next_offset(cut) == 12
    assert next_offset(batches + struct.pack(">qi", 17, -100) + bytes(60)) == 17


def test_fetch_request_is_what_a_fetch_11_reader_expects() -> None:
    """The hand-written request is byte for byte what a schema-driven library reads."""
    settings = ClientSettings((), read_committed=True, fetch_bytes_max=777)
    asked = {FLIGHTS: 42, TopicPartition("delays", 0): 7, TopicPartition("flights", 1): 0}

    raw = fetching.request(asked, settings)

    message, size = entity_reader(fetch_request.FetchRequest)(raw, 0)
    assert size == len(raw)
    assert (message.replica_id, message.isolation_level, message.session_epoch) == (-1, 1, -1)
    assert message.max_bytes == 777
    assert [
        (topic.topic, [(partition.partition, partition.fetch_offset) for partition in topic.partitions])
        for topic in message.topics
    ] == [("flights", [(3, 42), (1, 0)]), ("delays", [(0, 7)])]
    partition = message.topics[0].partitions[0]
    assert (partition.current_leader_epoch, partition.partition_max_bytes) == (-1, 777)
    assert struct.unpack(">h", raw[-2:]) == (0,)
