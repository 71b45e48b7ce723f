"""Leaders that feed one follower under one quota: each gets the same, also when its fetches come back late (T-27)."""

from functools import partial

import pytest

from syncline.core.throttle.quota import Quota
from syncline.model.ids import BrokerId, TopicPartition
from syncline.node.throttle.moves import Moving
from syncline.virtual.time.durations import MS
from tests.node.throttle.quotas import BATCH_BYTES, MB, fill, log_end, throttle
from tests.node.world import World

TOPICS = {1: ("a0", "a1", "a2"), 2: ("b0", "b1", "b2")}


def is_alone(world: World, leader: int, topic: str) -> bool:
    """Return whether a leader is the only member of its in-sync set."""
    return world.partition(leader, topic).record.isr == (leader,)


async def fed_by_two(world: World, size_bytes: int, *, quota: int) -> None:
    """Let brokers 1 and 2 lead what broker 3 lacks, so much from each, and something that it follows without lag."""
    for leader, topics in TOPICS.items():
        for topic in (*topics, f"idle-{leader}"):
            await world.topic(topic, replicas=(leader, 3))
    world.kill(3)
    for leader, topics in TOPICS.items():
        for topic in topics:
            await world.until(partial(is_alone, world, leader, topic))
            await fill(world, size_bytes // len(topics), topic=topic, at=leader)
            await throttle(world, topic, follower=quota)
    await world.start(3)
    await world.later(2)


async def copied(world: World, seconds: float) -> list[int]:
    """Return how many bytes broker 3 gets from each leader in some time."""

    def now() -> list[int]:
        return [sum(log_end(world, 3, topic) for topic in topics) * BATCH_BYTES for topics in TOPICS.values()]

    before = now()
    await world.later(seconds)
    return [after - then for after, then in zip(now(), before, strict=True)]


def delay(world: World, leader: int, extra_ms: int) -> None:
    """Make what passes between a leader and broker 3 arrive up to so much later."""
    world.network.delay(f"broker-{leader}", "broker-3", extra_ms * MS)
    world.network.delay("broker-3", f"broker-{leader}", extra_ms * MS)


@pytest.mark.brokers(3)
@pytest.mark.parametrize("late", [1, 2])
async def test_t27_a_leader_whose_answers_come_late_gets_as_much(world: World, late: int) -> None:
    """10 ms later than the other's, which could ask for the rest of the quota many times meanwhile."""
    delay(world, late, 10)
    await fed_by_two(world, 9 * MB, quota=MB)
    parts = await copied(world, 6)

    assert sum(parts) == pytest.approx(6 * MB, rel=0.05)
    assert parts[0] == pytest.approx(parts[1], rel=0.1)


@pytest.mark.brokers(3)
@pytest.mark.parametrize("late", [1, 2])
async def test_t27_batches_larger_than_the_quota_come_from_both(world: World, late: int) -> None:
    """One batch a second empties the bucket: next time it is the other's turn, and one waits for it."""
    delay(world, late, 10)
    await fed_by_two(world, 3 * MB, quota=BATCH_BYTES)
    parts = await copied(world, 20)

    assert sum(parts) == pytest.approx(20 * BATCH_BYTES, rel=0.1)
    assert parts[0] == pytest.approx(parts[1], abs=2 * BATCH_BYTES)


@pytest.mark.brokers(3)
async def test_what_a_silent_leader_leaves_is_used_by_the_other(world: World) -> None:
    """Nobody waits for it twice."""
    await fed_by_two(world, 9 * MB, quota=MB)
    for source, target in (("broker-2", "broker-3"), ("broker-3", "broker-2")):
        world.network.cut(source, target)
    await world.later(1)
    parts = await copied(world, 4)

    assert parts == [pytest.approx(4 * MB, rel=0.1), 0]


@pytest.mark.brokers(3)
async def test_what_a_throttled_leader_leaves_is_used_by_the_other(world: World) -> None:
    """It sends nothing, because its own quota lets nothing pass: its turns bring nothing."""
    await fed_by_two(world, 9 * MB, quota=MB)
    for topic in TOPICS[2]:
        await throttle(world, topic, leader=0)
    await world.later(1)
    parts = await copied(world, 4)

    assert parts == [pytest.approx(4 * MB, rel=0.1), 0]


class Waiter:
    """Waits for one quota, and uses all of it whenever it is called."""

    def __init__(self, world: World, quota: Quota) -> None:
        self._world = world
        self._quota = quota
        self.called = 0

    def throttle_opened(self) -> None:
        """Use what there is."""
        self.called += 1
        now_ms = self._world.broker().clock.mono_ms()
        self._quota.record(self._quota.allowance_bytes(now_ms), now_ms)


@pytest.mark.brokers(1)
async def test_a_fetch_is_called_only_when_a_quota_of_its_own_opens(world: World) -> None:
    """There may be hundreds of moves, each with a quota that opens twice per second."""
    leader = world.broker().throttles.leader
    key = TopicPartition("t", 0)
    for name in ("quick", "slow"):
        leader.set_moving(key._replace(topic=name), Moving(name, MB, (BrokerId(2),)))
    leader.changed()
    quick, slow = (Waiter(world, leader.states[name].quota) for name in ("quick", "slow"))
    leader.states["slow"].quota.record(100 * MB, world.broker().clock.mono_ms())
    for waiter, name in ((quick, "quick"), (slow, "slow")):
        world.call(1, leader.wait, waiter, (leader.states[name].quota,))
    await world.later(3)
    called = quick.called, slow.called
    # Whatever is changed concerns all.
    world.call(1, leader.wake)
    for waiter in (quick, slow):
        leader.forget(waiter)
    for name in ("quick", "slow"):
        leader.set_moving(key._replace(topic=name), None)
    leader.changed()

    assert called == (6, 0)
    assert slow.called == 1
