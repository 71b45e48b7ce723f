"""The throttles of moves: no lists, one rate for all partitions of a move, until the new replica is in sync."""

from typing import Final

import pytest

from syncline.model.ids import BrokerId, TopicPartition
from syncline.node.throttle.moves import Moving
from tests.node.throttle.quotas import MB, fill, log_end, throttle
from tests.node.world import World

SLOW: Final = 400_000


class Moves:
    """What the cluster's metadata will say: partitions of the topic "t" are added on broker 2."""

    def __init__(self, throttle_bytes_per_s: int) -> None:
        self.throttle_bytes_per_s = throttle_bytes_per_s

    def move_of(self, key: TopicPartition, /) -> Moving | None:
        """Return the move that a partition is part of."""
        if key.topic != "t" or self.throttle_bytes_per_s < -1:
            return None
        return Moving("m", self.throttle_bytes_per_s, (BrokerId(2),))


def know(world: World, moves: Moves) -> None:
    """Let all living brokers know of the moves."""
    for broker_id in world.living():
        broker = world.broker(broker_id)
        world.call(broker_id, broker.throttles.know, moves, broker.image)


async def left_behind(world: World, partitions: int = 1) -> None:
    """Give broker 2 a backlog of 2 MB in partitions of "t" and of "other", which does not move."""
    for topic in ("t", "other"):
        await world.topic(topic, partitions=partitions, replicas=(1, 2))
    world.kill(2)
    for topic in ("t", "other"):
        await world.until(
            lambda topic=topic: all(world.partition(1, topic, each).record.isr == (1,) for each in range(partitions))  # type: ignore[misc]
        )
        await fill(world, 2 * MB, topic=topic, partitions=partitions)


@pytest.mark.brokers(2)
async def test_a_move_bounds_its_partitions_and_no_others(world: World) -> None:
    """Two partitions share the rate; the other topic is copied at once. Its end ends the throttle."""
    await left_behind(world, 2)
    moves = Moves(SLOW)
    know(world, moves)
    await world.start(2)
    know(world, moves)
    began = world.loop.time()
    await world.until(lambda: log_end(world, 2, "other", 0) == log_end(world, 2, "other", 1) == 10)
    fast_s = world.loop.time() - began
    await world.until(lambda: log_end(world, 2, "t", 0) == log_end(world, 2, "t", 1) == 10)
    slow_s = world.loop.time() - began

    assert fast_s < 0.6
    assert slow_s * SLOW == pytest.approx(2 * MB, rel=0.15)


@pytest.mark.brokers(2)
async def test_a_partition_passes_its_list_and_its_move(world: World) -> None:
    """The lower rate limits, whichever it is."""
    await left_behind(world)
    await throttle(world, leader=8 * MB)
    moves = Moves(SLOW)
    know(world, moves)
    await world.start(2)
    await world.later(2)
    by_move = log_end(world, 2)
    moves.throttle_bytes_per_s = 100 * MB
    await throttle(world, leader=SLOW)
    know(world, moves)
    await world.later(2)
    by_list = log_end(world, 2) - by_move

    assert 7 <= by_move <= 11
    assert 6 <= by_list <= 10


@pytest.mark.brokers(2)
async def test_another_rate_of_a_move_applies_at_once(world: World) -> None:
    """From 1 B/s to as fast as possible; in the in-sync set a replica is no longer the move's concern."""
    await left_behind(world)
    moves = Moves(1)
    know(world, moves)
    await world.start(2)
    await world.later(3)
    slow = log_end(world, 2)
    moves.throttle_bytes_per_s = -1
    know(world, moves)
    await world.until(lambda: world.partition().record.isr == (1, 2))
    throttles = world.broker(1).throttles

    assert slow <= 1
    assert not throttles.leader.is_active
    assert throttles.leader.moving(TopicPartition("t", 0), BrokerId(2)) is None

    moves.throttle_bytes_per_s = 1
    know(world, moves)
    await fill(world, MB)
    await world.until(lambda: world.partition().high_watermark == 30)
