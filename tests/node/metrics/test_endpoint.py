"""GET /metrics, and the handling of everything else that may arrive at its port."""

import asyncio
import gc
import re
import types
from collections.abc import Iterable

import pytest

from syncline.node.metrics import endpoint
from syncline.node.metrics.endpoint import CONNECTIONS_MAX, HttpConnection
from tests.node.metrics.scraping import GET, HttpClient, ask, scrape, serve
from tests.node.world import World


def counted_pages(monkeypatch: pytest.MonkeyPatch) -> list[None]:
    """Return a list that grows by one with each page that is made."""
    from syncline.node.metrics.scrape import Scraper

    made: list[None] = []
    make = Scraper.scrape

    async def scrape_counted(scraper: Scraper) -> object:
        made.append(None)
        return await make(scraper)

    monkeypatch.setattr(Scraper, "scrape", scrape_counted)
    return made


async def test_page_comes_with_its_type_size_and_date(world: World) -> None:
    """An answer meets RFC 9110, and a page meets Prometheus."""
    await serve(world)
    client = await HttpClient.connect()
    status, headers, body = await ask(world, client, GET)

    assert status == 200
    assert headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    assert headers["content-length"] == str(len(body))
    assert headers["connection"] == "keep-alive"
    assert re.fullmatch(r"(Mon|Tue|Wed|Thu|Fri|Sat|Sun), \d\d [A-Z][a-z]{2} \d{4} \d\d:\d\d:\d\d GMT", headers["date"])
    assert body.startswith(b"# HELP ")
    assert body.endswith(b"\n")


async def test_head_is_answered_with_the_head_alone(world: World) -> None:
    """The size is the page's, the page stays away, the connection stays open."""
    await serve(world)
    client = await HttpClient.connect()
    client.send(b"HEAD /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")
    await world.until(lambda: b"\r\n\r\n" in client.received)
    await world.later(0.1)
    head, _, rest = bytes(client.received).partition(b"\r\n\r\n")

    assert head.startswith(b"HTTP/1.1 200 OK\r\n")
    assert re.search(rb"Content-Length: \d{4,}\r\n", head)
    assert rest == b""
    client.received.clear()
    assert (await ask(world, client, GET))[0] == 200


