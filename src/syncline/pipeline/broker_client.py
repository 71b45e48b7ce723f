"""A small Kafka client for reading: where partitions are, which offsets they hold, and their raw record batches.

One hard idea: return bytes, not records. Client libraries create one object per record, which costs more than the rest
of the pipeline; this client returns each fetched chunk as it came from the socket, one memoryview, never copied.
It is synchronous because a Spark task does one thing at a time, and it lives for one task or one query.

The API versions are fixed instead of negotiated: every broker from Apache Kafka 2.8 to 4.x, and Syncline, serves
Metadata 9, ListOffsets 6 and Fetch 11. This module encodes Fetch by hand; the others are `kio` messages.

The client retries transient errors (a moved leader, a restarting broker, a new leader that does not know its high
watermark yet), with fresh metadata, until `timeout_ms` has passed without success. Other errors raise
`BrokerError` with a sentence that says what to do, or `OffsetOutOfRangeError` for records that are gone.

Units: milliseconds; offsets count records; a high watermark is an exclusive end.
Source: the Kafka protocol guide; KIP-74 (a fetch always returns its first batch whole), KIP-98 (aborted list).
"""

import contextlib
import io
import socket
import struct
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Final, Self, TypeVar

from syncline.model.errors import ErrorCode
from syncline.model.ids import TopicPartition

EARLIEST: Final = -2
LATEST: Final = -1

_METADATA: Final = (3, 9)
_LIST_OFFSETS: Final = (2, 6)
_FETCH: Final = (1, 11)
# Versions that only exist with tagged fields: their headers carry one byte more.
_FLEXIBLE: Final = frozenset({_METADATA, _LIST_OFFSETS})
_RESPONSE_BYTES_MAX: Final = 1 << 30
_BACKOFF_MS: Final = 50
_BACKOFF_MS_MAX: Final = 1_000
_FETCH_WAIT_MS_MAX: Final = 500

_PASSING: Final = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.BROKER_NOT_AVAILABLE,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.OFFSET_NOT_AVAILABLE,
        ErrorCode.UNKNOWN_SERVER_ERROR,
    }
)

Answer = TypeVar("Answer")


class BrokerError(Exception):
    """The brokers are unreachable or refuse; the message names them and what to check."""


class OffsetOutOfRangeError(BrokerError):
    """The requested offset is not in the log: it was deleted, or the log was cut or recreated."""


class _RetriableError(Exception):
    """A failure that a retry with fresh metadata may resolve."""


@dataclass(frozen=True, slots=True)
class ClientSettings:
    """How to reach the brokers."""

    bootstrap: tuple[tuple[str, int], ...]
    client_id: str = "syncline-source"
    read_committed: bool = False
    request_timeout_ms: int = 30_000
    timeout_ms: int = 120_000
    fetch_bytes_max: int = 2 << 20

    @property
    def bootstrap_text(self) -> str:
        """Return the bootstrap brokers as the user writes them."""
        return ",".join(f"{host}:{port}" for host, port in self.bootstrap)


