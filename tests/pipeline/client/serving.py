"""A server for one test: it takes every connection that comes, and no thread of it outlives the test.

A port that a test gets may be one that a client of another test still tries, so a server that takes one connection may
take a stranger's and then wait for it for ever, and with it the process that runs the tests.
"""

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

_READ_S = 10.0
_STOP_S = 30.0


@contextmanager
def serving(serve: Callable[[socket.socket], None]) -> Iterator[tuple[str, int]]:
    """Give an address whose connections `serve` gets, each in a thread of its own and with a timeout."""
    ends: list[socket.socket] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = threading.Thread(target=_accept, args=(listener, serve, ends), daemon=True)
        server.start()
        try:
            yield listener.getsockname()
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            for end in tuple(ends):
                with suppress(OSError):
                    end.shutdown(socket.SHUT_RDWR)
            server.join(_STOP_S)
            assert not server.is_alive(), "each read of the server ends after a while"


def _accept(listener: socket.socket, serve: Callable[[socket.socket], None], ends: list[socket.socket]) -> None:
    served = []
    while True:
        try:
            stream, _ = listener.accept()
        except OSError:
            break
        stream.settimeout(_READ_S)
        # A second descriptor: TLS takes the first one over.
        ends.append(stream.dup())
        served.append(threading.Thread(target=_serve, args=(serve, stream, ends[-1]), daemon=True))
        served[-1].start()
    for each in served:
        each.join()


def _serve(serve: Callable[[socket.socket], None], stream: socket.socket, end: socket.socket) -> None:
    with end, stream, suppress(OSError, EOFError):
        try:
            serve(stream)
        finally:
            end.shutdown(socket.SHUT_RDWR)
