"""How long a group's next record has waited, end to end in virtual time: what the coordinator of the group says."""

from typing import Any

import pytest

from syncline.core.groups.messages import GroupState
from syncline.model.ids import Offset, TopicPartition
from syncline.model.lag import GroupStatus, LagCause, LagRow, OffsetPlace, StatusRule
from syncline.node.lag.group_lag import MeasuredGroup
from tests.node.lag.groups import commit, coordinator_of, delete_below, join, stopped_group
from tests.node.wire_client import batch
from tests.node.world import World

pytestmark = pytest.mark.brokers(1, offsets_topic_num_partitions=1)


async def measured(world: World, broker_id: int, group_id: str = "g", *, is_exact: bool = True) -> MeasuredGroup:
    """Return a group as its coordinator sees it."""

    async def measure() -> MeasuredGroup:
        lag = world.broker(broker_id).lag.of_groups
        assert lag is not None
        cut = await lag.cut([group_id], is_exact=is_exact)
        return await cut.measured(group_id)

    found: MeasuredGroup = await world.as_broker(broker_id, measure())
    return found


async def row(world: World, broker_id: int, **options: Any) -> LagRow:
    """Return the row of partition 0."""
    return (await measured(world, broker_id, **options)).rows[0].row


def _place(coordinate_bytes: int) -> OffsetPlace:
    """Return a place of offset 1 that is wrong."""
    return OffsetPlace(Offset(1), coordinate_bytes, 1, 1, -1, -1, coordinate_bytes, is_estimated=False)


# With either, the time of an append is known: from the batch, or from the leader's note.
both_times = pytest.mark.parametrize("timestamp_type", ["LogAppendTime", "CreateTime"])