@dataclass(frozen=True, slots=True)
class Fetched:
    """One partition's part of a fetch answer; `records` stays valid as long as a reference to it exists."""

    records: memoryview
    high_watermark: int
    last_stable_offset: int
    log_start: int
    aborted: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class _Connection:
    """One TCP connection, with one request at a time, so an answer always belongs to the last one."""

    address: tuple[str, int]
    client_id: bytes
    stream: socket.socket
    correlation: Iterator[int]

    @classmethod
    def open(cls, address: tuple[str, int], settings: ClientSettings) -> Self:
        timeout_s = settings.request_timeout_ms / 1000
        stream = socket.create_connection(address, timeout=min(timeout_s, 10))
        stream.settimeout(timeout_s)
        stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return cls(address, settings.client_id.encode(), stream, iter(range(1, 2**31)))

    def call(self, api: tuple[int, int], body: bytes) -> memoryview:
        """Return the body of the answer to one request; raise `OSError` when the connection fails."""
        key, version = api
        number = next(self.correlation)
        header = struct.pack(f">hhih{len(self.client_id)}s", key, version, number, len(self.client_id), self.client_id)
        tags = b"\0" if api in _FLEXIBLE else b""
        self.stream.sendall(struct.pack(">i", len(header) + len(tags) + len(body)) + header + tags + body)
        (size,) = struct.unpack(">i", self._receive(4))
        if not 4 <= size <= _RESPONSE_BYTES_MAX:
            raise ConnectionError(f"an answer of {size} bytes is no Kafka answer; is this the port of a broker?")
        answer = self._receive(size)
        if answer[:4] != struct.pack(">i", number):
            raise ConnectionError("the answer belongs to another request")
        return answer[4 + len(tags) :]

    def _receive(self, size: int) -> memoryview:
        view = memoryview(bytearray(size))
        filled = 0
        while filled < size:
            count = self.stream.recv_into(view[filled:])
            if count == 0:
                raise ConnectionError("the broker closed the connection")
            filled += count
        return view


