"""Copying under a throttle, from broker to broker, in virtual time: what arrives when, to the batch."""

from collections.abc import Callable

import pytest

from tests.node.throttle.quotas import (
    BATCH_BYTES,
    BROKER,
    LEADER_RATE,
    MB,
    alter,
    batch_of,
    fill,
    follower_quota,
    leader_quota,
    log_end,
    throttle,
)
from tests.node.world import World


async def left_behind(world: World, size_bytes: int, *, partitions: int = 1, out: int = 2) -> None:
    """Fill partitions that broker 1 leads while broker 2 is dead."""
    await world.topic(partitions=partitions, replicas=(1, out))
    world.kill(out)
    await world.until(lambda: all(world.partition(1, "t", each).record.isr == (1,) for each in range(partitions)))
    await fill(world, size_bytes, partitions=partitions)


async def arrivals(world: World, done: Callable[[], bool], *, partitions: int = 1) -> list[tuple[float, int]]:
    """Return at which time since now how many bytes broker 2 has, until something is done."""
    began, found = world.loop.time(), [(0.0, 0)]
    while not done():
        await world.later(0.01)
        copied = sum(log_end(world, 2, "t", each) for each in range(partitions)) * BATCH_BYTES
        if copied != found[-1][1]:
            found.append((world.loop.time() - began, copied))
    return found


def most_within(found: list[tuple[float, int]], window_s: float) -> int:
    """Return the most bytes that arrived within any time so long."""
    return max(
        last - max(size for at, size in found if at <= end - window_s or not size) for end, last in found if last
    )