@both_times
async def test_l14_staleness_rises_by_a_second_per_second_and_event_lag_does_not(
    world: World, timestamp_type: str
) -> None:
    """One record per second, of which the group reads two in five, and then nothing more comes."""
    await world.topic(message_timestamp_type=timestamp_type)
    client = await world.client()
    coordinator = await coordinator_of(world, "g")
    for second in range(30):
        await client.produce("t", batch(timestamp_ms=1_000 * second))
        await world.later(1)
    await commit(world, coordinator, "g", {("t", 0): 12})
    first = await row(world, coordinator)
    await world.later(10)
    then = await row(world, coordinator)

    assert first.staleness_ms is not None
    assert first.staleness_ms == pytest.approx(18_000, abs=250)
    assert then.staleness_ms == first.staleness_ms + then.at_ms - first.at_ms
    assert then.event_lag_ms == first.event_lag_ms == pytest.approx(17_000, abs=250)
    assert (then.lag_hw, then.readable, then.lost) == (18, 18, 0)
    assert then.lag_bytes == 18 * (world.partition().log.size_bytes // 30)
    assert not then.is_estimated


@both_times
async def test_l16_record_waits_since_it_was_appended_and_not_since_somebody_looked(
    world: World, timestamp_type: str
) -> None:
    """A thousand records at once: an interpolation between two samples would take them for a stream."""
    await world.topic(message_timestamp_type=timestamp_type)
    client = await world.client()
    coordinator = await coordinator_of(world, "g")
    await world.later(1)
    for _ in range(10):
        await client.produce("t", batch(100))
    appended_ms = world.broker().clock.wall_ms()
    await world.later(29)
    await commit(world, coordinator, "g", {("t", 0): 500})

    found = await row(world, coordinator)

    assert found.staleness_ms is not None
    assert abs(found.at_ms - found.staleness_ms - appended_ms) <= 250


async def test_l19_no_record_waits_a_negative_time_when_the_clock_is_set_back(world: World) -> None:
    """Until the clock is there again, the record has waited for no time."""
    await world.topic()
    client = await world.client()
    coordinator = await coordinator_of(world, "g")
    for _ in range(3):
        await world.later(1)
        await client.produce("t", batch())
    await commit(world, coordinator, "g", {("t", 0): 1})
    before = await row(world, coordinator)
    world.host().clock.offset_ms = -10_000
    waits_ms = []
    for _ in range(15):
        await world.later(1)
        waits_ms.append((await row(world, coordinator)).staleness_ms or 0)

    assert before.staleness_ms == pytest.approx(1_000, abs=250)
    assert waits_ms == sorted(waits_ms)
    assert waits_ms[0] == 0
    assert waits_ms[-1] == pytest.approx(6_000, abs=250)


async def test_l36_totals_leave_out_what_has_no_commit(world: World) -> None:
    """Three partitions with ends 15, 20 and 7, of which two have a commit."""
    await world.topic("t", 3)
    client = await world.client()
    for partition, count in enumerate((15, 20, 7)):
        await client.produce("t", batch(count), partition=partition)
    coordinator = await coordinator_of(world, "g")
    await commit(world, coordinator, "g", {("t", 0): 10, ("t", 1): 20})

    found = await measured(world, coordinator)

    assert [(each.row.partition, each.row.committed, each.row.lag_hw) for each in found.rows] == [
        (0, 10, 5),
        (1, 20, 0),
        (2, None, None),
    ]
    assert found.verdict.total_lag == 5
    assert found.verdict.worst == TopicPartition("t", 0)
    assert not found.missing


async def test_l39_member_that_never_commits_is_shown_without_a_lag(world: World) -> None:
    """It is known who reads what, and that it has committed nothing; where it reads, its fetches tell."""
    await world.topic("t", 2)
    client = await world.client()
    await client.produce("t", batch(5), partition=1)
    coordinator = await coordinator_of(world, "g")
    member = await join(world, coordinator, "g", "t", 1)

    found = await measured(world, coordinator)

    (only,) = found.rows
    assert (only.row.partition, only.row.committed, only.row.lag_hw, only.row.member) == (1, None, None, member)
    assert only.row.client_id == "test"
    assert (only.verdict.status, only.verdict.rule) == (GroupStatus.OK, StatusRule.NO_COMMITS)
    assert (found.members.state, found.members.member_count) == (GroupState.STABLE, 1)
    assert found.verdict.total_lag == 0


async def test_group_without_members_is_found_to_have_none(world: World) -> None:
    """And after its silence has lasted longer than its window, it has stopped."""
    await world.topic()
    client = await world.client()
    coordinator = await coordinator_of(world, "g")
    for count in range(1, 4):
        await client.produce("t", batch(10))
        await commit(world, coordinator, "g", {("t", 0): 5 * count})
        await world.later(1)
    await measured(world, coordinator)
    await world.later(40)

    found = await measured(world, coordinator)

    assert found.verdict.status is GroupStatus.ERR
    assert found.rows[0].verdict.status is GroupStatus.STOP
    assert [each.cause for each in found.findings] == [LagCause.NO_MEMBERS]


async def test_pause_of_the_coordinator_is_no_silence_of_a_group(world: World) -> None:
    """Neither for who asks about the group, nor in the metrics: it hears only afterwards what was committed."""
    await world.topic()
    client = await world.client()
    coordinator = await coordinator_of(world, "g")
    for count in range(1, 4):
        await client.produce("t", batch(10))
        await commit(world, coordinator, "g", {("t", 0): 5 * count})
        await world.later(1)
    await measured(world, coordinator)
    world.cluster.pause(world.host(coordinator))
    await world.later(20)
    world.cluster.resume(world.host(coordinator))

    found = await measured(world, coordinator)
    _, standings = world.broker(coordinator).lag.surveys
    await world.as_broker(coordinator, standings.refresh())

    assert found.rows[0].verdict.status is not GroupStatus.STOP
    assert found.rows[0].verdict.evidence["silent_ms"] > 20_000
    assert standings.get("g").status is not GroupStatus.ERR


async def test_places_are_asked_for_once_and_again_under_another_leader(world: World) -> None:
    """Guards the cache: under another leader a coordinate means something else."""
    await world.topic(message_timestamp_type="LogAppendTime")
    client = await world.client()
    for _ in range(4):
        await client.produce("t", batch())
    coordinator = await coordinator_of(world, "g")
    await commit(world, coordinator, "g", {("t", 0): 1})
    exact = await row(world, coordinator)
    slab = world.broker(coordinator).lag.commits.slab("g")
    assert slab is not None
    slot = slab.find("t", 0)
    assert slot is not None
    kept = slab.place(slot)
    assert kept is not None

    cached = await row(world, coordinator, is_exact=False)
    # A place that was kept under a leader that is gone.
    slab.set_place(slot, _place(kept.coordinate_bytes + 1_000), kept.namespace + 1)
    moved = await row(world, coordinator, is_exact=False)

    assert (cached.lag_bytes, cached.event_lag_ms) == (exact.lag_bytes, exact.event_lag_ms)
    assert cached.staleness_ms is not None
    assert exact.staleness_ms is not None
    assert cached.at_ms - cached.staleness_ms == exact.at_ms - exact.staleness_ms
    assert moved.lag_bytes == exact.lag_bytes
    await commit(world, coordinator, "g", {("t", 0): 2})
    assert slab.place(slot) is None


async def test_kept_place_below_the_log_start_is_not_used(world: World) -> None:
    """Records were deleted after their place was found: lag begins at what still exists."""
    await world.topic(message_timestamp_type="LogAppendTime")
    client = await world.client()
    for _ in range(4):
        await client.produce("t", batch())
    coordinator = await coordinator_of(world, "g")
    await commit(world, coordinator, "g", {("t", 0): 1})
    await row(world, coordinator)
    await delete_below(world, 3)

    found = await row(world, coordinator, is_exact=False)

    assert (found.lag_hw, found.readable, found.lost) == (3, 1, 2)
    assert found.lag_bytes == world.partition().log.size_bytes // 4


async def test_speed_of_a_group_is_known_after_two_ticks(world: World) -> None:
    """And with it how long it needs to catch up."""
    await world.topic()
    client = await world.client()
    coordinator = await coordinator_of(world, "g")
    await client.produce("t", batch(1_000))
    for second in range(70):
        await client.produce("t", batch(2))
        await commit(world, coordinator, "g", {("t", 0): 10 * second})
        await world.later(1)

    found = await row(world, coordinator)

    assert found.catch_up_s is not None
    assert found.readable is not None
    assert found.catch_up_s == pytest.approx(found.readable / 8, rel=0.1)


async def test_group_of_a_deleted_topic_has_no_rows(world: World) -> None:
    """Nobody can answer for it; what was heard of it is forgotten."""
    await world.topic()
    coordinator = await coordinator_of(world, "g")
    await commit(world, coordinator, "g", {("t", 0): 0})
    await measured(world, coordinator)
    await world.delete_topic()

    found = await measured(world, coordinator)

    assert (list(found.rows), list(found.missing)) == ([], [])


async def test_l20_offsets_without_a_record_are_no_reason_to_stop(world: World) -> None:
    """All that the group had not read was deleted: it has stopped committing, and has nothing to commit."""
    coordinator = await stopped_group(world)
    stopped = await measured(world, coordinator)
    await delete_below(world, 10)
    after = await measured(world, coordinator)

    assert stopped.verdict.status is GroupStatus.ERR
    assert (after.verdict.status, after.rows[0].verdict.rule) == (GroupStatus.OK, StatusRule.NOTHING_READABLE)
    made = after.rows[0].row
    assert (made.lag_hw, made.lost, made.readable, made.lag_bytes, made.staleness_ms) == (6, 6, 0, 0, 0)
