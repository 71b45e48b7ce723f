"""What brokers report of their throttles: metrics, and samples in the journal."""

from collections.abc import Iterator

import pytest

from syncline.core.throttle.quota import HeldBack
from syncline.model.events import Throttle, from_json
from syncline.model.ids import JOURNAL_TOPIC, BrokerId, TopicPartition
from syncline.node.throttle.moves import MetadataMoves, Moving
from syncline.node.throttle.throttles import ReplicationThrottles
from syncline.records.batch import BatchHeader
from syncline.records.record import read_records
from syncline.virtual.cluster import LOG_DIRECTORY
from syncline.virtual.observers.raw_log import segments
from tests.node.counted_calls import counted
from tests.node.metrics.scraping import scrape
from tests.node.throttle.quotas import BATCH_BYTES, BROKER, LEADER_RATE, MB, alter, fill, log_end, throttle
from tests.node.throttle.test_moves import add, filled
from tests.node.world import World

LEADER = {"role": "leader", "move": ""}
FOLLOWER = {"role": "follower", "move": ""}
T0 = {"topic": "t", "partition": 0}


async def copying(world: World, size_bytes: int, **rates: int) -> None:
    """Let broker 2 start with a backlog, and be throttled."""
    await world.topic(replicas=(1, 2))
    world.kill(2)
    await world.until(lambda: world.partition().record.isr == (1,))
    await fill(world, size_bytes)
    await throttle(world, **rates)
    await world.start(2)


@pytest.mark.brokers(2)
async def test_nothing_throttled_is_seen_as_nothing(world: World) -> None:
    """The rates are 0, no limit is shown, and the mode is."""
    await world.topic(replicas=(1, 2))
    samples = await scrape(world)

    assert (0, 0) == tuple(samples[f"kafka_server_{role}replication_byte_rate"] for role in ("leader", "follower"))
    assert {("leader",): 0, ("follower",): 0} == samples.all_of("syncline_throttled_partitions")
    assert {} == samples.all_of("syncline_throttle_limit_bytes_per_second")
    assert samples["syncline_throttle_strict"] == 1
    assert samples["syncline_sum_replica_lag_records"] == samples["syncline_unknown_replica_lag"] == 0


@pytest.mark.brokers(2)
async def test_a_copy_is_seen_on_both_sides(world: World) -> None:
    """10 MB at 1 MB/s, and 5 s later: what is used of the quota, what is held back, and what is missing."""
    await copying(world, 10 * MB, leader=MB, follower=2 * MB)
    await world.later(5)
    leader, follower = await scrape(world, 1), await scrape(world, 2)
    missing = 100 - log_end(world, 2)

    for samples, name, limits in ((leader, "leader", LEADER), (follower, "follower", FOLLOWER)):
        rate = samples[f"kafka_server_{name}replication_byte_rate"]
        assert rate == pytest.approx(MB, rel=0.15)
        assert samples.of("syncline_throttle_rate_bytes_per_second", **limits) == rate
    assert leader.of("syncline_throttle_limit_bytes_per_second", **LEADER) == MB
    assert follower.of("syncline_throttle_limit_bytes_per_second", **FOLLOWER) == 2 * MB
    assert leader.of("syncline_throttled_partitions", role="leader") == 1
    assert leader.of("syncline_throttle_time_ratio", **LEADER) > 0.8
    assert follower.of("syncline_throttle_time_ratio", **FOLLOWER) < 0.6
    assert missing > 30
    # What the leader knows is as of the last fetch.
    assert 0 <= leader.of("syncline_sum_replica_lag_bytes", follower=2) - missing * BATCH_BYTES <= MB
    assert follower["syncline_sum_replica_lag_records"] == missing
    assert follower["syncline_unknown_replica_lag"] == 0

    await world.later(2)
    follower, leader = await scrape(world, 2), await scrape(world, 1)
    assert follower.of("syncline_partition_bytes_in_per_second", **T0) == pytest.approx(MB, rel=0.25)
    assert leader.of("syncline_partition_bytes_in_per_second", **T0) == 0


@pytest.mark.brokers(2)
async def test_a_follower_that_may_receive_nothing_is_seen(world: World) -> None:
    """Its lag is unknown, its partition held back, and Kafka's mode is seen once it is chosen."""
    await copying(world, MB, follower=0)
    await world.later(2)
    samples = await scrape(world, 2)
    await alter(world, BROKER, "", {"replication.quota.mode": "kafka"})

    assert (1, 0) == (samples["syncline_unknown_replica_lag"], samples["syncline_sum_replica_lag_records"])
    assert samples.of("syncline_throttled_partitions", role="follower") == 1
    assert samples.of("syncline_throttle_limit_bytes_per_second", **FOLLOWER) == 0
    assert (await scrape(world, 1))["syncline_throttle_strict"] == 0


