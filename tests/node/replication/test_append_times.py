"""When records came: a leader stamps its append times, and every replica of the partition has the same."""

import pytest

from syncline.model.ids import Offset
from syncline.storage.arrivals.append_time_search import AppendTimeSearch
from syncline.storage.arrivals.append_times import STEP_MS, Found
from syncline.storage.settings import LogSettings
from tests.node.wire_client import batch
from tests.node.world import World

EVERY_MS = 100
SMALL = LogSettings(segment_bytes=1_200)


def found(world: World, broker_id: int, offset: int) -> Found | None:
    """Return what a broker knows of an offset of t-0."""
    result = world.call(broker_id, world.partition(broker_id).log.append_times.find, Offset(offset))
    return world.call(broker_id, result.run) if isinstance(result, AppendTimeSearch) else result


def entries(world: World, broker_id: int) -> dict[int, int]:
    """Return offset and time of each entry of t-0 at a broker; negative: a gap."""
    log = world.partition(broker_id).log
    all_found = (found(world, broker_id, offset) for offset in range(log.log_start, log.log_end))
    return {each.entry.offset: each.entry.append_ms for each in all_found if each is not None}


async def produced(world: World, count: int, leader: int = 1) -> list[int]:
    """Produce records one by one; return when each came, by the leader's clock."""
    client = await world.client(leader)
    came = []
    for _ in range(count):
        await world.later(EVERY_MS / 1000)
        came.append(world.host(leader).clock.wall_ms())
        assert not (await client.produce("t", batch(), acks=-1)).error_code
    return came


async def all_have(world: World, end: int, *broker_ids: int) -> None:
    """Wait until brokers have all records."""
    await world.until(lambda: all(world.partition(each).log.log_end == end for each in broker_ids))


def check(entries_there: dict[int, int], came: list[int]) -> None:
    """Assert that each record came with its entry, or less than a step after the one before."""
    floor = None
    for offset, came_ms in enumerate(came):
        floor = entries_there.get(offset, floor)
        assert floor is not None
        assert floor <= came_ms + 2, f"{offset} came at {came_ms}"
        assert came_ms < floor + STEP_MS, f"{offset} came at {came_ms}, its entry says {floor}"


@pytest.mark.brokers(3)
async def test_a_new_leader_knows_when_records_came_to_the_one_before(world: World) -> None:
    """Guards: followers knew nothing, so after an election all lags in time were unknown."""
    for broker_id, offset_ms in ((1, 0), (2, 40_000), (3, -70_000)):
        world.host(broker_id).clock.offset_ms = offset_ms
    await world.topic(replicas=(1, 2, 3))
    came = await produced(world, 20)
    await all_have(world, 20, 2, 3)

    assert entries(world, 2) == entries(world, 3) == entries(world, 1)
    assert 5 <= len(entries(world, 1)) <= 8
    check(entries(world, 1), came)

    world.kill(1)
    await world.until(lambda: world.partition(2).is_leader or world.partition(3).is_leader)
    leader = 2 if world.partition(2).is_leader else 3
    later = await produced(world, 10, leader)
    other = 5 - leader
    await all_have(world, 30, other)

    assert entries(world, other) == entries(world, leader)
    if leader == 2:
        check(entries(world, leader), came + later)


@pytest.mark.brokers(2)
async def test_a_replica_that_comes_a_minute_later_has_the_times_of_its_leader(world: World) -> None:
    """Not those at which it caught up."""
    await world.topic(replicas=(1, 2))
    world.partition().log.settings = SMALL
    world.kill(2)
    came = await produced(world, 40)
    assert len(world.partition().log.segments) == 3
    await world.later(60)
    await world.start(2)
    await all_have(world, 40, 2)

    assert entries(world, 2).items() >= entries(world, 1).items()
    check(entries(world, 2), came)


@pytest.mark.brokers(2)
async def test_a_replica_that_begins_in_the_middle_of_a_slow_log_knows_when_it_begins(world: World) -> None:
    """Records were deleted; the first that is left has no entry of its own, and is read from the disk."""
    await world.topic(replicas=(1, 2))
    world.kill(2)
    came = await produced(world, 10)
    partition = world.partition()
    floor = found(world, 1, 5)
    assert floor is not None
    assert floor.entry.offset < 5
    world.call(1, partition.log.raise_log_start, Offset(5))
    world.slow_disk(1, 20)
    await world.start(2)
    await all_have(world, 10, 2)
    world.slow_disk(1, 0)

    there = entries(world, 2)
    assert there[5] == floor.entry.append_ms
    assert there.items() >= {offset: ms for offset, ms in entries(world, 1).items() if offset > 5}.items()
    check({0: came[0]} | entries(world, 1), came)


@pytest.mark.brokers(1)
async def test_l15_times_are_known_after_a_kill(world: World) -> None:
    """Guards: only a clean stop saved them. A broker saves them every 5 s; what came since is a gap."""
    await world.topic()
    came = await produced(world, 60)
    saved = entries(world, 1)
    await world.later(5)
    world.kill(1)
    await world.start(1)
    assert {offset: ms for offset, ms in entries(world, 1).items() if ms >= 0} == saved
    check(saved, came)

    await produced(world, 3)
    world.kill(1)
    await world.start(1)
    after = entries(world, 1)

    assert [offset for offset, ms in after.items() if ms < 0] == [max(saved) + 1]
    assert {offset: ms for offset, ms in after.items() if ms >= 0} == saved


@pytest.mark.brokers(1)
async def test_l19_a_clock_that_is_set_back_makes_no_earlier_entries(world: World) -> None:
    """Times go on from the latest when the clock is there again."""
    await world.topic()
    await produced(world, 6)
    world.host().clock.offset_ms = -10_000
    await produced(world, 12)
    during = entries(world, 1)
    await world.later(10)
    await produced(world, 3)
    after = entries(world, 1)

    assert max(during) < 9
    assert list(after.values()) == sorted(after.values())
    assert max(after) >= 18


@pytest.mark.brokers(2)
async def test_clients_are_not_told(world: World) -> None:
    """The field is between brokers; consumers get the bytes that Kafka would send."""
    await world.topic(replicas=(1, 2))
    await produced(world, 5)
    client = await world.client()
    row = await client.fetch("t", 0)

    assert len(row.records) > 0
    assert row.append_times == ()


@pytest.mark.brokers(2)
async def test_records_are_copied_though_their_times_cannot_be_read(world: World) -> None:
    """Append times are hints: without them the follower has the records, and a gap."""
    await world.topic(replicas=(1, 2))
    await produced(world, 3)
    await all_have(world, 3, 2)
    await world.later(6)
    world.kill(2)
    client = await world.client()
    await world.until(lambda: world.partition().isr == (1,))
    for _ in range(3):
        await client.produce("t", batch(), acks=1)
    recent = world.partition().log.segments[-1].append_times.recent
    assert recent is not None
    recent.lose()
    await world.start(2)
    await all_have(world, 6, 2)

    # What the follower itself had not saved is unknown from the second record on.
    assert [offset for offset, ms in entries(world, 2).items() if ms < 0] == [1]
