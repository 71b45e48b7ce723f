"""Many of everything: 10,000 partitions, 5,000 connections, 1,000 consumers, and what each costs the brokers.

    python -m benchmarks.crowds [--only partitions spread connections consumers] [--no-kafka] [--write]

partitions   Three brokers with 10,000 partitions of three replicas, to each of which one producer writes: once, and
             then again. How long the brokers' own work held the event loops comes from their metric
             `syncline_event_loop_own_hold_seconds`, which is exact only to its bucket bounds. Last, their CPU use
             at rest.
spread       A record to each of 2,000 partitions of three replicas, by one producer, acks=all: how long that takes, and
             the brokers' CPU time. The median of the rounds counts, without the first one, which creates the files.
             Apache Kafka is measured for comparison.
connections  5,000 connections to one broker, each of which has sent one request, as clients do. The broker's resident
             memory is compared before, during, and after they have closed.
consumers    1,000 consumers with a connection and a fetch session each, at the end of the log of one broker. Each asks
             again after an empty response, which comes after half a second, as clients do by default. Apache Kafka and
             a server that only answers (`bare_server.py`) are measured for comparison: no Python broker can use less
             than that server.

The command exits with 1 if a limit is broken.
"""

import argparse
import resource
import selectors
import socket
import statistics
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, NamedTuple

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from benchmarks.many_moves import holds_of, phase_between
from benchmarks.operations import cpu_percent
from benchmarks.pages import replace_table
from benchmarks.peers import Peer, kafka_jars, start_kafka, start_syncline
from benchmarks.run import machine
from syncline.local.layout import Layout
from syncline.wire.api import ApiKey
from syncline.wire.frames import frame_request

PARTITIONS: Final = 10_000
CONNECTIONS: Final = 5_000
CONSUMERS: Final = 1_000
SPREAD_PARTITIONS: Final = 2_000
SPREAD_ROUNDS: Final = 5
RECORD_BYTES: Final = 100
TOPIC: Final = "crowd"
HOLD_MS_MAX: Final = 10.0
MANY_IDLE_PERCENT_MAX: Final = 3.0
CONNECTION_KB_MAX: Final = 20.0
CONSUMERS_PERCENT_MAX: Final = 2.0
# Brokers give memory back some seconds after a burst.
GIVEN_BACK_S: Final = 20.0
# The broker may keep this share of the memory that connections took.
KEPT_SHARE_MAX: Final = 0.1
PATIENCE_S: Final = 120.0
WAIT_MS: Final = 500


class Figure(NamedTuple):
    """One row: what was measured, its limit in the same unit, and how to write it."""

    name: str
    value: float
    unit: str
    # None: measured for comparison.
    limit: float | None = None

    @property
    def is_kept(self) -> bool:
        """Return whether the limit was kept."""
        return self.limit is None or self.value <= self.limit

    def row(self) -> str:
        """Return the row of the table."""
        verdict = "" if self.is_kept else "missed"
        limit = "" if self.limit is None else f"≤ {self.limit:.3g} {self.unit}"
        return f"| {self.name} | {self.value:.3g} {self.unit} | {limit} | {verdict} |"


HEADINGS: Final = "| | | limit | |\n|---|---|---|---|"


def many_partitions() -> list[Figure]:
    """Write to 10,000 partitions of three replicas."""
    peer = start_syncline(3)
    try:
        running = Layout(peer.directory).running()
        if running is None:
            raise RuntimeError(f"the cluster in {peer.directory} has stopped")
        places = [(str(running.metrics_url(broker)), pid) for broker, pid in running.broker_pids.items()]
        admin = AdminClient({"bootstrap.servers": peer.bootstrap, "log_level": 0})
        figures = []

        def measured(name: str, work: Callable[[], None]) -> None:
            before, began_s = [holds_of(*place) for place in places], time.monotonic()
            work()
            took_s = time.monotonic() - began_s
            time.sleep(5)
            phase = phase_between(before, [holds_of(*place) for place in places])
            print(
                f"{name}: {took_s:.1f} s, longest hold {phase.own_ms:.0f} ms; longest ever: {phase.works}", flush=True
            )
            figures.append(Figure(f"{name}: longest event loop hold", phase.own_ms, "ms", HOLD_MS_MAX))

        def create() -> None:
            topic = NewTopic(TOPIC, PARTITIONS, 3)
            admin.create_topics([topic], request_timeout=60, operation_timeout=60)[TOPIC].result()

        def produce() -> None:
            _produce_to_each(peer, PARTITIONS)

        measured("10,000 partitions created", create)
        measured("one record to each, by one producer", produce)
        measured("one more record to each", produce)
        time.sleep(10)
        idle = cpu_percent(peer)
        figures.append(Figure("10,000 partitions at rest, three brokers", idle, "% of a core", MANY_IDLE_PERCENT_MAX))
        return figures
    finally:
        peer.stop(rest_s=0)


