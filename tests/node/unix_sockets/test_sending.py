"""Answers that lie partly in files arrive as if they had been read, whatever the socket takes at once."""

import asyncio
import os
import socket
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from syncline.node.unix_sockets.sending import FileSender, file_sender_of, read_files, unix_descriptor_of
from syncline.records.buffers import FileRange, Part
from syncline.storage.machine.real_disk import RealDisk, RealFile

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="sends with Linux's sendfile")

DATA = bytes(range(256)) * 4_096


class StandInTransport:
    """A transport with a real socket, which says what waits in it."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self.waiting_bytes = 0
        self.is_closed = False

    def get_extra_info(self, name: str) -> Any:
        """Return the socket."""
        if name == "socket":
            return self.connection
        assert name in {"peername", "file_sender"}
        return self.connection.getpeername() if name == "peername" and self.connection is not None else None

    def is_closing(self) -> bool:
        """Return whether the connection ends."""
        return self.is_closed

    def get_write_buffer_size(self) -> int:
        """Return how many bytes wait."""
        return self.waiting_bytes


@pytest.fixture
def disk() -> Iterator[RealDisk]:
    """A real disk."""
    disk = RealDisk(lambda work, *args: work(*args))
    yield disk
    disk.close()


@pytest.fixture
def file(disk: RealDisk, tmp_path: Path) -> RealFile:
    """A file that was just written."""
    file = disk.open(str(tmp_path / "log"), create=True)
    file.append([DATA])
    return file


@pytest.fixture
def ends() -> Iterator[tuple[socket.socket, socket.socket]]:
    """A connection, that does not wait at its sending end."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.setblocking(False)
        yield ours, theirs


def hot(file: RealFile, position: int, size: int) -> FileRange:
    """Return a range of a file."""
    found = file.hot_range(position, size)
    assert found is not None
    return found


def sender(transport: Any) -> FileSender:
    """Return what sends files over a connection."""
    found = file_sender_of(transport, unix_descriptor_of(transport))
    assert found is not None
    return found


def drain(connection: socket.socket) -> bytes:
    """Return all that has arrived."""
    connection.setblocking(False)
    arrived = b""
    try:
        while data := connection.recv(1 << 20):
            arrived += data
    except BlockingIOError:
        pass
    return arrived


def answer(file: RealFile) -> list[Part]:
    """Return an answer of two ranges with buffers of each type between them."""
    return [b"head", hot(file, 5, 50_000), bytearray(b"between"), hot(file, 200_001, 40_000), memoryview(b"tail")]


EXPECTED = b"head" + DATA[5:50_005] + b"between" + DATA[200_001:240_001] + b"tail"


def test_answer_arrives_as_if_it_had_been_read(file: RealFile, ends: tuple[socket.socket, socket.socket]) -> None:
    """Nothing is left for the transport."""
    ours, theirs = ends
    assert sender(StandInTransport(ours)).send(answer(file)) == []
    assert drain(theirs) == EXPECTED


@pytest.mark.parametrize("room_bytes", [2_304, 8_192, 40_000, 100_000])
def test_rest_is_left_to_the_transport_when_the_socket_is_full(
    file: RealFile, ends: tuple[socket.socket, socket.socket], room_bytes: int
) -> None:
    """What was sent, and what is left, are the answer: no byte twice, none lost."""
    ours, theirs = ends
    sends = sender(StandInTransport(ours))
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, room_bytes // 2)
    parts = [*answer(file), hot(file, 0, len(DATA))]
    rest = sends.send(parts)

    assert rest, "the socket took more than there was room"
    assert drain(theirs) + b"".join(rest) == EXPECTED + DATA


