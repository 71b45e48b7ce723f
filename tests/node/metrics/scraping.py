"""Reading a broker's metrics as Prometheus would, within a world."""

import asyncio
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from syncline.node.node import Listen
from tests.node.world import World

METRICS_PORT = 9094
GET = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n"


class Samples:
    """The content of a page; the parser refuses pages that break the format."""

    def __init__(self, text: str) -> None:
        self.families = {family.name: family for family in text_string_to_metric_families(text)}
        self._values = {
            (sample.name, frozenset(sample.labels.items())): sample.value
            for family in self.families.values()
            for sample in family.samples
        }

    def __getitem__(self, name: str) -> float:
        return self.of(name)

    def of(self, name: str, **labels: Any) -> float:
        """Return the value of one sample."""
        return self._values[name, frozenset((label, str(value)) for label, value in labels.items())]

    def has(self, name: str, **labels: Any) -> bool:
        """Return whether there is such a sample."""
        return (name, frozenset((label, str(value)) for label, value in labels.items())) in self._values

    def all_of(self, name: str) -> dict[tuple[str, ...], float]:
        """Return the values of a name by its labels' values."""
        return {
            tuple(sample.labels.values()): sample.value
            for family in self.families.values()
            for sample in family.samples
            if sample.name == name
        }


class HttpClient(asyncio.Protocol):
    """One connection that sends what a test wants, and keeps the answers."""

    def __init__(self) -> None:
        self.received = bytearray()
        self.is_lost = False
        self.has_ended = False
        self.transport: Any = None

    @classmethod
    async def connect(cls, broker_id: int = 1) -> "HttpClient":
        """Return an open connection to a broker's metrics."""
        loop = asyncio.get_running_loop()
        _, client = await loop.create_connection(cls, f"broker-{broker_id}", METRICS_PORT)
        return client

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take the transport."""
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        """Keep the data."""
        self.received += data

    def eof_received(self) -> bool:
        """Record that the other side has sent everything; stay open."""
        self.has_ended = True
        return True

    def connection_lost(self, exc: Exception | None) -> None:
        """Record that the connection is closed."""
        self.is_lost = True

    @property
    def is_over(self) -> bool:
        """Whether the other side has ended."""
        return self.is_lost or self.has_ended

    def send(self, data: bytes) -> None:
        """Send data."""
        self.transport.write(data)

    def close(self) -> None:
        """Close the connection."""
        self.transport.close()

    def take(self) -> tuple[int, dict[str, str], bytes] | None:
        """Return (status, headers, body) of the next whole answer, None as long as there is none."""
        head, separator, rest = bytes(self.received).partition(b"\r\n\r\n")
        if not separator:
            return None
        status_line, *lines = head.decode("latin-1").split("\r\n")
        assert status_line.startswith("HTTP/1.1 ")
        headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
        size_bytes = int(headers["content-length"])
        if len(rest) < size_bytes:
            return None
        del self.received[: len(head) + 4 + size_bytes]
        return int(status_line.split(" ")[1]), headers, rest[:size_bytes]


async def serve(world: World, broker_id: int = 1) -> None:
    """Open a broker's metrics listener."""
    where = Listen(host=f"broker-{broker_id}", port=METRICS_PORT)
    await world.as_broker(broker_id, world.node(broker_id).serve_metrics(where))


async def ask(world: World, client: HttpClient, request: bytes) -> tuple[int, dict[str, str], bytes]:
    """Return the answer to a request."""
    client.send(request)
    answers: list[tuple[int, dict[str, str], bytes]] = []

    def is_answered() -> bool:
        answer = client.take()
        if answer is not None:
            answers.append(answer)
        return bool(answers)

    await world.until(is_answered)
    return answers[0]


async def scrape(world: World, broker_id: int = 1, exporter: str = "") -> Samples:
    """Return a broker's current metrics, or those that it serves for another exporter, from a new page."""
    await world.later(1.1)
    try:
        client = await HttpClient.connect(broker_id)
    except ConnectionRefusedError:
        await serve(world, broker_id)
        client = await HttpClient.connect(broker_id)
    request = GET.replace(b"/metrics", b"/metrics/" + exporter.encode()) if exporter else GET
    status, headers, body = await ask(world, client, request)
    client.close()
    assert (status, headers["content-type"]) == (200, "text/plain; version=0.0.4; charset=utf-8")
    return Samples(body.decode())
