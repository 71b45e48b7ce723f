"""A client that costs next to nothing: it sends copies of one batch, acks=all, and reads the responses.

A real client takes some 3 µs of CPU time per record, as much as our three brokers: on two cores, throughput
would measure the client as well. To a cluster, this one is a producer without idempotence that sends equal batches.
"""

import selectors
import socket
import struct
from collections.abc import Callable, Sequence
from typing import Final

from confluent_kafka.admin import AdminClient

from syncline.records.buffers import Buffer
from syncline.wire.api import ApiKey
from syncline.wire.frames import frame_request

VERSION: Final = 7
CLIENT: Final = "batches"
# Requests in flight to each partition, as idempotent clients have to each broker.
IN_FLIGHT: Final = 5
PATIENCE_S: Final = 60.0
TIMEOUT_MS: Final = 30_000
ANSWER_BYTES: Final = 1 << 16


class _Line:
    """The connection that carries one partition's batches, and the requests in flight on it."""

    def __init__(self, address: tuple[str, int], topic: str, partition: int) -> None:
        self.socket = socket.create_connection(address, timeout=PATIENCE_S)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.setblocking(False)
        self.unsent: list[memoryview] = []
        self._topic = topic.encode()
        self._partition = partition
        self._sent_count = 0
        self._read = bytearray()

    def put(self, batch: memoryview) -> None:
        """Begin to send one request."""
        self._sent_count += 1
        name = self._topic
        layout = f">hhiih{len(name)}siii"
        # No transaction, acks=all, a time-out, one topic of one partition.
        head = struct.pack(layout, -1, -1, TIMEOUT_MS, 1, len(name), name, 1, self._partition, len(batch))
        parts = frame_request(ApiKey.PRODUCE, VERSION, self._sent_count, CLIENT, [head, batch])
        self.unsent += map(memoryview, parts)
        self.send()

    def send(self) -> None:
        """Send what the socket takes."""
        unsent = self.unsent
        while unsent:
            try:
                sent = self.socket.sendmsg(unsent)
            except BlockingIOError:
                return
            while unsent and sent >= len(unsent[0]):
                sent -= len(unsent.pop(0))
            if sent:
                unsent[0] = unsent[0][sent:]

    def acknowledged(self) -> int:
        """Read all available responses; return their number. Raises RuntimeError if one is a refusal."""
        data = self.socket.recv(ANSWER_BYTES)
        if not data:
            raise RuntimeError("a broker closed the connection: see its log")
        answers = self._read
        answers += data
        count = 0
        while len(answers) >= 4:
            size = 4 + int.from_bytes(answers[:4], "big")
            if len(answers) < size:
                break
            # After its size: correlation id, one topic with its name, one partition: its number, the error.
            (error,) = struct.unpack_from(">h", answers, 4 + 4 + 4 + 2 + len(self._topic) + 4 + 4)
            if error:
                raise RuntimeError(f"a batch for partition {self._partition} was refused with error {error}")
            del answers[:size]
            count += 1
        return count


def produce_batches(
    bootstrap: str, topic: str, batch: Buffer, count: int, on_acknowledged: Callable[[int], None]
) -> None:
    """Send `count` copies to all partitions in turn; report the number acknowledged whenever it grows."""
    lines = _lines(bootstrap, topic)
    try:
        with selectors.DefaultSelector() as selector:
            for line in lines:
                selector.register(line.socket, selectors.EVENT_READ, line)
            _produce(selector, lines, memoryview(batch), count, on_acknowledged)
    finally:
        for line in lines:
            line.socket.close()


def _lines(bootstrap: str, topic: str) -> list[_Line]:
    """Return a connection for each partition, to its leader."""
    metadata = AdminClient({"bootstrap.servers": bootstrap}).list_topics(topic, timeout=PATIENCE_S)
    lines = []
    for number, partition in metadata.topics[topic].partitions.items():
        leader = metadata.brokers[partition.leader]
        lines.append(_Line((leader.host, leader.port), topic, number))
    return lines


def _produce(
    selector: selectors.BaseSelector,
    lines: Sequence[_Line],
    batch: memoryview,
    count: int,
    on_acknowledged: Callable[[int], None],
) -> None:
    left, acknowledged = count, 0
    for line in [*lines] * IN_FLIGHT:
        if left:
            line.put(batch)
            left -= 1
    while acknowledged < count:
        for line in lines:
            wanted = selectors.EVENT_READ | (selectors.EVENT_WRITE if line.unsent else 0)
            if selector.get_key(line.socket).events != wanted:
                selector.modify(line.socket, wanted, line)
        ready = selector.select(PATIENCE_S)
        if not ready:
            raise RuntimeError(f"nothing was acknowledged for {PATIENCE_S:g} s")
        for key, events in ready:
            line = key.data
            if events & selectors.EVENT_WRITE:
                line.send()
            if events & selectors.EVENT_READ:
                done = line.acknowledged()
                acknowledged += done
                for _ in range(min(done, left)):
                    line.put(batch)
                    left -= 1
                on_acknowledged(acknowledged)
