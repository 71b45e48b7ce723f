"""Connections to other brokers: every request ends, whatever the other side does."""

import asyncio
import gc
import struct
from collections.abc import Callable

import pytest

from syncline.node.links.peer import CONNECT_TIMEOUT_S, PeerConnection, PeerLost
from syncline.wire.api import ApiKey
from syncline.wire.codec import request_type
from syncline.wire.entities import build
from syncline.wire.errors import DecodeError
from tests.node.world import World

PORT = 7000


class Answerer(asyncio.Protocol):
    """A server that handles the requests of a connection as a test says."""

    def __init__(self, answer: Callable[["Answerer"], None]) -> None:
        self._answer = answer
        self._received = bytearray()
        self.ids: list[int] = []
        self.transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take the transport."""
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        """Take whole requests, then let the test answer."""
        self._received += data
        while len(self._received) >= 4:
            size = struct.unpack_from(">i", self._received)[0]
            if len(self._received) < 4 + size:
                return
            self.ids.append(struct.unpack_from(">i", self._received, 8)[0])
            del self._received[: 4 + size]
        self._answer(self)

    def send(self, correlation_id: int, body: bytes = b"") -> None:
        """Send an answer."""
        self.transport.write(struct.pack(">ii", 4 + len(body), correlation_id) + body)


async def connect(
    answer: Callable[[Answerer], None], on_lost: Callable[[], None] | None = None
) -> tuple[PeerConnection, Answerer]:
    """Return a connection to a server that does as `answer` says, and the server's side of it."""
    servers: list[Answerer] = []

    def accept() -> Answerer:
        servers.append(Answerer(answer))
        return servers[-1]

    await asyncio.get_running_loop().create_server(accept, "world", PORT)
    peer = await PeerConnection.connect("world", PORT, "test", on_lost)
    return peer, servers[0]


def silent(_server: Answerer) -> None:
    """Answer nothing."""


async def ask(peer: PeerConnection) -> bytes:
    """Send a request whose answer has no tagged fields in its header."""
    return await peer.request_raw(ApiKey.API_VERSIONS, 0, (b"",))


async def test_peer_gives_each_request_its_answer_when_they_come_in_another_order(world: World) -> None:
    """The correlation id matches answers with requests."""

    def backwards(server: Answerer) -> None:
        if len(server.ids) == 3:
            for correlation_id in reversed(server.ids):
                server.send(correlation_id, bytes([correlation_id]))

    peer, _ = await connect(backwards)
    answers = await asyncio.gather(*(ask(peer) for _ in range(3)))

    assert answers == [b"\0", b"\1", b"\2"]


@pytest.mark.parametrize(
    "end",
    [
        pytest.param(lambda server: server.transport.abort(), id="reset"),
        pytest.param(lambda server: server.transport.close(), id="closed"),
        pytest.param(lambda server: server.send(99), id="an-answer-to-no-request"),
        pytest.param(lambda server: server.transport.write(struct.pack(">i", -5)), id="a-negative-size"),
        pytest.param(lambda server: server.transport.write(struct.pack(">i", 1 << 30)), id="a-frame-too-large"),
        pytest.param(lambda server: server.transport.write(struct.pack(">ih", 2, 0)), id="no-correlation-id"),
    ],
)
async def test_peer_ends_every_request_once_when_the_connection_breaks(
    world: World, end: Callable[[Answerer], None]
) -> None:
    """Requests that wait fail, in order, and the owner is called; later requests are refused at once."""

    def break_off(server: Answerer) -> None:
        if len(server.ids) == 3:
            end(server)

    told: list[str] = []
    peer, _ = await connect(break_off, lambda: told.append("lost"))
    for name in ("a", "b", "c"):
        peer.send(ApiKey.API_VERSIONS, 0, (b"",), lambda frame, _, name=name: told.append(f"{name} {frame}"))
    await world.until(lambda: not peer.is_open)
    await world.later(1)

    assert told == ["a None", "b None", "c None", "lost"]
    with pytest.raises(PeerLost, match="closed"):
        await ask(peer)


