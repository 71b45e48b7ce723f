"""A client on a plain blocking socket that may read an answer long after it sent the request."""

import socket
import struct
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple, Self

from syncline.lab.errors import LabError
from syncline.model.errors import ErrorCode
from syncline.records.builder import BatchBuilder
from syncline.wire.api import ApiKey, response_header_version
from syncline.wire.codec import decode_response, encode_request, request_type
from syncline.wire.entities import build
from syncline.wire.fetch import FetchPartition, FetchRequest, encode_fetch_request
from syncline.wire.fetch_response import parse_fetch_response
from syncline.wire.frames import frame_request
from syncline.wire.produce import encode_produce_request, parse_produce_response
from syncline.wire.response_header import response_body_position

TIMEOUT_S: Final = 30.0
PRODUCE_VERSION: Final = 9
FETCH_VERSION: Final = 12
FETCH_WAIT_MS: Final = 500
CREATE_TOPICS_VERSION: Final = 7
ALTER_CONFIGS_VERSION: Final = 1
EPOCH_END_VERSION: Final = 4
BROKER_RESOURCE: Final = 4
SET: Final = 0


class Produced(NamedTuple):
    """The answer to a produce request."""

    error: ErrorCode
    base_offset: int


def batch_of(values: Sequence[str]) -> bytes:
    """Return the values as one record batch."""
    builder = BatchBuilder()
    for value in values:
        builder.append(0, None, value.encode())
    return bytes(builder.build())


