"""Bytes that no client should send, against a broker that others use meanwhile.

The broker lives on in the same process, serves its other connections, and stores nothing that was not produced
properly.
"""

import contextlib
import random
import select
import socket
import struct
import time
from collections.abc import Iterator

import psutil
import pytest
from confluent_kafka import Consumer, TopicPartition

from syncline.model.errors import ErrorCode
from syncline.wire.api import CLIENT_VERSIONS, ApiKey
from syncline.wire.codec import encode_request, request_type
from syncline.wire.entities import build
from syncline.wire.produce import encode_produce_request, parse_produce_response
from tests.cluster import LocalCluster, start_cluster
from tests.conformance.wire_client import Answer, Closed, Connection, Silent, request_frame, sized_frame
from tests.patience import until
from tests.process import processes, raw
from tests.process.load import QUIET, Load, check_history, create_topic, read_all
from tests.record_batches import build_batch

pytestmark = pytest.mark.process

PRODUCE_VERSION = 11
ENOUGH_MS = 3_000


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """A broker that serves a well-behaved producer all the time; whose records are checked at the end."""
    directory = tmp_path_factory.mktemp("bad-input")
    cluster = start_cluster(1, directory=directory)
    try:
        create_topic(cluster.bootstrap, "good", 1, replicas=1)
        create_topic(cluster.bootstrap, "untouched", 1, replicas=1)
        with Load(cluster.bootstrap, "good", 1, rate_per_s=200) as load:
            load.wait_for_more(20)
            yield cluster
            load.wait_for_more(20)
            load.stop()
        assert load.longest_gap_s < 2, "bad input of some kept the broker from serving others"
        check_history(load, read_all(cluster.bootstrap, "good", 1))
        assert "Traceback" not in cluster.log(1), "a handler failed in an unforeseen way"
    finally:
        cluster.stop()
    processes.await_none(directory)


@pytest.fixture(autouse=True)
def unharmed(broker: LocalCluster) -> Iterator[None]:
    """After each test the broker is the same process, an old connection is served, and nothing was stored."""
    pid = broker.pids[1]
    bystander = connect(broker)
    yield
    assert broker.pids[1] == pid, "the broker was started again"
    assert psutil.pid_exists(pid)
    assert isinstance(api_versions(bystander), Answer), "a connection beside the bad one was not served"
    bystander.close()
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "none", **QUIET})
    assert consumer.get_watermark_offsets(TopicPartition("untouched", 0), timeout=10) == (0, 0)
    consumer.close()


def port(broker: LocalCluster) -> int:
    """Return where clients connect."""
    return broker.running.client_ports[1]


def connect(broker: LocalCluster) -> Connection:
    """Return a connection to the broker."""
    return Connection("127.0.0.1", port(broker))


def api_versions(connection: Connection) -> Answer | Closed | Silent:
    """Return the answer to a well-formed request."""
    frame = request_frame(ApiKey.API_VERSIONS, 0, connection.next_correlation_id(), b"", client_id="bystander")
    connection.send(frame)
    return connection.receive(ApiKey.API_VERSIONS, 0, ENOUGH_MS)


def first_bytes(connection: Connection, within_s: float = ENOUGH_MS / 1000) -> bytes | None:
    """Return what comes first: bytes, b"" for a closed connection, None for silence."""
    connection.socket.settimeout(within_s)
    try:
        return connection.socket.recv(65_536)
    except ConnectionResetError:
        return b""
    except TimeoutError:
        return None


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(struct.pack(">i", -1), id="negative-size"),
        pytest.param(struct.pack(">i", -(2**31)), id="most-negative-size"),
        pytest.param(struct.pack(">i", 2**31 - 1) + b"x" * 1000, id="size-of-2-gib"),
        pytest.param(struct.pack(">i", 104_857_601) + b"x" * 1000, id="a-byte-too-much"),
        pytest.param(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", id="http"),
        pytest.param(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(600), id="tls"),
        pytest.param(sized_frame(b""), id="empty-frame"),
        pytest.param(sized_frame(b"\x00\x12"), id="half-a-header"),
        pytest.param(sized_frame(struct.pack(">hhih", 18, 0, 1, 1000)), id="client-id-longer-than-the-frame"),
        pytest.param(sized_frame(struct.pack(">hhih", 18, 0, 1, -2)), id="client-id-of-negative-length"),
        pytest.param(request_frame(999, 0, 1, b"", client_id="x", header_version=1), id="unknown-key"),
        pytest.param(request_frame(-1, 0, 1, b"", client_id="x", header_version=1), id="negative-key"),
        pytest.param(request_frame(0, 99, 1, b"", client_id="x", header_version=2), id="unknown-version"),
        pytest.param(request_frame(3, -1, 1, b"", client_id="x", header_version=1), id="negative-version"),
        pytest.param(request_frame(62, 4, 1, b"", client_id="x", header_version=2), id="key-of-other-brokers"),
        pytest.param(request_frame(56, 3, 1, b"", client_id="x", header_version=2), id="isr-from-a-client"),
    ],
)
def test_what_is_no_request_closes_its_connection(broker: LocalCluster, data: bytes) -> None:
    """The connection is closed without an answer."""
    connection = connect(broker)
    connection.send(data)
    assert first_bytes(connection) == b""
    connection.close()


