"""The follower's throttle: what its fetches leave out, and how it comes back."""

from typing import Any

import pytest

from syncline.model.ids import TopicPartition
from syncline.node.replication.throttled import SHARES_MAX
from tests.node.throttle.quotas import (
    BATCH_BYTES,
    BROKER,
    FOLLOWER_LIST,
    FOLLOWER_RATE,
    MB,
    TOPIC,
    alter,
    fill,
    follower_quota,
    log_end,
    throttle,
)
from tests.node.world import World


async def restarted_behind(world: World, size_bytes: int, *, partitions: int = 1, **rates: Any) -> None:
    """Let broker 2 start with a backlog in partitions that broker 1 leads, and be throttled."""
    await world.topic(partitions=partitions, replicas=(1, 2))
    world.kill(2)
    await world.until(lambda: all(world.partition(1, "t", each).record.isr == (1,) for each in range(partitions)))
    await fill(world, size_bytes, partitions=partitions)
    await throttle(world, **rates)
    await world.start(2)


def held(world: World) -> list[int]:
    """Return the partitions that broker 2's next fetch from broker 1 leaves out."""
    throttled = world.fetcher(2, 1).throttled
    if throttled is None:
        return []
    return sorted(key.partition for group in throttled.held() for key, _ in group.replicas)


@pytest.mark.brokers(2)
async def test_t22_a_fetch_leaves_out_what_is_throttled_until_the_quota_allows_it(world: World) -> None:
    """p0 is forgotten by the session, p1 is fetched at full speed, and p0 continues where it stopped."""
    await restarted_behind(world, 8 * MB, partitions=2, follower=MB, items="0:2")
    await world.until(lambda: log_end(world, 2, "t", 1) == 40)
    fast_s = world.loop.time()
    copied = log_end(world, 2)
    await world.until(lambda: held(world) == [0])
    sessions = world.broker(1).fetching.sessions
    await world.until(lambda: sessions.partition_count == 1)
    forgotten_s = world.loop.time()
    await world.until(lambda: log_end(world, 2) == 40)

    assert copied <= 5
    assert (40 - copied) * BATCH_BYTES / (world.loop.time() - fast_s) == pytest.approx(MB, rel=0.06)
    assert world.loop.time() - forgotten_s > 2
    assert world.partition(2).log.log_end == world.partition(1).log.log_end == 40


@pytest.mark.brokers(2)
async def test_t23_a_replica_in_sync_stays_in_the_fetch(world: World) -> None:
    """The quota is 0, and records are committed by both as before; their bytes are counted."""
    await world.topic(replicas=(1, 2))
    await throttle(world, follower=0)
    await fill(world, MB)
    await world.until(lambda: world.partition().high_watermark == 10)
    clock = world.broker(2).clock

    assert held(world) == []
    assert follower_quota(world).is_exceeded(clock.mono_ms())
    assert follower_quota(world).rate(clock.mono_ms()) == MB


@pytest.mark.brokers(2)
async def test_h09_t23_of_two_listed_partitions_only_the_lagging_one_is_left_out(world: World) -> None:
    """Partition 0 has caught up when the quota becomes 0; partition 1 has not, and its records are held back."""
    await world.topic(partitions=2, replicas=(1, 2))
    world.kill(2)
    await world.until(lambda: all(world.partition(1, "t", each).record.isr == (1,) for each in range(2)))
    await fill(world, 4 * MB, partitions=2)
    await throttle(world, follower=MB, items="1:2")
    await world.start(2)
    await world.until(lambda: world.partition().record.isr == (1, 2))
    await throttle(world, follower=0)
    behind = log_end(world, 2, "t", 1)
    await fill(world, BATCH_BYTES)
    await world.until(lambda: world.partition().high_watermark == 21)

    assert held(world) == [1]
    assert log_end(world, 2, "t", 1) == behind < 20


@pytest.mark.brokers(2)
async def test_t23_a_replica_whose_lag_is_unknown_is_left_out(world: World) -> None:
    """From its very first fetch, if nothing may be received; it is no member, so nothing waits for it."""
    await restarted_behind(world, MB, follower=0)
    await world.later(3)

    assert held(world) == [0]
    assert (0, 0) == (log_end(world, 2), world.fetcher(2, 1).fetch_count)


@pytest.mark.brokers(3)
async def test_a_member_is_fetched_from_a_new_leader_whatever_the_quota_says(world: World) -> None:
    """Its lag is unknown there, but the new leader's watermark waits for it: it would leave the in-sync set."""
    await world.topic(replicas=(1, 2, 3))
    await throttle(world, follower=0)
    world.kill(1)
    await world.until(lambda: world.partition(2).leader is not None)
    await fill(world, MB, at=2)
    await world.until(lambda: world.partition(2).high_watermark == 10)

    assert world.partition(2).record.isr == (2, 3)


@pytest.mark.brokers(2)
async def test_t36_another_rate_applies_to_a_copy_that_waits(world: World) -> None:
    """At 1 B/s one batch passes, and its debt lasts for a day; at 20 MB/s the rest takes less than a second."""
    await restarted_behind(world, 6 * MB, follower=1)
    await world.later(5)
    slow = log_end(world, 2)
    began = world.loop.time()
    await alter(world, BROKER, "", {FOLLOWER_RATE: str(20 * MB)})
    await world.until(lambda: log_end(world, 2) == 60)

    assert slow <= 1
    assert world.loop.time() - began < 1.5


