"""The leader's throttle: what of a follower's fetch is sent, what is counted, and when it is answered."""

import pytest

from syncline.model.errors import ErrorCode
from syncline.node.fetching.row import PARTITIONS_AT_ONCE
from syncline.node.fetching.throttled import RELEASED_MAX
from syncline.virtual.time.meter import CallMeter
from tests.node.throttle.quotas import (
    BATCH_BYTES,
    BROKER,
    LEADER_LIST,
    LEADER_RATE,
    MB,
    TOPIC,
    RawFollower,
    alter,
    fill,
    leader_quota,
    raw_follower,
    throttle,
)
from tests.node.wire_client import at, batch, offsets
from tests.node.world import World

# Of an answer of version 12 with one topic, "t": 4 for the length, and the head of the answer and of the topic.
ANSWER_BYTES = 4 + 10 + 1 + 2 + 1 + 1 + 1
# Of one partition without records.
ROW_BYTES = 35 + 1 + 1


async def left_behind(world: World, size_bytes: int, *, partitions: int = 1, **configs: int) -> RawFollower:
    """Fill a topic while broker 2 is dead; return what fetches in its place, from outside the in-sync set."""
    await world.topic(partitions=partitions, replicas=(1, 2), **configs)
    world.kill(2)
    # Broker 1 leads all of them then.
    await world.until(lambda: all(world.partition(1, "t", each).record.isr == (1,) for each in range(partitions)))
    await fill(world, size_bytes, partitions=partitions)
    return await raw_follower(world)


def whole(count: int, start: int = 0, **options: int) -> dict[str, list[object]]:
    """Return a fetch of `count` partitions, each from its beginning."""
    return {"t": [at(start, partition=number, **options) for number in range(count)]}  # type: ignore[dict-item]


@pytest.mark.brokers(2)
async def test_t14_a_partition_beyond_the_allowance_is_sent_empty(world: World) -> None:
    """After half a second without traffic 500 kB are left at 1 MB/s: p0 takes them, p1 has no error and its mark."""
    follower = await left_behind(world, 2 * MB, partitions=2)
    await throttle(world, leader=MB)
    await world.later(1)
    rows = await follower.fetch(whole(2))

    assert ([0, 1, 2, 3, 4], []) == (offsets(rows[0].records), offsets(rows[1].records))
    assert (ErrorCode.NONE, 10, 0) == (rows[1].error_code, rows[1].high_watermark, rows[1].log_start_offset)

    follower.session = (0, 0)
    rows = await follower.fetch(whole(2))
    assert [b"", b""] == [bytes(rows[each].records) for each in (0, 1)]


@pytest.mark.brokers(2)
async def test_t14_a_quota_that_is_never_exceeded_leaves_both_full(world: World) -> None:
    """100 MB/s are enough for everything that the limits of the fetch allow."""
    follower = await left_behind(world, 2 * MB, partitions=2)
    await throttle(world, leader=100 * MB)
    await world.later(1)
    rows = await follower.fetch(whole(2))

    assert [10, 10] == [len(offsets(rows[each].records)) for each in (0, 1)]


@pytest.mark.brokers(2, **{"replication.quota.mode": "kafka"})
async def test_t14_in_kafkas_mode_one_answer_may_be_the_overshoot(world: World) -> None:
    """The quota is evaluated during the read and counted with the answer: both partitions pass, and then none."""
    follower = await left_behind(world, 2 * MB, partitions=2)
    await throttle(world, leader=1_000)
    first = await follower.fetch(whole(2))
    follower.session = (0, 0)
    second = await follower.fetch(whole(2))

    assert [10, 10, 0, 0] == [len(offsets(rows[each].records)) for rows in (first, second) for each in (0, 1)]


@pytest.mark.brokers(2)
async def test_t15_a_member_is_served_and_counted(world: World) -> None:
    """The quota is exceeded; the bytes that the rate rises by are those of the answer."""
    await world.topic(replicas=(1, 2))
    await throttle(world, leader=0)
    world.network.cut("broker-2", "broker-1")
    # Until its last fetch is over.
    await world.later(0.6)
    await fill(world, 3 * BATCH_BYTES)
    quota, now_ms = leader_quota(world), world.broker().clock.mono_ms()
    exceeded, before = quota.is_exceeded(now_ms), quota.rate(now_ms)
    rows = await (await raw_follower(world)).fetch(whole(1))
    counted = quota.rate(world.broker().clock.mono_ms()) - before

    assert exceeded
    assert [0, 1, 2] == offsets(rows[0].records)
    assert world.partition().record.isr == (1, 2)
    # The first of the batches has an append time, in a tagged field.
    assert counted == ANSWER_BYTES + ROW_BYTES + 2 + 3 * BATCH_BYTES + 20
    world.network.heal("broker-2", "broker-1")