@pytest.mark.parametrize("closes_first", [False, True])
async def test_request_with_a_malformed_answer_ends_as_those_behind_it_do(world: World, *, closes_first: bool) -> None:
    """An ISR proposal whose answer could not be read was in flight for ever, and the partition made no other."""
    told: list[str] = []
    peer, _ = await connect(lambda server: server.send(server.ids[0]) if len(server.ids) == 2 else None)

    def unreadable(frame: memoryview | None, _position: int) -> None:
        told.append("first answered" if frame is not None else "first lost")
        if frame is not None:
            if closes_first:
                peer.close()
            raise DecodeError("no answer has this form")

    peer.send(ApiKey.API_VERSIONS, 0, (b"",), unreadable)
    peer.send(ApiKey.API_VERSIONS, 0, (b"",), lambda frame, _: told.append("second lost" if frame is None else ""))
    await world.until(lambda: len(told) == 3)

    assert sorted(told) == ["first answered", "first lost", "second lost"]
    assert not peer.is_open


async def test_peer_ends_requests_when_it_is_closed_here(world: World) -> None:
    """When the owner closes it, requests that wait fail, and the owner is called once."""
    lost: list[None] = []
    peer, _ = await connect(silent, lambda: lost.append(None))
    waiting = asyncio.ensure_future(ask(peer))
    await world.later(0.1)
    peer.close()
    peer.close()

    with pytest.raises(PeerLost, match="broke"):
        await waiting
    assert len(lost) == 1


async def test_peer_ends_a_request_when_its_answer_is_malformed(world: World) -> None:
    """An entity that cannot be read is a lost peer, and the connection is not used again."""
    peer, _ = await connect(lambda server: server.send(server.ids[-1], b"\x00"))
    entity = build(request_type(ApiKey.BROKER_HEARTBEAT, 1), heartbeat())

    with pytest.raises(PeerLost, match="malformed"):
        await peer.request(ApiKey.BROKER_HEARTBEAT, 1, entity)
    assert not peer.is_open


def heartbeat() -> dict[str, object]:
    """Return the fields of a heartbeat."""
    return {
        "broker_id": 1,
        "broker_epoch": 1,
        "current_metadata_offset": 1,
        "want_fence": False,
        "want_shut_down": False,
        "offline_log_dirs": (),
    }


async def test_peer_leaves_others_alone_when_a_cancelled_request_is_answered(world: World) -> None:
    """A caller that gave up misses its answer, and no other caller does."""
    kept: list[Answerer] = []
    peer, _ = await connect(kept.append)
    given_up, waiting = asyncio.ensure_future(ask(peer)), asyncio.ensure_future(ask(peer))
    await world.until(lambda: kept and len(kept[0].ids) == 2)
    given_up.cancel()
    for correlation_id in kept[0].ids:
        kept[0].send(correlation_id, b"x")

    assert await waiting == b"x"
    assert peer.is_open


async def test_request_whose_coroutine_was_closed_complains_of_nothing(world: World) -> None:
    """Guards: "exception was never retrieved" when a killed process was taken apart, which closes its coroutines."""
    peer, _ = await connect(silent)
    complaints: list[object] = []
    world.loop.set_exception_handler(lambda _, context: complaints.append(context["message"]))
    asking = peer.request_raw(ApiKey.METADATA, 12, (b"",))
    asking.send(None)
    asking.close()
    peer.close()
    gc.collect()

    assert complaints == []


async def test_peer_is_lost_when_nobody_listens(world: World) -> None:
    """A refusal is immediate."""
    began = world.loop.time()

    with pytest.raises(PeerLost, match="refused"):
        await PeerConnection.connect("world", PORT, "test")
    assert world.loop.time() - began < 0.01


async def test_peer_is_lost_when_nobody_answers_in_time(world: World) -> None:
    """A host behind a cut connection answers nothing at all; connecting ends after ten seconds."""
    world.network.cut("world", "broker-1")
    began = world.loop.time()

    with pytest.raises(PeerLost):
        await PeerConnection.connect("broker-1", 9093, "test")
    assert world.loop.time() - began == pytest.approx(CONNECT_TIMEOUT_S)
    world.network.heal("world", "broker-1")
