"""Frames and what cannot be answered: sizes, unknown keys and versions, order on one connection."""

import struct
from typing import Any

from tests.conformance.apis import FETCH, METADATA
from tests.conformance.requests import fetch, metadata
from tests.conformance.steps import Action, Receive, Step, broker, leader, sequence, topic
from tests.conformance.wire_client import sized_frame


def _raw(data: bytes, **more: Any) -> Step:
    return Step(key=METADATA, version=1, raw=data, **more)


@sequence(-3, -1, 0, 3)
def frame_size(version: int) -> list[Action]:
    """A frame of a size that cannot hold a header closes the connection."""
    return [_raw(struct.pack(">i", version) + b"\0" * max(0, version))]


@sequence()
def frame_too_large(_: int) -> list[Action]:
    """A frame above socket.request.max.bytes closes its connection; others go on."""
    return [
        metadata(1, [], connection="other"),
        _raw(struct.pack(">i", 4 * 1024 * 1024 + 1) + b"\0" * 64),
        metadata(1, [], connection="other"),
    ]


@sequence()
def http_get(_: int) -> list[Action]:
    """A browser is disconnected."""
    return [_raw(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")]


@sequence()
def body_too_short(_: int) -> list[Action]:
    """A body that ends early closes the connection."""
    return [Step(key=METADATA, version=1, body=b"\0\0\0\1")]


@sequence()
def bytes_behind_the_body(_: int) -> list[Action]:
    """Bytes behind a whole body are ignored."""
    return [Step(key=METADATA, version=1, body={"topics": []}, suffix=b"\1\2\3\4")]


@sequence()
def no_client_id(_: int) -> list[Action]:
    """A null client id is fine."""
    return [Step(key=METADATA, version=1, body={"topics": []}, client_id=None)]


@sequence(999, -1, 4, 52, 56)
def unknown_key(key: int) -> list[Action]:
    """A key that is not served to clients closes the connection."""
    head = struct.pack(">hhih", key, 0, 1, -1)
    return [_raw(sized_frame(head + b"\0" * 16))]


@sequence(-1, 19, 99)
def fetch_version(version: int) -> list[Action]:
    """A version outside the advertised range closes the connection."""
    return [_raw(sized_frame(struct.pack(">hhih", FETCH, version, 1, -1) + b"\0" * 32))]


@sequence(2)
def produce_version(version: int) -> list[Action]:
    """Produce below v3 is advertised for old clients' sake, and closes the connection."""
    return [_raw(sized_frame(struct.pack(">hhih", 0, version, 1, -1) + b"\0" * 32))]


@sequence(t=topic((0,)))
def answers_in_order(_: int) -> list[Action]:
    """A request behind a parked one on the same connection is answered after it."""
    return [
        fetch(12, {"t": {0: 0}}, max_wait=400, hold=True),
        Step(key=METADATA, version=1, body={"topics": []}, to=leader("t"), hold=True),
        Receive(to=broker(0), waits_ms=400),
        Receive(to=broker(0), waits_ms=400),
    ]


@sequence()
def pipelined(_: int) -> list[Action]:
    """Many requests sent at once are answered in their order."""
    return [
        *(metadata(version, [], hold=True) for version in (1, 5, 9)),
        *(Receive() for _ in range(3)),
    ]