@pytest.mark.brokers(2)
async def test_t16_consumers_are_neither_throttled_nor_counted(world: World) -> None:
    """Whatever the lists say."""
    await left_behind(world, MB)
    await throttle(world, leader=0)
    client = await world.client()
    row = await client.fetch("t")

    assert len(offsets(row.records)) == 10
    assert leader_quota(world).rate(world.broker().clock.mono_ms()) == 0


@pytest.mark.brokers(2)
async def test_t17_what_is_sent_empty_uses_up_none_of_the_limits(world: World) -> None:
    """p1 gets all of max_bytes, and its first batch whole if that is larger."""
    follower = await left_behind(world, 2 * MB, partitions=2)
    await throttle(world, leader=0, items="0:1")
    limits = [(300_000, 3), (50_000, 1)]
    for max_bytes, batches in limits:
        follower.session = (0, 0)
        rows = await follower.fetch(whole(2), max_bytes=max_bytes)

        assert b"" == bytes(rows[0].records)
        assert list(range(batches)) == offsets(rows[1].records)


@pytest.mark.brokers(2)
async def test_t18_a_throttled_fetch_is_a_sign_of_life(world: World) -> None:
    """The leader learns where the follower's log ends; at the leader's own log end, that makes it a member again."""
    follower = await left_behind(world, MB)
    await throttle(world, leader=0)
    rows = await follower.fetch(whole(1, 5))
    known = [each.log_end for each in world.partition().leader.followers]

    assert b"" == bytes(rows[0].records)
    assert [5] == known

    host = world.host(2)
    world.cluster.start(host)
    assert host.starting is not None
    await host.starting
    await throttle(world, leader=100 * MB)
    await world.until(lambda: world.partition().record.isr == (1, 2))


@pytest.mark.brokers(2, **{"replication.quota.mode": "kafka"})
async def test_t19_throttled_bytes_on_an_old_segment_do_not_complete_a_fetch(world: World) -> None:
    """It is answered when its wait is over, and then again: two fetches per second, and no loop."""
    follower = await left_behind(world, 3 * MB, segment_bytes=1 << 20)
    await throttle(world, leader=1)
    # In Kafka's mode the first answer is the overshoot.
    await follower.fetch(whole(1))
    began = world.loop.time()
    waits = []
    for _ in range(3):
        follower.session = (0, 0)
        asked = world.loop.time()
        rows = await follower.fetch(whole(1), max_wait_ms=500)
        waits.append(world.loop.time() - asked)

        assert b"" == bytes(rows[0].records)
    assert all(0.5 <= wait_s < 0.52 for wait_s in waits), waits
    assert world.loop.time() - began < 1.6


@pytest.mark.brokers(2)
async def test_t19_a_strict_quota_answers_when_it_is_worth_it(world: World) -> None:
    """At 1 MB/s after 450 ms, with as much as that: the fetch need not wait for its end."""
    follower = await left_behind(world, 3 * MB)
    await throttle(world, leader=MB)
    await world.later(1)
    await follower.fetch(whole(1))
    asked = world.loop.time()
    rows = await follower.fetch({}, max_wait_ms=5_000)
    took_s = world.loop.time() - asked

    assert len(offsets(rows[0].records)) == 4
    assert took_s == pytest.approx(0.45, abs=0.01)


@pytest.mark.brokers(2)
async def test_t20_what_was_throttled_comes_with_the_answer_once_the_quota_allows_it(world: World) -> None:
    """The fetch waits for p0's quota; when that is raised, it is answered at once, in the middle of its wait."""
    follower = await left_behind(world, MB, partitions=1)
    await throttle(world, leader=0)
    asked = follower.send(whole(1), max_wait_ms=30_000)
    await world.later(2)
    early = follower.is_answered(asked)
    began = world.loop.time()
    await alter(world, BROKER, "1", {LEADER_RATE: str(2 * MB)})
    response = await follower.answered(asked)
    took_s = world.loop.time() - began

    assert not early
    assert len(offsets(response.topics[0][1][0].records)) == 9
    assert took_s < 0.5


@pytest.mark.brokers(2)
async def test_t20_new_data_of_another_partition_brings_what_was_throttled_along(world: World) -> None:
    """In Kafka's mode only data that is not throttled, or the end of the wait, completes the fetch."""
    await alter(world, BROKER, "", {"replication.quota.mode": "kafka"})
    follower = await left_behind(world, MB, partitions=2)
    await throttle(world, leader=50_000, items="0:1")
    await follower.fetch({"t": [at(0, max_bytes=200_000)]})
    asked = follower.send({"t": [at(0), at(5, partition=1)]}, max_wait_ms=30_000)
    # 200 kB in 5 s are less than the quota.
    await world.later(5)
    early = follower.is_answered(asked)
    client = await world.client()
    await client.produce("t", batch(), partition=1, acks=1)
    response = await follower.answered(asked)
    rows = {row.partition: row for _, rows in response.topics for row in rows}

    assert not early
    assert ([0, 1, 2, 3, 4], [5]) == (offsets(rows[0].records), offsets(rows[1].records))