@dataclass(slots=True)
class BrokerClient:
    """Reads metadata, offsets and record batches from a cluster; use it as a context manager."""

    settings: ClientSettings
    _connections: dict[tuple[str, int], _Connection] = field(default_factory=dict)
    _brokers: dict[int, tuple[str, int]] = field(default_factory=dict)
    _leaders: dict[TopicPartition, int] = field(default_factory=dict)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close all connections; later use opens new ones."""
        for connection in self._connections.values():
            with contextlib.suppress(OSError):
                connection.stream.close()
        self._connections.clear()

    def topics(self) -> tuple[str, ...]:
        """Return the names of all topics, sorted."""
        return self._persist("list the topics", lambda: tuple(sorted(self._metadata(None))))

    def partitions(self, topics: Iterable[str]) -> tuple[TopicPartition, ...]:
        """Return all partitions of the named topics, sorted; raise `BrokerError` for a topic that does not exist."""
        names = sorted(set(topics))
        found = self._persist("find the partitions", lambda: self._metadata(names))
        missing = [name for name in names if name not in found]
        if missing:
            raise BrokerError(
                f"topic {', '.join(missing)} does not exist on {self.settings.bootstrap_text}: "
                "create it first, or correct its name in the option subscribe or assign"
            )
        return tuple(TopicPartition(name, index) for name in names for index in found[name])

    def offsets(self, wanted: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Return the offset for each partition's timestamp; `EARLIEST` and `LATEST` are timestamps too.

        For a time this is the offset of the first record that is not older, -1 where there is none. `LATEST` is the
        end of what this client may read.
        """
        found: dict[TopicPartition, int] = {}

        def ask() -> dict[TopicPartition, int]:
            self._list_offsets({place: time for place, time in wanted.items() if place not in found}, found)
            return found

        return self._persist("ask for offsets", ask)

    def fetch(self, place: TopicPartition, offset: int) -> Fetched:
        """Return record batches, beginning with the one that holds `offset`; wait up to half a second for it.

        Raises `OffsetOutOfRangeError` when the log does not hold the offset.
        """
        return self._persist(f"fetch {place} at offset {offset}", lambda: self._fetch(place, offset))

    def _persist(self, task: str, attempt: Callable[[], Answer]) -> Answer:
        """Return the answer of the first attempt that succeeds; forget the metadata between attempts."""
        deadline = time.monotonic() + self.settings.timeout_ms / 1000
        backoff_ms = _BACKOFF_MS
        while True:
            try:
                return attempt()
            except (OSError, _RetriableError) as error:
                self.close()
                self._leaders.clear()
                if time.monotonic() + backoff_ms / 1000 > deadline:
                    raise BrokerError(
                        f"could not {task} on {self.settings.bootstrap_text} within {self.settings.timeout_ms} ms: "
                        f"{error}; check that the brokers run and the option kafka.bootstrap.servers names them"
                    ) from error
                time.sleep(backoff_ms / 1000)
                backoff_ms = min(2 * backoff_ms, _BACKOFF_MS_MAX)

    def _call(self, address: tuple[str, int], api: tuple[int, int], body: bytes) -> memoryview:
        connection = self._connections.get(address)
        try:
            if connection is None:
                connection = self._connections[address] = _Connection.open(address, self.settings)
            return connection.call(api, body)
        except OSError as error:
            stale = self._connections.pop(address, None)
            if stale is not None:
                stale.stream.close()
            raise _RetriableError(f"{address[0]}:{address[1]}: {error}") from error

    def _call_any(self, api: tuple[int, int], body: bytes) -> memoryview:
        """Return the answer of the first broker that answers: known brokers, then the bootstrap list."""
        failures = []
        for address in dict.fromkeys((*self._connections, *self.settings.bootstrap, *self._brokers.values())):
            try:
                return self._call(address, api, body)
            except _RetriableError as error:
                failures.append(str(error))
        raise _RetriableError("; ".join(failures))

    def _metadata(self, topics: Sequence[str] | None) -> dict[str, list[int]]:
        """Return the partition numbers by topic, all topics for `None`, and remember the leaders."""
        from kio.schema.metadata.v9 import request, response
        from kio.schema.types import TopicName

        names = None if topics is None else tuple(request.MetadataRequestTopic(name=TopicName(t)) for t in topics)
        question = request.MetadataRequest(
            topics=names,
            allow_auto_topic_creation=False,
            include_cluster_authorized_operations=False,
            include_topic_authorized_operations=False,
        )
        answer = _decoded(response.MetadataResponse, self._call_any(_METADATA, _encoded(question)))
        self._brokers = {int(broker.node_id): (broker.host, int(broker.port)) for broker in answer.brokers}
        found: dict[str, list[int]] = {}
        for topic in answer.topics:
            code = int(topic.error_code)
            if code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                continue
            if code == ErrorCode.LEADER_NOT_AVAILABLE:
                raise _RetriableError(f"topic {topic.name} is being created")
            if code != ErrorCode.NONE:
                raise BrokerError(f"topic {topic.name} is refused: {_name(code)}")
            found[topic.name] = sorted(int(partition.partition_index) for partition in topic.partitions)
            for partition in topic.partitions:
                place = TopicPartition(topic.name, int(partition.partition_index))
                self._leaders[place] = int(partition.leader_id)
        return found

    def _leader(self, place: TopicPartition) -> tuple[str, int]:
        if place not in self._leaders:
            self._metadata([place.topic])
        leader = self._leaders.get(place)
        if leader is None:
            raise _RetriableError(f"partition {place} does not exist")
        if leader not in self._brokers:
            raise _RetriableError(f"partition {place} has no leader")
        return self._brokers[leader]

    def _list_offsets(self, wanted: Mapping[TopicPartition, int], found: dict[TopicPartition, int]) -> None:
        """Ask each leader for its partitions, and put its answers into `found`."""
        from kio.schema.list_offsets.v6 import request, response
        from kio.schema.types import BrokerId, TopicName
        from kio.static.primitive import i8, i32, i64

        unknown = {place.topic for place in wanted} - {place.topic for place in self._leaders}
        if unknown:
            self._metadata(sorted(unknown))
        by_leader: dict[tuple[str, int], dict[str, list[TopicPartition]]] = {}
        for place in sorted(wanted):
            by_leader.setdefault(self._leader(place), {}).setdefault(place.topic, []).append(place)
        failed = ""
        for address, topics in by_leader.items():
            question = request.ListOffsetsRequest(
                replica_id=BrokerId(-1),
                isolation_level=i8(int(self.settings.read_committed)),
                topics=tuple(
                    request.ListOffsetsTopic(
                        name=TopicName(topic),
                        partitions=tuple(
                            request.ListOffsetsPartition(
                                partition_index=i32(place.partition), timestamp=i64(wanted[place])
                            )
                            for place in places
                        ),
                    )
                    for topic, places in topics.items()
                ),
            )
            answer = _decoded(response.ListOffsetsResponse, self._call(address, _LIST_OFFSETS, _encoded(question)))
            for topic_answer in answer.topics:
                for partition in topic_answer.partitions:
                    place = TopicPartition(topic_answer.name, int(partition.partition_index))
                    if _is_fine(partition.error_code, f"offsets of {place}"):
                        found[place] = int(partition.offset)
                    else:
                        failed = f"{place}: {_name(partition.error_code)}"
        if failed:
            raise _RetriableError(failed)

    def _fetch(self, place: TopicPartition, offset: int) -> Fetched:
        name, limit = place.topic.encode(), self.settings.fetch_bytes_max
        body = struct.pack(
            f">iiiibiiih{len(name)}siiiqqiih",
            *(-1, _FETCH_WAIT_MS_MAX, 1, limit, int(self.settings.read_committed)),
            *(0, -1),  # no fetch session
            *(1, len(name), name, 1, place.partition, -1, offset, -1, limit),
            *(0, 0),  # nothing forgotten, no rack
        )
        code, fetched = _fetch_answer(self._call(self._leader(place), _FETCH, body))
        if code == ErrorCode.OFFSET_OUT_OF_RANGE:
            raise OffsetOutOfRangeError(f"{place} does not hold offset {offset}")
        if not _is_fine(code, f"fetch of {place} at offset {offset}"):
            raise _RetriableError(f"{place}: {_name(code)}")
        return fetched


