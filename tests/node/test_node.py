"""The node: its start, its stop, and a disk that fails."""

import asyncio
import errno
from dataclasses import replace
from typing import Any

import pytest

from syncline.core.replication.leader import LeaderPartition
from syncline.model.errors import ErrorCode
from syncline.model.ids import TopicPartition
from syncline.node.partitions import isr_ticks
from syncline.storage.errors import DiskFullError
from syncline.storage.log import PartitionLog
from tests.node.wire_client import batch
from tests.node.world import World


async def test_node_has_what_it_stored_when_it_is_started_again(world: World) -> None:
    """After a kill or a stop, all acknowledged records exist."""
    await world.topic()
    await (await world.client()).produce("t", batch(3))
    world.kill(1)
    await world.start(1)
    await world.until(lambda: world.partition().is_leader)
    row = await (await world.client()).produce("t", batch())

    assert (row.error_code, row.base_offset) == (ErrorCode.NONE, 3)


async def test_node_closes_its_clients_when_it_stops(world: World) -> None:
    """Parked requests end with their connection, and no timer or task is left behind."""
    await world.topic()
    client = await world.client()
    client.send_fetch({}, max_wait_ms=30_000)
    await world.as_broker(1, world.node().stop())
    await client.lost()

    assert len(world.broker().fetching.deadlines) == 0


@pytest.mark.brokers(1, started=0)
async def test_node_tells_its_owner_when_the_disk_fails(world: World) -> None:
    """Its partitions need other leaders, so the owner of the node decides whether the process continues."""
    told: list[str] = []
    host = world.host()
    world.cluster.start(host)
    world.node().on_unfit = told.append
    await host.starting
    await world.topic()
    world.host().disk.fail_next("append", errno.EIO)
    row = await (await world.client()).produce("t", batch())
    # First it tells the controller and the journal why.
    told_at_once = list(told)
    await world.until(lambda: told)
    world.kill(1)

    assert (row.error_code, told_at_once) == (ErrorCode.KAFKA_STORAGE_ERROR, [])
    assert [reason.startswith("the disk failed t-0") for reason in told] == [True]


@pytest.mark.brokers(2, replica_lag_time_max_ms=1_000, broker_session_timeout_ms=30_000)
async def test_node_judges_the_other_partitions_when_the_tick_of_one_fails(world: World) -> None:
    """The fault is logged; followers of the partitions behind it leave the ISR in time."""
    await world.topic("s", replicas=(1, 2))
    await world.topic("t", replicas=(1, 2))
    world.network.cut("broker-2", "broker-1")
    for topic in ("s", "t"):
        await (await world.client()).produce(topic, batch(), acks=1)
    broken = world.partition(1, "s").leader
    settings = broken.settings
    broken.settings = replace(settings, lag=None)
    await world.until(lambda: world.partition(1, "t").record.isr == (1,))
    broken.settings = settings
    found = world.errors.take()
    world.network.heal("broker-2", "broker-1")

    assert found
    assert all("s-0: the periodic check of its ISR failed" in each for each in found)


@pytest.mark.brokers(3)
async def test_node_hands_its_leaderships_over_when_it_stops(world: World) -> None:
    """A clean stop changes leaders without a gap: clients are redirected at once."""
    await world.topic(replicas=(2, 3))
    await (await world.client(2)).produce("t", batch())
    await world.as_broker(2, world.node(2).stop())
    await world.until(lambda: world.partition(3).is_leader)

    assert world.broker(1).image.brokers[2].fenced
    assert world.partition(3).high_watermark == 1


async def test_node_follows_the_metadata_on_when_a_deleted_log_cannot_be_renamed(world: World) -> None:
    """The node reports the disk's failure, and applies the rest of the image."""
    told: list[str] = []
    world.node().on_unfit = told.append
    await world.topic("t")
    await (await world.client()).produce("t", batch())
    world.host().disk.fail_next("rename", errno.EIO)
    await world.delete_topic("t")
    await world.topic("u")
    row = await (await world.client()).produce("u", batch())
    await world.until(lambda: told)

    assert row.error_code == ErrorCode.NONE
    assert [reason.startswith("the disk failed t-0") for reason in told] == [True]


@pytest.mark.interpreted
async def test_node_hosts_a_partition_later_when_the_disk_had_no_room(world: World) -> None:
    """A full disk breaks nothing: the broker keeps running, and creates the partition when there is room."""
    told: list[str] = []
    world.node().on_unfit = told.append
    create = world.broker().logs.create
    refusals = [DiskFullError("no room"), OSError(errno.EMFILE, "too many files")]

    def create_when_there_is_room(*arguments: Any) -> PartitionLog:
        if refusals:
            raise refusals.pop()
        return create(*arguments)

    world.broker().logs.create = create_when_there_is_room  # type: ignore[method-assign]
    await world.topic("t")
    await world.until(lambda: TopicPartition("t", 0) in world.broker().partitions)

    assert (await (await world.client()).produce("t", batch())).error_code == ErrorCode.NONE
    assert (told, refusals) == ([], [])


@pytest.mark.brokers(1)
@pytest.mark.interpreted
async def test_node_judges_a_slice_of_its_partitions_in_one_turn_of_the_loop(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Requests are answered between two slices."""
    monkeypatch.setattr(isr_ticks, "SLICE", 4)
    await world.topic(partitions=10)
    broker = world.broker()
    for partition in broker.partitions.values():
        partition.leader.configure(partition.leader.settings, 0)
    seen = []
    tick = LeaderPartition.tick
    monkeypatch.setattr(LeaderPartition, "tick", lambda leader, now_ms: seen.append(leader) or tick(leader, now_ms))
    world.call(1, broker.isr_ticks.tick)
    turns = [len(seen)]
    while len(seen) < 10:
        await asyncio.sleep(0)
        turns.append(len(seen))

    assert turns[0] == 4
    assert len(set(seen)) == 10
    assert list(dict.fromkeys(turns)) == [4, 8, 10]
