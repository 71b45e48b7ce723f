"""A connection keeps requests and answers in their order, also when several are on their way."""

import socket
import struct
from collections.abc import Iterator
from functools import partial

import pytest

from syncline.pipeline.client.connection import Connection
from syncline.pipeline.client.messages import Api
from syncline.pipeline.client.settings import ClientSettings
from tests.pipeline.client.serving import serving

PLAIN = Api(1, 11, is_flexible=False)
FLEXIBLE = Api(3, 9, is_flexible=True)
SETTINGS = ClientSettings((), client_id="me")


def _read(stream: socket.socket, size: int) -> bytes:
    found = b""
    while len(found) < size:
        more = stream.recv(size - len(found))
        if not more:
            raise EOFError
        found += more
    return found


def _serve(numbers_shift: int, stream: socket.socket) -> None:
    """Answer each request with its own header's bytes, as a broker does: after the next one has come."""
    waiting = []
    while True:
        (size,) = struct.unpack(">i", _read(stream, 4))
        waiting.append(_read(stream, size))
        if len(waiting) == 2:
            for request in waiting:
                key, version, number = struct.unpack_from(">hhi", request)
                tags = b"\0" if (key, version) == FLEXIBLE[:2] else b""
                answer = struct.pack(">i", number + numbers_shift) + tags + request[8:]
                stream.sendall(struct.pack(">i", len(answer)) + answer)
            waiting.clear()


@pytest.fixture
def connection(request: pytest.FixtureRequest) -> Iterator[Connection]:
    """A connection to a server that answers two requests at a time, in their order."""
    with serving(partial(_serve, getattr(request, "param", 0))) as address:
        opened = Connection.open(address, SETTINGS)
        yield opened
        opened.close()


def test_answers_come_in_the_order_of_their_requests(connection: Connection) -> None:
    """Headers with and without tagged fields are told apart by the request, not by the answer."""
    connection.send(PLAIN, b"first")
    connection.send(FLEXIBLE, b"second")

    assert bytes(connection.receive()) == b"\0\2mefirst"
    assert bytes(connection.receive()) == b"\0\2me\0second"


@pytest.mark.parametrize("connection", [7], indirect=True)
def test_an_answer_to_another_request_is_refused(connection: Connection) -> None:
    """What belongs to nothing that was asked must not be taken for an answer."""
    connection.send(PLAIN, b"first")
    connection.send(PLAIN, b"second")

    with pytest.raises(ConnectionError, match="belongs to another request"):
        connection.receive()


def test_a_call_is_refused_while_answers_are_on_their_way(connection: Connection) -> None:
    """Its answer would be that of an earlier request."""
    connection.send(PLAIN, b"first")

    with pytest.raises(AssertionError, match="1 answers are still to be received"):
        connection.call(PLAIN, b"second")
