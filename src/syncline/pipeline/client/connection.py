"""One connection to a broker: requests leave, and answers return in the order of their requests.

`open` connects, encrypts and logs in, as the settings say. `send` and `receive` are apart, so that one request is in
flight while the answer to another is processed; `call` is both. An answer is one memoryview over the bytes that came
from the socket, never copied.

Failures are `OSError`, after which the connection is useless and its owner closes it; `ClosedEarlyError` is one of
them. What a retry does not fix, such as a wrong password, is a `SecurityError` or `OptionError` instead.

A broker may end sessions (KIP-368): then the connection logs in again, in its place, before a request that it sends
when no answer is awaited and most of the session is over. One that always awaits an answer is closed by the broker when
the session ends, and its owner opens another, as after any failure.

Units: milliseconds in settings, seconds at the socket.
"""

import contextlib
import math
import socket
import ssl
import struct
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, Self

from syncline.pipeline.client.logging_in import log_in
from syncline.pipeline.client.messages import Api
from syncline.pipeline.client.settings import Address, ClientSettings
from syncline.pipeline.client.tls import encrypted
from syncline.pipeline.client.tls_failures import no_tls, only_tls, sentence
from syncline.pipeline.errors import OptionError, SecurityError

_RESPONSE_BYTES_MAX: Final = 1 << 30
# Before a broker is authenticated, it may not fill this process's memory.
_LOGIN_BYTES_MAX: Final = 1 << 20
_CONNECT_S_MAX: Final = 10
# An alert of TLS 1.0 to 1.3, where the size of an answer should be.
_TLS_ALERT: Final = b"\x15\x03"
# Java's clients log in again at 85 to 95 per cent of a session.
_SESSION_SHARE: Final = 0.85


class ClosedEarlyError(ConnectionError):
    """The peer closed the connection before its first answer, as listeners do that expect another protocol."""


@dataclass(slots=True, eq=False)
class Connection:
    """One TCP connection, and the requests that were not answered yet."""

    address: Address
    settings: ClientSettings
    stream: socket.socket
    numbers: Iterator[int] = field(default_factory=lambda: iter(range(1, 2**31)))
    unanswered: deque[tuple[int, Api]] = field(default_factory=deque)
    _has_answered: bool = False
    _is_logging_in: bool = False
    _login_at_s: float = math.inf

    @classmethod
    def open(cls, address: Address, settings: ClientSettings) -> Self:
        """Return a new connection, encrypted and logged in if the settings ask for it."""
        timeout_s = settings.request_timeout_ms / 1000
        try:
            stream = socket.create_connection(address, timeout=min(timeout_s, _CONNECT_S_MAX))
        except UnicodeError:
            raise OptionError(
                f"{address[0]} is not a host name: correct the option kafka.bootstrap.servers, "
                "or the brokers' advertised.listeners"
            ) from None
        made = cls(address, settings, stream)
        try:
            stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            made._secure()
            made.stream.settimeout(timeout_s)
        except BaseException:
            made.close()
            raise
        return made

    def call(self, api: Api, body: bytes) -> memoryview:
        """Return the body of the answer to one request; no other request is in flight."""
        assert not self.unanswered, f"{len(self.unanswered)} answers are still to be received"
        self.send(api, body)
        return self.receive()

    def send(self, api: Api, body: bytes) -> None:
        """Send one request."""
        if not self.unanswered and time.monotonic() > self._login_at_s:
            self._log_in()
        client_id = self.settings.client_id.encode()
        number = next(self.numbers)
        header = struct.pack(f">hhih{len(client_id)}s", api.key, api.version, number, len(client_id), client_id)
        tags = b"\0" if api.is_flexible else b""
        with self._explaining():
            self.stream.sendall(struct.pack(">i", len(header) + len(tags) + len(body)) + header + tags + body)
        self.unanswered.append((number, api))

    def receive(self) -> memoryview:
        """Return the body of the answer to the oldest request that has none yet."""
        number, api = self.unanswered.popleft()
        head = self._read(4)
        if bytes(head[:2]) == _TLS_ALERT and not self._has_answered and self.settings.security.tls is None:
            raise SecurityError(only_tls(self._where))
        (size,) = struct.unpack(">i", head)
        if not 4 <= size <= (_LOGIN_BYTES_MAX if self._is_logging_in else _RESPONSE_BYTES_MAX):
            raise ConnectionError(f"a response of {size} bytes is not a Kafka response; is this the port of a broker?")
        answer = self._read(size)
        if answer[:4] != struct.pack(">i", number):
            raise ConnectionError("the response belongs to another request")
        self._has_answered = self._has_answered or not self._is_logging_in
        return answer[5 if api.is_flexible else 4 :]

    def wait_at_most(self, timeout_ms: int) -> None:
        """Let responses take this long from now on."""
        self.stream.settimeout(timeout_ms / 1000)

    def close(self) -> None:
        """Close the connection; what was not answered never is."""
        with contextlib.suppress(OSError):
            self.stream.close()

    @property
    def _where(self) -> str:
        return f"{self.address[0]}:{self.address[1]}"

    def _secure(self) -> None:
        security = self.settings.security
        if security.tls is not None:
            try:
                self.stream = encrypted(self.stream, self.address, security.tls)
            except (ConnectionError, ssl.SSLEOFError, ssl.SSLZeroReturnError) as error:
                raise ClosedEarlyError(
                    f"the broker closed the connection during the TLS handshake; probably {no_tls('it')}"
                ) from error
        if security.login is not None:
            self._log_in()

    def _log_in(self) -> None:
        login = self.settings.security.login
        assert login is not None, "a session ends only where there is a login"
        self._login_at_s, self._is_logging_in = math.inf, True
        begun_s = time.monotonic()
        lifetime_ms = log_in(self.call, login, self._where)
        self._has_answered, self._is_logging_in = True, False
        if lifetime_ms:
            self._login_at_s = begun_s + _SESSION_SHARE * lifetime_ms / 1000

    def _read(self, size: int) -> memoryview:
        view = memoryview(bytearray(size))
        filled = 0
        with self._explaining():
            while filled < size:
                count = self.stream.recv_into(view[filled:])
                if count == 0:
                    raise ConnectionError("the broker closed the connection")
                filled += count
        return view

    @contextlib.contextmanager
    def _explaining(self) -> Iterator[None]:
        """Add what a connection that fails before its first response may mean."""
        try:
            yield
        except OSError as error:
            tls = self.settings.security.tls
            said = sentence(error, self.address, tls) if tls and isinstance(error, ssl.SSLError) else None
            if said is not None:
                raise SecurityError(said) from error
            if self._has_answered or not isinstance(error, ConnectionError | ssl.SSLError):
                raise
            raise ClosedEarlyError(f"{error}; {self._guess()}") from error

    def _guess(self) -> str:
        """Return what a listener probably expects that closes a connection instead of answering."""
        security = self.settings.security
        if security.login is not None:
            return "is this a listener with SASL? Check kafka.security.protocol and kafka.bootstrap.servers"
        if security.tls is None:
            return "a listener with TLS or a login does that; if this is one, set the option kafka.security.protocol"
        certificate = "" if security.tls.keys else ", or for a client certificate kafka.ssl.keystore.location"
        return (
            "a listener that requires a login or a client certificate does that; if this is one, "
            f"set the option kafka.security.protocol to SASL_SSL{certificate}"
        )
