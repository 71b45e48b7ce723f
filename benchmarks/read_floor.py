"""Reading beside Apache Kafka and beside servers that only send a file: what a gigabyte takes of a broker's processor.

    python -m benchmarks.read_floor [--gigabytes 4] [--rounds 3] [--write]

One broker with four partitions, and one connection that asks for a megabyte of each, takes them, and asks again. The
client looks at nothing but the offset of the last batch, so it is the same light one for all sides. What is read is in
the page cache: a gigabyte is written first, and read once unmeasured, which also gives Kafka time to compile.

What the servers take that only send is the floor: `copies` reads the file and writes it to the socket, as our brokers
do over TCP, `sendfile` leaves that to the kernel, as Kafka does. `--write` puts the table into docs/performance.md. The
median of the rounds counts. Needs Java and Maven.
"""

import argparse
import asyncio
import os
import socket
import statistics
import struct
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import uvloop

from benchmarks import load
from benchmarks.pages import replace_table
from benchmarks.peers import KAFKA_VERSION, WORK, Peer, kafka_jars, start_kafka, start_syncline
from benchmarks.run import machine, rounded
from syncline.records.batch import iterate
from syncline.wire.api import ApiKey, response_header_version
from syncline.wire.fetch import FetchPartition, FetchRequest, encode_fetch_request
from syncline.wire.fetch_response import parse_fetch_response
from syncline.wire.frames import frame_request
from syncline.wire.response_header import response_body_position

TOPIC: Final = "read"
RECORDS: Final = 1_000_000
RECORD_BYTES: Final = 1_000
# Of one partition in one answer, as clients ask by default.
PIECE_BYTES: Final = 1 << 20
ANSWER_BYTES: Final = load.PARTITIONS * PIECE_BYTES
FETCH_VERSION: Final = 12
GIGABYTE: Final = 1e9
KAFKA: Final = "Apache Kafka"
_SIZE: Final = struct.Struct(">i")


class Reader:
    """One connection that reads for as long as it is told to."""

    def __init__(self, bootstrap: str) -> None:
        host, _, port = bootstrap.partition(":")
        self._socket = socket.create_connection((host, int(port)), timeout=60)
        self._buffer = memoryview(bytearray(4 * ANSWER_BYTES))

    def close(self) -> None:
        """Close it."""
        self._socket.close()

    def ask(self, request: bytes) -> memoryview:
        """Return the answer to a request, without its size; it is valid until the next one."""
        self._socket.sendall(request)
        (size,) = _SIZE.unpack(self._receive(_SIZE.size))
        return self._receive(size)

    def _receive(self, size: int) -> memoryview:
        received = 0
        while received < size:
            count = self._socket.recv_into(self._buffer[received:size])
            if not count:
                raise ConnectionError("the broker closed the connection: see its log")
            received += count
        return self._buffer[:size]


def read_broker(reader: Reader, size_bytes: int) -> int:
    """Read so much of the topic, from its beginning again after its end; return how much it was."""
    read_bytes = 0
    while read_bytes < size_bytes:
        offsets, taken_bytes = [0] * load.PARTITIONS, -1
        while taken_bytes and read_bytes < size_bytes:
            taken_bytes = _fetch(reader, offsets)
            read_bytes += taken_bytes
    return read_bytes


def _fetch(reader: Reader, offsets: list[int]) -> int:
    """Read from these offsets on, and move them behind what came; return its bytes."""
    rows = [FetchPartition(index, -1, offset, -1, -1, PIECE_BYTES) for index, offset in enumerate(offsets)]
    asked = FetchRequest(-1, -1, 0, 1, 2 * ANSWER_BYTES, 0, 0, -1, [(TOPIC, rows)], [], "")
    body = encode_fetch_request(asked, FETCH_VERSION)
    frame = reader.ask(b"".join(frame_request(ApiKey.FETCH, FETCH_VERSION, 1, "reader", [body])))
    position = response_body_position(frame, response_header_version(ApiKey.FETCH, FETCH_VERSION))
    taken_bytes = 0
    for row in parse_fetch_response(frame[position:], FETCH_VERSION).topics[0][1]:
        if row.error_code:
            raise RuntimeError(f"partition {row.partition} cannot be read: error {row.error_code}")
        records = memoryview(row.records)  # type: ignore[arg-type]
        for _, header in iterate(records, 0, len(records)):
            offsets[row.partition] = header.next_offset
        taken_bytes += len(records)
    return taken_bytes


def read_file(reader: Reader, size_bytes: int) -> int:
    """Read so much from a server that only sends; return how much it was."""
    request = _SIZE.pack(0)
    read_bytes = 0
    while read_bytes < size_bytes:
        read_bytes += len(reader.ask(request))
    return read_bytes


