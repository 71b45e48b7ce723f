"""The endpoint: GET /metrics over HTTP/1.1, and a sentence in answer to any other request.

The endpoint makes a page at most once per second and sends it to all clients that
asked meanwhile. It keeps no page and no timer while no client is connected.
Below /metrics/ are the pages of other exporters that `metrics.compatible` names.

Clients have limits: a request is small and must be complete within seconds; a
client must read its answer within half a minute; only a few connections may be
open, and further ones are refused. After an error the connection ends, but the
endpoint first reads what the client still sends: closing with bytes unread would
make the operating system discard the answer.

h11 parses requests and writes the heads of answers; this module adds time-outs,
limits and the page. It is imported with the first connection, because importing
h11 takes some 15 ms.

Source: RFC 9110, RFC 9112; docs/adr/0010.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from http import HTTPStatus
from importlib import import_module
from typing import TYPE_CHECKING, Final, Protocol, cast

import h11

from syncline.node.metrics.host_check import named_hosts, names_this_machine

if TYPE_CHECKING:
    from syncline.node.metadata.live_configs import LiveConfigs
    from syncline.node.metrics.compatible.pages import CompatiblePages
    from syncline.node.metrics.scrape import ProcessFigures, Scraper
    from syncline.node.metrics.scraped import ScrapedBroker

    class EndpointBroker(ScrapedBroker, Protocol):
        """What the pages use of a broker."""

        @property
        def configs(self) -> LiveConfigs:
            """Return the configurations in effect."""


log = logging.getLogger("syncline.node")

PATH: Final = b"/metrics"
# What `metrics.compatible` may name.
EXPORTERS: Final = frozenset({"kafka_exporter", "kminion", "kafka-lag-exporter"})
CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
PAGE_LIFE_MS: Final = 1_000
CONNECTIONS_MAX: Final = 32
REQUEST_BYTES_MAX: Final = 8_192
TARGET_BYTES_MAX: Final = 2_048
TOO_LONG: Final = f"The request is longer than {REQUEST_BYTES_MAX} bytes."
# For a request to be complete, for the next one to begin, for the client to read an answer, and to end after an error.
REQUEST_S: Final = 5.0
IDLE_S: Final = 120.0
TAKEN_S: Final = 30.0
LINGER_S: Final = 1.0
LINGER_BYTES_MAX: Final = 1 << 20

_READ_METHODS: Final = (b"GET", b"HEAD")
_OTHER_METHODS: Final = frozenset({b"POST", b"PUT", b"DELETE", b"PATCH", b"OPTIONS", b"TRACE", b"CONNECT"})
_DAYS: Final = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_MONTHS: Final = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")

Answered = Callable[[Sequence[bytes] | None], None]


class RefusedRequest(Exception):
    """What is wrong with a request, and its HTTP status."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status
        self.sentence = sentence


def check_request(request: h11.Request, hosts: Collection[str], paths: Collection[bytes] = (PATH,)) -> bytes:
    """Return which of the pages is wanted, if the request is a valid one for this machine, or for these hosts.

    Raises `RefusedRequest` if it is not.
    """
    headers = list(request.headers)
    size_bytes = len(request.target) + sum(len(name) + len(value) for name, value in headers)
    if size_bytes > REQUEST_BYTES_MAX:
        raise RefusedRequest(431, TOO_LONG)
    if len(request.target) > TARGET_BYTES_MAX:
        raise RefusedRequest(414, f"The request's target is longer than {TARGET_BYTES_MAX} bytes.")
    if not request.http_version.startswith(b"1."):
        raise RefusedRequest(505, "Ask with HTTP/1.1 or HTTP/1.0.")
    if any(
        name == b"transfer-encoding" or (name == b"content-length" and value.strip(b"0")) for name, value in headers
    ):
        raise RefusedRequest(413, "A request for metrics has no body.")
    path = _path(request.target)
    if path not in paths:
        raise RefusedRequest(404, _nothing_at(path))
    if request.method in _OTHER_METHODS:
        raise RefusedRequest(405, f"The metrics can only be read: GET {PATH.decode()}.")
    if request.method not in _READ_METHODS:
        name = request.method[:40].decode()
        raise RefusedRequest(501, f"There is no method {name}; the metrics can be read: GET {PATH.decode()}.")
    for host in named_hosts(request.target, headers):
        if not names_this_machine(host, hosts):
            shown = host[:100].decode("latin-1")
            raise RefusedRequest(421, f"This is not {shown}: ask for the metrics of localhost, or of 127.0.0.1.")
    return path


