"""The small Kafka client reads answers right and distinguishes passing failures from final ones."""

import io
import socket
import struct
import threading
from collections.abc import Iterator
from datetime import timedelta

import pytest
from kio.schema.errors import ErrorCode
from kio.schema.fetch.v11 import response as fetch_v11
from kio.schema.types import TopicName
from kio.serial import entity_writer
from kio.static.primitive import i32, i32Timedelta, i64

from syncline.model.ids import TopicPartition
from syncline.pipeline.broker_client import BrokerClient, BrokerError, ClientSettings, _fetch_answer


def _answer(records: bytes | None, aborted=(), error: ErrorCode = ErrorCode.none) -> memoryview:
    row = fetch_v11.PartitionData(
        partition_index=i32(3),
        error_code=error,
        high_watermark=i64(90),
        last_stable_offset=i64(80),
        log_start_offset=i64(7),
        aborted_transactions=aborted,
        preferred_read_replica=-1,
        records=records,
    )
    topic = fetch_v11.FetchableTopicResponse(topic=TopicName("flights"), partitions=(row,))
    message = fetch_v11.FetchResponse(
        throttle_time=i32Timedelta.parse(timedelta(0)),
        error_code=ErrorCode.none,
        session_id=i32(0),
        responses=(topic,),
    )
    buffer = io.BytesIO()
    entity_writer(fetch_v11.FetchResponse)(buffer, message)
    return memoryview(buffer.getvalue())


def test_fetch_answer_is_read_without_copying_the_records() -> None:
    """The records are a window into the very bytes that came from the socket."""
    raw = _answer(b"batches")

    code, fetched = _fetch_answer(raw)

    assert code == 0
    assert fetched.records.obj is raw.obj
    assert bytes(fetched.records) == b"batches"
    assert (fetched.high_watermark, fetched.last_stable_offset, fetched.log_start) == (90, 80, 7)


def test_fetch_answer_names_aborted_transactions_and_errors() -> None:
    """Null records and null lists are empty; aborted transactions come as (first offset, producer id)."""
    aborted = (fetch_v11.AbortedTransaction(producer_id=11, first_offset=i64(70)),)

    _, fetched = _fetch_answer(_answer(None, aborted))
    code, _ = _fetch_answer(_answer(None, None, ErrorCode.offset_out_of_range))

    assert fetched.aborted == ((70, 11),)
    assert bytes(fetched.records) == b""
    assert code == 1


@pytest.fixture
def stranger() -> Iterator[tuple[str, int]]:
    """A server that is no Kafka broker: it answers everything with HTTP."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with connection:
                connection.recv(1000)
                connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    yield listener.getsockname()
    listener.shutdown(socket.SHUT_RDWR)
    listener.close()
    thread.join()


def test_client_names_the_address_when_the_server_does_not_speak_kafka(stranger: tuple[str, int]) -> None:
    """The message holds the address, the reason and what to check."""
    settings = ClientSettings((stranger,), timeout_ms=1)

    asks_what_is_there = pytest.raises(BrokerError, match=r"is this the port of a broker.*check that")
    with BrokerClient(settings) as client, asks_what_is_there:
        client.topics()


def test_client_names_the_address_when_the_connection_is_refused() -> None:
    """The error says that the connection was refused."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = taken.getsockname()
    settings = ClientSettings((address,), timeout_ms=1)

    with BrokerClient(settings) as client, pytest.raises(BrokerError, match=f"127.0.0.1:{address[1]}.*refused"):
        client.fetch(TopicPartition("flights", 0), 0)


def test_fetch_request_is_what_a_fetch_11_reader_expects() -> None:
    """The hand-written request is byte for byte what a schema-driven library reads."""
    from kio.schema.fetch.v11 import request as fetch_request
    from kio.serial import entity_reader

    sent: list[bytes] = []

    class Recorder(BrokerClient):
        __slots__ = ()

        def _leader(self, place: TopicPartition) -> tuple[str, int]:
            return "leader", 1

        def _call(self, address: tuple[str, int], api: tuple[int, int], body: bytes) -> memoryview:
            sent.append(body)
            return _answer(b"")

    Recorder(ClientSettings((), read_committed=True, fetch_bytes_max=777)).fetch(TopicPartition("flights", 3), 42)

    message, size = entity_reader(fetch_request.FetchRequest)(sent[0], 0)
    assert size == len(sent[0])
    assert (message.replica_id, message.isolation_level, message.session_epoch) == (-1, 1, -1)
    (topic,) = message.topics
    (partition,) = topic.partitions
    assert (topic.topic, partition.partition, partition.fetch_offset) == ("flights", 3, 42)
    assert (partition.current_leader_epoch, partition.partition_max_bytes) == (-1, 777)
    assert struct.unpack(">h", sent[0][-2:]) == (0,)
