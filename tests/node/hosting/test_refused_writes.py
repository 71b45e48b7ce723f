"""Brokers whose disk refuses writes: leaderships go where records can be written, and return to nobody by force."""

import errno

import pytest

from syncline.model.errors import ErrorCode
from syncline.model.events import Observation
from syncline.model.impairments import Refusal
from syncline.node.hosting import partition_status
from syncline.virtual.disk.medium import ROOM_BYTES
from tests.node.metrics.scraping import scrape
from tests.node.wire_client import batch
from tests.node.world import World

SETTINGS = {"min_insync_replicas": 2, "replica_lag_time_max_ms": 30_000, "broker_heartbeat_interval_ms": 500}
# The heartbeat, and what the issue allows beyond it.
LED_ELSEWHERE_S = 0.5 + 1.0
BACK_S = 10.0


def fill(world: World, *broker_ids: int) -> None:
    """Leave no room on the disks of these brokers."""
    for broker_id in broker_ids:
        medium = world.host(broker_id).medium
        medium.room_bytes = medium.used_bytes()


def make_room(world: World, *broker_ids: int) -> None:
    """End what `fill` began."""
    for broker_id in broker_ids:
        world.host(broker_id).medium.room_bytes = ROOM_BYTES


def leader(world: World, topic: str = "t") -> int:
    """Return the leader as broker 3 knows it."""
    record = world.broker(3).image.partition(topic, 0)
    assert record is not None
    return record.leader


def isr(world: World, topic: str = "t") -> set[int]:
    """Return the ISR as broker 3 knows it."""
    record = world.broker(3).image.partition(topic, 0)
    assert record is not None
    return set(record.isr)


async def produce(world: World, broker_id: int, acks: int = -1) -> ErrorCode:
    """Return what a broker answers to one record."""
    row = await (await world.client(broker_id)).produce("t", batch(), acks=acks)
    return ErrorCode(row.error_code)


@pytest.mark.brokers(3, **SETTINGS)
async def test_full_leader_hands_over_and_returns_by_itself(world: World) -> None:
    """Guards: a full broker kept its leaderships, and every acks=all request timed out until there was room."""
    await world.topic(replicas=(1, 2, 3))
    await world.topic("idle", replicas=(1, 2, 3))
    fill(world, 1)
    began_s = world.loop.time()
    refused = await produce(world, 1)
    await world.until(lambda: leader(world) == 2 and leader(world, "idle") == 2)
    led_elsewhere_s = world.loop.time() - began_s
    accepted = await produce(world, 2)
    acknowledged_s = world.loop.time() - began_s
    await world.later(5)
    while_full = isr(world)
    make_room(world, 1)
    began_s = world.loop.time()
    await world.until(lambda: isr(world) == {1, 2, 3})
    back_s = world.loop.time() - began_s

    assert (refused, accepted) == (ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NONE)
    assert led_elsewhere_s <= LED_ELSEWHERE_S
    assert acknowledged_s <= LED_ELSEWHERE_S
    assert while_full == {2, 3}
    assert back_s <= BACK_S
    assert leader(world) == 2


@pytest.mark.brokers(3, **SETTINGS)
async def test_full_follower_holds_no_acknowledgement(world: World) -> None:
    """Guards: acks=all waited for a follower that could not append, for replica.lag.time.max.ms."""
    await world.topic(replicas=(2, 1, 3))
    fill(world, 1)
    began_s = world.loop.time()
    code = await produce(world, 2)
    acknowledged_s = world.loop.time() - began_s
    while_full = isr(world)
    make_room(world, 1)

    assert (code, while_full) == (ErrorCode.NONE, {2, 3})
    assert acknowledged_s <= LED_ELSEWHERE_S