def _nothing_at(path: bytes) -> str:
    exporter = path.removeprefix(PATH + b"/").decode("latin-1")
    if exporter in EXPORTERS:
        return f"This page is off; brokers that are started with metrics.compatible={exporter} have it."
    return f"There is nothing here; the metrics are at {PATH.decode()}."


def _path(target: bytes) -> bytes:
    """Return the path of a target, without its query; a proxy sends the whole URL."""
    if target[:7].lower() == b"http://":
        target = b"/" + target[7:].partition(b"/")[2]
    return target.partition(b"?")[0]


# What a scraper needs, imported in turns of their own: all together would hold the loop for longer than 10 ms.
_SCRAPED_WITH: Final = (
    "syncline.node.metrics.table",
    "syncline.node.metrics.lag_table",
    "syncline.node.metrics.partition_samples",
    "syncline.node.metrics.fetch_samples",
    "syncline.core.lag.commit_slab",
    "syncline.node.lag.leaders",
    "syncline.node.lag.standings",
    "syncline.node.metrics.group_samples",
    "syncline.node.metrics.scrape",
)
_IMITATED_WITH: Final = (
    "syncline.core.lag.commit_slab",
    "syncline.node.lag.leaders",
    "syncline.node.lag.cluster_groups",
    "syncline.node.metrics.compatible.kafka_exporter",
    "syncline.node.metrics.compatible.kminion",
    "syncline.node.metrics.compatible.kafka_lag_exporter",
    "syncline.node.metrics.compatible.pages",
)


async def _import_in_turns(modules: Sequence[str]) -> None:
    for module in modules:
        import_module(module)
        await asyncio.sleep(0)


class KeptPage:
    """One page, kept for a second."""

    def __init__(self, broker: "EndpointBroker", make: Callable[[], Awaitable[Sequence[bytes]]]) -> None:
        self._broker = broker
        self._make_page = make
        self._page: Sequence[bytes] | None = None
        self._waiting: list[Answered] = []
        self._forget_timer: asyncio.TimerHandle | None = None

    def get(self, answered: Answered) -> None:
        """Call `answered` with the page, at once if it is fresh, or with None if it could not be made."""
        if self._page is not None:
            answered(self._page)
            return
        self._waiting.append(answered)
        if len(self._waiting) == 1:
            self._broker.spawn(self._make())

    async def _make(self) -> None:
        page: Sequence[bytes] | None = None
        try:
            page = await self._make_page()
            self._page = page
            self._forget_timer = asyncio.get_running_loop().call_later(PAGE_LIFE_MS / 1_000, self._forget)
        finally:
            waiting, self._waiting = self._waiting, []
            for answered in waiting:
                answered(page)

    def _forget(self) -> None:
        self._page = None
        self._forget_timer = None

    @property
    def is_at_rest(self) -> bool:
        """Whether no page is kept and nothing is timed."""
        return self._page is None and self._forget_timer is None

    def close(self) -> None:
        """Forget nothing later: the broker is stopping."""
        if self._forget_timer is not None:
            self._forget_timer.cancel()


class MetricsEndpoint:
    """The pages of one broker, and the connections for them."""

    def __init__(
        self, broker: "EndpointBroker", host: str, process: "Callable[[], ProcessFigures] | None" = None
    ) -> None:
        self.broker = broker
        # The configured host of the listener, which requests may name besides this machine.
        self.host = host.lower()
        self.connections: dict[HttpConnection, None] = {}
        self._process = process
        self._scraper: Scraper | None = None
        self._compatible: CompatiblePages | None = None
        self.pages: Mapping[bytes, KeptPage] = {PATH: KeptPage(broker, self._scrape)} | {
            PATH + b"/" + name.encode(): KeptPage(broker, partial(self._imitate, name))
            for name in broker.config.metrics_compatible
        }

    async def _scrape(self) -> Sequence[bytes]:
        if self._scraper is None:
            await _import_in_turns(_SCRAPED_WITH)
            from syncline.node.metrics.scrape import Scraper

            self._scraper = Scraper(self.broker, self._process)
        return await self._scraper.scrape()

    async def _imitate(self, name: str) -> Sequence[bytes]:
        if self._compatible is None:
            await _import_in_turns(_IMITATED_WITH)
            from syncline.node.metrics.compatible.pages import CompatiblePages

            self._compatible = CompatiblePages(self.broker)
        return await self._compatible.make(name)

    @property
    def is_at_rest(self) -> bool:
        """Whether no page is kept, nothing is timed and no connection is open."""
        return not self.connections and all(page.is_at_rest for page in self.pages.values())

    def close(self) -> None:
        """Close all connections: the broker is stopping."""
        for page in self.pages.values():
            page.close()
        for connection in list(self.connections):
            connection.abort()


