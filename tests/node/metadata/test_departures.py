"""What Metadata reports about brokers that have just died."""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from syncline.node.loop.deadlines import Deadlines
from syncline.node.metadata.departures import DOUBT_MS, LISTED_MS, Departures
from syncline.wire.api import ApiKey
from tests.node.world import World


@dataclass
class Watch:
    """A clock that is set by hand."""

    now_ms: int = 0

    def mono_ms(self) -> int:
        """Return the set time."""
        return self.now_ms

    def wall_ms(self) -> int:
        """Return the set time."""
        return self.now_ms


@pytest.fixture
def departures() -> Iterator[Departures]:
    """Return departures that `expired` moves through time."""
    loop = asyncio.new_event_loop()
    watch = Watch()
    deadlines = Deadlines(loop, watch)
    yield Departures(watch, deadlines)
    deadlines.close()
    loop.close()


def test_departures_doubt_a_leader_for_a_moment_when_its_connection_broke(departures: Departures) -> None:
    """A doubt ends by itself, and requests that wait for it continue: a connection can break without a death."""
    resumed: list[int] = []
    departures.connection_broke(2)
    departures.when_doubt_ends(lambda: resumed.append(2))
    assert (departures.doubted, resumed) == ({2}, [])
    departures.expired(DOUBT_MS)
    assert (departures.doubted, resumed) == (frozenset(), [2])


def test_departures_trust_a_leader_again_when_it_answers(departures: Departures) -> None:
    """An answer proves that the process is alive, and nothing about another leader."""
    resumed: list[int] = []
    departures.connection_broke(2)
    departures.connection_broke(3)
    departures.when_doubt_ends(lambda: resumed.append(2))
    departures.answered(1)
    assert resumed == []
    departures.answered(2)
    assert (departures.doubted, resumed) == ({3}, [2])


def test_departures_keep_a_fenced_broker_listed_for_some_seconds(departures: Departures) -> None:
    """Its clients move their partitions first and drop the broker later; Metadata no longer waits for a verdict."""
    resumed: list[int] = []
    departures.connection_broke(1)
    departures.when_doubt_ends(lambda: resumed.append(1))
    departures.fenced(1)
    assert (departures.just_fenced, departures.doubted, resumed) == ({1}, frozenset(), [1])
    departures.expired(LISTED_MS - 1)
    assert departures.just_fenced == {1}
    departures.expired(LISTED_MS)
    assert departures.just_fenced == frozenset()


ASK = {
    "topics": [{"topic_id": None, "name": "t"}],
    "allow_auto_topic_creation": False,
    "include_topic_authorized_operations": False,
}


@pytest.mark.brokers(3)
async def test_metadata_names_the_next_leader_when_it_is_asked_while_the_old_one_dies(world: World) -> None:
    """The answer waits for the election, and the dead broker is still listed."""
    await world.topic(replicas=(1, 2, 3))
    client = await world.client(2)
    world.kill(1)
    await world.until(lambda: world.broker(2).describing.departures.doubted)
    answer = await client.ask(ApiKey.METADATA, 12, **ASK)

    (row,) = answer.topics[0].partitions
    assert (row.leader_id in (2, 3), row.leader_epoch) == (True, 1)
    assert {each.node_id for each in answer.brokers} == {1, 2, 3}
    await world.later(LISTED_MS / 1000 + 0.1)
    answer = await client.ask(ApiKey.METADATA, 12, **ASK)
    assert {each.node_id for each in answer.brokers} == {2, 3}


@pytest.mark.brokers(3)
async def test_metadata_names_the_same_leader_when_only_a_connection_broke(world: World) -> None:
    """A Metadata request meanwhile waits for a moment, not for a session time-out."""
    await world.topic(replicas=(1, 2, 3))
    client = await world.client(2)
    world.call(2, world.broker(2).describing.departures.connection_broke, 1)
    answer = await client.ask(ApiKey.METADATA, 12, **ASK)

    assert (answer.topics[0].partitions[0].leader_id, world.broker(2).describing.departures.doubted) == (1, frozenset())