def _produce_to_each(peer: Peer, partitions: int) -> None:
    """Write one record to each partition, and wait for all acknowledgements."""
    producer = Producer({"bootstrap.servers": peer.bootstrap, "acks": "all", "log_level": 0})
    for partition in range(partitions):
        producer.produce(TOPIC, bytes(RECORD_BYTES), partition=partition)
        producer.poll(0)
    if producer.flush(PATIENCE_S):
        raise RuntimeError("some records were not acknowledged")


def records_spread_wide(*, is_beside_kafka: bool) -> list[Figure]:
    """Write to 2,000 partitions of three replicas, again and again."""
    figures = []
    for start in (start_syncline, start_kafka) if is_beside_kafka else (start_syncline,):
        peer = start(3)
        try:
            admin = AdminClient({"bootstrap.servers": peer.bootstrap, "log_level": 0})
            topic = NewTopic(TOPIC, SPREAD_PARTITIONS, 3)
            admin.create_topics([topic], request_timeout=60, operation_timeout=60)[TOPIC].result()
            _produce_to_each(peer, SPREAD_PARTITIONS)
            took_s, cpu_s = [], []
            for _ in range(SPREAD_ROUNDS):
                time.sleep(3)
                began_s, cpu_before_s = time.monotonic(), peer.cpu_s()
                _produce_to_each(peer, SPREAD_PARTITIONS)
                took_s.append(time.monotonic() - began_s)
                cpu_s.append(peer.cpu_s() - cpu_before_s)
            print(f"{peer.name}: {', '.join(f'{each:.2f} s' for each in took_s)}", flush=True)
            name = f"one record to each of {SPREAD_PARTITIONS:,} partitions x 3, {peer.name}"
            figures.append(Figure(name, statistics.median(took_s), "s"))
            figures.append(Figure("the same: brokers' CPU time", statistics.median(cpu_s), "s"))
        finally:
            peer.stop()
    return figures


def many_connections() -> list[Figure]:
    """Open 5,000 connections to one broker, and close them."""
    peer = start_syncline(1)
    try:
        # The modules that the first connections load stay in memory.
        _close(_connected(peer, 100))
        time.sleep(GIVEN_BACK_S)
        before_mb = peer.rss_mb()[0]
        lines = _connected(peer, CONNECTIONS)
        time.sleep(5)
        open_mb = peer.rss_mb()[0]
        _close(lines)
        time.sleep(GIVEN_BACK_S)
        after_mb = peer.rss_mb()[0]
    finally:
        peer.stop(rest_s=0)
    print(
        f"{before_mb:.1f} MB, with {CONNECTIONS:,} connections {open_mb:.1f} MB, after they closed {after_mb:.1f} MB",
        flush=True,
    )
    each_kb = (open_mb - before_mb) / CONNECTIONS * 1e3
    kept_kb = max(after_mb - before_mb, 0.0) / CONNECTIONS * 1e3
    return [
        Figure("memory per idle connection, of 5,000", each_kb, "KB", CONNECTION_KB_MAX),
        Figure("memory per connection kept after they closed", kept_kb, "KB", KEPT_SHARE_MAX * CONNECTION_KB_MAX),
    ]


def many_consumers(*, is_beside_kafka: bool) -> list[Figure]:
    """Let 1,000 consumers wait at the end of a log."""
    unit = "% of a core"
    ours = _waited_at(start_syncline(1))
    figures = [Figure("1,000 waiting consumers, one broker", ours, unit, CONSUMERS_PERCENT_MAX)]
    if is_beside_kafka:
        figures.append(Figure("the same, Apache Kafka", _waited_at(start_kafka(1)), unit))
    figures.append(Figure("the same, a server that only answers", _waited_at_bare_server(), unit))
    return figures


def _waited_at(peer: Peer) -> float:
    """Return a cluster's CPU use while they wait, in per cent of a core."""
    try:
        admin = AdminClient({"bootstrap.servers": peer.bootstrap, "log_level": 0})
        admin.create_topics([NewTopic(TOPIC, 1, 1)])[TOPIC].result()
        with _waiters(peer.bootstrap):
            return cpu_percent(peer)
    finally:
        peer.stop(rest_s=0)


def _waited_at_bare_server() -> float:
    with subprocess.Popen(
        [sys.executable, "-m", "benchmarks.bare_server"], stdout=subprocess.PIPE, text=True
    ) as server:
        try:
            assert server.stdout is not None, "it was opened"
            bootstrap = f"127.0.0.1:{int(server.stdout.readline())}"
            with _waiters(bootstrap):
                return cpu_percent(Peer("a bare server", bootstrap, {1: server.pid}, 0.0, [], Path()))
        finally:
            server.kill()


