"""The attacker itself: what a stream describes is what a server sees, and what comes back is counted."""

import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager

import pytest

from syncline.wire.api import CLIENT_VERSIONS
from tests.attack.catalogue import CASES
from tests.attack.largest import list_paths
from tests.attack.naming import WITHOUT_LISTS
from tests.attack.playing import AnswerCounter, Player
from tests.attack.stream import Stream

LIMIT_S = 10.0


class Server:
    """Reads what each connection sends until it ends, or until it has `enough` bytes; then answers and closes."""

    def __init__(self, answer: bytes, enough: int | None) -> None:
        self.received: list[bytes] = []
        self._answer = answer
        self._enough = enough
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop, after the connections that were made."""
        # Wakes the thread from its accept.
        socket.create_connection(("127.0.0.1", self.port)).close()
        self._thread.join()
        self._listener.close()

    def _run(self) -> None:
        while True:
            with closing(self._listener.accept()[0]) as connection:
                data = b""
                while (self._enough is None or len(data) < self._enough) and (more := connection.recv(4096)):
                    data += more
                if not data:
                    return
                self.received.append(data)
                connection.sendall(self._answer)


@contextmanager
def serving(answer: bytes = b"", enough: int | None = None) -> Iterator[Server]:
    """A server for the length of a with block."""
    server = Server(answer, enough)
    try:
        yield server
    finally:
        server.close()


def test_every_byte_arrives_in_chunks_or_at_once() -> None:
    """Each connection sends its own data, in each of its rounds."""
    with serving() as server:
        stream = Stream(port=server.port, data=[b"abc", b"defg"], connections=2, rounds=2, chunk_bytes=1, pause_s=0.001)
        outcome = Player(stream, LIMIT_S).play()

    assert sorted(server.received) == [b"abc", b"abc", b"defg", b"defg"]
    assert outcome.opened == 4
    assert outcome.sent_bytes == 14
    assert outcome.closed == outcome.unfinished == outcome.refused == 0


def test_answers_are_counted_and_judged() -> None:
    """A connection is over when it has its answers; what the judge says is kept."""
    answers = struct.pack(">i", 3) + b"yes" + struct.pack(">i", 2) + b"no"
    with serving(answers, enough=5) as server:
        judge = {b"yes": "", b"no": "refused"}.__getitem__
        outcome = Player(Stream(port=server.port, data=[b"hello"], answers=2, judge=judge), LIMIT_S).play()

    assert outcome.answers == 2
    assert outcome.findings == ["refused"]
    assert outcome.received_bytes == len(answers)


def test_a_connection_that_gets_less_than_it_expects_is_closed_or_unfinished() -> None:
    """The two are told apart: the server closed, or the time was up."""
    with serving(b"", enough=5) as server:
        outcome = Player(Stream(port=server.port, data=[b"hello"], answers=1), LIMIT_S).play()
        assert (outcome.closed, outcome.unfinished) == (1, 0)

        outcome = Player(Stream(port=server.port, data=[b"hell"], answers=1), 0.1).play()
        assert (outcome.closed, outcome.unfinished) == (0, 1)


def test_half_closed_connections_still_read() -> None:
    """The server sees the end of the data, and its answer arrives."""
    with serving(struct.pack(">i", 2) + b"ok") as server:
        outcome = Player(Stream(port=server.port, data=[b"hello"], half_closes=True, hold_s=LIMIT_S), LIMIT_S).play()

    assert outcome.answers == 1
    assert outcome.closed == 1


@pytest.mark.parametrize("length", [1, 2, 3, 5, 8, 100])
def test_answers_are_counted_however_they_are_cut(length: int) -> None:
    """Sizes, too, may arrive in two parts."""
    data = b"".join(struct.pack(">i", size) + bytes(size) for size in (0, 5, 1, 70, 0))
    counter = AnswerCounter(None)
    for start in range(0, len(data), length):
        counter.feed(memoryview(data)[start : start + length])

    assert counter.count == 5


def test_the_catalogue_has_every_api_with_lists() -> None:
    """A new API gets its case by itself; one without lists is listed as such."""
    without = {key for key, served in CLIENT_VERSIONS.items() if not list_paths(key, served.max)}
    names = [case.name for case in CASES]

    assert without == WITHOUT_LISTS
    assert len(set(names)) == len(names)
    assert sum(name.startswith("lists-") for name in names) == len(CLIENT_VERSIONS) - len(without)
