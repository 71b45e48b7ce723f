"""Limits on connections and on memory, with real sockets: of the event loop that brokers run on, and of asyncio's.

Each test has a broker of its own: what one leaves behind would be the other's surroundings.
"""

import asyncio
import contextlib
import os
import selectors
import signal
import socket
import struct
from collections.abc import Callable, Iterator
from typing import Any

import psutil
import pytest
import uvloop

from syncline.node.clients.listening import Listening
from syncline.wire.api import ApiKey
from tests.cluster import LocalCluster, start_cluster
from tests.conformance.wire_client import Answer, Connection, Silent, request_frame
from tests.process.processes import backlog_of

pytestmark = pytest.mark.process

IDLE_COUNT = 1_000
MEMORY_LIMIT_BYTES = 128 << 20
BACKLOG = 77


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """Return a broker with little memory for clients."""
    config = {"queued.max.request.bytes": str(MEMORY_LIMIT_BYTES), "connections.max.idle.ms": "4000"}
    cluster = start_cluster(1, config, directory=tmp_path_factory.mktemp("limits"))
    try:
        yield cluster
    finally:
        cluster.stop()


def port(broker: LocalCluster) -> int:
    """Return where clients connect."""
    return broker.running.client_ports[1]


def is_served(connection: Connection, within_ms: int = 3_000) -> bool:
    """Return whether a request is answered."""
    correlation_id = connection.next_correlation_id()
    connection.send(request_frame(ApiKey.API_VERSIONS, 0, correlation_id, b"", client_id="c"))
    return isinstance(connection.receive(ApiKey.API_VERSIONS, 0, within_ms), Answer)


def resident_bytes(broker: LocalCluster) -> int:
    """Return the broker's resident memory."""
    return int(psutil.Process(broker.pids[1]).memory_info().rss)


def test_idle_connections_cost_little_and_are_closed(broker: LocalCluster) -> None:
    """Not a receive buffer of 64 KiB each; when nothing moves over them, they go."""
    before_bytes = resident_bytes(broker)
    connections = [socket.create_connection(("127.0.0.1", port(broker)), timeout=10) for _ in range(IDLE_COUNT)]
    for each in connections:
        each.sendall(request_frame(ApiKey.API_VERSIONS, 0, 1, b"", client_id="c"))
    for each in connections:
        assert each.recv(4)
    cost_bytes = resident_bytes(broker) - before_bytes
    while connections[-1].recv(1 << 16):
        pass
    for each in connections:
        each.close()

    assert cost_bytes < IDLE_COUNT * 16_384


def test_burst_of_connections_waits_while_the_broker_is_busy(broker: LocalCluster) -> None:
    """socket.listen.backlog.size is 1024; a client beyond it would try again after a second."""
    with contextlib.ExitStack() as stack:
        os.kill(broker.pids[1], signal.SIGSTOP)
        try:
            # Within the limits of most machines on open files.
            for _ in range(200):
                stack.enter_context(socket.create_connection(("127.0.0.1", port(broker)), timeout=0.5))
        finally:
            os.kill(broker.pids[1], signal.SIGCONT)
    with contextlib.closing(Connection("127.0.0.1", port(broker))) as other:
        assert is_served(other)


def test_unfinished_requests_do_not_fill_the_memory(broker: LocalCluster) -> None:
    """Twelve produce requests of 100 MB, each nearly sent: the broker reads what it may hold, and serves others."""
    head = struct.pack(">ihhih", 100 << 20, ApiKey.PRODUCE, 9, 1, -1) + b"\0"
    attackers = [socket.create_connection(("127.0.0.1", port(broker))) for _ in range(12)]
    piece = bytes(1 << 20)
    for each in attackers:
        each.sendall(head)
        each.setblocking(False)
    left_bytes = dict.fromkeys(attackers, 94 << 20)
    # Until the broker reads no more of any of them.
    with selectors.DefaultSelector() as selector:
        for each in attackers:
            selector.register(each, selectors.EVENT_WRITE)
        while left_bytes and (writable := selector.select(0.5)):
            for key, _ in writable:
                each = attackers[attackers.index(key.fileobj)]
                left_bytes[each] -= each.send(piece)
                if left_bytes[each] <= 0:
                    selector.unregister(each)
                    del left_bytes[each]
    peak_bytes = resident_bytes(broker)
    with contextlib.closing(Connection("127.0.0.1", port(broker))) as other:
        is_other_served = is_served(other)
    for each in attackers:
        each.close()

    assert peak_bytes < 300 << 20
    assert is_other_served


class Counting(asyncio.Protocol):
    """Counts the connections that are accepted."""

    def __init__(self, made: list[asyncio.BaseTransport], are_three: asyncio.Event) -> None:
        self._made = made
        self._are_three = are_three

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Count, and leave it open."""
        self._made.append(transport)
        if len(self._made) == 3:
            self._are_three.set()


async def pause_and_go_on() -> tuple[int, int]:
    """Return how many of three connections are accepted during a pause, and in all."""
    loop = asyncio.get_running_loop()
    made: list[asyncio.BaseTransport] = []
    are_three = asyncio.Event()
    tasks: list[asyncio.Task[Any]] = []
    listener = socket.create_server(("127.0.0.1", 0))
    host, port = listener.getsockname()
    listening = Listening(
        loop,
        lambda: Counting(made, are_three),
        host=host,
        port=port,
        listener=listener,
        backlog=BACKLOG,
        spawn=lambda work: tasks.append(loop.create_task(work)),
    )
    clients: list[socket.socket] = []
    try:
        await listening.open()
        assert backlog_of(listener) == BACKLOG
        listening.accept(accepts=False)
        clients += [socket.create_connection((host, port)) for _ in range(3)]
        await asyncio.gather(*tasks)
        made_count = len(made)
        listening.accept(accepts=True)
        await asyncio.wait_for(are_three.wait(), 10)
    finally:
        # Whatever failed: a loop of C code that is closed with open handles may never return.
        await asyncio.gather(*tasks, return_exceptions=True)
        listening.close()
        for each in clients:
            each.close()
        for transport in made:
            transport.close()
        await asyncio.sleep(0)
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((host, port))
    return made_count, len(made)


@pytest.mark.parametrize("new_loop", [asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
def test_listener_can_leave_connections_in_the_backlog(new_loop: Callable[[], asyncio.AbstractEventLoop]) -> None:
    """What comes while it does not accept is accepted later; closed, it refuses."""
    loop = new_loop()
    try:
        assert loop.run_until_complete(pause_and_go_on()) == (0, 3)
    finally:
        loop.close()


def test_places_are_limited(tmp_path_factory: pytest.TempPathFactory) -> None:
    """max.connections and max.connections.per.ip of a real broker, as observed of Kafka: silence, and a reset."""
    # Two are the broker's own, as controller.
    config = {"max.connections": "5", "max.connections.per.ip": "4"}
    cluster = start_cluster(1, config, directory=tmp_path_factory.mktemp("places"))
    connections: list[Connection] = []
    try:
        connections += [Connection("127.0.0.1", port(cluster)) for _ in range(4)]
        served = [is_served(each, 3_000 if number < 3 else 300) for number, each in enumerate(connections)]
        connections[0].close()
        late = connections[3].receive(ApiKey.API_VERSIONS, 0, 3_000)
    finally:
        cluster.stop()
        for each in connections:
            each.close()

    assert served == [True, True, True, False]
    assert not isinstance(late, Silent)