@pytest.mark.brokers(3)
async def test_t27_two_leaders_that_feed_one_broker_get_the_same(world: World) -> None:
    """The follower's rate limits: 6 MB from two leaders at 2 MB/s take 3 s, half of it from each at any time."""
    await world.topic("a", replicas=(1, 3))
    await world.topic("b", replicas=(2, 3))
    world.kill(3)
    await world.until(lambda: world.partition(1, "a").record.isr == (1,))
    await world.until(lambda: world.partition(2, "b").record.isr == (2,))
    await fill(world, 6 * MB, topic="a")
    await fill(world, 6 * MB, topic="b", at=2)
    await throttle(world, "a", follower=2 * MB)
    await throttle(world, "b", follower=2 * MB)
    await world.start(3)
    began = world.loop.time()
    await world.later(3)
    halves = [log_end(world, 3, topic) for topic in ("a", "b")]
    await world.until(lambda: log_end(world, 3, "a") == log_end(world, 3, "b") == 60)

    assert halves[0] == pytest.approx(halves[1], abs=6)
    assert world.loop.time() - began == pytest.approx(6, rel=0.06)


@pytest.mark.brokers(2)
async def test_a_share_without_data_is_waited_for(world: World) -> None:
    """The leader sends nothing at all, and the follower's quota has something left: some two fetches per second."""
    await restarted_behind(world, 2 * MB, partitions=2, leader=0, follower=100_000)
    await world.later(1)
    before = world.fetcher(2, 1).fetch_count
    await world.later(5)

    assert log_end(world, 2) == log_end(world, 2, "t", 1) == 0
    assert world.fetcher(2, 1).fetch_count - before <= 15


@pytest.mark.brokers(2)
async def test_few_partitions_share_a_large_quota_at_once_and_all_arrive(world: World) -> None:
    """A gigabyte is not shared among all in one callback; those that have to wait follow request by request."""
    partitions = SHARES_MAX + 40
    await restarted_behind(world, partitions * BATCH_BYTES, partitions=partitions, follower=1_000 * MB)
    shared = []

    def is_copied() -> bool:
        throttled = world.fetcher(2, 1).throttled
        shared.append(0 if throttled is None else sum(len(queue.shares) for queue in throttled._queues.values()))
        return all(log_end(world, 2, "t", each) == 1 for each in range(partitions))

    await world.until(is_copied)

    assert max(shared) == SHARES_MAX


@pytest.mark.brokers(2)
async def test_partitions_without_data_keep_a_large_quota_from_others_for_milliseconds(world: World) -> None:
    """Those that lack nothing are asked for first, as nobody knows that yet; a fetch waits half a second otherwise."""
    partitions = 3 * SHARES_MAX
    await restarted_behind(world, 0, partitions=partitions, follower=1_000 * MB)
    fetcher = world.fetcher(2, 1)
    await world.until(lambda: fetcher.fetch_count)
    began_s = world.loop.time()
    await world.until(lambda: fetcher.throttled is None or not fetcher.throttled.held_count)

    assert world.loop.time() - began_s < 0.2


@pytest.mark.brokers(2)
async def test_throttling_ends_with_the_lists(world: World) -> None:
    """What was left out is fetched at once, and nothing is asked of throttles any more."""
    await restarted_behind(world, MB, follower=0)
    await world.later(1)
    before = (held(world), world.fetcher(2, 1).throttled is not None)
    await alter(world, TOPIC, "t", {FOLLOWER_LIST: None})
    await world.until(lambda: log_end(world, 2) == 10)

    assert ([0], True) == before
    assert world.fetcher(2, 1).throttled is None
    assert TopicPartition("t", 0) not in world.broker(2).throttles.follower.lists


@pytest.mark.brokers(2)
async def test_a_lost_connection_takes_its_promises_along(world: World) -> None:
    """The leader dies with the request; after its return the whole allowance is there."""
    await restarted_behind(world, 3 * MB, follower=MB)
    await world.until(lambda: log_end(world, 2) > 0)
    world.kill(1)
    await world.later(2)
    quota = follower_quota(world)

    assert quota.allowance_bytes(world.broker(2).clock.mono_ms()) == MB // 2


@pytest.mark.brokers(3)
async def test_lists_without_a_rate_hold_nothing_back(world: World) -> None:
    """Nor do fetches from two leaders take turns then; a rate that is set, and removed, applies to them at once."""
    for topic, leader in (("t", 1), ("u", 2)):
        await world.topic(topic, replicas=(leader, 3))
        await alter(world, TOPIC, topic, {FOLLOWER_LIST: "*"})
    world.kill(3)
    await world.until(lambda: world.partition(1).record.isr == (1,) and world.partition(2, "u").record.isr == (2,))
    for topic, leader in (("t", 1), ("u", 2)):
        await fill(world, 4 * MB, topic=topic, at=leader)
    await world.start(3)
    began_s = world.loop.time()
    await world.until(lambda: log_end(world, 3) == log_end(world, 3, "u") == 40)
    took_s = world.loop.time() - began_s
    quotas = [fetcher.throttled.held_count for fetcher in world.broker(3).replicas.fetchers.by_leader.values()]

    assert took_s < 0.5
    assert not any(quotas)
