"""Brokers that join with nothing on their disks: what bounds their copies, in virtual time."""

from collections.abc import Mapping

import pytest

from tests.node.throttle.quotas import (
    BROKER,
    FOLLOWER_LIST,
    FOLLOWER_RATE,
    LEADER_LIST,
    LEADER_RATE,
    MB,
    TOPIC,
    alter,
    batch_of,
    fill,
    follower_quota,
    leader_quota,
    log_end,
    throttle,
)
from tests.node.world import World

# Kafka's own test has ten times of everything (ReplicationQuotasTest): the times are the same.
SMALL_BATCH_BYTES = 10_000
BATCHES = 100
PARTITION_BYTES = BATCHES * SMALL_BATCH_BYTES
# By topic of one partition each: its leader and its follower. The followers are the brokers 7 and 8.
LISTED = {"p0": (1, 7), "p1": (2, 7), "p2": (3, 7), "p3": (4, 8), "p4": (5, 8), "p5": (6, 8)}
UNLISTED = {"p6": (1, 7), "p7": (2, 8)}


async def without_two_brokers(world: World) -> None:
    """Fill eight partitions of 1 MB, whose followers 7 and 8 are down and have nothing of them."""
    layout = {**LISTED, **UNLISTED}
    for topic, replicas in layout.items():
        await world.topic(topic, replicas=replicas)
    for broker in (7, 8):
        world.kill(broker)
    await world.until(
        lambda: all(world.partition(leader, topic).record.isr == (leader,) for topic, (leader, _) in layout.items())
    )
    records = batch_of(SMALL_BATCH_BYTES)
    for topic, (leader, _) in layout.items():
        client = await world.client(leader)
        for _ in range(BATCHES):
            await client.produce(topic, records, acks=1)
        client.transport.close()


def has_joined(world: World, layout: Mapping[str, tuple[int, int]]) -> bool:
    """Return whether all these followers are in sync."""
    return all(set(world.partition(leader, topic).record.isr) == {leader, to} for topic, (leader, to) in layout.items())


@pytest.mark.parametrize(
    ("rate_name", "list_name", "rate", "side"),
    [
        pytest.param(LEADER_RATE, LEADER_LIST, 100_000, 0, id="t29_leader"),
        pytest.param(FOLLOWER_RATE, FOLLOWER_LIST, 300_000, 1, id="t30_follower"),
    ],
)
@pytest.mark.brokers(8)
async def test_t29_t30_asymmetric_bootstrap(world: World, rate_name: str, list_name: str, rate: int, side: int) -> None:
    """Six leaders of one listed partition each, or two followers of three: 10 s; what is not listed goes at once."""
    await without_two_brokers(world)
    await alter(world, BROKER, "", {rate_name: str(rate)})
    for topic, replicas in LISTED.items():
        await alter(world, TOPIC, topic, {list_name: f"0:{replicas[side]}"})
    began = world.loop.time()
    for broker in (7, 8):
        await world.start(broker)
    quota_of = follower_quota if side else leader_quota
    quotas = {replicas[side]: quota_of(world, replicas[side]) for replicas in LISTED.values()}
    in_force = [quota.limit_bytes_per_s for quota in quotas.values()]
    await world.until(lambda: has_joined(world, UNLISTED))
    unlisted_s = world.loop.time() - began
    ahead, measured = 0.0, []
    while not has_joined(world, LISTED):
        await world.later(0.05)
        for broker in quotas:
            here = [(topic, to) for topic, (leader, to) in LISTED.items() if broker in (leader, to)]
            copied = sum(log_end(world, to, topic) for topic, to in here) * SMALL_BATCH_BYTES
            ahead = max(ahead, copied - rate * (world.loop.time() - began))
        if 2 < world.loop.time() - began < 9:
            measured += [quota.rate(world.broker(each).clock.mono_ms()) for each, quota in quotas.items()]
    took_s = world.loop.time() - began

    assert in_force == [rate] * len(quotas)
    assert unlisted_s < 1
    assert 9 <= took_s <= 11
    assert ahead <= rate / 2 + SMALL_BATCH_BYTES, "also before the first check"
    assert 0.9 * rate <= sum(measured) / len(measured) <= 1.05 * rate


@pytest.mark.brokers(2)
async def test_t35_a_followers_quota_must_be_above_the_write_rate(world: World) -> None:
    """400 kB/s are written: 300 kB/s make no progress, 900 kB/s copy what is missing at 500 kB/s."""
    await world.topic(replicas=(1, 2))
    world.kill(2)
    await world.until(lambda: world.partition().record.isr == (1,))
    await fill(world, 2 * MB)
    await throttle(world, follower=300_000)
    client, records = await world.client(), batch_of(SMALL_BATCH_BYTES)
    await world.start(2)

    async def missing() -> int:
        """Write for a tenth of a second, and return how many bytes broker 2 lacks."""
        began = world.loop.time()
        for _ in range(4):
            await client.produce("t", records, acks=1)
        await world.later(began + 0.1 - world.loop.time())
        return int(world.partition(1).log.size_bytes - world.partition(2).log.size_bytes)

    before = await missing()
    for _ in range(100):
        after = await missing()
    await alter(world, BROKER, "", {FOLLOWER_RATE: "900000"})
    began = world.loop.time()
    while set(world.partition().record.isr) != {1, 2}:
        await missing()

    assert after - before == pytest.approx(10 * 100_000, rel=0.1)
    assert world.loop.time() - began == pytest.approx(after / 500_000, rel=0.1)


@pytest.mark.parametrize("is_listed", [True, False], ids=["listed", "rates_alone"])
@pytest.mark.brokers(2)
async def test_t56_an_empty_broker_is_throttled_by_lists_and_not_by_rates_alone(
    world: World, *, is_listed: bool
) -> None:
    """10 MB in ten partitions at 1 MB/s: 10 s with the list `*`, and at once without."""
    await world.topic(partitions=10, replicas=(1, 2))
    world.kill(2)
    await world.until(lambda: all(world.partition(1, "t", each).record.isr == (1,) for each in range(10)))
    await fill(world, 10 * MB, partitions=10)
    await alter(world, BROKER, "2", {FOLLOWER_RATE: str(MB)})
    if is_listed:
        await alter(world, TOPIC, "t", {FOLLOWER_LIST: "*"})
    began = world.loop.time()
    await world.start(2)
    await world.until(lambda: all(set(world.partition(1, "t", each).record.isr) == {1, 2} for each in range(10)))
    took_s = world.loop.time() - began

    if is_listed:
        assert 9 <= took_s <= 11
    else:
        assert took_s < 1
