"""Attacks on the metrics endpoint: too many readers, requests that never end, answers that no client reads."""

from collections.abc import Sequence
from typing import Final

from tests.attack.abuse import metrics_port
from tests.attack.case import Size
from tests.attack.scene import Scene
from tests.attack.stream import Stream

GET: Final = b"GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
ODD: Final = (
    GET,
    b"GET /" + b"x" * 20_000 + b" HTTP/1.1\r\nHost: a\r\n\r\n",
    b"GET /metrics HTTP/1.1\r\n" + b"X: y\r\n" * 5_000 + b"\r\n",
    b"POST /metrics HTTP/1.1\r\nHost: a\r\nContent-Length: 100000000\r\n\r\n" + b"x" * 100_000,
    b"GET /metrics HTTP/9.9\r\n\r\n",
    b"\x00" * 10_000,
    b"\r\n" * 50_000,
    GET[:20],
)


def each_page(scene: Scene, size: Size) -> Sequence[Stream]:
    """One request for the page of each broker: it loads the code for that."""
    return [Stream(port=port, data=[GET], hold_s=size.hold_s) for port in scene.metrics_ports.values()]


def pipelined_pages(scene: Scene, size: Size) -> Sequence[Stream]:
    """`count` requests for the page on each connection, and their answers read."""
    return [_stream(scene, [GET * size.count], size, reads=True)]


def unread_pages(scene: Scene, size: Size) -> Sequence[Stream]:
    """`count` requests for the page on each connection, and nothing read."""
    return [_stream(scene, [GET * size.count], size, reads=False)]


def odd_requests(scene: Scene, size: Size) -> Sequence[Stream]:
    """Requests that are too long, of the wrong kind or cut."""
    return [_stream(scene, ODD, size, reads=True)]


def _stream(scene: Scene, data: Sequence[bytes], size: Size, *, reads: bool) -> Stream:
    return Stream(port=metrics_port(scene), data=data, connections=size.connections, reads=reads, hold_s=size.hold_s)