def _fetch_answer(view: memoryview) -> tuple[int, Fetched]:
    """Return the error code and content of a Fetch 11 answer about one partition; the records are not copied."""
    _, code, _, topic_count = struct.unpack_from(">ihii", view, 0)
    if code or topic_count != 1:
        return code or ErrorCode.UNKNOWN_SERVER_ERROR, Fetched(view[:0], -1, -1, -1, ())
    (name_bytes,) = struct.unpack_from(">h", view, 14)
    position = 16 + name_bytes + 4
    _, code, high_watermark, last_stable, log_start, aborted_count = struct.unpack_from(">ihqqqi", view, position)
    position += 34
    aborted = [
        (first_offset, producer_id)
        for producer_id, first_offset in struct.iter_unpack(
            ">qq", view[position : position + 16 * max(aborted_count, 0)]
        )
    ]
    position += 16 * len(aborted) + 4
    (size,) = struct.unpack_from(">i", view, position)
    records = view[position + 4 : position + 4 + max(size, 0)]
    return code, Fetched(records, high_watermark, last_stable, log_start, tuple(aborted))


def _is_fine(code: int, subject: str) -> bool:
    """Return True for no error, False for a transient one; raise `BrokerError` for any other."""
    if code == ErrorCode.NONE:
        return True
    if code in _PASSING:
        return False
    raise BrokerError(f"the broker refuses the {subject}: {_name(code)}")


def _name(code: int) -> str:
    try:
        return ErrorCode(code).name
    except ValueError:
        return f"error code {code}"


def _encoded(message: Any) -> bytes:
    from kio.serial import entity_writer

    buffer = io.BytesIO()
    entity_writer(type(message))(buffer, message)
    return buffer.getvalue()


def _decoded(kind: type[Any], view: memoryview) -> Any:
    from kio.serial import entity_reader
    from kio.serial.errors import DecodeError

    try:
        message, _ = entity_reader(kind)(bytes(view), 0)
    except DecodeError as error:
        raise _RetriableError(f"an answer cannot be read: {error!r}") from error
    return message
