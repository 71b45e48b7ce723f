"""Hot and cold partitions under one low quota (KAFKA-4313): members stay members, and nobody waits behind a hot one."""

import pytest

from syncline.model.errors import ErrorCode
from tests.node.test_reassignments import move
from tests.node.throttle.quotas import (
    BATCH_BYTES,
    BROKER,
    FOLLOWER_RATE,
    MB,
    alter,
    batch_of,
    fill,
    leader_quota,
    log_end,
    throttle,
)
from tests.node.wire_client import WireClient
from tests.node.world import World

KB = 1_000
QUIET = tuple(f"quiet-{number}" for number in range(10))
# What acks=all takes in these worlds, with the followers' round trips.
PROMPT_S = 0.001


async def write(world: World, client: WireClient, topic: str, size_bytes: int, partition: int = 0) -> float:
    """Append one batch with acks=all; return how long the answer took."""
    asked = world.loop.time()
    row = await client.produce(topic, batch_of(size_bytes), partition=partition)
    assert row.error_code == ErrorCode.NONE
    return world.loop.time() - asked


async def hot_behind(world: World, cold: int) -> None:
    """Broker 2 lacks 8 MB of partition 0 of t, and 200 kB of each of the others."""
    await world.topic(partitions=1 + cold, replicas=(1, 2))
    world.kill(2)
    await world.until(lambda: all(world.partition(1, "t", each).record.isr == (1,) for each in range(1 + cold)))
    await fill_hot_and_cold(world, cold)


async def fill_hot_and_cold(world: World, cold: int) -> None:
    """Append 8 MB to partition 0 of t, and 200 kB to each of the others."""
    client = await world.client()
    for _ in range(80):
        await write(world, client, "t", BATCH_BYTES)
    for number in range(1, 1 + cold):
        for _ in range(2):
            await write(world, client, "t", BATCH_BYTES, number)
    client.transport.close()


@pytest.mark.brokers(3, **{"replica.lag.time.max.ms": 2000})
@pytest.mark.parametrize(("mode", "copied"), [("strict", 0), ("kafka", 10)])
async def test_t33_no_isr_shrinks_while_a_busy_partition_and_a_newcomer_spend_the_quota(
    world: World, mode: str, copied: int
) -> None:
    """A tenth of the sheet's rates: 200 kB/s and ten times 100 B/s under 100 kB/s, and 10 MB for a newcomer, for 40 s.

    The newcomer was a member a moment before: producers waited for it for a whole lag window when it came back.
    """
    await alter(world, BROKER, "", {"replication.quota.mode": mode})
    await world.topic("busy", replicas=(1, 2, 3))
    for topic in QUIET:
        await world.topic(topic, replicas=(1, 2))
    world.kill(3)
    await world.until(lambda: world.partition(1, "busy").record.isr == (1, 2))
    await fill(world, 10 * MB, topic="busy")
    for topic in ("busy", *QUIET):
        await throttle(world, topic, leader=100 * KB, follower=100 * KB)
    shrinks = world.broker(1).counters.isr_shrinks
    await world.start(3)
    client = await world.client()
    slowest_s = 0.0
    for number in range(400):
        slowest_s = max(slowest_s, await write(world, client, "busy", 20 * KB))
        slowest_s = max(slowest_s, await write(world, client, QUIET[number % 10], 100))
        await world.later(0.1)

    assert leader_quota(world).rate(world.broker(1).clock.mono_ms()) > 200 * KB
    assert (world.broker(1).counters.isr_shrinks, world.broker(1).counters.isr_expands) == (shrinks, 0)
    assert slowest_s < PROMPT_S
    # Members alone take twice the quota; in Kafka's mode one answer comes before anything is counted.
    assert log_end(world, 3, "busy") == copied


@pytest.mark.brokers(3, **{"replica.lag.time.max.ms": 10_000})
@pytest.mark.parametrize("mode", ["strict", "kafka"])
@pytest.mark.parametrize("members", [(1,), (1, 2)], ids=["alone", "with-a-follower"])
async def test_producers_do_not_wait_for_a_newcomer_that_is_throttled_near_its_end(
    world: World, mode: str, members: tuple[int, ...]
) -> None:
    """The watermark waits for it so that it can join, so it is held back no more: it was half a second, or three."""
    await alter(world, BROKER, "", {"replication.quota.mode": mode})
    await world.topic("t", replicas=members)
    await fill(world, 2 * MB)
    await throttle(world, leader=400 * KB)
    client = await world.client()
    await move(world, (*members, 3))
    slowest_s = 0.0
    while any(each.is_reassigned for each in world.broker(1).image.topics["t"].partitions):
        slowest_s = max(slowest_s, await write(world, client, "t", 5 * KB))
        await world.later(0.05)

    assert slowest_s < PROMPT_S


