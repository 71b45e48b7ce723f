"""What producers feel while a throttled copy catches up with them: no acknowledgement waits for a quota."""

import pytest

from tests.node.test_reassignments import move
from tests.node.throttle.quotas import MB, batch_of, fill, throttle
from tests.node.world import World

PAUSE_S = 0.0037


async def slowest_ack_s(world: World, target: tuple[int, ...], **options: int) -> float:
    """Move a partition while somebody produces 270 kB/s; return how long the slowest acknowledgement took."""
    await move(world, target, **options)
    client = await world.client()
    slowest_s = 0.0
    while any(each.is_reassigned for each in world.broker(1).image.topics["t"].partitions):
        asked = world.loop.time()
        await client.produce("t", batch_of(1_000))
        slowest_s = max(slowest_s, world.loop.time() - asked)
        await world.later(max(0.0, asked + PAUSE_S - world.loop.time()))
    return slowest_s


@pytest.mark.brokers(3)
@pytest.mark.parametrize("roles", [("leader", "follower"), ("leader",), ("follower",)])
async def test_acknowledgements_do_not_wait_for_a_replica_that_lists_hold_back(
    world: World, roles: tuple[str, ...]
) -> None:
    """Two that share a quota and nearly have everything: the watermark waited for them, and they for the quota."""
    await world.topic(replicas=(1,))
    await fill(world, 2 * MB)
    await throttle(world, **dict.fromkeys(roles, MB))

    assert await slowest_ack_s(world, (1, 2, 3)) < 0.02


@pytest.mark.brokers(3)
async def test_acknowledgements_do_not_wait_for_a_replica_that_its_move_holds_back(world: World) -> None:
    """The same by the throttle of the move."""
    await world.topic(replicas=(1,))
    await fill(world, 2 * MB)

    assert await slowest_ack_s(world, (1, 2, 3), throttle=MB) < 0.02
