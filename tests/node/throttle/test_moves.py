"""The throttles of moves: no lists, one rate for all partitions of a move, until the new replica is in sync."""

from typing import Any, Final

import pytest

from syncline.model.ids import BrokerId, TopicPartition
from tests.node.test_reassignments import alter as reassign
from tests.node.throttle.quotas import MB, fill, log_end, throttle
from tests.node.world import World

SLOW: Final = 400_000


async def add(world: World, *topics: str, replicas: tuple[int, ...] = (1, 2), **move: Any) -> str:
    """Add replicas to the partitions of topics in one move; return its id."""
    wanted = [{"name": name, "partitions": [{"partition_index": 0, "replicas": replicas}]} for name in topics]
    answer = await reassign(world, topics=wanted, **move)
    assert {int(row.error_code) for topic in answer.responses for row in topic.partitions} == {0}
    return str(answer.move_id)


async def filled(world: World, *topics: str) -> None:
    """Create topics of 2 MB at broker 1."""
    for topic in topics:
        await world.topic(topic, replicas=(1,))
        await fill(world, 2 * MB, topic=topic)


@pytest.mark.brokers(2)
async def test_a_move_bounds_its_partitions_and_no_others(world: World) -> None:
    """Two partitions share the rate; another topic, which moves without one, is copied at once."""
    await filled(world, "t", "u", "other")
    began = world.loop.time()
    await add(world, "t", "u", throttle=SLOW)
    await add(world, "other")
    await world.until(lambda: log_end(world, 2, "other") == 20)
    fast_s = world.loop.time() - began
    await world.until(lambda: log_end(world, 2, "t") == log_end(world, 2, "u") == 20)
    slow_s = world.loop.time() - began

    assert fast_s < 0.6
    assert slow_s * SLOW == pytest.approx(4 * MB, rel=0.15)


@pytest.mark.brokers(2)
async def test_a_partition_passes_its_list_and_its_move(world: World) -> None:
    """The lower rate limits, whichever it is."""
    await filled(world, "t")
    await throttle(world, leader=8 * MB)
    await add(world, "t", throttle=SLOW)
    await world.later(2)
    by_move = log_end(world, 2)
    await throttle(world, leader=SLOW)
    await add(world, "t", throttle=100 * MB)
    await world.later(2)
    by_list = log_end(world, 2) - by_move

    assert 7 <= by_move <= 11
    assert 6 <= by_list <= 10


@pytest.mark.brokers(3)
async def test_a_replica_in_sync_is_no_longer_the_moves_concern(world: World) -> None:
    """Broker 3 is dead, so that the move stays; its rate then holds up no producer."""
    await filled(world, "t")
    world.kill(3)
    move_id = await add(world, "t", replicas=(1, 2, 3), throttle=1)
    await world.later(3)
    slow = log_end(world, 2)
    await reassign(world, move_id=move_id, throttle=-1)
    await world.until(lambda: world.partition().record.isr == (1, 2))
    throttles = world.broker(1).throttles

    assert slow <= 1
    assert not throttles.leader.is_active
    assert throttles.leader.moving(TopicPartition("t", 0), BrokerId(2)) is None

    await reassign(world, move_id=move_id, throttle=1)
    await fill(world, MB)
    await world.until(lambda: world.partition().high_watermark == 30)
