"""A raw connection to one broker: bytes out, bytes in, and the outcomes that have no bytes.

Closing without an answer, and not answering, are answers too: some requests are to be met with exactly that.
Nothing is negotiated and nothing is retried.
"""

import socket
import struct
import time
from collections import deque
from dataclasses import dataclass

from tests.conformance.kio_tree import is_flexible

API_VERSIONS = 18
CONNECT_S = 10.0


@dataclass(frozen=True)
class Closed:
    """The broker closed the connection."""


@dataclass(frozen=True)
class Silent:
    """No answer came in the time given."""


@dataclass(frozen=True)
class Answer:
    """A response frame behind its correlation id and header, and how long it took."""

    body: bytes


def request_frame(
    key: int,
    version: int,
    correlation_id: int,
    body: bytes,
    *,
    client_id: str | None,
    header_version: int | None = None,
) -> bytes:
    """Return a whole request frame; `header_version` is 1 or 2 and follows from the version unless given."""
    encoded_id = b"\xff\xff" if client_id is None else struct.pack(">h", len(client_id.encode())) + client_id.encode()
    if header_version is None:
        header_version = 2 if is_flexible(key, version) else 1
    tags = b"\0" if header_version == 2 else b""
    return sized_frame(struct.pack(">hhi", key, version, correlation_id) + encoded_id + tags + body)


def sized_frame(content: bytes) -> bytes:
    """Return `content` with its length before it."""
    return struct.pack(">i", len(content)) + content


class Connection:
    """One TCP connection; requests may be pipelined, answers are taken in order."""

    def __init__(self, host: str, port: int) -> None:
        self.socket = socket.create_connection((host, port), timeout=CONNECT_S)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.correlation_id = 0
        self.expected: deque[int] = deque()

    def close(self) -> None:
        """Close the connection."""
        self.socket.close()

    def next_correlation_id(self) -> int:
        """Return the number of a request about to be sent; answers must come in this order."""
        self.correlation_id += 1
        self.expected.append(self.correlation_id)
        return self.correlation_id

    def send(self, data: bytes) -> None:
        """Send bytes; a connection already closed by the broker is noticed when the answer is read."""
        try:
            self.socket.sendall(data)
        except (BrokenPipeError, ConnectionResetError):
            return

    def receive(self, key: int, version: int, within_ms: int) -> Answer | Closed | Silent:
        """Return the next answer, which must be one to a request of this key and version."""
        deadline = time.monotonic() + within_ms / 1000
        head = self._read(8, deadline)
        if not isinstance(head, bytes):
            return head
        length, correlation_id = struct.unpack(">ii", head)
        assert correlation_id == self.expected.popleft(), "answers come in the order of the requests"
        body = self._read(length - 4, deadline)
        if not isinstance(body, bytes):
            return body
        if key != API_VERSIONS and is_flexible(key, version):
            assert body[:1] == b"\0", "a response header with undefined tagged fields"
            body = body[1:]
        return Answer(body)

    def _read(self, count: int, deadline: float) -> bytes | Closed | Silent:
        data = b""
        while len(data) < count:
            left_s = deadline - time.monotonic()
            if left_s <= 0:
                return Silent()
            self.socket.settimeout(left_s)
            try:
                more = self.socket.recv(count - len(data))
            except TimeoutError:
                return Silent()
            except ConnectionResetError:
                return Closed()
            if not more:
                return Closed()
            data += more
        return data