@pytest.mark.parametrize(
    "change", [lambda it: setattr(it, "waiting_bytes", 1), lambda it: setattr(it, "is_closed", True)]
)
def test_nothing_overtakes_what_waits_in_the_transport(
    file: RealFile, ends: tuple[socket.socket, socket.socket], change: Callable[[StandInTransport], None]
) -> None:
    """And nothing goes to the descriptor of a transport that is closing: it may be another file's by now."""
    ours, theirs = ends
    transport = StandInTransport(ours)
    change(transport)
    assert b"".join(sender(transport).send(answer(file))) == EXPECTED
    assert drain(theirs) == b""


def test_answer_without_files_is_left_to_the_transport(ends: tuple[socket.socket, socket.socket]) -> None:
    """It writes all of it with one call."""
    ours, theirs = ends
    parts: list[Part] = [b"head", b"tail"]
    assert sender(StandInTransport(ours)).send(parts) == parts
    assert drain(theirs) == b""


def test_broken_connection_is_left_to_the_transport(file: RealFile, ends: tuple[socket.socket, socket.socket]) -> None:
    """It reports the loss as it does any other."""
    ours, theirs = ends
    theirs.close()
    assert b"".join(sender(StandInTransport(ours)).send(answer(file))) == EXPECTED


def test_file_that_ends_before_its_range_is_an_error(
    file: RealFile, ends: tuple[socket.socket, socket.socket], tmp_path: Path
) -> None:
    """Another program has cut it: the answer has announced bytes that nobody can send."""
    ours, _ = ends
    parts = answer(file)
    os.truncate(tmp_path / "log", 100_000)
    with pytest.raises(EOFError, match="40000 bytes expected at 200001, 0 are there"):
        sender(StandInTransport(ours)).send(parts)
    with pytest.raises(EOFError):
        read_files(parts)


def test_closed_file_is_an_error(file: RealFile, ends: tuple[socket.socket, socket.socket], tmp_path: Path) -> None:
    """Its descriptor is another file's by now."""
    ours, theirs = ends
    parts = answer(file)
    file.close()
    with (tmp_path / "other").open("w+b") as other:
        other.write(bytes(len(DATA)))
        other.flush()
        with pytest.raises(OSError, match="was closed"):
            sender(StandInTransport(ours)).send(parts)

    assert drain(theirs) == b"head"


def test_only_unix_domain_sockets_send_files() -> None:
    """Over TCP's loopback it would cost more than it saves."""
    with socket.create_server(("127.0.0.1", 0)) as listener, socket.create_connection(listener.getsockname()) as tcp:
        assert unix_descriptor_of(StandInTransport(tcp)) == -1  # type: ignore[arg-type]
        assert file_sender_of(StandInTransport(tcp), -1) is None  # type: ignore[arg-type]
    silent = StandInTransport(tcp)
    silent.connection = None  # type: ignore[assignment]
    assert unix_descriptor_of(silent) == -1  # type: ignore[arg-type]


@pytest.mark.parametrize("factory", [asyncio.new_event_loop, "uvloop"])
def test_both_event_loops_have_what_is_needed(file: RealFile, factory: Any) -> None:
    """Of their transports: the socket, and how much waits in the transport; what waits goes first."""
    if factory == "uvloop":
        factory = pytest.importorskip("uvloop").new_event_loop
    ours, theirs = socket.socketpair()
    loop = factory()

    async def run() -> bytes:
        transport, _ = await loop.create_unix_connection(asyncio.Protocol, sock=ours)
        sends = sender(transport)
        assert sends.send(answer(file)) == []
        transport.write(b"waits" * 1_000_000)
        for part in sends.send(answer(file)):
            transport.write(part)
        theirs.setblocking(False)
        arrived = b""
        while len(arrived) < 2 * len(EXPECTED) + 5_000_000:
            arrived += await loop.sock_recv(theirs, 1 << 20)
        transport.abort()
        await asyncio.sleep(0)
        return arrived

    try:
        arrived = loop.run_until_complete(asyncio.wait_for(run(), 20))
    finally:
        loop.close()
        theirs.close()
    assert arrived == EXPECTED + b"waits" * 1_000_000 + EXPECTED
