"""CPU time of the broker per request, this tree (or one revision) against an earlier one: five fetches, and a produce.

    python -m benchmarks.request_cpu REVISION [--to OTHER] [--turns 40]

For differences of a few per cent, such as the cost of accounting for each fetch, where `benchmarks.compare` sees the
machine's own drift. One broker per side, both running; requests of one shape are written to a socket many at once, so
that the broker does nothing else and never waits, and both sides take short turns. CPU time is the scheduler's. It
prints medians, and the median of the ratios of neighbouring turns with its interval.
"""

import argparse
import compileall
import os
import socket
import statistics
import struct
import time
from pathlib import Path
from typing import NamedTuple

from benchmarks import load
from benchmarks.compare import ROOT, paired_ratio, sources_of
from benchmarks.peers import Peer, start_syncline
from syncline.records.builder import BatchBuilder
from syncline.wire.api import ApiKey
from syncline.wire.frames import frame_request

TOPIC = "requests"
PARTITIONS = 40
# Of each partition.
BATCHES = 400
BATCH_RECORD_BYTES = 1_000
FETCH_VERSION = 11
PRODUCE_VERSION = 7
MAX_BYTES = 1 << 20
CLIENT_ID = "request-cpu"


class Shape(NamedTuple):
    """Requests of one kind: how many in one turn, how many at once, and the body of one."""

    name: str
    count: int
    at_once: int
    key: ApiKey
    version: int
    body: bytes


def _text(value: str) -> bytes:
    return struct.pack(">h", len(value)) + value.encode()


def fetch_body(offsets: dict[int, int], max_bytes: int) -> bytes:
    """Return a consumer's fetch of one topic, without a session, that never waits."""
    partitions = b"".join(
        struct.pack(">iiqqi", partition, -1, offset, -1, max_bytes) for partition, offset in offsets.items()
    )
    topics = struct.pack(">i", 1) + _text(TOPIC) + struct.pack(">i", len(offsets)) + partitions
    return struct.pack(">iiiibii", -1, 0, 0, MAX_BYTES * 8, 0, 0, -1) + topics + struct.pack(">i", 0) + _text("")


def produce_body(partition: int, records: bytes) -> bytes:
    """Return a produce of one batch, acks=1."""
    topic = _text(TOPIC) + struct.pack(">iii", 1, partition, len(records)) + records
    return struct.pack(">hhii", -1, 1, 10_000, 1) + topic


def batch(record_bytes: int) -> bytes:
    """Return a batch of one record."""
    builder = BatchBuilder()
    builder.append(time.time_ns() // 1_000_000, None, b"x" * record_bytes)
    return bytes(builder.build())


def shapes() -> tuple[Shape, ...]:
    """Return the requests that are compared."""
    fetch, produce = (ApiKey.FETCH, FETCH_VERSION), (ApiKey.PRODUCE, PRODUCE_VERSION)
    newest, middle = BATCHES - 1, BATCHES // 2
    return (
        Shape("fetch of the newest record", 2_000, 200, *fetch, fetch_body({0: newest}, MAX_BYTES)),
        Shape("fetch of 16 old records", 2_000, 100, *fetch, fetch_body({0: middle}, 17_000)),
        Shape("fetch of 200 old records", 600, 20, *fetch, fetch_body({0: middle}, MAX_BYTES)),
        Shape(
            "fetch of 1 record each of 40",
            100,
            10,
            *fetch,
            fetch_body(dict.fromkeys(range(PARTITIONS), newest), MAX_BYTES),
        ),
        Shape("fetch without records", 3_000, 200, *fetch, fetch_body({0: BATCHES}, MAX_BYTES)),
        # Last: it moves the log end of a partition that only the long fetch reads.
        Shape("produce of one record", 2_000, 200, *produce, produce_body(PARTITIONS - 1, batch(100))),
    )


class Line:
    """One connection to a broker, which sends prepared requests and skips the answers."""

    def __init__(self, peer: Peer) -> None:
        host, _, port = peer.bootstrap.partition(":")
        self._socket = socket.create_connection((host, int(port)))
        self._peer = peer
        self._buffer = bytearray(1 << 20)

    def send(self, key: ApiKey, version: int, body: bytes, count: int) -> None:
        """Send the same request many times, and wait for all responses."""
        frame = b"".join(frame_request(key, version, 1, CLIENT_ID, [body]))
        self._socket.sendall(frame * count)
        for _ in range(count):
            self._skip(struct.unpack(">i", self._read(4))[0])

    def _read(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            part = self._socket.recv(size - len(data))
            if not part:
                raise ConnectionError("the broker closed the connection: see its log")
            data += part
        return data

    def _skip(self, size: int) -> None:
        while size:
            got = self._socket.recv_into(self._buffer, min(size, len(self._buffer)))
            if not got:
                raise ConnectionError("the broker closed the connection: see its log")
            size -= got

    def cpu_us(self, shape: Shape) -> float:
        """Return the broker's CPU time per request of one turn, in microseconds."""
        before_s = self._peer.cpu_s()
        for _ in range(shape.count // shape.at_once):
            self.send(shape.key, shape.version, shape.body, shape.at_once)
        return (self._peer.cpu_s() - before_s) / shape.count * 1e6


def fill(peer: Peer) -> Line:
    """Write what the fetches read."""
    load.create_topic(peer, TOPIC, PARTITIONS)
    line = Line(peer)
    records = batch(BATCH_RECORD_BYTES)
    for partition in range(PARTITIONS):
        line.send(ApiKey.PRODUCE, PRODUCE_VERSION, produce_body(partition, records), BATCHES)
    return line


def main() -> None:
    """Measure both sides, and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("revision")
    parser.add_argument("--to", metavar="OTHER", help="another revision, or a directory of sources")
    parser.add_argument("--turns", type=int, default=40)
    arguments = parser.parse_args()
    names = (arguments.revision[:12], Path(arguments.to).name[:12] if arguments.to else "this tree")
    sources = (sources_of(arguments.revision), sources_of(arguments.to) if arguments.to else ROOT / "src")
    peers: list[Peer] = []
    try:
        for each in sources:
            compileall.compile_dir(each, quiet=2)
            os.environ["PYTHONPATH"] = str(each)
            peers.append(start_syncline(1))
        lines = [fill(peer) for peer in peers]
        print(f"{'CPU µs per request':32}{names[0]:>14}{names[1]:>14}{'ratio':>8}    95 % interval")
        for shape in shapes():
            measure(shape, lines, arguments.turns)
    finally:
        for peer in peers:
            peer.stop(rest_s=0)


def measure(shape: Shape, lines: list[Line], turns: int) -> None:
    """Compare both sides by one shape, and print."""
    taken: list[list[float]] = [[], []]
    for number in range(turns + 1):
        for side in (0, 1) if number % 2 == 0 else (1, 0):
            value = lines[side].cpu_us(shape)
            # The first turn warms up.
            if number:
                taken[side].append(value)
    ratio, low, high = paired_ratio(*taken)
    medians = [statistics.median(values) for values in taken]
    print(f"{shape.name:32}{medians[0]:14.1f}{medians[1]:14.1f}{ratio:8.3f}    {low:.3f} to {high:.3f}", flush=True)


if __name__ == "__main__":
    main()