class _Sender(asyncio.Protocol):
    """Sends the next megabytes of a file whenever it is asked."""

    def __init__(self, file: int, *, is_copying: bool) -> None:
        self._file = file
        self._is_copying = is_copying
        self._file_bytes = os.fstat(file).st_size
        self._position = 0
        # Used again and again: when the next request comes, the last answer is with the client.
        self._pieces = [bytearray(PIECE_BYTES) for _ in range(ANSWER_BYTES // PIECE_BYTES if is_copying else 0)]

    def connection_made(self, transport: Any) -> None:
        self._transport = transport
        self._socket = transport.get_extra_info("socket").fileno()

    def data_received(self, data: bytes) -> None:
        assert len(data) == _SIZE.size, "one request at a time"
        if self._position + ANSWER_BYTES > self._file_bytes:
            self._position = 0
        end = self._position + ANSWER_BYTES
        if self._is_copying:
            for piece in self._pieces:
                os.preadv(self._file, [piece], self._position)
                self._position += len(piece)
            self._transport.writelines([_SIZE.pack(ANSWER_BYTES), *self._pieces])
        else:
            os.write(self._socket, _SIZE.pack(ANSWER_BYTES))
            self._send(end)

    def _send(self, end: int) -> None:
        """Send the file up to a position, for as long as the socket takes it, and go on when it does again."""
        loop = asyncio.get_running_loop()
        # The transport reads from the descriptor; a copy of it is what the loop may watch besides.
        try:
            while self._position < end:
                self._position += os.sendfile(self._socket, self._file, self._position, end - self._position)
        except BlockingIOError:
            copy = os.dup(self._socket)

            def go_on() -> None:
                loop.remove_writer(copy)
                os.close(copy)
                self._send(end)

            loop.add_writer(copy, go_on)


async def _serve(listener: socket.socket, path: Path, *, is_copying: bool) -> None:
    file = os.open(path, os.O_RDONLY)
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: _Sender(file, is_copying=is_copying), sock=listener)
    await server.serve_forever()


def start_sender(way: str) -> Peer:
    """Start a server that only sends a file of a gigabyte, by copying it or by `sendfile`."""
    directory = WORK / f"sender-{uuid.uuid4().hex[:8]}"
    directory.mkdir(parents=True)
    path = directory / "file"
    with path.open("wb") as file:
        for _ in range(RECORDS * RECORD_BYTES // ANSWER_BYTES):
            file.write(os.urandom(ANSWER_BYTES))
    listener = socket.create_server(("127.0.0.1", 0))
    command = [sys.executable, "-m", "benchmarks.read_floor", "--serve", str(listener.fileno()), str(path), way]
    process = subprocess.Popen(command, pass_fds=[listener.fileno()])
    bootstrap = f"127.0.0.1:{listener.getsockname()[1]}"
    listener.close()
    return Peer(way, bootstrap, {0: process.pid}, 0.0, [process], directory)


def with_records(peer: Peer) -> Peer:
    """Return a broker that has the records."""
    load.create_topic(peer, TOPIC)
    load.produce(peer, TOPIC, RECORD_BYTES, RECORDS)
    os.sync()
    return peer


Read = Callable[[Reader, int], int]
SIDES: Final[Mapping[str, tuple[Callable[[], Peer], Read]]] = {
    "Syncline": (lambda: with_records(start_syncline(1)), read_broker),
    "only sends: copies": (lambda: start_sender("copies"), read_file),
    "only sends: sendfile": (lambda: start_sender("sendfile"), read_file),
    KAFKA: (lambda: with_records(start_kafka(1)), read_broker),
}


@contextmanager
def running(peer: Peer) -> Iterator[Peer]:
    """Stop a side in the end."""
    try:
        yield peer
    finally:
        peer.stop()


def measure(side: str, gigabytes: float) -> float:
    """Return what a gigabyte takes of the side's processor time, in seconds."""
    start, read = SIDES[side]
    with running(start()) as peer:
        reader = Reader(peer.bootstrap)
        read(reader, RECORDS * RECORD_BYTES)
        before_s = peer.cpu_s()
        read_bytes = read(reader, int(gigabytes * GIGABYTE))
        used_s = peer.cpu_s() - before_s
        reader.close()
    return used_s / (read_bytes / GIGABYTE)


def table(cpu_s_gb: Mapping[str, float]) -> list[str]:
    """Return the figures of all sides, and their ratios to Kafka's."""
    cells = [
        f"{rounded(value)} s/GB" + ("" if side == KAFKA else f" ({value / cpu_s_gb[KAFKA]:.2f}x)")
        for side, value in cpu_s_gb.items()
    ]
    return [
        "| | " + " | ".join(cpu_s_gb) + " |",
        "|---" * (len(cpu_s_gb) + 1) + "|",
        "| processor time of one broker that is read | " + " | ".join(cells) + " |",
    ]


def main() -> None:
    """Measure, print, and write if that is wanted."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gigabytes", type=float, default=4)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--write", action="store_true", help="write the table to docs/performance.md")
    parser.add_argument("--serve", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        descriptor, path, way = options.serve
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            listener = socket.socket(fileno=int(descriptor))
            runner.run(_serve(listener, Path(path), is_copying=way == "copies"))
        return
    kafka_jars()
    taken: dict[str, list[float]] = {side: [] for side in SIDES}
    for number in range(options.rounds):
        for side in SIDES:
            print(f"round {number + 1} of {options.rounds}: {side} ...", file=sys.stderr, flush=True)
            taken[side].append(measure(side, options.gigabytes))
    lines = table({side: statistics.median(values) for side, values in taken.items()})
    print("\n".join(lines))
    if options.write:
        where = f"{datetime.now(UTC):%Y-%m-%d}, {machine()}, Apache Kafka {KAFKA_VERSION}"
        replace_table("read floor", [f"{where}, medians of {options.rounds} rounds:", "", *lines])


if __name__ == "__main__":
    main()
