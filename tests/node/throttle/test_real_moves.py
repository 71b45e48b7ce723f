"""Moves of replicas under throttles: by lists and rates as Kafka's tool sets them, and by the throttle of the move."""

import pytest

from syncline.core.throttle.quota import UNLIMITED
from tests.node.test_reassignments import alter as reassign
from tests.node.test_reassignments import move
from tests.node.throttle.quotas import BATCH_BYTES, MB, batch_of, fill, log_end, throttle
from tests.node.throttle.test_starvation import PROMPT_S
from tests.node.world import World


async def until_moved(world: World, began: float) -> float:
    """Return how long after `began` the moves have ended."""
    await world.until(lambda: not any(each.is_reassigned for each in world.broker(1).image.topics["t"].partitions))
    return world.loop.time() - began


@pytest.mark.brokers(2)
async def test_t24_a_move_by_its_own_throttle_needs_no_list_and_leaves_none(world: World) -> None:
    """10 MB at 1 MB/s; both ends bound it, and forget it when it ends."""
    await world.topic(replicas=(1,))
    await fill(world, 10 * MB)
    began = world.loop.time()
    await move(world, (2,), throttle=MB)
    quotas = [role.states for each in (1, 2) for role in world.broker(each).throttles.roles]
    during = [{name: state.limit_bytes_per_s for name, state in states.items() if name} for states in quotas]
    took_s = await until_moved(world, began)

    assert 9.8 <= took_s <= 10.8
    assert all(list(limits.values()) == [MB] for limits in during)
    assert all(not role.is_active for each in (1, 2) for role in world.broker(each).throttles.roles)
    assert all(list(role.states) == [""] for each in (1, 2) for role in world.broker(each).throttles.roles)


@pytest.mark.brokers(2)
async def test_t25_producers_take_their_part_of_a_listed_partitions_quota(world: World) -> None:
    """Lists and rates: 5 MB at 1 MB/s, while producers add 300 kB/s; the quota must bear both."""
    await world.topic(replicas=(1,))
    await fill(world, 5 * MB)
    await throttle(world, leader=MB, follower=MB)
    client = await world.client()
    asked = world.loop.time()
    await client.produce("t", batch_of(30_000))
    idle_s = world.loop.time() - asked
    began = world.loop.time()
    await move(world, (1, 2))
    slowest_s = 0.0
    while any(each.is_reassigned for each in world.broker(1).image.topics["t"].partitions):
        asked = world.loop.time()
        await client.produce("t", batch_of(30_000))
        slowest_s = max(slowest_s, world.loop.time() - asked)
        await world.later(max(0.0, asked + 0.1 - world.loop.time()))
    took_s = world.loop.time() - began

    assert 5 / 0.7 * 0.9 <= took_s <= 5 / 0.7 * 1.25
    # The last ones have to arrive at the new member as well.
    assert slowest_s <= max(2 * idle_s, PROMPT_S)


@pytest.mark.brokers(2, **{"log.segment.bytes": 1 << 20})
async def test_t31_old_segments_are_bound_as_well(world: World) -> None:
    """20 MB in segments of 1 MiB at 5 MB/s: 4 s."""
    await world.topic(replicas=(1,))
    await fill(world, 20 * MB)
    began = world.loop.time()
    await throttle(world, leader=5 * MB)
    await move(world, (2,))

    assert 3.6 <= await until_moved(world, began) <= 6


@pytest.mark.brokers(2)
async def test_t36_a_move_gets_another_throttle_while_it_runs(world: World) -> None:
    """From 1 B/s to 20 MB/s: the same request once more, and it ends in a second."""
    await world.topic(replicas=(1,))
    await fill(world, 6 * MB)
    await move(world, (2,), throttle=1)
    await world.later(5)
    slow = log_end(world, 2)
    began = world.loop.time()
    await move(world, (2,), throttle=20 * MB)

    assert slow <= 1
    assert await until_moved(world, began) < 1.5


@pytest.mark.brokers(3)
async def test_a_cancelled_move_takes_its_throttle_along(world: World) -> None:
    """And another move of the same partition is bound by its own throttle only."""
    await world.topic(replicas=(1,))
    await fill(world, 3 * MB)
    await move(world, (2,), throttle=1)
    await world.later(1)
    await reassign(world, None)
    await world.until(lambda: not world.broker(1).throttles.leader.is_active)
    began = world.loop.time()
    await move(world, (3,), throttle=MB)
    moves = [state.limit_bytes_per_s for name, state in world.broker(1).throttles.leader.states.items() if name]

    assert moves == [MB]
    assert world.broker(1).throttles.leader.states[""].limit_bytes_per_s == UNLIMITED
    assert 2.8 <= await until_moved(world, began) <= 3.8
    assert log_end(world, 3) * BATCH_BYTES == 3 * MB
