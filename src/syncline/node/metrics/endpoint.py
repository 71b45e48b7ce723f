"""The endpoint: GET /metrics over HTTP/1.1, and a sentence for whoever asks anything else.

A page is made at most once per second, however many ask, and given to all who
came while it was made. Nothing is kept or timed while nobody is connected.

Whoever connects has to be quick: a request must be complete within seconds and
is small; an answer must be taken within half a minute; there is room for a few
connections, and the next one is sent away. After an error the connection ends,
but its last words are waited for: closing at once, with bytes unread, would
make the operating system throw the answer away.

Source: RFC 9110, RFC 9112.
"""

import asyncio
import logging
import re
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final, NamedTuple, cast

if TYPE_CHECKING:
    from syncline.node.broker import Broker
    from syncline.node.metrics.scrape import ProcessFigures, Scraper

log = logging.getLogger("syncline.node")

PATH: Final = "/metrics"
CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
PAGE_LIFE_MS: Final = 1_000
CONNECTIONS_MAX: Final = 32
REQUEST_BYTES_MAX: Final = 8_192
REQUEST_LINE_BYTES_MAX: Final = 2_048
# For a request to be complete, for the next one, for an answer to be taken, and for the last words after an error.
REQUEST_S: Final = 5.0
IDLE_S: Final = 120.0
TAKEN_S: Final = 30.0
LINGER_S: Final = 1.0
LINGER_BYTES_MAX: Final = 1 << 20

_END_OF_HEAD: Final = re.compile(rb"\r?\n\r?\n")
_TOKEN: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_VERSION: Final = re.compile(r"HTTP/(\d)\.(\d)")
_KNOWN_METHODS: Final = frozenset({"POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT"})
_REASONS: Final = {
    200: "OK",
    400: "Bad Request",
    404: "Not Found",
    405: "Method Not Allowed",
    408: "Request Timeout",
    413: "Content Too Large",
    414: "URI Too Long",
    431: "Request Header Fields Too Large",
    500: "Internal Server Error",
    501: "Not Implemented",
    503: "Service Unavailable",
    505: "HTTP Version Not Supported",
}
_DAYS: Final = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_MONTHS: Final = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")

Answered = Callable[[Sequence[bytes] | None], None]


