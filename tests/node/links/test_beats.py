"""Beats: a few bytes without an answer, which only brokers may send, and which cost no other connection."""

import struct

import pytest

from syncline.model.events import Event, Observation
from syncline.model.ids import BrokerId
from syncline.node.counting.episodes import Episodes
from syncline.wire.api import ApiKey
from syncline.wire.response_header import BEAT, BEAT_FRAME
from tests.node.links.test_peer import ask, connect, silent
from tests.node.world import World

two = pytest.mark.brokers(2, journal_enable="true")


async def test_beat_of_a_leader_is_counted_between_answers(world: World) -> None:
    """A beat answers no request, and the answers around it match their requests."""
    peer, _ = await connect(lambda server: (server.transport.write(BEAT_FRAME), server.send(server.ids[-1], b"yes")))

    assert await ask(peer) == b"yes"
    assert peer.beats_heard == 1
    assert peer.is_open


async def test_answer_that_nobody_asked_for_still_ends_the_connection(world: World) -> None:
    """Only the one id that means a beat is free."""
    peer, server = await connect(silent)
    server.send(BEAT - 1)
    await world.later(0.1)

    assert not peer.is_open


@two
async def test_beat_of_a_follower_is_answered_by_a_beat_and_holds_nobody_up(world: World) -> None:
    """Requests before and after it are answered in order."""
    client = await world.peer()
    first = client.send(ApiKey.API_VERSIONS, 0)
    client.send(ApiKey.PEER_BEAT, 0, struct.pack(">i", 2))
    last = client.send(ApiKey.API_VERSIONS, 0)

    assert await client.body(first) == await client.body(last)
    assert BEAT in client.answers


@two
@pytest.mark.parametrize("body", [b"", b"abc", b"\0\0\0\2more"])
async def test_malformed_beat_ends_its_connection_only(world: World, body: bytes) -> None:
    """As any malformed request does."""
    client, other = await world.peer(), await world.peer()
    client.send(ApiKey.PEER_BEAT, 0, body)
    await world.later(0.1)

    assert client.is_lost
    assert await other.body(other.send(ApiKey.API_VERSIONS, 0))


@two
async def test_beat_is_nothing_that_clients_may_send(world: World) -> None:
    """The client listener does not know the key."""
    client = await world.client()
    client.send(ApiKey.PEER_BEAT, 0, struct.pack(">i", 2))
    await world.later(0.1)

    assert client.is_lost


@two
async def test_made_up_replica_is_not_remembered(world: World) -> None:
    """A connection that beats as broker 4711 costs nothing."""
    client = await world.peer()
    client.send(ApiKey.PEER_BEAT, 0, struct.pack(">i", 4711))
    await world.later(0.1)

    views = world.broker().observer.followers.views(0)
    assert 4711 not in [view["broker"] for view in views]


@two
async def test_answer_on_a_line_that_was_left_is_no_answer(world: World) -> None:
    """A follower that came back on another connection waits for its answer there, whatever an old read still brings."""
    followers = world.broker().observer.followers
    old, new = object(), object()
    followers.fetched(2, old, 1_000)  # type: ignore[arg-type]
    followers.fetched(2, new, 2_000)  # type: ignore[arg-type]

    followers.answered(2, old)  # type: ignore[arg-type]
    assert followers.last_fetch(2) == (2_000, True)
    followers.answered(2, new)  # type: ignore[arg-type]
    assert followers.last_fetch(2) == (2_000, False)


class HandClock:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.now_ms = 0

    def mono_ms(self) -> int:
        """Return the time that the test set."""
        return self.now_ms

    def wall_ms(self) -> int:
        """Return a Unix time that moves with the clock."""
        return 1_700_000_000_000 + self.now_ms


def test_long_condition_is_told_ever_more_seldom() -> None:
    """An hour costs a dozen events; its end names the same beginning."""
    told: list[Event] = []
    clock = HandClock()
    episodes = Episodes(BrokerId(1), clock, told.append)
    for clock.now_ms in range(0, 3_600_000, 1_000):
        episodes.hold("x", "leader-silent", 2, 0, dict)
    episodes.end("x")
    episodes.end("x")
    seen = [event for event in told if isinstance(event, Observation)]

    assert [each.phase for each in seen] == ["begin", *["ongoing"] * (len(told) - 2), "end"]
    assert 10 <= len(seen) <= 14
    assert {each.since_ms for each in seen} == {1_700_000_000_000}
    assert seen[-1].lasted_ms == 3_599_000
