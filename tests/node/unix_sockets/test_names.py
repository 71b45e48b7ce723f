"""The socket beside a port: found by brokers of the same machine and user, and never instead of another broker."""

import asyncio
import errno
import os
import socket
import sys
from collections.abc import Iterator

import pytest

from syncline.node.links.peer import PeerConnection, PeerLost
from syncline.node.unix_sockets.names import connect_beside, listen_beside, name_of

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="abstract names are Linux's")

HOST = "127.0.0.1"


@pytest.fixture
def tcp() -> Iterator[socket.socket]:
    """A broker's port."""
    with socket.create_server((HOST, 0)) as listener:
        yield listener


def test_connection_leads_to_the_socket_beside_the_port(tcp: socket.socket) -> None:
    """What is written at one end is read at the other."""
    port = tcp.getsockname()[1]
    listener = listen_beside(port, 8)
    assert listener is not None
    with listener:
        connection = connect_beside(HOST, port)
        assert connection is not None
        with connection, listener.accept()[0] as accepted:
            connection.send(b"asked")
            assert accepted.recv(16) == b"asked"


def test_nothing_listens_beside_the_port(tcp: socket.socket) -> None:
    """An older broker, or one that is not to use such sockets."""
    assert connect_beside(HOST, tcp.getsockname()[1]) is None


def test_name_is_free_again_when_its_socket_is_closed(tcp: socket.socket) -> None:
    """A broker that is killed leaves nothing behind."""
    port = tcp.getsockname()[1]
    for _ in range(2):
        listener = listen_beside(port, 8)
        assert listener is not None
        listener.close()
        assert connect_beside(HOST, port) is None


def test_name_is_taken(tcp: socket.socket) -> None:
    """Whoever listens is told why; the broker goes on with its port alone."""
    port = tcp.getsockname()[1]
    with socket.socket(socket.AF_UNIX) as other:
        other.bind(name_of(port))
        with pytest.raises(OSError, match=os.strerror(errno.EADDRINUSE)):
            listen_beside(port, 8)


@pytest.mark.parametrize("host", ["192.0.2.7", "127.0.0.2", "broker-1", "localhost"])
def test_broker_at_another_address_is_reached_over_tcp(tcp: socket.socket, host: str) -> None:
    """Only the address on which brokers listen says that the port is one of this machine."""
    port = tcp.getsockname()[1]
    listener = listen_beside(port, 8)
    assert listener is not None
    with listener:
        assert connect_beside(host, port) is None


def test_socket_of_another_user_is_not_spoken_to(tcp: socket.socket, monkeypatch: pytest.MonkeyPatch) -> None:
    """Anybody may take a name before the broker does; nobody can pretend to be another user."""
    port = tcp.getsockname()[1]
    listener = listen_beside(port, 8)
    assert listener is not None
    with listener:
        user = os.geteuid()
        monkeypatch.setattr(os, "geteuid", lambda: user + 1)
        assert connect_beside(HOST, port) is None
        monkeypatch.undo()
        connection = connect_beside(HOST, port)
        assert connection is not None
        connection.close()


@pytest.mark.parametrize(
    ("number", "is_raised"), [(errno.EMFILE, True), (errno.ENFILE, True), (errno.EAFNOSUPPORT, False)]
)
def test_want_of_descriptors_is_no_reason_to_try_tcp(
    monkeypatch: pytest.MonkeyPatch, number: int, *, is_raised: bool
) -> None:
    """It would fail, too, and take longer; a system without such sockets has TCP."""

    def refuse(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(socket, "socket", refuse)
    with pytest.raises(OSError, match=os.strerror(number)):
        listen_beside(9, 8)
    if is_raised:
        with pytest.raises(OSError, match=os.strerror(number)):
            connect_beside(HOST, 9)
    else:
        assert connect_beside(HOST, 9) is None


def test_full_backlog_is_no_reason_to_wait(tcp: socket.socket) -> None:
    """A paused broker accepts nothing; its port has a backlog, too, and connecting over TCP has a time-out."""
    port = tcp.getsockname()[1]
    listener = listen_beside(port, 0)
    assert listener is not None
    waiting = []
    with listener:
        while (connection := connect_beside(HOST, port)) is not None:
            waiting.append(connection)
            assert len(waiting) < 10
    assert waiting
    for connection in waiting:
        connection.close()


def test_brokers_connect_beside_the_port_and_over_tcp_where_nothing_is() -> None:
    """Either way they hear of the end of a connection, and of a port that refuses."""
    asyncio.run(_connect_both_ways())


async def _connect_both_ways() -> None:
    families: list[socket.AddressFamily] = []

    class Server(asyncio.Protocol):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            families.append(transport.get_extra_info("socket").family)
            transport.close()

    loop = asyncio.get_running_loop()
    server = await loop.create_server(Server, HOST, 0)
    port = server.sockets[0].getsockname()[1]
    listener = listen_beside(port, 8)
    assert listener is not None
    beside = await loop.create_unix_server(Server, sock=listener)
    for expected in (socket.AF_UNIX, socket.AF_INET):
        lost = asyncio.Event()
        await PeerConnection.connect(HOST, port, "broker-1", lost.set, beside=True)
        await asyncio.wait_for(lost.wait(), 5)
        assert families.pop() == expected
        beside.close()
        await asyncio.sleep(0)
    server.close()
    await asyncio.sleep(0)
    with pytest.raises(PeerLost, match=f"cannot connect to {HOST}:{port}"):
        await PeerConnection.connect(HOST, port, "broker-1", beside=True)