@pytest.mark.brokers(2)
@pytest.mark.parametrize("role", ["leader", "follower"])
async def test_cold_partitions_behind_a_hot_one_have_their_turns(world: World, role: str) -> None:
    """Ten of 200 kB each behind 8 MB at 400 kB/s: 5.5 s, in which the hot one has its turn once, or at most twice."""
    await hot_behind(world, cold=10)
    await throttle(world, **{role: 400 * KB})
    await world.start(2)
    began = world.loop.time()
    cold = [world.partition(1, "t", each) for each in range(1, 11)]
    await world.until(lambda: all(each.record.isr == (1, 2) for each in cold))
    took_s = world.loop.time() - began
    hot_bytes = log_end(world, 2) * BATCH_BYTES

    assert 100 * KB <= hot_bytes <= 400 * KB
    assert took_s == pytest.approx((2 * MB + hot_bytes) / (400 * KB), abs=0.25)


@pytest.mark.brokers(2)
@pytest.mark.parametrize(("role", "at_most_s"), [("leader", 2.55), ("follower", 2.05)])
async def test_cold_partitions_end_although_the_hot_one_never_can(world: World, role: str, at_most_s: float) -> None:
    """Writes to the hot one equal the quota, so that it never ends; the three cold ones behind it have 600 kB."""
    await hot_behind(world, cold=3)
    await throttle(world, **{role: 400 * KB})
    await world.start(2)
    client = await world.client()
    began = world.loop.time()
    cold = [world.partition(1, "t", each) for each in range(1, 4)]
    while not all(each.record.isr == (1, 2) for each in cold):
        await client.produce("t", batch_of(40 * KB), acks=1)
        await world.later(0.1)
    took_s = world.loop.time() - began
    await world.later(2)

    assert 1.5 <= took_s <= at_most_s
    assert world.partition(1, "t", 0).record.isr == (1,)


@pytest.mark.brokers(2, 1)
async def test_cold_partitions_of_a_move_end_although_the_hot_one_never_can(world: World) -> None:
    """The same under the throttle that a move owns: three of four partitions are where they shall be in 2.5 s."""
    await world.topic(partitions=4, replicas=(1,))
    await fill_hot_and_cold(world, cold=3)
    await world.start(2)
    client = await world.client()
    began = world.loop.time()
    await move(world, *[(2,)] * 4, throttle=400 * KB)
    while sum(each.is_reassigned for each in world.broker(1).image.topics["t"].partitions) > 1:
        await client.produce("t", batch_of(40 * KB), acks=1)
        await world.later(0.1)
    took_s = world.loop.time() - began
    records = world.broker(1).image.topics["t"].partitions

    assert 1.5 <= took_s <= 2.55
    assert [each.replicas for each in records] == [(2, 1), (2,), (2,), (2,)]
    # Cancelled, the hot one stays where it was, and its throttle is gone.
    await move(world, None)
    await world.until(lambda: not world.broker(1).throttles.leader.is_active)
    assert world.broker(1).image.topics["t"].partitions[0].replicas == (1,)


@pytest.mark.brokers(2)
async def test_t35_a_follower_quota_below_the_write_rate_makes_no_progress(world: World) -> None:
    """400 kB/s written: at 300 kB/s the lag grows by 100 kB/s; at 900 kB/s it falls by 500, to the end."""
    await world.topic(replicas=(1, 2))
    world.kill(2)
    await world.until(lambda: world.partition().record.isr == (1,))
    await fill(world, 5 * MB)
    await throttle(world, follower=300 * KB)
    await world.start(2)
    client = await world.client()

    def lag_bytes() -> int:
        return int(world.partition(1).log.size_bytes - world.partition(2).log.size_bytes)

    async def write_for(seconds: float) -> None:
        end = world.loop.time() + seconds
        while world.loop.time() < end and world.partition().record.isr == (1,):
            await client.produce("t", batch_of(20 * KB), acks=1)
            await world.later(0.05)

    await write_for(1)
    before = lag_bytes()
    await write_for(10)
    grown = lag_bytes() - before
    await alter(world, BROKER, "", {FOLLOWER_RATE: str(900 * KB)})
    began, left = world.loop.time(), lag_bytes()
    await write_for(30)

    assert grown == pytest.approx(10 * 100 * KB, rel=0.15)
    assert world.partition().record.isr == (1, 2)
    assert world.loop.time() - began == pytest.approx(left / (500 * KB), rel=0.02)