@pytest.mark.brokers(2)
async def test_a_change_of_a_list_wakes_what_waits(world: World) -> None:
    """A partition that is taken off the list is sent at once, though the quota is 0."""
    follower = await left_behind(world, MB)
    await throttle(world, leader=0)
    asked = follower.send(whole(1), max_wait_ms=30_000)
    await world.later(1)
    began = world.loop.time()
    await alter(world, TOPIC, "t", {LEADER_LIST: None})
    response = await follower.answered(asked)

    assert len(offsets(response.topics[0][1][0].records)) == 10
    assert world.loop.time() - began < 0.1


@pytest.mark.brokers(2)
async def test_what_is_held_back_is_not_looked_at_when_records_are_appended(world: World) -> None:
    """A session of throttled partitions costs nothing until the quota allows something; then some are taken up."""
    count = RELEASED_MAX + 50
    follower = await left_behind(world, count * BATCH_BYTES, partitions=count)
    await throttle(world, leader=0)
    await follower.fetch(whole(count))
    session = world.broker().fetching.sessions.find(follower.session[0])
    assert session is not None
    held = session.held_count
    await fill(world, count * BATCH_BYTES, partitions=count)
    pending = len(session.pending())
    await alter(world, BROKER, "1", {LEADER_RATE: str(100 * MB)})
    rows = await follower.fetch({}, max_wait_ms=1_000, max_bytes=2 * MB)

    assert (count, 0) == (held, pending)
    assert 0 < sum(bool(row.records) for row in rows.values()) < 20
    session.check_invariants()


@pytest.mark.brokers(2)
async def test_promises_end_with_the_connection(world: World) -> None:
    """A read that waits for the disk holds a part of the allowance; if its follower goes, others get it."""
    follower = await left_behind(world, 2 * MB)
    await throttle(world, leader=MB)
    await world.later(1)
    world.slow_disk(1, 2_000)
    lost = await raw_follower(world)
    lost.send(whole(1))
    quota, clock = leader_quota(world), world.broker().clock
    await world.until(lambda: quota.allowance_bytes(clock.mono_ms()) < 100_000)
    lost.close()
    await world.until(lambda: quota.allowance_bytes(clock.mono_ms()) > 400_000)
    world.slow_disk(1, 0)
    rows = await follower.fetch(whole(1))

    assert len(offsets(rows[0].records)) >= 4


@pytest.mark.brokers(2)
async def test_many_throttled_partitions_are_read_and_counted_in_steps(world: World) -> None:
    """As by one look: the allowance is kept, everything that was sent is counted, and the rest is held back."""
    count = 4 * PARTITIONS_AT_ONCE
    follower = await left_behind(world, count * BATCH_BYTES, partitions=count)
    await throttle(world, leader=MB)
    await world.later(1)
    meter = world.loop.meter = CallMeter(frozenset({"broker-1"}))
    rows = await follower.fetch(whole(count))
    world.loop.meter = None
    sent_bytes = sum(len(row.records) for row in rows.values())
    session = world.broker().fetching.sessions.find(follower.session[0])
    # The first sample counts as a second.
    counted_bytes = leader_quota(world).rate(world.broker().clock.mono_ms())
    assert session is not None

    assert list(rows) == list(range(count))
    assert 0.4 * MB <= sent_bytes <= 0.6 * MB
    assert 0 <= counted_bytes - sent_bytes - count * ROW_BYTES <= count * ANSWER_BYTES
    assert session.held_count == count - sum(bool(row.records) for row in rows.values())
    assert meter.calls_max < 20_000
    session.check_invariants()


@pytest.mark.brokers(2)
async def test_long_fetch_of_a_follower_ends_with_its_connection(world: World) -> None:
    """Nothing of it waits for the quota, although it was looked at in steps, and out of turn."""
    count = 2 * PARTITIONS_AT_ONCE
    follower = await left_behind(world, count * BATCH_BYTES, partitions=count)
    await throttle(world, leader=0)
    follower.send(whole(count), max_wait_ms=30_000)
    role = world.broker().throttles.leader
    await world.until(lambda: role.waiting_count)
    follower.close()
    began_s = world.loop.time()
    await world.until(lambda: not role.waiting_count)

    assert world.loop.time() - began_s < 1
