"""Damaged leaders: a follower that cannot copy them says so, and a leader believes its own checks alone."""

from typing import Any

import pytest

from syncline.model.errors import ErrorCode
from syncline.model.events import Event, Observation
from syncline.model.ids import TopicPartition
from syncline.node.replication.doubts import Doubt
from syncline.virtual.cluster import LOG_DIRECTORY
from syncline.wire.api import ApiKey
from tests.node.wire_client import batch
from tests.node.world import World

KEY = TopicPartition("t", 0)
ROOT = LOG_DIRECTORY.strip("/")
SETTINGS = {"replica_lag_time_max_ms": 60_000, "broker_heartbeat_interval_ms": 500, "min_insync_replicas": 1}
RECORDS = 20


def names(world: World, broker_id: int) -> dict[str, Any]:
    """Return the names in a broker's data directory."""
    found: dict[str, Any] = world.host(broker_id).medium.root.names[ROOT].names
    return found


def flip(world: World, broker_id: int, position: int) -> None:
    """Flip a bit in a broker's log, as a disk does that returns what it was never given."""
    log = names(world, broker_id)["t-0"].names["00000000000000000000.log"]
    for contents in (log.data, log.durable):
        if position < len(contents):
            contents[position] ^= 4


def lose_directory(world: World, broker_id: int) -> None:
    """Replace a broker's disk by an empty one."""
    medium = world.host(broker_id).medium
    medium.change((medium.root, ROOT, None))
    medium.sync_directory(medium.root)


def record(world: World, broker_id: int) -> Any:
    """Return the state of t-0 in a broker's image."""
    return world.broker(broker_id).image.partition(*KEY)