@pytest.mark.parametrize(
    ("request_bytes", "status", "sentence"),
    [
        pytest.param(b"nonsense\r\n\r\n", 400, "illegal request line", id="one-word"),
        pytest.param(b"GET /metrics\r\n\r\n", 400, "illegal request line", id="no-version"),
        pytest.param(b"GET  /metrics HTTP/1.1\r\nHost: b\r\n\r\n", 400, "illegal request line", id="two-spaces"),
        pytest.param(b"GET /met rics HTTP/1.1\r\nHost: b\r\n\r\n", 400, "illegal request line", id="space-in-target"),
        pytest.param(b"G@T /metrics HTTP/1.1\r\nHost: b\r\n\r\n", 400, "illegal request line", id="method-no-token"),
        pytest.param(b"GET /metrics HTTX/1.1\r\nHost: b\r\n\r\n", 400, "illegal request line", id="other-protocol"),
        pytest.param(b"\x16\x03\x01\x02\x00\x01\x00\x01\r\n\r\n", 400, "illegal request line", id="tls-hello"),
        pytest.param(b"\x00\x00\x00\x14\x00\x12\x00\x03\r\n\r\n", 400, "illegal request line", id="kafka-client"),
        pytest.param(b"GET /metrics HTTP/2.0\r\n\r\n", 505, "HTTP/1.1", id="http-2"),
        pytest.param(b"PRI * HTTP/2.0\r\n\r\n", 505, "HTTP/1.1", id="http-2-preface"),
        pytest.param(b"GET /metrics HTTP/1.1\r\n\r\n", 400, "Missing mandatory Host", id="no-host"),
        pytest.param(b"GET /metrics HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400, "multiple Host", id="two-hosts"),
        pytest.param(
            b"GET /metrics HTTP/1.1\r\nHost: a\r\nnonsense\r\n\r\n", 400, "illegal header line", id="no-colon"
        ),
        pytest.param(b"GET /metrics HTTP/1.1\r\nHost : a\r\n\r\n", 400, "illegal header line", id="space-before-colon"),
        pytest.param(
            b"GET /metrics HTTP/1.1\r\nHost: a\r\nContent-Length: x\r\n\r\n", 400, "bad Content-Length", id="length"
        ),
        pytest.param(
            b"GET /metrics HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n", 400, "bad Content-Length", id="minus"
        ),
        pytest.param(b"GET /metrics HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc", 413, "no body", id="body"),
        pytest.param(
            b"GET /metrics HTTP/1.1\r\nHost: a\r\nContent-Length: " + b"9" * 6_000 + b"\r\n\r\n",
            400,
            "bad Content-Length",
            id="length-of-any-size",
        ),
        pytest.param(
            b"GET /metrics HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
            413,
            "no body",
            id="chunks",
        ),
        pytest.param(b"GET / HTTP/1.1\r\nHost: b\r\n\r\n", 404, "at /metrics", id="root"),
        pytest.param(b"GET /metrics/ HTTP/1.1\r\nHost: b\r\n\r\n", 404, "at /metrics", id="slash-behind"),
        pytest.param(b"GET /metrics/../etc HTTP/1.1\r\nHost: b\r\n\r\n", 404, "at /metrics", id="other-path"),
        pytest.param(b"GET //metrics HTTP/1.1\r\nHost: b\r\n\r\n", 404, "at /metrics", id="two-slashes"),
        pytest.param(b"POST / HTTP/1.1\r\nHost: b\r\n\r\n", 404, "at /metrics", id="post-elsewhere"),
        pytest.param(b"POST /metrics HTTP/1.1\r\nHost: b\r\n\r\n", 405, "only be read", id="post"),
        pytest.param(b"OPTIONS /metrics HTTP/1.1\r\nHost: b\r\n\r\n", 405, "only be read", id="options"),
        pytest.param(b"BREW /metrics HTTP/1.1\r\nHost: b\r\n\r\n", 501, "no method BREW", id="unknown-method"),
        pytest.param(b"get /metrics HTTP/1.1\r\nHost: b\r\n\r\n", 501, "no method get", id="lower-case-method"),
        pytest.param(b"GET /" + b"a" * 3_000 + b" HTTP/1.1\r\nHost: b\r\n\r\n", 414, "longer than", id="long-line"),
        pytest.param(b"GET /" + b"a" * 9_000, 431, "longer than", id="line-without-end"),
        pytest.param(
            b"GET /metrics HTTP/1.1\r\nHost: b\r\nX: " + b"a" * 9_000 + b"\r\n\r\n",
            431,
            "longer than",
            id="long-header",
        ),
        pytest.param(
            b"GET /metrics HTTP/1.1\r\nHost: b\r\n" + b"X: y\r\n" * 2_000, 431, "longer than", id="headers-without-end"
        ),
    ],
)
async def test_wrong_requests_get_a_sentence_and_the_connection_ends(
    world: World, request_bytes: bytes, status: int, sentence: str
) -> None:
    """The right status with a message that the peer can read before the connection ends."""
    await serve(world)
    client = await HttpClient.connect()
    answered, headers, body = await ask(world, client, request_bytes)
    await world.until(lambda: client.is_over)

    assert (answered, headers["connection"]) == (status, "close")
    assert sentence in body.decode()
    assert headers.get("allow") == ("GET, HEAD" if status in (405, 501) else None)
    client.close()
    await world.until(lambda: not world.node().metrics.connections)  # type: ignore[union-attr]


async def test_wrong_requests_leave_no_traceback_for_the_collector(world: World) -> None:
    """It would keep what the client sent, and a busy broker seldom looks for garbage in circles."""
    await serve(world)
    gc.collect()
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        for _ in range(5):
            client = await HttpClient.connect()
            await ask(world, client, b"nonsense\r\n\r\n")
            client.close()
        gc.collect()
        tracebacks = [each for each in gc.garbage if isinstance(each, types.TracebackType)]
    finally:
        gc.set_debug(0)
        gc.garbage.clear()

    assert tracebacks == []


async def test_head_to_the_wrong_place_gets_no_body(world: World) -> None:
    """An answer to HEAD never has one."""
    await serve(world)
    client = await HttpClient.connect()
    client.send(b"HEAD /wrong HTTP/1.1\r\nHost: b\r\n\r\n")
    await world.until(lambda: client.is_over)

    assert client.received.startswith(b"HTTP/1.1 404 Not Found\r\n")
    assert client.received.endswith(b"\r\n\r\n")


@pytest.mark.parametrize(
    "request_bytes",
    [
        pytest.param(b"GET /metrics HTTP/1.0\r\n\r\n", id="http-1.0-without-host"),
        pytest.param(b"GET /metrics?debug=1 HTTP/1.1\r\nHost: localhost\r\n\r\n", id="query"),
        pytest.param(b"GET http://localhost:1/metrics HTTP/1.1\r\nHost: localhost:1\r\n\r\n", id="by-a-proxy"),
        pytest.param(b"\r\n\r\nGET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n", id="empty-lines-before"),
        pytest.param(b"GET /metrics HTTP/1.1\nHost: localhost\n\n", id="bare-line-feeds"),
        pytest.param(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nX: a\r\n b\r\n\r\n", id="folded-header"),
        pytest.param(
            b"GET /metrics HTTP/1.1\r\nhOsT:localhost\r\nAccept: application/openmetrics-text\r\n\r\n", id="accept"
        ),
        pytest.param(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n", id="no-bytes-of-body"),
    ],
)
async def test_requests_of_all_kinds_of_clients_are_answered(world: World, request_bytes: bytes) -> None:
    """Harmless deviations are tolerated."""
    await serve(world)
    client = await HttpClient.connect()

    assert (await ask(world, client, request_bytes))[0] == 200


async def test_request_may_come_byte_by_byte(world: World) -> None:
    """Packet boundaries mean nothing."""
    await serve(world)
    client = await HttpClient.connect()
    for index in range(len(GET) - 1):
        client.send(GET[index : index + 1])
        await world.later(0.001)
    assert client.received == b""

    assert (await ask(world, client, GET[-1:]))[0] == 200


async def test_requests_sent_together_are_answered_one_after_the_other(world: World) -> None:
    """Pipelining works; the last request ends the connection."""
    await serve(world)
    client = await HttpClient.connect()
    last = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    client.send(GET * 200 + last)
    statuses = []

    def is_all() -> bool:
        while (answer := client.take()) is not None:
            statuses.append((answer[0], answer[1]["connection"]))
        return client.is_over

    await world.until(is_all)

    assert statuses == [(200, "keep-alive")] * 200 + [(200, "close")]


async def test_client_that_hangs_up_its_side_still_gets_its_answer(world: World) -> None:
    """`printf ... | nc` closes its side before the answer is there."""
    await serve(world)
    client = await HttpClient.connect()
    client.send(GET)
    client.transport.write_eof()
    await world.until(lambda: client.is_over)
    answer = client.take()

    assert answer is not None
    assert (answer[0], answer[1]["connection"]) == (200, "close")


async def test_silent_client_is_let_go(world: World) -> None:
    """A client that connects and sends nothing costs a connection for some seconds."""
    await serve(world)
    client = await HttpClient.connect()
    await world.later(endpoint.REQUEST_S - 1)
    assert not client.is_over

    await world.later(1.5)

    assert client.is_lost
    assert client.received == b""


async def test_empty_lines_buy_no_time(world: World) -> None:
    """They may precede a request, and are not one."""
    await serve(world)
    client = await HttpClient.connect()
    for _ in range(int(endpoint.REQUEST_S * 2) + 2):
        if not client.is_over:
            client.send(b"\r\n")
        await world.later(0.5)

    assert client.is_lost
    assert client.received == b""


async def test_slow_client_gets_a_timeout_answer(world: World) -> None:
    """An occasional byte does not keep a connection alive."""
    await serve(world)
    client = await HttpClient.connect()
    for index in range(int(endpoint.REQUEST_S * 2) + 2):
        if not client.is_over:
            client.send(GET[index : index + 1])
        await world.later(0.5)

    assert client.received.startswith(b"HTTP/1.1 408 Request Timeout\r\n")
    assert client.is_over


async def test_client_that_keeps_talking_after_an_error_is_cut_off(world: World) -> None:
    """The broker reads its bytes for a while, so that the answer survives, and then stops."""
    await serve(world)
    client = await HttpClient.connect()
    await ask(world, client, b"GET /wrong HTTP/1.1\r\nHost: b\r\n\r\n")
    for _ in range(30):
        if not client.is_lost:
            client.send(b"x" * 1_000)
        await world.later(0.05)

    assert client.is_lost


async def test_connection_is_kept_between_scrapes_but_not_for_ever(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Prometheus comes every minute at the latest; here it is every five seconds."""
    assert endpoint.IDLE_S > 60
    monkeypatch.setattr(endpoint, "IDLE_S", 8.0)
    await serve(world)
    client = await HttpClient.connect()
    for _ in range(3):
        assert (await ask(world, client, GET))[0] == 200
        await world.later(5)
    assert not client.is_over
    await world.later(8)

    assert client.is_lost


async def test_many_connections_leave_room_for_others_when_they_go(world: World) -> None:
    """One connection too many is refused with a reason; a later one is accepted again."""
    await serve(world)
    clients = [await HttpClient.connect() for _ in range(CONNECTIONS_MAX)]
    await world.later(0.01)
    extra = await HttpClient.connect()
    await world.until(lambda: extra.is_over)
    answer = extra.take()
    assert answer is not None
    assert answer[0] == 503
    for client in clients:
        assert (await ask(world, client, GET))[0] == 200
        client.close()
    extra.close()
    await world.later(0.01)

    assert (await ask(world, await HttpClient.connect(), GET))[0] == 200


async def test_page_is_made_once_for_all_who_ask_within_a_second(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten readers cost as much as one."""
    made = counted_pages(monkeypatch)
    await serve(world)
    clients = [await HttpClient.connect() for _ in range(10)]
    for client in clients:
        client.send(GET)
    await world.until(lambda: all(b"\r\n\r\n" in client.received for client in clients))
    assert len(made) == 1
    await world.later(0.5)
    await ask(world, await HttpClient.connect(), GET)
    assert len(made) == 1
    await world.later(1)
    await ask(world, await HttpClient.connect(), GET)

    assert len(made) == 2


async def test_failure_to_collect_is_an_answer_and_not_the_end(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A bug is logged and reported; the next scrape tries again."""
    from syncline.node.metrics.scrape import Scraper

    async def fail(_: Scraper) -> object:
        raise ZeroDivisionError

    await serve(world)
    client = await HttpClient.connect()
    with monkeypatch.context() as broken:
        broken.setattr(Scraper, "scrape", fail)
        status, _, body = await ask(world, client, GET)
    await world.later(0.01)

    assert (status, b"broker's log" in body) == (500, True)
    assert len(world.errors.take()) == 1
    assert (await scrape(world))["kafka_server_replicamanager_leadercount"] == 0


async def test_nothing_is_kept_or_timed_while_nobody_is_connected(world: World) -> None:
    """At rest the endpoint is a listening socket."""
    await serve(world)
    assert world.node().metrics is None
    await scrape(world)
    await world.later(1.5)
    served = world.node().metrics

    assert served is not None
    assert served.is_at_rest


async def test_stop_closes_connections_and_the_listener(world: World) -> None:
    """A broker that stops does not wait for readers of its metrics."""
    await serve(world)
    client = await HttpClient.connect()
    await ask(world, client, GET)
    waiting = await HttpClient.connect()
    waiting.send(GET)
    await world.as_broker(1, world.node().stop())
    await world.until(lambda: client.is_lost and waiting.is_lost)

    with pytest.raises(OSError, match="refused"):
        await HttpClient.connect()


async def test_many_partitions_do_not_hold_the_loop(world: World) -> None:
    """The page is made in turns: others run between them."""
    await world.topic("many", partitions=450)
    await serve(world)
    turns = 0

    def count() -> None:
        nonlocal turns
        turns += 1
        asyncio.get_running_loop().call_soon(count)

    client = await HttpClient.connect()
    await ask(world, client, GET)
    await world.later(1.1)
    page_made = asyncio.get_running_loop().create_future()
    served = world.node().metrics
    assert served is not None
    world.call(1, served.pages[endpoint.PATH].get, page_made.set_result)
    asyncio.get_running_loop().call_soon(count)
    page = await page_made

    # 450 partitions in slices of 50, and what they have to say in pieces of 200 kB.
    assert turns >= 9
    assert sum(map(len, page)) > 300_000


@pytest.mark.parametrize("around", [b"%b", b"GET %b HTTP/1.1", b"GET /metrics HTTP/1.0\r\n%b: x"])
async def test_any_byte_in_a_request_gets_an_answer(world: World, around: bytes) -> None:
    """No input makes the broker fail; every error is the client's."""
    await serve(world)
    statuses: dict[int, None] = {}
    for value in range(256):
        client = await HttpClient.connect()
        # A line end alone is no request, and is not answered; the header behind it makes it one.
        status, _, _ = await ask(world, client, around % bytes([value]) + b"\r\nHost: localhost\r\n\r\n")
        statuses[status] = None
        client.close()

    assert statuses.keys() <= {200, 400, 404}
    assert 400 in statuses


async def test_client_that_does_not_take_its_answer_is_cut_off(world: World) -> None:
    """A page is large, and for a client that never reads the broker would keep it for ever."""
    await world.topic("many", partitions=300)
    await serve(world)
    client = await HttpClient.connect()
    client.transport.pause_reading()
    client.send(GET * 5)
    await world.later(endpoint.TAKEN_S - 5)
    served = world.node().metrics
    assert served is not None
    assert len(served.connections) == 1
    await world.later(10)

    assert len(served.connections) == 0


async def test_client_that_asks_again_without_taking_its_answer_is_cut_off(world: World) -> None:
    """What it still asks buys no time: the next request is read only once the answer before it is taken."""
    await world.topic("many", partitions=300)
    await serve(world)
    client = await HttpClient.connect()
    client.transport.pause_reading()
    for _ in range(5):
        client.send(GET)
        await world.later(1)
    await world.later(endpoint.TAKEN_S + 5)
    served = world.node().metrics
    assert served is not None

    assert len(served.connections) == 0


class Unread(asyncio.Transport):
    """A transport whose peer reads nothing: `close` waits for what is written, as that of a socket does."""

    def __init__(self, connection: HttpConnection) -> None:
        super().__init__()
        self._connection = connection

    def writelines(self, list_of_data: Iterable[object]) -> None:
        """Keep what is written."""

    def can_write_eof(self) -> bool:
        """Return whether one side can end before the other: it cannot."""
        return False

    def close(self) -> None:
        """Wait for the peer, which never reads."""

    def abort(self) -> None:
        """End at once."""
        self._connection.connection_lost(None)


@pytest.mark.parametrize("path", ["metrics", "wrong"])
async def test_client_that_does_not_take_its_last_answer_is_cut_off(world: World, path: str) -> None:
    """A few kilobytes that stay unread would keep a closing connection, and its place among those for metrics."""
    await serve(world)
    await scrape(world)
    served = world.node().metrics
    assert served is not None
    connection = world.call(1, HttpConnection, served)
    world.call(1, connection.connection_made, Unread(connection))
    world.call(1, connection.data_received, b"GET /%b HTTP/1.0\r\n\r\n" % path.encode())
    await world.later(endpoint.TAKEN_S - 1)
    assert connection in served.connections
    await world.later(2)

    assert connection not in served.connections