class Client:
    """One connection to one broker."""

    def __init__(self, host: str, port: int, client_id: str = "lab") -> None:
        self._socket = socket.create_connection((host, port), TIMEOUT_S)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._client_id = client_id
        self._next_id = 0
        self._answers: dict[int, bytes] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection."""
        self._socket.close()

    def ask(self, key: ApiKey, version: int, fields: Mapping[str, Any]) -> Any:
        """Return the answer to a request."""
        body = encode_request(build(request_type(key, version), fields))
        frame = self._answer(self._send(key, version, [body]))
        return decode_response(
            key, version, frame[response_body_position(frame, response_header_version(key, version)) :]
        )

    def create_topic(
        self, topic: str, replicas: Sequence[int], configs: Mapping[str, str], *, partitions: int = 1
    ) -> None:
        """Create a topic whose partitions are all on these brokers; the first of them leads it."""
        answer = self.ask(
            ApiKey.CREATE_TOPICS,
            CREATE_TOPICS_VERSION,
            {
                "topics": [
                    {
                        "name": topic,
                        "num_partitions": -1,
                        "replication_factor": -1,
                        "assignments": [
                            {"partition_index": index, "broker_ids": tuple(replicas)} for index in range(partitions)
                        ],
                        "configs": [{"name": name, "value": value} for name, value in configs.items()],
                    }
                ],
                "timeout": int(TIMEOUT_S * 1_000),
                "validate_only": False,
            },
        )
        row = answer.topics[0]
        if int(row.error_code):
            raise LabError(f"cannot create topic {topic}: {row.error_message}")

    def set_for_all_brokers(self, name: str, value: str) -> None:
        """Set a configuration of the whole cluster while it runs."""
        answer = self.ask(
            ApiKey.INCREMENTAL_ALTER_CONFIGS,
            ALTER_CONFIGS_VERSION,
            {
                "resources": [
                    {
                        "resource_type": BROKER_RESOURCE,
                        "resource_name": "",
                        "configs": [{"name": name, "config_operation": SET, "value": value}],
                    }
                ],
                "validate_only": False,
            },
        )
        row = answer.responses[0]
        if int(row.error_code):
            raise LabError(f"cannot set {name}: {row.error_message}")

    def epoch_error(self, topic: str, leader_epoch: int) -> ErrorCode:
        """Return the error with which a broker answers a request that names a leader epoch."""
        partition = {"partition": 0, "current_leader_epoch": leader_epoch, "leader_epoch": leader_epoch}
        answer = self.ask(
            ApiKey.OFFSET_FOR_LEADER_EPOCH,
            EPOCH_END_VERSION,
            {"replica_id": -1, "topics": [{"topic": topic, "partitions": [partition]}]},
        )
        return ErrorCode(int(answer.topics[0].partitions[0].error_code))

    def produce(self, topic: str, values: Sequence[str], *, acks: int, timeout_ms: int = 20_000) -> Produced:
        """Write the values as one batch, and return the answer."""
        return self.produced(self.send_produce(topic, values, acks=acks, timeout_ms=timeout_ms))

    def send_produce(self, topic: str, values: Sequence[str], *, acks: int, timeout_ms: int = 20_000) -> int:
        """Send a batch, and return the correlation id of its answer."""
        parts = encode_produce_request(
            PRODUCE_VERSION, acks=acks, timeout_ms=timeout_ms, topics=[(topic, [(0, batch_of(values))])]
        )
        return self._send(ApiKey.PRODUCE, PRODUCE_VERSION, parts)

    def produced(self, correlation_id: int) -> Produced:
        """Return the answer to a batch that was sent."""
        frame = self._answer(correlation_id)
        position = response_body_position(frame, response_header_version(ApiKey.PRODUCE, PRODUCE_VERSION))
        row = parse_produce_response(frame, PRODUCE_VERSION, position).topics[0][1][0]
        return Produced(ErrorCode(row.error_code), row.base_offset)

    def write_each(self, topic: str, batch: bytes, partitions: int) -> None:
        """Write the same batch to each of the first partitions of a topic, with one request."""
        rows = [(index, batch) for index in range(partitions)]
        parts = encode_produce_request(PRODUCE_VERSION, acks=-1, timeout_ms=20_000, topics=[(topic, rows)])
        frame = self._answer(self._send(ApiKey.PRODUCE, PRODUCE_VERSION, parts))
        position = response_body_position(frame, response_header_version(ApiKey.PRODUCE, PRODUCE_VERSION))
        for index, row in enumerate(parse_produce_response(frame, PRODUCE_VERSION, position).topics[0][1]):
            if row.error_code:
                raise LabError(f"the broker refused to write to {topic}-{index}: {ErrorCode(row.error_code).name}")

    def send_fetch(self, topic: str, offsets: Sequence[int], partition_bytes: int) -> int:
        """Ask for up to `partition_bytes` of each partition, and return the correlation id of the answer."""
        rows = [FetchPartition(index, -1, offset, -1, -1, partition_bytes) for index, offset in enumerate(offsets)]
        limit_bytes = partition_bytes * len(rows)
        request = FetchRequest(-1, -1, FETCH_WAIT_MS, 1, limit_bytes, 0, 0, -1, [(topic, rows)], [], "")
        return self._send(ApiKey.FETCH, FETCH_VERSION, [encode_fetch_request(request, FETCH_VERSION)])

    def fetched(self, correlation_id: int) -> list[int]:
        """Return how many bytes of each partition a sent fetch received."""
        frame = self._answer(correlation_id)
        position = response_body_position(frame, response_header_version(ApiKey.FETCH, FETCH_VERSION))
        found: dict[int, int] = {}
        for topic, rows in parse_fetch_response(frame, FETCH_VERSION, position).topics:
            for row in rows:
                if row.error_code:
                    name = ErrorCode(row.error_code).name
                    raise LabError(f"the broker refused to read {topic!r}-{row.partition}: {name}")
                found[row.partition] = len(row.records)
        return [size_bytes for _, size_bytes in sorted(found.items())]

    def _send(self, key: ApiKey, version: int, parts: Sequence[Any]) -> int:
        self._next_id += 1
        self._socket.sendall(b"".join(frame_request(key, version, self._next_id, self._client_id, parts)))
        return self._next_id

    def _answer(self, correlation_id: int) -> bytes:
        while correlation_id not in self._answers:
            (size,) = struct.unpack(">i", self._receive(4))
            frame = self._receive(size)
            self._answers[struct.unpack_from(">i", frame)[0]] = frame
        return self._answers.pop(correlation_id)

    def _receive(self, size: int) -> bytes:
        received = bytearray()
        while len(received) < size:
            part = self._socket.recv(size - len(received))
            if not part:
                raise ConnectionError("the broker closed the connection before it answered")
            received += part
        return bytes(received)
