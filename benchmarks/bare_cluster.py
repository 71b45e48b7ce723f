"""A cluster that only passes on: what processes of Python and uvloop take for the bytes of requests alone.

Clients find three brokers (or one) of which each leads some partitions. A leader writes a Produce request to a file,
passes it on to the others over Unix domain sockets, where it is written as well, and answers when all have said so. It
looks for the size and the partition, and for nothing else: no batch is checked, no offset is found again. So it
shows what the event loop, the kernel and the client take by themselves.

Versions: Produce 7, Metadata 8, ApiVersions 0 to 3. Clients want to see Fetch 4, and do not use it.
"""

import asyncio
import os
import socket
import struct
import subprocess
import sys
import uuid
from collections import deque
from pathlib import Path
from typing import Any, Final

import uvloop

from benchmarks.load import PARTITIONS
from benchmarks.peers import WORK, Peer
from syncline.wire.api import ApiKey, VersionRange
from syncline.wire.api_versions import encode_api_versions_response
from syncline.wire.frames import frame_response
from syncline.wire.metadata import (
    MetadataBroker,
    MetadataPartition,
    MetadataTopic,
    encode_metadata_response,
    parse_metadata_request,
)
from syncline.wire.request_header import parse_request_header

VERSIONS: Final = {
    ApiKey.PRODUCE: VersionRange(7, 7),
    ApiKey.FETCH: VersionRange(4, 4),
    ApiKey.METADATA: VersionRange(8, 8),
    ApiKey.API_VERSIONS: VersionRange(0, 3),
}
BUFFER_BYTES: Final = 1 << 20

_HEAD: Final = struct.Struct(">ihhih")
_INT16: Final = struct.Struct(">h")
_INT32: Final = struct.Struct(">i")
_INT64: Final = struct.Struct(">q")
_PRODUCED: Final = struct.Struct(">ihqqqi")


class _Follower(asyncio.BufferedProtocol):
    """Writes what a leader passes on, and says how many bytes that were so far."""

    def __init__(self, file: int) -> None:
        self._file = file
        self._buffer = memoryview(bytearray(BUFFER_BYTES))
        self._written_bytes = 0

    def connection_made(self, transport: Any) -> None:
        self._transport = transport

    def get_buffer(self, _size: int) -> memoryview:
        return self._buffer

    def buffer_updated(self, count: int) -> None:
        os.write(self._file, self._buffer[:count])
        self._written_bytes += count
        self._transport.write(_INT64.pack(self._written_bytes))


class _Replicas:
    """The followers of one leader, and the answers that wait for them."""

    def __init__(self, file: int) -> None:
        self._file = file
        self._links: list[_Link] = []
        self._passed_bytes = 0
        # (how many bytes all followers must have, the client's connection, its answer)
        self._waiting: deque[tuple[int, asyncio.WriteTransport, bytes]] = deque()

    async def connect(self, paths: list[str]) -> None:
        """Connect to the followers, which may have just begun to listen."""
        loop = asyncio.get_running_loop()
        for path in paths:
            while True:
                try:
                    _, link = await loop.create_unix_connection(lambda: _Link(self), path)
                except OSError:
                    await asyncio.sleep(0.01)
                else:
                    self._links.append(link)
                    break

    def append(self, data: memoryview, transport: asyncio.WriteTransport, answer: bytes) -> None:
        """Write data here and at all followers, and then the answer."""
        os.write(self._file, data)
        if not self._links:
            transport.write(answer)
            return
        self._passed_bytes += len(data)
        self._waiting.append((self._passed_bytes, transport, answer))
        copied = bytes(data)
        for link in self._links:
            link.transport.write(copied)

    def written(self) -> None:
        """Send the answers for which the slowest follower has written enough."""
        written_bytes = min(link.written_bytes for link in self._links)
        waiting = self._waiting
        while waiting and waiting[0][0] <= written_bytes:
            _, transport, answer = waiting.popleft()
            transport.write(answer)


class _Link(asyncio.Protocol):
    """The connection of a leader to one follower."""

    def __init__(self, replicas: _Replicas) -> None:
        self._replicas = replicas
        self.written_bytes = 0

    def connection_made(self, transport: Any) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        (self.written_bytes,) = _INT64.unpack_from(data, len(data) - _INT64.size)
        self._replicas.written()