@pytest.mark.brokers(3, **SETTINGS)
async def test_leadership_does_not_go_round_when_all_disks_are_full(world: World) -> None:
    """Guards: one election per broker that could still write, then silence; the first with room leads."""
    await world.topic(replicas=(1, 2, 3))
    fill(world, 1, 2, 3)
    for _ in range(3):
        for broker_id in (1, 2, 3):
            await produce(world, broker_id, acks=1)
        await world.later(1)
    record = world.broker(3).image.partition("t", 0)
    await world.later(20)
    later = world.broker(3).image.partition("t", 0)
    make_room(world, 2)
    await world.until(lambda: leader(world) == 2)
    make_room(world, 1, 3)
    await world.until(lambda: isr(world) == {1, 2, 3})

    assert record is not None
    assert record.leader_epoch <= 2
    assert later == record
    assert await produce(world, 2) is ErrorCode.NONE


@pytest.mark.brokers(3, **SETTINGS)
@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE])
async def test_each_refusal_that_breaks_nothing_moves_the_leadership(world: World, error: int) -> None:
    """Quotas and descriptors are as good a reason as space."""
    await world.topic(replicas=(1, 2, 3))
    disk = world.host(1).disk
    assert disk is not None
    disk.fail_next("append", error)
    code = await produce(world, 1)
    refusal = world.broker(1).replicas.refused_writes.refusal
    await world.until(lambda: leader(world) == 2)
    await world.until(lambda: isr(world) == {1, 2, 3})

    assert code is ErrorCode.KAFKA_STORAGE_ERROR
    assert refusal is (Refusal.NO_DESCRIPTORS if error in {errno.EMFILE, errno.ENFILE} else Refusal.NO_ROOM)
    assert not world.partition(1).is_offline


@pytest.mark.brokers(3, **SETTINGS)
async def test_status_and_metrics_name_a_full_disk(world: World) -> None:
    """The data of `syncline isr` say which replica cannot write, and why; Prometheus gets the numbers."""
    await world.topic(replicas=(1, 2, 3))
    fill(world, 1)
    await produce(world, 1)
    await world.until(lambda: leader(world) == 2)
    await world.until(lambda: world.partition(2).is_leader)
    (row,) = partition_status.show(world.broker(2), {"topic": "t"})["partitions"]
    samples = await scrape(world)
    make_room(world, 1)

    assert row["trouble"] is None
    assert {each["broker"]: each["trouble"] for each in row["followers"]} == {1: "no-room", 3: None}
    assert samples["syncline_unfit_replicas"] == 1
    assert samples["syncline_refused_writes_total"] >= 1


@pytest.mark.brokers(3, **SETTINGS)
async def test_refusals_are_logged_once_and_counted(world: World) -> None:
    """Guards: 216 lines about one full disk."""
    events: list[Observation] = []
    await world.topic(replicas=(2, 1, 3))
    world.broker(1).journal.on_event = lambda event: events.append(event) if isinstance(event, Observation) else None
    fill(world, 1)
    for _ in range(20):
        await produce(world, 2)
        await world.later(0.5)
    make_room(world, 1)
    await world.until(lambda: isr(world) == {1, 2, 3})
    mine = [each for each in events if each.kind == "writes-refused"]
    about = [each for each in world.errors.lines if "No space" in each or "can write again" in each]

    assert [each.phase for each in mine if each.phase != "ongoing"] == ["begin", "end"]
    assert mine[-1].evidence["refusal"] == "no-room"
    assert mine[-1].evidence["errno"] == "ENOSPC"
    assert int(mine[-1].evidence["refused_count"]) > 5
    assert len(about) == 2


@pytest.mark.brokers(3, **SETTINGS)
async def test_broker_that_relapses_waits_longer(world: World) -> None:
    """Little room accepts a probe and refuses what comes next: the broker must not come and go every second."""
    await world.topic(replicas=(1, 2, 3))
    disk = world.host(1).disk
    assert disk is not None
    writes = world.broker(1).replicas.refused_writes
    pauses_s = []
    for _ in range(5):
        disk.fail_next("append", errno.ENOSPC)
        await produce(world, leader(world), acks=1)
        await world.until(lambda: writes.refusal is not None)
        began_s = world.loop.time()
        await world.until(lambda: writes.refusal is None)
        pauses_s.append(round(world.loop.time() - began_s))

    assert pauses_s == [1, 2, 4, 4, 4]