def middle(world: World, broker_id: int) -> int:
    """Return a position among the records of a batch in the middle of a log."""
    log = names(world, broker_id)["t-0"].names["00000000000000000000.log"]
    size_bytes = len(log.data) // RECORDS
    return size_bytes * (RECORDS // 2) + size_bytes - 3


async def written(world: World, *replicas: int) -> None:
    """Create t-0, and write to it until all replicas have everything."""
    await world.topic(replicas=replicas)
    client = await world.client(replicas[0])
    for _ in range(RECORDS):
        assert (await client.produce("t", batch(), acks=-1)).error_code == ErrorCode.NONE
    client.transport.close()
    await world.until(lambda: all(world.partition(each).log.log_end == RECORDS for each in replicas))


def heard(world: World, broker_id: int) -> list[Observation]:
    """Return the list of observations that a broker journals from now on."""
    found: list[Observation] = []

    def take(event: Event) -> None:
        if isinstance(event, Observation):
            found.append(event)

    world.broker(broker_id).journal.on_event = take
    return found


@pytest.mark.brokers(3, **SETTINGS)
async def test_leader_that_cannot_be_copied_hands_over(world: World) -> None:
    """Guards: it went on leading, its new follower tried for ever, and `why` called it a burst of writes."""
    await written(world, 1, 2, 3)
    seen = heard(world, 1)
    world.kill(3)
    lose_directory(world, 3)
    await world.until(lambda: record(world, 1).isr == (1, 2))
    flip(world, 1, middle(world, 1))
    await world.start(3)
    began_s = world.loop.time()
    await world.until(lambda: record(world, 2).leader == 2)
    led_elsewhere_s = world.loop.time() - began_s
    await world.until(lambda: set(record(world, 2).isr) == {1, 2, 3})
    logs = [bytes(names(world, each)["t-0"].names["00000000000000000000.log"].data) for each in (1, 2, 3)]
    found = [each for each in seen if each.kind == "log-damaged"]

    assert led_elsewhere_s <= 1.5
    assert logs[0] == logs[1] == logs[2]
    assert [each.phase for each in found] == ["begin", "end"]
    assert "at 10 arrived damaged" in str(found[0].evidence["reason"])
    assert (found[0].subject, found[0].topic, found[0].partition) == (1, "t", 0)


@pytest.mark.brokers(2, **{**SETTINGS, "replica_lag_time_max_ms": 1_000})
async def test_damaged_sole_copy_is_served_and_reported(world: World) -> None:
    """No other replica can lead: readers get what is sound, producers go on, and the controller knows."""
    await written(world, 1, 2)
    seen = heard(world, 1)
    world.kill(2)
    lose_directory(world, 2)
    await world.until(lambda: record(world, 1).isr == (1,))
    flip(world, 1, middle(world, 1))
    await world.start(2)
    await world.until(lambda: world.broker(1).image.brokers[1].impaired)
    await world.later(5)
    client = await world.client(1)
    produced = await client.produce("t", batch(), acks=-1)
    read = await client.fetch("t", RECORDS)

    assert (record(world, 1).leader, record(world, 1).isr) == (1, (1,))
    assert (produced.error_code, read.error_code) == (ErrorCode.NONE, ErrorCode.NONE)
    assert world.broker(1).replicas.offline.served() == [KEY]
    assert next(each.phase for each in seen if each.kind == "log-damaged") == "begin"
    assert len([each for each in world.errors.lines if "is damaged but still served" in each]) == 1


@pytest.mark.brokers(3, **SETTINGS)
async def test_follower_cannot_dethrone_a_sound_leader(world: World) -> None:
    """Whatever it says about whichever place, the leader reads its own log, at most once per second."""
    await written(world, 1, 2, 3)
    topic_id = world.broker(1).image.topics["t"].topic_id
    doubted = world.broker(1).replicas.doubted
    liar = await world.peer(1)
    for offset in (0, 7, RECORDS - 1, RECORDS, 1 << 40, -5):
        for follower in (2, 9):
            body = Doubt(follower, topic_id, 0, world.partition(1).leader_epoch, offset).encode()
            liar.send(ApiKey.DOUBT, 0, body)
        await world.later(1.1)
    warned = [each for each in world.errors.lines if "this leader's log is sound there" in each]
    for _ in range(100):
        world.call(1, doubted.doubt, Doubt(2, topic_id, 0, world.partition(1).leader_epoch, 3))
    await world.later(0.5)
    warned_by_many = [each for each in world.errors.lines if "this leader's log is sound there" in each]

    assert record(world, 2).leader == 1
    assert record(world, 2).leader_epoch == 0
    assert [line.partition("offset ")[2].partition(";")[0] for line in warned] == ["0", "7", str(RECORDS - 1)]
    assert len(warned_by_many) == len(warned) + 1


@pytest.mark.brokers(3, **SETTINGS)
async def test_short_doubt_closes_the_connection(world: World) -> None:
    """Bytes that are no doubt are refused as any malformed request."""
    await written(world, 1, 2, 3)
    liar = await world.peer(1)
    liar.send(ApiKey.DOUBT, 0, b"short")
    await liar.lost()

    assert record(world, 2).leader == 1


@pytest.mark.brokers(2, **SETTINGS)
@pytest.mark.interpreted
async def test_damage_on_the_way_is_fetched_again_and_reported_to_nobody(world: World) -> None:
    """One bad answer is the network's fault: the follower has the records with the next one."""
    await written(world, 1, 2)
    seen = heard(world, 2)
    partition = world.partition(2)
    append = partition.log.append_as_follower
    damaged = []

    def append_damaged_once(records: Any, *rest: Any) -> Any:
        if not damaged:
            damaged.append(1)
            records = bytearray(records)
            records[-1] ^= 1
        return append(records, *rest)

    partition.log.append_as_follower = append_damaged_once  # type: ignore[method-assign]
    row = await (await world.client(1)).produce("t", batch(), acks=-1)

    assert row.error_code == ErrorCode.NONE
    assert damaged
    assert partition.log.log_end == RECORDS + 1
    assert [each for each in seen if each.kind == "records-refused"] == []