class _Client(asyncio.BufferedProtocol):
    """The connection of a client."""

    def __init__(self, replicas: _Replicas, cluster: "_Cluster") -> None:
        self._replicas = replicas
        self._cluster = cluster
        self._buffer = memoryview(bytearray(BUFFER_BYTES))
        self._end = 0

    def connection_made(self, transport: Any) -> None:
        self._transport = transport

    def get_buffer(self, _size: int) -> memoryview:
        return self._buffer[self._end :]

    def buffer_updated(self, count: int) -> None:
        """Handle each request that is there; all Produce requests of one read are passed on together."""
        buffer, begin, end = self._buffer, 0, self._end + count
        answers = b""
        while end - begin >= _HEAD.size:
            size, key, _, correlation_id, client_bytes = _HEAD.unpack_from(buffer, begin)
            if end - begin < 4 + size:
                break
            if key == ApiKey.PRODUCE:
                # Transactional id, acks, time-out and count come before the topic's name, its length before the name.
                position = begin + _HEAD.size + client_bytes + 12
                (name_bytes,) = _INT16.unpack_from(buffer, position)
                (partition,) = _INT32.unpack_from(buffer, position + name_bytes + 6)
                name = bytes(buffer[position : position + name_bytes + 2])
                answers += _produced(correlation_id, name, partition)
            else:
                self._transport.writelines(self._cluster.answer(buffer[begin + 4 : begin + 4 + size]))
            begin += 4 + size
        if answers:
            self._replicas.append(buffer[:begin], self._transport, answers)
        if begin:
            buffer[: end - begin] = buffer[begin:end]
        self._end = end - begin


class _Cluster:
    """What a broker tells clients of the cluster."""

    def __init__(self, ports: list[int]) -> None:
        self._brokers = [MetadataBroker(node, "127.0.0.1", port) for node, port in enumerate(ports)]
        nodes = list(range(len(ports)))
        self._partitions = [
            MetadataPartition(0, partition, partition % len(ports), 0, nodes, nodes) for partition in range(PARTITIONS)
        ]

    def answer(self, frame: memoryview) -> list[Any]:
        """Return the answer to a request for versions or metadata."""
        key, version, correlation_id, _, position = parse_request_header(frame)
        if key == ApiKey.API_VERSIONS:
            body = encode_api_versions_response(version, 0, VERSIONS)
        elif key == ApiKey.METADATA:
            asked = parse_metadata_request(frame, version, position).topics or []
            topics = [MetadataTopic(0, name, partitions=self._partitions) for _, name in asked]
            body = bytes(
                encode_metadata_response(
                    version, brokers=self._brokers, cluster_id="bare", controller_id=0, topics=topics
                )
            )
        else:
            # The coordinator, for instance: clients do without.
            return []
        return frame_response(correlation_id, 0, (body,))


def _produced(correlation_id: int, name: bytes, partition: int) -> bytes:
    row = _PRODUCED.pack(partition, 0, 0, -1, 0, 0)
    size = 4 + 4 + len(name) + 4 + len(row)
    return b"".join((_INT32.pack(size), _INT32.pack(correlation_id), _INT32.pack(1), name, _INT32.pack(1), row))


async def _serve(node: int, listener: socket.socket, ports: list[int], directory: Path) -> None:
    loop = asyncio.get_running_loop()
    files = [os.open(directory / f"{node}-{name}", os.O_CREAT | os.O_WRONLY) for name in ("own", *range(len(ports)))]
    followed = iter(files[1:])
    await loop.create_unix_server(lambda: _Follower(next(followed)), str(directory / f"{node}.sock"))
    replicas = _Replicas(files[0])
    await replicas.connect([str(directory / f"{other}.sock") for other in range(len(ports)) if other != node])
    cluster = _Cluster(ports)
    server = await loop.create_server(lambda: _Client(replicas, cluster), sock=listener)
    await server.serve_forever()


def start_bare(brokers: int = 3) -> Peer:
    """Start so many of them."""
    directory = WORK / f"bare-{uuid.uuid4().hex[:8]}"
    directory.mkdir(parents=True)
    listeners = [socket.create_server(("127.0.0.1", 0)) for _ in range(brokers)]
    ports = [str(listener.getsockname()[1]) for listener in listeners]
    processes = []
    for node, listener in enumerate(listeners):
        words = [str(word) for word in (node, listener.fileno(), directory)]
        command = [sys.executable, "-m", "benchmarks.bare_cluster", *words, *ports]
        processes.append(subprocess.Popen(command, pass_fds=[listener.fileno()]))
        listener.close()
    bootstrap = ",".join(f"127.0.0.1:{port}" for port in ports)
    pids = {node: process.pid for node, process in enumerate(processes)}
    return Peer("a bare cluster", bootstrap, pids, 0.0, processes, directory)


def main() -> None:
    """Be one broker: its number, its listener, the directory, and all ports."""
    node, listener, directory, *ports = sys.argv[1:]
    numbers = [int(port) for port in ports]
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_serve(int(node), socket.socket(fileno=int(listener)), numbers, Path(directory)))


if __name__ == "__main__":
    main()