@pytest.mark.brokers(2)
@pytest.mark.parametrize("role", ["leader", "follower"])
async def test_t24_a_strict_quota_is_kept_over_the_run_and_in_each_window(world: World, role: str) -> None:
    """10 MB at 1 MB/s: 97 % of the quota and more, in no 10 s more than 105 %, in no second more than twice as much."""
    await left_behind(world, 10 * MB)
    await throttle(world, **{role: MB})
    await world.start(2)
    found = await arrivals(world, lambda: world.partition().record.isr == (1, 2))

    assert (leader_quota(world).promised_bytes, follower_quota(world).promised_bytes) == (0, 0)
    assert 9.8 <= found[-1][0] <= 10.3
    assert most_within(found, 1) <= 1.5 * MB
    assert all(copied <= MB * at + MB // 2 + BATCH_BYTES for at, copied in found)
    assert world.fetcher(2, 1).fetch_count < 35


@pytest.mark.brokers(2)
async def test_t24_many_partitions_under_both_quotas(world: World) -> None:
    """100 partitions of 100 kB: no faster than the quota, and all of them end."""
    await left_behind(world, 10 * MB, partitions=100)
    await throttle(world, leader=MB, follower=MB)
    await world.start(2)
    found = await arrivals(
        world, lambda: all(world.partition(1, "t", each).record.isr == (1, 2) for each in range(100)), partitions=100
    )

    assert (leader_quota(world).promised_bytes, follower_quota(world).promised_bytes) == (0, 0)
    assert 9.5 <= found[-1][0] <= 11.5
    assert most_within(found, 1) <= 1.5 * MB


@pytest.mark.brokers(2)
@pytest.mark.parametrize("role", ["leader", "follower"])
async def test_t24_kafkas_mode_overshoots_as_kafka_does(world: World, role: str) -> None:
    """The first answer is 1 MiB and the mean is above the quota; the rate is measured by the same rule."""
    await alter(world, BROKER, "", {"replication.quota.mode": "kafka"})
    await left_behind(world, 10 * MB)
    await throttle(world, **{role: MB})
    await world.start(2)
    found = await arrivals(world, lambda: log_end(world, 2) == 100)
    quota = leader_quota(world) if role == "leader" else follower_quota(world)

    # After 1 MB the rate equals the quota, which is not exceeded.
    assert found[1][1] in {MB, 2 * MB}
    assert 8.5 <= found[-1][0] <= 10
    assert quota.rate(world.broker(1).clock.mono_ms()) > MB


@pytest.mark.brokers(2)
@pytest.mark.parametrize("role", ["leader", "follower"])
async def test_t21_partitions_get_the_same(world: World, role: str) -> None:
    """20 partitions at 400 kB/s: after 50 s each is between 80 and 120 % of the mean, which is 10 batches."""
    await left_behind(world, 20 * 15 * BATCH_BYTES, partitions=20)
    await throttle(world, **{role: 400_000})
    await world.start(2)
    await world.later(50)
    copied = [log_end(world, 2, "t", each) for each in range(20)]

    assert sum(copied) * BATCH_BYTES == pytest.approx(50 * 400_000, rel=0.06)
    assert all(0.8 <= each / (sum(copied) / 20) <= 1.2 for each in copied), copied


@pytest.mark.brokers(3)
async def test_t26_one_leader_that_feeds_two_brokers_gives_both_the_same(world: World) -> None:
    """The leader's rate limits: 6 MB for each of two at 3 MB/s take 4 s."""
    await world.topic(replicas=(1, 2, 3))
    world.kill(2)
    world.kill(3)
    await world.until(lambda: world.partition().record.isr == (1,))
    await fill(world, 6 * MB)
    await throttle(world, leader=3 * MB)
    await world.start(2)
    await world.start(3)
    began = world.loop.time()
    await world.later(2)
    halves = [log_end(world, each) for each in (2, 3)]
    await world.until(lambda: set(world.partition().record.isr) == {1, 2, 3})

    # Broker 3 started a quarter of a second after broker 2.
    assert halves[0] == pytest.approx(halves[1], abs=10)
    assert world.loop.time() - began == pytest.approx(4, rel=0.1)


@pytest.mark.brokers(2)
async def test_t37_a_lower_rate_applies_at_once(world: World) -> None:
    """From 20 MB/s to 1 MB/s in the middle: from then on no 10 s with more than 105 % and a batch."""
    await left_behind(world, 20 * MB)
    await throttle(world, leader=10 * MB)
    await world.start(2)
    await world.until(lambda: log_end(world, 2) >= 60)
    await alter(world, BROKER, "", {LEADER_RATE: str(MB)})
    before = log_end(world, 2) * BATCH_BYTES
    found = await arrivals(world, lambda: log_end(world, 2) == 200)

    assert found[-1][0] * MB == pytest.approx(20 * MB - before, rel=0.06)
    assert most_within([(at, copied - before if at else 0) for at, copied in found], 10) <= 10.5 * MB + BATCH_BYTES


@pytest.mark.brokers(2, **{"replica.lag.time.max.ms": 2000})
async def test_t33_members_of_a_list_that_is_spent_stay_members(world: World) -> None:
    """A busy partition needs twice the quota; the quiet ones beside it are committed as ever, and no ISR shrinks."""
    await world.topic("busy", replicas=(1, 2))
    await world.topic("quiet", replicas=(1, 2))
    for topic in ("busy", "quiet"):
        await throttle(world, topic, leader=MB, follower=MB)
    client = await world.client()
    slowest_s = 0.0
    for number in range(100):
        await client.produce("busy", batch_of(BATCH_BYTES))
        if number % 10 == 0:
            asked = world.loop.time()
            await client.produce("quiet", batch_of(1_000))
            slowest_s = max(slowest_s, world.loop.time() - asked)
        await world.later(0.05)
    counters = world.broker().counters
    now_ms = world.broker().clock.mono_ms()

    assert leader_quota(world).rate(now_ms) > 1.8 * MB
    assert (0, 0) == (counters.isr_shrinks, counters.isr_expands)
    assert slowest_s < 0.05


@pytest.mark.brokers(3)
async def test_h08_t34_a_quota_below_what_members_need_starves_the_newcomer(world: World) -> None:
    """Members take 800 kB/s of 700; the newcomer gets nothing until the quota is raised."""
    await world.topic(replicas=(1, 2, 3))
    world.kill(3)
    await world.until(lambda: world.partition().record.isr == (1, 2))
    await fill(world, 2 * MB)
    await throttle(world, leader=700_000)
    await world.start(3)
    client = await world.client()

    async def produce() -> None:
        await client.produce("t", batch_of(BATCH_BYTES), acks=1)
        await world.later(0.125)

    for _ in range(80):
        await produce()
    starved = log_end(world, 3)
    backlog_bytes = (log_end(world, 1) - starved) * BATCH_BYTES
    await alter(world, BROKER, "", {LEADER_RATE: str(4 * MB)})
    raised = world.loop.time()
    while set(world.partition().record.isr) != {1, 2, 3}:
        await produce()
    took_s = world.loop.time() - raised

    assert starved <= 2
    # 4 MB/s, less 800 kB/s for the other member, and as much again by which the gap grows.
    assert took_s == pytest.approx(backlog_bytes / (2.4 * MB), rel=0.3)