def journalled(world: World) -> list[Throttle]:
    """Return the samples in the journal."""
    key = world.partition(1, JOURNAL_TOPIC).key
    found = []
    for _, file in segments(world.host(1).medium, LOG_DIRECTORY, key):
        position = 0
        while position < len(file.data):
            header = BatchHeader.parse(file.data, position)
            events = [from_json(record.value) for record in read_records(file.data, position, header)]
            found += [event for event in events if isinstance(event, Throttle)]
            position += header.size_bytes
    return found


@pytest.mark.brokers(2, journal_enable="true")
async def test_samples_tell_when_a_throttle_held_what_back(world: World) -> None:
    """From its begin, while it does and once it has held back nothing for a while; then no more."""
    await copying(world, 8 * MB, leader=MB)
    await world.until(lambda: world.partition().record.isr == (1, 2))
    await world.later(12)
    samples = journalled(world)
    await fill(world, MB)
    await world.later(11)

    assert ["begin", "ongoing"] == [each.phase for each in samples[:2]]
    assert samples[-1].phase == "end"
    assert samples == journalled(world)
    # While nothing is held back, nothing is counted.
    assert len(world.broker(1).throttles.leader.taken) == len(world.broker(2).throttles.follower.taken) == 0
    assert any(each.taken for each in samples)
    assert {("leader", 1, "", MB, "strict")} == {
        (each.role, each.broker, each.move, each.quota_bytes_per_s, each.mode) for each in samples
    }
    assert [(1, ("t-0@2",)), (0, ())] == [(each.held, each.replicas) for each in (samples[1], samples[-1])]
    assert samples[1].rate_bytes_per_s == pytest.approx(MB, rel=0.1)
    assert samples[1].ratio > 0.8
    assert len({each.since_ms for each in samples}) == 1


@pytest.mark.brokers(2, journal_enable="true")
async def test_samples_name_what_waits_for_their_own_throttle(world: World) -> None:
    """Two moves hold replicas back at the same broker; a rate of 0 of which no list makes use holds nothing."""
    await alter(world, BROKER, "", {LEADER_RATE: "0"})
    await filled(world, "t", "u")
    slow = await add(world, "t", throttle=100_000)
    fast = await add(world, "u", throttle=300_000)
    await world.later(8)
    samples = [each for each in journalled(world) if each.phase != "end"]

    assert {slow, fast} == {each.move for each in samples}
    assert {(slow, 100_000, 1, ("t-0@2",)), (fast, 300_000, 1, ("u-0@2",))} == {
        (each.move, each.quota_bytes_per_s, each.held, each.replicas) for each in samples
    }


class Waiter:
    """Waits for quotas, and does nothing when they open."""

    def throttle_opened(self) -> None:
        """Go on waiting."""


@pytest.mark.brokers(1)
async def test_samples_of_hundreds_of_moves_are_made_in_slices(world: World) -> None:
    """Each of 500 moves holds four replicas back: no callback looks at what all of them hold, once per move."""
    broker, samples = world.broker(), list[Throttle]()
    throttles = ReplicationThrottles(
        broker_id=broker.broker_id,
        loop=world.loop,
        clock=broker.clock,
        holds=broker.dispatcher.holds,
        config=broker.configs.broker,
        moves=MetadataMoves(broker),
        note=samples.append,
    )
    leader = throttles.leader
    keys = [TopicPartition("t", number) for number in range(2_000)]
    for key in keys:
        leader.set_moving(key, Moving(f"m{key.partition // 4}", 1, (BrokerId(2),)))
    quotas = [leader.states[f"m{number}"].quota for number in range(500)]

    def held() -> Iterator[HeldBack]:
        for number, quota in enumerate(quotas):
            yield HeldBack((quota,), ((key, BrokerId(2)) for key in keys[4 * number : 4 * number + 4]))

    leader.held = held
    async with counted(world):
        world.call(1, leader.wait, Waiter(), quotas)
        await world.later(2)
    throttles.close()

    assert [("begin", f"m{number}", 4, f"t-{4 * number}@2") for number in range(500)] == [
        (each.phase, each.move, each.held, each.replicas[0]) for each in samples
    ]