@contextmanager
def _waiters(bootstrap: str) -> Iterator[None]:
    """Have consumers wait, in a process of their own."""
    command = [sys.executable, "-m", "benchmarks.crowds", "--wait-at", bootstrap]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as waiting:
        try:
            assert waiting.stdout is not None, "it was opened"
            if "waiting" not in waiting.stdout.readline():
                raise RuntimeError("the consumers could not connect")
            # Kafka compiles in the meantime.
            time.sleep(15)
            yield
        finally:
            waiting.kill()


PARTS: Final = ("partitions", "spread", "connections", "consumers")


def wait_at(bootstrap: str) -> None:
    """Be 1,000 consumers, until this process is killed."""
    lines = [_connect(bootstrap) for _ in range(CONSUMERS)]
    for line in lines:
        answer = _ask(line, ApiKey.FETCH, 11, _fetch(0, 0, [TOPIC], wait_ms=0))
        (session,) = struct.unpack_from(">i", answer, 10)
        _sessions[line] = [session, 0]
    selector = selectors.DefaultSelector()
    for line in lines:
        selector.register(line, selectors.EVENT_READ)
        _again(line)
    print("waiting", flush=True)
    while True:
        for key, _ in selector.select():
            line = key.fileobj
            assert isinstance(line, socket.socket), "only sockets were registered"
            if not line.recv(65_536):
                raise SystemExit("the broker closed a connection")
            # An answer without records is shorter than any segment, so it came as a whole.
            _again(line)


# Session id and epoch of each consumer.
_sessions: Final[dict[socket.socket, list[int]]] = {}


def _again(line: socket.socket) -> None:
    session = _sessions[line]
    session[1] += 1
    line.sendall(b"".join(frame_request(ApiKey.FETCH, 11, 1, "crowd", [_fetch(session[0], session[1], [])])))


def _fetch(session: int, epoch: int, topics: list[str], wait_ms: int = WAIT_MS) -> bytes:
    """Return a consumer's fetch, version 11, of the beginning of partition 0 of each topic."""
    rows = b"".join(
        struct.pack(">h", len(topic)) + topic.encode() + struct.pack(">iiiqqi", 1, 0, -1, 0, -1, 1 << 20)
        for topic in topics
    )
    head = struct.pack(">iiiibii", -1, wait_ms, 1, 50 << 20, 0, session, epoch)
    return head + struct.pack(">i", len(topics)) + rows + struct.pack(">ih", 0, 0)


def _connected(peer: Peer, count: int) -> list[socket.socket]:
    lines = [_connect(peer.bootstrap) for _ in range(count)]
    for line in lines:
        _ask(line, ApiKey.API_VERSIONS, 0, b"")
    return lines


def _connect(bootstrap: str) -> socket.socket:
    host, _, port = bootstrap.partition(":")
    return socket.create_connection((host, int(port)), timeout=PATIENCE_S)


def _ask(line: socket.socket, key: ApiKey, version: int, body: bytes) -> bytes:
    line.sendall(b"".join(frame_request(key, version, 1, "crowd", [body])))
    (size,) = struct.unpack(">i", _read(line, 4))
    return _read(line, size)


def _read(line: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        part = line.recv(size - len(data))
        if not part:
            raise ConnectionError("the broker closed the connection: see its log")
        data += part
    return data


def _close(lines: list[socket.socket]) -> None:
    for line in lines:
        line.close()


def main() -> int:
    """Run the requested measurements; print the table, and write it if asked to."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=PARTS, default=PARTS)
    parser.add_argument("--no-kafka", action="store_true", help="measure only Syncline")
    parser.add_argument("--write", action="store_true", help="write the table to docs/performance.md")
    parser.add_argument("--wait-at", help=argparse.SUPPRESS)
    options = parser.parse_args()
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))
    if options.wait_at:
        wait_at(options.wait_at)
    if not options.no_kafka:
        kafka_jars()
    measure: Mapping[str, Callable[[], list[Figure]]] = {
        "partitions": many_partitions,
        "spread": lambda: records_spread_wide(is_beside_kafka=not options.no_kafka),
        "connections": many_connections,
        "consumers": lambda: many_consumers(is_beside_kafka=not options.no_kafka),
    }
    figures = [figure for part in options.only for figure in measure[part]()]
    rows = [HEADINGS, *(figure.row() for figure in figures)]
    print("\n".join(rows))
    if options.write:
        replace_table("crowds", [f"{datetime.now(UTC):%Y-%m-%d}, {machine()}:", "", *rows])
    return 0 if all(figure.is_kept for figure in figures) else 1


if __name__ == "__main__":
    sys.exit(main())
