"""Attacks by connections: opened and left, cut, slow, full of noise, or endlessly pipelined.

Storms play on each listener: of clients, of brokers, of metrics.
"""

import random
import struct
from collections.abc import Callable, Sequence
from typing import Final

from syncline.wire.api import CLIENT_VERSIONS, INTERNAL_VERSIONS, ApiKey
from tests.attack.case import Play, Size
from tests.attack.frames import frame, frame_of
from tests.attack.scene import Scene
from tests.attack.stream import Leaving, Stream
from tests.conformance.wire_client import request_frame, sized_frame

PortOf = Callable[[Scene], int]
SEED: Final = 1
HELLO: Final = frame(ApiKey.API_VERSIONS, 3, {"client_software_name": "x", "client_software_version": "y"})
# Between two bytes of a slow connection.
DRIPPING_S: Final = 0.1
TLS_HELLO: Final = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(600)
HTTP: Final = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"


def client_port(scene: Scene) -> int:
    """Where clients reach the controller."""
    return scene.controller_port


def internal_port(scene: Scene) -> int:
    """Where brokers reach the controller."""
    return scene.internal_ports[scene.controller]


def metrics_port(scene: Scene) -> int:
    """Where Prometheus reads the controller's metrics."""
    return scene.metrics_ports[scene.controller]


def storm(port_of: PortOf, leaving: Leaving) -> Play:
    """Connections that are made and left at once, `count` in each place, a few milliseconds apart."""

    def play(scene: Scene, size: Size) -> Sequence[Stream]:
        return [
            Stream(
                port=port_of(scene),
                data=[HELLO[:10]],
                connections=size.connections,
                rounds=size.count,
                pause_s=0.02,
                leaving=leaving,
            )
        ]

    return play


def half_open(scene: Scene, size: Size) -> Sequence[Stream]:
    """Connections that close their sending side inside a frame, or before the first byte, and stay."""
    cuts = [HELLO[:length] for length in (0, 2, 4, 11, len(HELLO) - 1)]
    return [
        Stream(
            port=scene.controller_port,
            data=cuts,
            connections=size.connections,
            hold_s=size.hold_s,
            half_closes=True,
        )
    ]


def dripping(scene: Scene, size: Size) -> Sequence[Stream]:
    """The first `count` bytes of a request, one by one, and then nothing."""
    return [
        Stream(
            port=scene.controller_port,
            data=[HELLO[: size.count]],
            connections=size.connections,
            chunk_bytes=1,
            pause_s=DRIPPING_S,
            hold_s=size.hold_s,
        )
    ]


def split_everywhere(scene: Scene, size: Size) -> Sequence[Stream]:
    """Two requests sent in two parts, cut at every byte in turn."""
    data = HELLO * 2
    lengths = range(1, len(data), max(1, len(data) // size.count))
    return [
        Stream(port=scene.controller_port, data=[data], chunk_bytes=length, pause_s=0.005, answers=2)
        for length in lengths
    ]


def noise(scene: Scene, size: Size) -> Sequence[Stream]:
    """`count` pieces of random bytes: bare, in a frame, or behind the header of a served API."""
    rng = random.Random(SEED)
    served = list(CLIENT_VERSIONS.items())
    data = []
    for _ in range(size.count):
        garbage = rng.randbytes(rng.randrange(1, 300))
        key, versions = rng.choice(served)
        with_header = frame_of(key, rng.randint(versions.min, versions.max), garbage)
        data.append(rng.choice((garbage, sized_frame(garbage), with_header)))
    return [Stream(port=scene.controller_port, data=data, connections=size.count, half_closes=True, hold_s=size.hold_s)]


def wrong_sizes(scene: Scene, size: Size) -> Sequence[Stream]:
    """Frames whose size is negative, zero, above the limit, or of which nothing follows."""
    sizes = (-1, -(2**31), 0, 1, 7, 2**31 - 1, 104_857_601, 104_857_600, 50 << 20)
    data = [struct.pack(">i", each) + bytes(filler) for each in sizes for filler in (0, 4, 5_000)]
    return [Stream(port=scene.controller_port, data=data, connections=size.count, hold_s=size.hold_s)]


def wrong_versions(scene: Scene, size: Size) -> Sequence[Stream]:
    """Each API in versions that are not served, and numbers that are no API; `count` of them."""
    data = [
        request_frame(key, version, 1, b"", client_id="x", header_version=2)
        for key, versions in INTERNAL_VERSIONS.items()
        for version in (-1, versions.min - 1, versions.max + 1, 32_767)
    ]
    data += [request_frame(key, 0, 1, b"", client_id="x", header_version=1) for key in (-1, 5, 999, 20_000, 32_767)]
    chosen = data[:: max(1, len(data) // size.count)]
    return [
        Stream(port=scene.controller_port, data=chosen, connections=len(chosen), half_closes=True, hold_s=size.hold_s)
    ]


def other_protocols(scene: Scene, size: Size) -> Sequence[Stream]:
    """A TLS hello and a request of HTTP on the ports of clients and brokers."""
    return [
        Stream(port=port, data=[TLS_HELLO, HTTP], connections=size.connections, hold_s=size.hold_s)
        for port in (client_port(scene), internal_port(scene))
    ]


def pipelined(key: ApiKey, version: int, *, reads: bool = True) -> Play:
    """`count` requests on each connection without waiting for an answer."""

    def play(scene: Scene, size: Size) -> Sequence[Stream]:
        fields = {"topics": None} if key is ApiKey.METADATA else {}
        data = frame(key, version, fields) * size.count
        return [
            Stream(
                port=scene.controller_port,
                data=[data],
                connections=size.connections,
                answers=size.count if reads else 0,
                reads=reads,
                hold_s=size.hold_s,
            )
        ]

    return play


def long_client_id(scene: Scene, size: Size) -> Sequence[Stream]:
    """The longest client id in every request."""
    hello = request_frame(ApiKey.API_VERSIONS, 0, 1, b"", client_id="c" * 32_767)
    return [
        Stream(port=scene.controller_port, data=[hello * size.count], connections=size.connections, answers=size.count)
    ]