def test_truncated_and_senseless_bodies_are_refused_for_every_api(broker: LocalCluster) -> None:
    """Every API and version meets empty, short and absurd bodies: an answer or a closed connection, no more."""
    bodies = [b"", b"\x00", b"\x00" * 7, b"\xff" * 40, b"\x7f" * 40, b"\x80" * 12, b"\x00\x01" * 20]
    for key, versions in CLIENT_VERSIONS.items():
        for version in range(versions.min, versions.max + 1):
            for body in bodies:
                connection = connect(broker)
                connection.send(request_frame(key, version, 7, body, client_id="x"))
                connection.socket.shutdown(socket.SHUT_WR)
                assert first_bytes(connection) is not None, f"silence follows {key} version {version}: {body!r}"
                connection.close()


def produce_frame(records: bytes, topic: str = "untouched") -> bytes:
    """Return a produce request with acks=all."""
    parts = encode_produce_request(PRODUCE_VERSION, acks=-1, timeout_ms=1_000, topics=[(topic, [(0, records)])])
    return request_frame(ApiKey.PRODUCE, PRODUCE_VERSION, 1, b"".join(parts), client_id="x")


def test_a_request_cut_at_any_byte_stores_nothing(broker: LocalCluster) -> None:
    """A frame that ends too early inside is refused; one whose sender goes away half-way never happened."""
    frames = [
        produce_frame(bytes(build_batch([(1, b"k", b"v")]))),
        request_frame(ApiKey.CREATE_TOPICS, 7, 1, encode_request(create_topics_request()), client_id="x"),
    ]
    for frame in frames:
        for length in range(5, len(frame) - 4):
            connection = connect(broker)
            connection.send(frame[: 4 + length])
            connection.close()
            connection = connect(broker)
            connection.send(sized_frame(frame[4 : 4 + length]))
            connection.socket.shutdown(socket.SHUT_WR)
            assert first_bytes(connection) is not None, f"silence follows {length} bytes of {frame.hex()}"
            connection.close()
    names = {topic.name for topic in raw.metadata(port(broker)).topics}
    assert "never" not in names


def create_topics_request() -> object:
    """Return a request for a topic that is never created, as each test cuts the request."""
    topic = {"name": "never", "num_partitions": 1, "replication_factor": 1, "assignments": (), "configs": ()}
    fields = {"topics": [topic], "timeout": 1_000, "validate_only": False}
    return build(request_type(ApiKey.CREATE_TOPICS, 7), fields)


def test_a_batch_with_any_damaged_byte_is_refused(broker: LocalCluster) -> None:
    """A flipped bit anywhere in it is answered with CORRUPT_MESSAGE or INVALID_RECORD, and nothing is stored."""
    sound = bytes(build_batch([(1, b"key", b"value"), (2, None, b"other")]))
    for position in range(8, len(sound)):
        if 12 <= position < 16:
            continue  # The leader epoch is the broker's to write.
        damaged = bytearray(sound)
        damaged[position] ^= 1 << (position % 8)
        connection = connect(broker)
        connection.expected.append(1)
        connection.send(produce_frame(bytes(damaged)))
        answer = connection.receive(ApiKey.PRODUCE, PRODUCE_VERSION, ENOUGH_MS)
        connection.close()
        assert isinstance(answer, Answer), f"byte {position}: {answer}"
        row = parse_produce_response(answer.body, PRODUCE_VERSION).topics[0][1][0]
        assert row.error_code in {
            ErrorCode.CORRUPT_MESSAGE,
            ErrorCode.INVALID_RECORD,
            ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT,
        }, f"byte {position}: {ErrorCode(row.error_code).name}"


def test_random_bytes_do_no_harm(broker: LocalCluster) -> None:
    """Frames of random bytes, with and without a proper header before them, are refused or answered."""
    rng = random.Random(7)
    keys = [int(key) for key in CLIENT_VERSIONS]
    for _ in range(600):
        noise = rng.randbytes(rng.randrange(1, 200))
        key = rng.choice(keys)
        # Requests that stop something on purpose have no place here: random names do not meet existing ones.
        frame = request_frame(key, rng.randrange(0, 12), 1, noise, client_id=None, header_version=rng.choice([1, 2]))
        connection = connect(broker)
        sent = frame if rng.random() < 0.8 else sized_frame(noise)
        # Not half-closed: at the end of what it reads, a broker hangs up whatever it did with the frame.
        connection.send(sent)
        assert first_bytes(connection) is not None, f"silence follows {sent.hex()}"
        connection.close()


