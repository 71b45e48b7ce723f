"""A client that sends exactly what a test wants: frames as bytes, in pieces, out of order, or malformed."""

import asyncio
import struct
from collections.abc import Sequence
from typing import Any

from syncline.records.batch import BatchHeader
from syncline.records.builder import BatchBuilder
from syncline.wire.api import ApiKey, response_header_version
from syncline.wire.codec import decode_response, encode_request, request_type
from syncline.wire.entities import build
from syncline.wire.fetch import FetchPartition, FetchRequest, encode_fetch_request
from syncline.wire.fetch_response import FetchedPartition, FetchResponse, parse_fetch_response
from syncline.wire.frames import frame_request
from syncline.wire.produce import ProducedPartition, encode_produce_request, parse_produce_response
from syncline.wire.response_header import response_body_position

PRODUCE_VERSION = 9
FETCH_VERSION = 12


class WireClient(asyncio.Protocol):
    """One connection; answers are kept in the order in which they came."""

    def __init__(self) -> None:
        self._received = bytearray()
        self._arrived = asyncio.Event()
        self._asked: dict[int, tuple[int, int]] = {}
        self._next_id = 0
        self.answers: dict[int, bytes] = {}
        self.is_lost = False
        self.transport: asyncio.Transport

    @classmethod
    async def connect(cls, host: str, port: int) -> "WireClient":
        """Return a client that is connected."""
        _, client = await asyncio.get_running_loop().create_connection(cls, host, port)
        return client

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take the transport."""
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        """Take every whole answer."""
        self._received += data
        while len(self._received) >= 4:
            (size,) = struct.unpack_from(">i", self._received)
            if len(self._received) < 4 + size:
                break
            frame = bytes(self._received[4 : 4 + size])
            del self._received[: 4 + size]
            self.answers[struct.unpack_from(">i", frame)[0]] = frame
        self._arrived.set()

    def connection_lost(self, exc: Exception | None) -> None:
        """Remember that it is over."""
        self.is_lost = True
        self._arrived.set()

    # Asking

    def frame(self, key: int, version: int, *parts: Any) -> bytes:
        """Return a request as bytes that are not sent yet; its correlation id is the next one."""
        correlation_id, self._next_id = self._next_id, self._next_id + 1
        self._asked[correlation_id] = (key, version)
        return b"".join(bytes(part) for part in frame_request(key, version, correlation_id, "test", parts))

    def send(self, key: int, version: int, *parts: Any) -> int:
        """Send a request; return its correlation id."""
        self.transport.write(self.frame(key, version, *parts))
        return self._next_id - 1

    async def body(self, correlation_id: int) -> bytes:
        """Return the body of an answer; raises ConnectionError when the broker closes instead."""
        while correlation_id not in self.answers:
            if self.is_lost:
                raise ConnectionError("the broker closed the connection")
            self._arrived.clear()
            await self._arrived.wait()
        frame = self.answers[correlation_id]
        return frame[response_body_position(frame, response_header_version(*self._asked[correlation_id])) :]

    async def lost(self) -> None:
        """Wait until the broker has closed the connection."""
        while not self.is_lost:
            self._arrived.clear()
            await self._arrived.wait()

    def note_arrivals(self, name: str, order: list[str]) -> None:
        """From now on, add a name to a list whenever something is received."""
        take = self.data_received

        def note(data: bytes) -> None:
            order.append(name)
            take(data)

        self.data_received = note  # type: ignore[method-assign]

    async def ask(self, key: ApiKey, version: int, **fields: Any) -> Any:
        """Return the answer to a request, as an entity."""
        entity = build(request_type(key, version), fields)
        return decode_response(key, version, await self.body(self.send(key, version, encode_request(entity))))

    # Producing

    def send_produce(
        self, topic: str, records: bytes, *, partition: int = 0, acks: int = -1, timeout_ms: int = 30_000
    ) -> int:
        """Send a produce request of one batch."""
        parts = encode_produce_request(
            PRODUCE_VERSION, acks=acks, timeout_ms=timeout_ms, topics=[(topic, [(partition, records)])]
        )
        return self.send(ApiKey.PRODUCE, PRODUCE_VERSION, *parts)

    async def produced(self, correlation_id: int) -> ProducedPartition:
        """Return the result of the one batch of a produce request."""
        body = await self.body(correlation_id)
        return parse_produce_response(body, PRODUCE_VERSION).topics[0][1][0]

    async def produce(self, topic: str, records: bytes, **options: Any) -> ProducedPartition:
        """Produce one batch and return its result."""
        return await self.produced(self.send_produce(topic, records, **options))

    # Fetching

    def send_fetch(self, topics: dict[str, Sequence[FetchPartition]], **options: Any) -> int:
        """Send a consumer's fetch."""
        request = fetch_request(topics, **options)
        return self.send(ApiKey.FETCH, FETCH_VERSION, encode_fetch_request(request, FETCH_VERSION))

    async def fetched(self, correlation_id: int) -> FetchResponse:
        """Return the answer to a fetch."""
        return parse_fetch_response(await self.body(correlation_id), FETCH_VERSION)

    async def fetched_row(self, correlation_id: int) -> FetchedPartition:
        """Return the answer to a fetch of one partition."""
        (_, (row,)) = (await self.fetched(correlation_id)).topics[0]
        return row

    async def fetch(self, topic: str, offset: int = 0, *, partition: int = 0, **options: Any) -> FetchedPartition:
        """Fetch one partition and return its answer."""
        return await self.fetched_row(self.send_fetch({topic: [at(offset, partition=partition)]}, **options))


def at(
    offset: int, *, partition: int = 0, leader_epoch: int = -1, last_epoch: int = -1, max_bytes: int = 1 << 20
) -> FetchPartition:
    """Return a fetch's row for one partition."""
    return FetchPartition(partition, leader_epoch, offset, last_epoch, -1, max_bytes)


def fetch_request(
    topics: dict[str, Sequence[FetchPartition]],
    *,
    max_wait_ms: int = 0,
    min_bytes: int = 1,
    max_bytes: int = 1 << 25,
    session: tuple[int, int] = (0, -1),
    forgotten: Sequence[tuple[str, list[int]]] = (),
    replica_id: int = -1,
) -> FetchRequest:
    """Return a fetch; without a session unless one is given as (id, epoch)."""
    listed = [(name, list(partitions)) for name, partitions in topics.items()]
    return FetchRequest(
        replica_id, -1, max_wait_ms, min_bytes, max_bytes, 0, session[0], session[1], listed, list(forgotten), ""
    )


def batch(count: int = 1, *, size_bytes: int = 10, timestamp_ms: int = 1_700_000_000_000) -> bytes:
    """Return a batch as a producer sends it."""
    builder = BatchBuilder()
    for _ in range(count):
        builder.append(timestamp_ms, b"key", bytes(size_bytes))
    return bytes(builder.build())


def offsets(records: Any) -> list[int]:
    """Return the base offsets of the batches of an answer."""
    found, position = [], 0
    while position < len(records):
        header = BatchHeader.parse(records, position)
        found.append(int(header.base_offset))
        position += header.size_bytes
    return found
