"""The windows of commits at a group's coordinator."""

import asyncio

from syncline.core.lag.commit_slab import CommitSlab
from syncline.model.ids import OFFSETS_TOPIC, TopicPartition
from syncline.node.lag.commits import Commits
from syncline.node.lag.ends import KnownEnds
from syncline.wire.api import ApiKey
from tests.node.lag.groups import commit, coordinator_of
from tests.node.world import World


def _offsets(slab: CommitSlab | None, partition: int = 0) -> list[int]:
    """Return the offsets of a window."""
    slot = None if slab is None else slab.find("t", partition)
    if slab is None or slot is None:
        return []
    return [each.offset for each in slab.commits(slot) if each is not None]


def test_group_is_forgotten_with_its_last_commit() -> None:
    """What a client can name costs nothing for longer than its commits are kept."""
    commits = Commits(KnownEnds(10), intervals=10, min_distance_ms=0)
    term = commits.term_began(3)
    term.stored("g", "t", 0, 5, 1_000)
    term.stored("g", "t", 1, 6, 1_000)

    term.forgotten("g", "t", 0)
    one_left = _offsets(commits.slab("g"), 1)
    term.forgotten("g", "t", 1)
    term.forgotten("g", "t", 1)
    term.forgotten("unknown", "t", 1)

    assert one_left == [6]
    assert commits.slab("g") is None
    assert commits.size_bytes == 0


def test_next_coordinator_has_the_same_windows_and_the_last_one_has_none() -> None:
    """Guards against statuses that begin anew with each election, and against two brokers that report one group."""
    world = World(brokers=3, offsets_topic_num_partitions=4)

    async def scene() -> None:
        await world.topic("t", 2)
        first = await coordinator_of(world, "g")
        for offset in range(12):
            await commit(world, first, "g", {("t", 0): offset, ("t", 1): 2 * offset})
        before = _offsets(world.broker(first).lag.commits.slab("g"))
        assert before == list(range(2, 12))
        world.kill(first)
        await world.until(lambda: world.broker(world.living()[0]).image.brokers[first].fenced)
        second = await coordinator_of(world, "g")
        assert second != first
        assert _offsets(world.broker(second).lag.commits.slab("g")) == before
        assert _offsets(world.broker(second).lag.commits.slab("g"), 1) == [2 * offset for offset in before]
        # The term ends with the leadership.
        await world.start(first)
        index = world.broker(second).groups.partition_of("g")
        key = TopicPartition(OFFSETS_TOPIC, index)
        await world.until(lambda: len(world.broker(second).partitions[key].isr or ()) == 3)
        client = await world.client(second)
        await client.ask(
            ApiKey.ELECT_LEADERS,
            2,
            election_type=0,
            topic_partitions=[{"topic": OFFSETS_TOPIC, "partitions": [index]}],
            timeout=5_000,
        )
        await world.until(lambda: not world.broker(second).partitions[key].is_leader)
        await asyncio.sleep(0.1)
        assert world.broker(second).lag.commits.slab("g") is None
        assert _offsets(world.broker(first).lag.commits.slab("g")) == before

    world.run(scene)
