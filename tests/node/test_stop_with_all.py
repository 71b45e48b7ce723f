"""All brokers stop together: nothing is handed over, nothing is lost, and every in-sync replica ends equal."""

import asyncio
import random

import pytest

from syncline.model.errors import ErrorCode
from syncline.model.ids import NONE
from syncline.virtual.cluster import LOG_DIRECTORY
from syncline.virtual.time.durations import MS
from tests.node.wire_client import batch
from tests.node.world import World

LAG = {"replica_lag_time_max_ms": 60_000, "replica_socket_timeout_ms": 60_000}


async def stop_all(world: World) -> float:
    """Stop all living brokers as a supervisor does; return how long that took."""
    began_s = world.loop.time()
    await asyncio.gather(*(world.as_broker(each, world.node(each).stop(with_all=True)) for each in world.living()))
    return world.loop.time() - began_s


@pytest.mark.brokers(3, **LAG)
async def test_in_sync_replicas_stay_in_sync_and_end_equal(world: World) -> None:
    """acks=1 records are appended up to the stop: all three have them, the ISR in the store has all three."""
    await world.topic(replicas=(2, 1, 3))
    client = await world.client(2)
    for _ in range(20):
        client.send_produce("t", batch(), acks=1)
    await world.until(lambda: world.partition(2).log.log_end > 5)

    partitions = [world.partition(each) for each in (1, 2, 3)]
    took_s = await stop_all(world)

    record = world.cluster.store.image.partition("t", 0)
    assert took_s < 0.1
    assert len({each.log.log_end for each in partitions}) == 1
    assert record is not None
    assert (record.leader, record.isr) == (NONE, (2, 1, 3))
    assert all(broker.fenced for broker in world.cluster.store.image.brokers.values())


@pytest.mark.brokers(3, **LAG)
async def test_stop_of_all_logs_no_error(world: World) -> None:
    """A follower that the stopping leader fences gets the metadata that says why a moment later: that is no error."""
    await world.topic(replicas=(2, 1, 3))
    await (await world.client(2)).produce("t", batch())
    controller = world.broker(1).image.controller_id
    world.network.delay(f"broker-{controller}", "broker-3", 20 * MS)

    await stop_all(world)

    assert world.errors.logged == []


@pytest.mark.brokers(3, **LAG)
async def test_producers_are_not_heard_while_all_stop(world: World) -> None:
    """A produce that comes when the log has got its last record ends with its connection, and is in no log."""
    await world.topic(replicas=(1, 2, 3))
    client = await world.client(1)
    await client.produce("t", batch())
    world.broker(1).append_no_more()

    client.send_produce("t", batch())
    await client.lost()

    assert world.partition(1).log.log_end == 1


@pytest.mark.brokers(3, **LAG)
async def test_follower_that_lags_gets_what_is_left_before_the_stop(world: World) -> None:
    """Broker 3 is cut off when the stop begins, and comes back 300 ms later: it is waited for."""
    await world.topic(replicas=(1, 2, 3))
    client = await world.client(1)
    await client.produce("t", batch())
    world.network.cut("broker-1", "broker-3")
    client.send_produce("t", batch(), acks=1)
    await world.until(lambda: world.partition(1).log.log_end == 2)
    third = world.partition(3)

    stopping = asyncio.ensure_future(stop_all(world))
    await world.later(0.3)
    assert third.log.log_end == 1
    world.network.heal("broker-1", "broker-3")
    await stopping

    record = world.cluster.store.image.partition("t", 0)
    assert third.log.log_end == 2
    assert record is not None
    assert record.isr == (1, 2, 3)


@pytest.mark.brokers(3, **LAG)
async def test_stop_goes_on_without_a_follower_that_does_not_come(world: World) -> None:
    """Broker 3 stays cut off: it is out of the in-sync set, and the stop ends nevertheless."""
    await world.topic(replicas=(1, 2, 3))
    client = await world.client(1)
    await client.produce("t", batch())
    world.network.cut("broker-1", "broker-3")
    client.send_produce("t", batch(), acks=1)
    await world.until(lambda: world.partition(1).log.log_end == 2)

    took_s = await stop_all(world)

    record = world.cluster.store.image.partition("t", 0)
    assert took_s < 15
    assert record is not None
    assert record.leader == NONE
    assert 3 not in record.isr


@pytest.mark.brokers(3, **LAG)
async def test_one_broker_alone_still_hands_over(world: World) -> None:
    """A stop of one broker is a controlled shutdown as ever: the others lead on."""
    await world.topic(replicas=(2, 1, 3))
    await (await world.client(2)).produce("t", batch())

    await world.as_broker(2, world.node(2).stop())
    await world.until(lambda: world.partition(1).is_leader)

    assert world.partition(1).isr == (1, 3)
    assert world.partition(1).log.log_end == world.partition(3).log.log_end == 1


@pytest.mark.parametrize("seed", range(12))
def test_nothing_is_lost_over_stops_of_all_with_a_lost_disk_each_time(seed: int) -> None:
    """Three times all stop together, one of them loses its logs, and they start in any order: every record is there.

    Also those of acks=1: a clean stop is no reason to lose one.
    """
    dice = random.Random(seed)
    world = World(brokers=3, seed=seed, min_insync_replicas=dice.choice((1, 2)), **LAG)

    async def scene() -> None:
        await world.topic(replicas=(1, 2, 3))
        written = 0
        for _ in range(3):
            await world.until(lambda: any(world.partition(each).is_leader for each in (1, 2, 3)))
            leader = next(each for each in (1, 2, 3) if world.partition(each).is_leader)
            await world.until(lambda leader=leader: len(world.partition(leader).isr or ()) == 3)
            client = await world.client(leader)
            for number in range(dice.randint(1, 5)):
                row = await client.produce("t", batch(), acks=1 if number % 2 else -1)
                assert row.error_code == ErrorCode.NONE
                written += 1
            await stop_all(world)
            for each in (1, 2, 3):
                world.kill(each)
            loser = dice.choice((0, 1, 2, 3))
            if loser:
                names = world.host(loser).medium.root.names[LOG_DIRECTORY.strip("/")].names
                if "t-0" in names:
                    del names["t-0"]
            order = dice.sample((1, 2, 3), 3)
            for each in order:
                world.cluster.start(world.host(each))
                await world.later(dice.choice((0, 0.01, 0.5)))
            for each in order:
                await world.host(each).starting  # type: ignore[misc]
        await world.until(lambda: all(world.partition(each).high_watermark == written for each in (1, 2, 3)))
        world.errors.take()

    world.run(scene)