class HttpConnection(asyncio.Protocol):
    """One connection; its requests are answered one after the other."""

    def __init__(self, endpoint: MetricsEndpoint) -> None:
        self._endpoint = endpoint
        self._loop = asyncio.get_running_loop()
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=REQUEST_BYTES_MAX)
        self._transport: asyncio.Transport | None = None
        self._timer: asyncio.TimerHandle | None = None
        # Whether the answer to the current request has no body.
        self._is_head = False
        self._is_answering = False
        self._is_ending = False
        self._has_all = False
        self._is_writable = True
        self._lingered_bytes = 0
        # What requests may name besides this machine: the configured host, and the address that was connected to.
        self._own_hosts: tuple[str, ...] = ()

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take the transport of a new connection, or refuse it."""
        # uvloop's transports have the interface, not the base class.
        self._transport = cast("asyncio.Transport", transport)
        address = transport.get_extra_info("sockname")
        self._own_hosts = (self._endpoint.host, str(address[0]).lower() if address else "")
        connections = self._endpoint.connections
        is_full = len(connections) >= CONNECTIONS_MAX
        connections[self] = None
        if is_full:
            self._refuse(RefusedRequest(503, f"There are {CONNECTIONS_MAX} connections for metrics already."))
        else:
            self._wait(REQUEST_S, self._too_slow)

    def data_received(self, data: bytes) -> None:
        """Answer complete requests."""
        if self._is_ending:
            self._lingered_bytes += len(data)
            if self._lingered_bytes > LINGER_BYTES_MAX:
                self.abort()
            return
        if not self._received_bytes():
            # Some clients send an empty line after a request. It is not a request and does not extend the deadline.
            data = data.lstrip(b"\r\n")
            if not data:
                return
            # While the client has yet to take an answer, that deadline stands.
            if not self._is_answering and self._is_writable:
                self._wait(REQUEST_S, self._too_slow)
        self._http.receive_data(data)
        if self._is_answering or not self._is_writable:
            if self._received_bytes() > REQUEST_BYTES_MAX and self._transport is not None:
                # A client that pipelines too much has to wait for its answers.
                self._transport.pause_reading()
            return
        self._next_request()

    def eof_received(self) -> bool:
        """Answer requests that arrived before the peer closed its side."""
        self._has_all = True
        return self._is_answering

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        self._transport = None
        self._endpoint.connections.pop(self, None)
        self._stop_waiting()

    def pause_writing(self) -> None:
        """Give a peer that does not read its answer half a minute."""
        self._is_writable = False
        self._wait(TAKEN_S, self.abort)

    def resume_writing(self) -> None:
        """Continue: the client has read most of the answer."""
        self._is_writable = True
        if self._is_ending:
            self._wait(LINGER_S, self.abort)
        elif self._transport is not None and not self._is_answering and not self._transport.is_closing():
            self._await_request(self._transport)

    def abort(self) -> None:
        """End the connection at once."""
        if self._transport is not None:
            self._transport.abort()

    def _received_bytes(self) -> int:
        """Return how many bytes of unanswered requests are buffered."""
        return len(self._http.trailing_data[0])

    def _next_request(self) -> None:
        self._is_head = False
        try:
            event = self._http.next_event()
            if not isinstance(event, h11.Request):
                # The request is incomplete, or the client has closed its side.
                if self._has_all:
                    self.abort()
                return
            self._is_head = event.method == b"HEAD"
            path = check_request(event, self._own_hosts, self._endpoint.pages)
            # The request has no body, so its end has arrived, too.
            self._http.next_event()
        except h11.RemoteProtocolError as error:
            # A frame of its traceback names the error: a circle, which would keep all that the client sent.
            error.__traceback__ = None
            sentence = TOO_LONG if error.error_status_hint == 431 else f"This is no request: {error}."
            self._refuse(RefusedRequest(error.error_status_hint, sentence))
            return
        except RefusedRequest as refusal:
            self._refuse(refusal)
            return
        self._is_answering = True
        self._stop_waiting()
        self._endpoint.pages[path].get(self._answer)

    def _answer(self, page: Sequence[bytes] | None) -> None:
        self._is_answering = False
        if self._transport is None:
            return
        if page is None:
            self._refuse(RefusedRequest(500, "The metrics could not be collected; the broker's log says why."))
            return
        self._write(self._transport, 200, CONTENT_TYPE, page, is_last=self._has_all)
        if self._http.our_state is h11.MUST_CLOSE:
            self._close(self._transport)
        elif self._is_writable:
            self._await_request(self._transport)

    def _await_request(self, transport: asyncio.Transport) -> None:
        """Wait for the next request, which may have arrived already."""
        if self._http.our_state is h11.DONE:
            self._http.start_next_cycle()
        transport.resume_reading()
        if self._received_bytes():
            # In a turn of its own: hundreds of requests may have arrived at once.
            self._wait(REQUEST_S, self._too_slow)
            self._loop.call_soon(self._go_on)
        else:
            self._wait(IDLE_S, self.abort)

    def _go_on(self) -> None:
        is_free = self._is_writable and not self._is_answering and not self._is_ending
        if self._transport is not None and is_free and self._received_bytes():
            self._next_request()

    def _refuse(self, refusal: RefusedRequest) -> None:
        """Answer with the refusal, and end the connection after the peer has."""
        transport = self._transport
        assert transport is not None, "a connection that is gone is refused nothing"
        assert self._http.our_state in (h11.IDLE, h11.SEND_RESPONSE), (
            f"{self._http.our_state}: this request is answered"
        )
        more = (("Allow", "GET, HEAD"),) if refusal.status in (405, 501) else ()
        body = (f"{refusal.sentence}\n".encode(),)
        self._write(transport, refusal.status, "text/plain; charset=utf-8", body, is_last=True, more=more)
        self._is_ending = True
        if self._has_all or not transport.can_write_eof():
            self._close(transport)
            return
        transport.write_eof()
        self._wait(LINGER_S, self.abort)

    def _write(
        self,
        transport: asyncio.Transport,
        status: int,
        content_type: str,
        body: Sequence[bytes],
        *,
        is_last: bool,
        more: Sequence[tuple[str, str]] = (),
    ) -> None:
        headers = [
            ("Date", _http_date(self._endpoint.broker.clock.wall_ms())),
            ("Content-Type", content_type),
            ("Content-Length", str(sum(map(len, body)))),
            *more,
            # h11 adds "Connection: close" if the client requested it or does not support anything else.
            ("Connection", "close" if is_last else "keep-alive"),
        ]
        response = h11.Response(status_code=status, reason=HTTPStatus(status).phrase, headers=headers)
        parts: list[bytes] = [self._http.send(response) or b""]
        if not self._is_head:
            for part in body:
                parts += self._http.send_with_data_passthrough(h11.Data(data=part)) or ()
        self._http.send(h11.EndOfMessage())
        transport.writelines(parts)

    def _close(self, transport: asyncio.Transport) -> None:
        """Close once the client has taken what is written; it has half a minute."""
        if self._is_writable:
            self._wait(TAKEN_S, self.abort)
        transport.close()

    def _wait(self, seconds: float, then: Callable[[], None]) -> None:
        self._stop_waiting()
        self._timer = self._loop.call_later(seconds, then)

    def _stop_waiting(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _too_slow(self) -> None:
        if self._received_bytes():
            self._refuse(RefusedRequest(408, f"A request must be complete within {REQUEST_S:g} s."))
        else:
            self.abort()


def _http_date(wall_ms: int) -> str:
    """Return a time as HTTP writes it, whatever the locale."""
    at = datetime.fromtimestamp(wall_ms // 1_000, UTC)
    return f"{_DAYS[at.weekday()]}, {at:%d} {_MONTHS[at.month - 1]} {at:%Y %H:%M:%S} GMT"