class RefusedRequest(Exception):
    """What is wrong with a request, and the status that says so."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status
        self.sentence = sentence


class Head(NamedTuple):
    """What counts in the head of a request that may be answered."""

    is_head: bool
    is_last: bool


def parse_head(text: str) -> Head:
    """Return what a request asks for. Raises `RefusedRequest`."""
    lines = re.split(r"\r?\n", text)
    method, target, major, minor = _parse_request_line(lines[0])
    headers: dict[str, list[str]] = {}
    for line in lines[1:]:
        name, colon, value = line.partition(":")
        if not colon or not _TOKEN.fullmatch(name):
            raise RefusedRequest(400, f"This is no header: {line[:80]!r}.")
        headers.setdefault(name.lower(), []).append(value.strip(" \t"))
    if major != 1:
        raise RefusedRequest(505, "Ask with HTTP/1.1 or HTTP/1.0.")
    if minor >= 1 and len(headers.get("host", ())) != 1:
        raise RefusedRequest(400, "A request of HTTP/1.1 has one Host header.")
    lengths = headers.get("content-length", [])
    if any(not (each.isascii() and each.isdigit()) for each in lengths) or len(set(lengths)) > 1:
        raise RefusedRequest(400, "The Content-Length is no number.")
    if "transfer-encoding" in headers or any(each.strip("0") for each in lengths):
        raise RefusedRequest(413, "A request for metrics has no body.")
    if _path(target) != PATH:
        raise RefusedRequest(404, f"There is nothing here; the metrics are at {PATH}.")
    if method not in ("GET", "HEAD"):
        if method in _KNOWN_METHODS:
            raise RefusedRequest(405, f"The metrics can only be read: GET {PATH}.")
        raise RefusedRequest(501, f"There is no method {method[:40]}; the metrics can be read: GET {PATH}.")
    options = {option.strip().lower() for value in headers.get("connection", ()) for option in value.split(",")}
    is_last = "close" in options or (minor == 0 and "keep-alive" not in options)
    return Head(method == "HEAD", is_last)


def _parse_request_line(line: str) -> tuple[str, str, int, int]:
    if len(line) > REQUEST_LINE_BYTES_MAX:
        raise RefusedRequest(414, f"The request line is longer than {REQUEST_LINE_BYTES_MAX} bytes.")
    parts = line.split(" ")
    version = _VERSION.fullmatch(parts[-1])
    if len(parts) != 3 or not _TOKEN.fullmatch(parts[0]) or not parts[1] or version is None:
        raise RefusedRequest(400, f"This is no request line: {line[:80]!r}.")
    return parts[0], parts[1], int(version[1]), int(version[2])


def _path(target: str) -> str:
    """Return the path of a target, without its query; a proxy sends the whole address."""
    if target[:7].lower() == "http://":
        target = "/" + target[7:].partition("/")[2]
    return target.partition("?")[0]


class MetricsEndpoint:
    """The pages of one broker, and who is connected for them."""

    def __init__(self, broker: "Broker", process: "Callable[[], ProcessFigures] | None" = None) -> None:
        self.broker = broker
        self.connections: dict[HttpConnection, None] = {}
        self._process = process
        self._scraper: Scraper | None = None
        self._page: Sequence[bytes] | None = None
        self._waiting: list[Answered] = []
        self._forget_timer: asyncio.TimerHandle | None = None

    def page(self, answered: Answered) -> None:
        """Give the page to `answered`, at once if it is fresh; None if it could not be made."""
        if self._page is not None:
            answered(self._page)
            return
        self._waiting.append(answered)
        if len(self._waiting) == 1:
            self.broker.spawn(self._make())

    async def _make(self) -> None:
        page: Sequence[bytes] | None = None
        try:
            if self._scraper is None:
                # Imported in a turn of its own: together with this module it would hold the loop for ten milliseconds.
                from syncline.node.metrics.scrape import Scraper

                self._scraper = Scraper(self.broker, self._process)
            page = await self._scraper.scrape()
            self._page = page
            self._forget_timer = self.broker.loop.call_later(PAGE_LIFE_MS / 1_000, self._forget)
        finally:
            waiting, self._waiting = self._waiting, []
            for answered in waiting:
                answered(page)

    def _forget(self) -> None:
        self._page = None
        self._forget_timer = None

    def close(self) -> None:
        """Close all connections: the broker is stopping."""
        if self._forget_timer is not None:
            self._forget_timer.cancel()
        for connection in list(self.connections):
            connection.abort()


class HttpConnection(asyncio.Protocol):
    """One connection; its requests are answered one after the other."""

    def __init__(self, endpoint: MetricsEndpoint) -> None:
        self._endpoint = endpoint
        self._loop = endpoint.broker.loop
        self._transport: asyncio.Transport | None = None
        self._received = bytearray()
        self._timer: asyncio.TimerHandle | None = None
        self._is_answering = False
        self._is_ending = False
        self._has_all = False
        self._is_writable = True
        self._lingered_bytes = 0

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take the transport of a new connection, or send it away."""
        # uvloop's transports have the interface, not the base class.
        self._transport = cast("asyncio.Transport", transport)
        connections = self._endpoint.connections
        is_full = len(connections) >= CONNECTIONS_MAX
        connections[self] = None
        if is_full:
            self._refuse(RefusedRequest(503, f"There are {CONNECTIONS_MAX} connections for metrics already."))
        else:
            self._wait(REQUEST_S, self._too_slow)

    def data_received(self, data: bytes) -> None:
        """Answer what is complete."""
        if self._is_ending:
            self._lingered_bytes += len(data)
            if self._lingered_bytes > LINGER_BYTES_MAX:
                self.abort()
            return
        if not self._received:
            # Some send an empty line after a request. It is none, and buys no time.
            data = data.lstrip(b"\r\n")
            if not data:
                return
            if not self._is_answering:
                self._wait(REQUEST_S, self._too_slow)
        self._received += data
        if self._is_answering or not self._is_writable:
            if len(self._received) > REQUEST_BYTES_MAX and self._transport is not None:
                # Whoever asks ahead waits for its answers.
                self._transport.pause_reading()
            return
        self._next_request()

    def eof_received(self) -> bool:
        """Answer what was asked before the peer closed its side."""
        self._has_all = True
        return self._is_answering

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget everything."""
        self._transport = None
        self._endpoint.connections.pop(self, None)
        self._stop_waiting()

    def pause_writing(self) -> None:
        """Give a peer that does not read half a minute."""
        self._is_writable = False
        self._wait(TAKEN_S, self.abort)

    def resume_writing(self) -> None:
        """Go on: most of the answer was taken."""
        self._is_writable = True
        if self._is_ending:
            self._wait(LINGER_S, self.abort)
        elif self._transport is not None and not self._is_answering and not self._transport.is_closing():
            self._await_request(self._transport)

    def abort(self) -> None:
        """End the connection at once."""
        if self._transport is not None:
            self._transport.abort()

    # Requests.

    def _next_request(self) -> None:
        received = self._received
        del received[: len(received) - len(received.lstrip(b"\r\n"))]
        end = _END_OF_HEAD.search(received)
        if end is None:
            self._check_size(len(received))
            if self._has_all:
                self.abort()
            return
        text = received[: end.start()].decode("latin-1")
        try:
            self._check_head_size(end.start())
            head = parse_head(text)
        except RefusedRequest as refusal:
            self._refuse(refusal, has_body=not text.startswith("HEAD "))
            return
        del received[: end.end()]
        self._is_answering = True
        self._stop_waiting()
        self._endpoint.page(lambda page: self._answer(page, head))

    def _check_size(self, size_bytes: int) -> None:
        try:
            self._check_head_size(size_bytes)
            if b"\n" not in self._received and size_bytes > REQUEST_LINE_BYTES_MAX:
                raise RefusedRequest(414, f"The request line is longer than {REQUEST_LINE_BYTES_MAX} bytes.")
        except RefusedRequest as refusal:
            self._refuse(refusal)

    @staticmethod
    def _check_head_size(size_bytes: int) -> None:
        if size_bytes > REQUEST_BYTES_MAX:
            raise RefusedRequest(431, f"The request is longer than {REQUEST_BYTES_MAX} bytes.")

    # Answers.

    def _answer(self, page: Sequence[bytes] | None, head: Head) -> None:
        self._is_answering = False
        if self._transport is None:
            return
        if page is None:
            self._refuse(RefusedRequest(500, "The metrics could not be collected; the broker's log says why."))
            return
        is_last = head.is_last or self._has_all
        self._write(200, CONTENT_TYPE, () if head.is_head else page, sum(map(len, page)), is_last=is_last)
        if is_last:
            self._transport.close()
            return
        if self._is_writable:
            self._await_request(self._transport)

    def _await_request(self, transport: asyncio.Transport) -> None:
        """Take the next request, which may be here already."""
        transport.resume_reading()
        if self._received:
            # In a turn of its own: hundreds of them may have come at once.
            self._wait(REQUEST_S, self._too_slow)
            self._loop.call_soon(self._go_on)
        else:
            self._wait(IDLE_S, self.abort)

    def _go_on(self) -> None:
        is_free = self._is_writable and not self._is_answering and not self._is_ending
        if self._transport is not None and is_free and self._received:
            self._next_request()

    def _refuse(self, refusal: RefusedRequest, *, has_body: bool = True) -> None:
        """Say what is wrong, and end after the peer has."""
        body = f"{refusal.sentence}\n".encode()
        parts = (body,) if has_body else ()
        allow = "Allow: GET, HEAD\r\n" if refusal.status in (405, 501) else ""
        self._write(refusal.status, "text/plain; charset=utf-8", parts, len(body), is_last=True, more=allow)
        self._is_ending = True
        self._received.clear()
        transport = self._transport
        if transport is None:
            return
        if self._has_all or not transport.can_write_eof():
            transport.close()
            return
        transport.write_eof()
        self._wait(LINGER_S, self.abort)

    def _write(
        self, status: int, content_type: str, parts: Sequence[bytes], size_bytes: int, *, is_last: bool, more: str = ""
    ) -> None:
        assert self._transport is not None, "there is somebody to answer"
        head = (
            f"HTTP/1.1 {status} {_REASONS[status]}\r\n"
            f"Date: {_http_date(self._endpoint.broker.clock.wall_ms())}\r\n"
            f"Content-Type: {content_type}\r\n"
            f"Content-Length: {size_bytes}\r\n"
            f"{more}"
            f"Connection: {'close' if is_last else 'keep-alive'}\r\n\r\n"
        )
        self._transport.writelines([head.encode("latin-1"), *parts])

    # Patience.

    def _wait(self, seconds: float, then: Callable[[], None]) -> None:
        self._stop_waiting()
        self._timer = self._loop.call_later(seconds, then)

    def _stop_waiting(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _too_slow(self) -> None:
        if self._received:
            self._refuse(RefusedRequest(408, f"A request must be complete within {REQUEST_S:g} s."))
        else:
            self.abort()


def _http_date(wall_ms: int) -> str:
    """Return a time as HTTP writes it, whatever the locale."""
    at = datetime.fromtimestamp(wall_ms // 1_000, UTC)
    return f"{_DAYS[at.weekday()]}, {at:%d} {_MONTHS[at.month - 1]} {at:%Y %H:%M:%S} GMT"