def test_a_request_that_drips_in_byte_by_byte_is_answered(broker: LocalCluster) -> None:
    """A slow sender gets its answer, and no other client waits for it."""
    slow = connect(broker)
    quick = connect(broker)
    frame = request_frame(ApiKey.API_VERSIONS, 3, slow.next_correlation_id(), b"\x02x\x02y\x00", client_id="slow")
    for index in range(len(frame)):
        slow.socket.sendall(frame[index : index + 1])
        began_s = time.monotonic()
        assert isinstance(api_versions(quick), Answer)
        assert time.monotonic() - began_s < 2
        time.sleep(0.01)
    assert isinstance(slow.receive(ApiKey.API_VERSIONS, 3, ENOUGH_MS), Answer)
    slow.close()
    quick.close()


def test_a_thousand_connections_opened_and_dropped_leave_no_trace(broker: LocalCluster) -> None:
    """Descriptors and memory are given back, however the connections end."""
    process = psutil.Process(broker.pids[1])
    before = process.num_fds()
    bytes_used = []
    for _ in range(4):
        connections = [socket.create_connection(("127.0.0.1", port(broker)), 5) for _ in range(250)]
        for index, each in enumerate(connections):
            with contextlib.suppress(OSError):
                if index % 3 == 0:
                    each.sendall(struct.pack(">i", 50 << 20) + b"x" * 100)
                elif index % 3 == 1:
                    each.sendall(request_frame(ApiKey.API_VERSIONS, 0, 1, b"", client_id="gone"))
                    # Reset instead of an orderly end.
                    each.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        for each in connections:
            each.close()
        until(lambda: process.num_fds() <= before + 5, 5, otherwise="descriptors were not given back")
        bytes_used.append(process.memory_info().rss)
    # Each claim may take 2 MiB for as long as its connection lasts; the allocator need not give it back.
    assert max(bytes_used) < 280 << 20, [each >> 20 for each in bytes_used]


def test_claims_of_large_frames_take_no_memory(broker: LocalCluster) -> None:
    """Fifty connections that announce 100 MiB each and send 4 KiB take little memory."""
    process = psutil.Process(broker.pids[1])
    before_bytes = process.memory_info().rss
    connections = [connect(broker) for _ in range(50)]
    for each in connections:
        each.send(struct.pack(">i", 100 << 20) + b"x" * 4096)
    # One loop serves all of them: a request that comes after their bytes is answered after they were read.
    late = connect(broker)
    assert isinstance(api_versions(late), Answer)
    late.close()
    grown = process.memory_info().rss - before_bytes
    for each in connections:
        each.close()
    assert grown < 150 << 20, f"{grown >> 20} MiB for claims alone"


def test_a_client_that_never_reads_its_answers_is_not_read_from(broker: LocalCluster) -> None:
    """Answers that the client does not read do not pile up without bound."""
    process = psutil.Process(broker.pids[1])
    before_bytes = process.memory_info().rss
    deaf = socket.create_connection(("127.0.0.1", port(broker)), 5)
    deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    deaf.setblocking(False)
    frame = request_frame(ApiKey.API_VERSIONS, 0, 1, b"", client_id="deaf") * 100
    sent = 0
    # Until nothing more is taken for a while: the buffers are full, and the broker reads no further.
    while select.select([], [deaf], [], 0.5)[1]:
        sent += deaf.send(frame)
        assert sent < 256 << 20, "the broker goes on reading"
    grown = process.memory_info().rss - before_bytes
    deaf.close()
    assert grown < 64 << 20, f"{grown >> 20} MiB of unread answers, after {sent >> 10} KiB of requests"


def test_the_internal_listener_survives_the_same(broker: LocalCluster) -> None:
    """Noise on the port for other brokers closes connections, too, and the broker stays registered."""
    internal_port = broker.running.internal_ports[1]
    rng = random.Random(8)
    for key in (0, 1, 2, 3, 56, 62, 63, 67, 20000, 20001, 999):
        for version in range(6):
            connection = Connection("127.0.0.1", internal_port)
            connection.send(
                request_frame(key, version, 1, rng.randbytes(rng.randrange(60)), client_id="x", header_version=2)
            )
            connection.socket.shutdown(socket.SHUT_WR)
            assert first_bytes(connection) is not None, f"silence follows {key} version {version}"
            connection.close()
