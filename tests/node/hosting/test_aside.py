"""Damaged logs set aside: nothing is destroyed before its replacement is in sync and holds as much."""

from typing import Any

import pytest

from syncline.model.errors import ErrorCode
from syncline.model.ids import NONE, OFFSETS_TOPIC, TopicPartition
from syncline.virtual.cluster import LOG_DIRECTORY
from syncline.wire.api import ApiKey
from tests.node.lag.groups import commit, coordinator_of
from tests.node.wire_client import batch
from tests.node.world import World

KEY = TopicPartition("t", 0)
ROOT = LOG_DIRECTORY.strip("/")
LAG = {"replica_lag_time_max_ms": 60_000, "replica_socket_timeout_ms": 60_000}
RECORDS = 20


def data_of(world: World, broker_id: int) -> dict[str, Any]:
    """Return the names in a broker's data directory."""
    names: dict[str, Any] = world.host(broker_id).medium.root.names[ROOT].names
    return names


def aside_of(world: World, broker_id: int) -> list[str]:
    """Return the names of what a broker has set aside."""
    return [name for name in data_of(world, broker_id) if name.endswith("-aside")]


def flip(world: World, broker_id: int, position: int, name: str = "t-0") -> bytes:
    """Flip a bit in a broker's log while it is down; return the log as it is then."""
    log = data_of(world, broker_id)[name].names["00000000000000000000.log"]
    for contents in (log.data, log.durable):
        if position < len(contents):
            contents[position] ^= 4
    return bytes(log.data)


def record(world: World, broker_id: int) -> Any:
    """Return the state of t-0 in a broker's image."""
    return world.broker(broker_id).image.partition(*KEY)


async def produce(world: World, broker_id: int, count: int) -> None:
    """Write records one by one with acks=all."""
    client = await world.client(broker_id)
    for _ in range(count):
        row = await client.produce("t", batch(), acks=-1)
        assert row.error_code == ErrorCode.NONE
    client.transport.close()


async def damaged_leader(world: World, position: int = 500) -> bytes:
    """Damage the log of 1, the leader, in its middle while it is down, and start it; return the damaged log."""
    await world.topic(replicas=(1, 2, 3))
    await produce(world, 1, RECORDS)
    await world.until(lambda: all(world.partition(each).log.log_end == RECORDS for each in (1, 2, 3)))
    world.kill(1)
    damaged = flip(world, 1, position)
    await world.until(lambda: record(world, 2).leader == 2)
    return damaged


@pytest.mark.brokers(3, **LAG)
async def test_damaged_log_is_kept_until_its_replacement_is_in_sync(world: World) -> None:
    """While the new copy is made, every byte of the old one is there, also after a restart; then it goes."""
    damaged = await damaged_leader(world)
    # Nothing to copy from for the moment: every read of 2 waits for its disk.
    world.slow_disk(2, 5_000)

    await world.start(1)
    await world.until(lambda: KEY in world.broker(1).partitions)
    copied = world.partition(1).log.log_end
    first = bytes(data_of(world, 1)["t-0.0-aside"].names["00000000000000000000.log"].data)
    world.kill(1)
    await world.start(1)
    await world.until(lambda: KEY in world.broker(1).partitions)
    second = bytes(data_of(world, 1)["t-0.0-aside"].names["00000000000000000000.log"].data)
    world.slow_disk(2, 0)
    await world.until(lambda: 1 in record(world, 1).isr)
    await world.until(lambda: not aside_of(world, 1))

    assert copied < RECORDS
    assert first == second == damaged
    assert world.partition(1).log.log_end == RECORDS
    world.errors.take()


@pytest.mark.brokers(3, **LAG)
async def test_log_set_aside_is_kept_when_the_new_copy_lacks_its_records(world: World) -> None:
    """2 is elected uncleanly with half of the records: the new copy of 1 is in sync, and proves nothing."""
    await world.topic(replicas=(1, 2, 3), unclean_leader_election_enable="true")
    await produce(world, 1, RECORDS)
    for broker_id in (2, 3):
        world.kill(broker_id)
    await world.until(lambda: record(world, 1).isr == (1,))
    await produce(world, 1, RECORDS)
    world.kill(1)
    damaged = flip(world, 1, 500)

    await world.start(2)
    await world.start(3)
    await world.until(lambda: record(world, 2).leader in (2, 3))
    await world.start(1)
    await world.until(lambda: 1 in record(world, 1).isr)
    await world.until(lambda: any("is kept, although the new copy" in each for each in world.errors.warnings))

    assert world.partition(1).log.log_end == RECORDS
    assert aside_of(world, 1) == ["t-0.0-aside"]
    assert bytes(data_of(world, 1)["t-0.0-aside"].names["00000000000000000000.log"].data) == damaged
    world.cluster.ghost.violations.clear()
    world.errors.take()


@pytest.mark.brokers(3, **LAG)
@pytest.mark.parametrize("is_down", [False, True], ids=["running", "down"])
async def test_log_set_aside_goes_with_its_topic(world: World, is_down: bool) -> None:
    """Also if the topic is deleted while the broker is down."""
    await damaged_leader(world)
    world.slow_disk(2, 5_000)
    await world.start(1)
    await world.until(lambda: aside_of(world, 1))
    if is_down:
        world.kill(1)

    await world.delete_topic()
    if is_down:
        await world.start(1)
    await world.until(lambda: not aside_of(world, 1))

    assert len(world.broker(1).logs.aside) == 0
    world.errors.take()


@pytest.mark.brokers(3, **LAG)
async def test_log_set_aside_is_shown_with_its_size(world: World) -> None:
    """In DescribeLogDirs as a directory with an error, whose bytes count as used."""
    damaged = await damaged_leader(world)
    world.slow_disk(2, 5_000)
    await world.start(1)
    await world.until(lambda: aside_of(world, 1))
    client = await world.client(1)

    answer = await client.ask(ApiKey.DESCRIBE_LOG_DIRS, 4, topics=None)

    assert [(int(each.error_code), each.log_dir, int(each.total_bytes)) for each in answer.results[1:]] == [
        (ErrorCode.KAFKA_STORAGE_ERROR, f"{LOG_DIRECTORY}/t-0.0-aside", len(damaged))
    ]
    assert int(answer.results[0].total_bytes) - int(answer.results[0].usable_bytes) >= len(damaged)
    assert world.broker(1).logs.aside.size_bytes == len(damaged)
    world.errors.take()


@pytest.mark.brokers(3, **LAG)
async def test_leader_found_damaged_gives_leadership_away_and_is_copied_again(world: World) -> None:
    """While it runs: another member of the ISR leads at once, and the damaged log is aside until 1 is back."""
    await world.topic(replicas=(1, 2, 3))
    await produce(world, 1, RECORDS)
    await world.until(lambda: record(world, 1).isr == (1, 2, 3))

    is_offline = world.call(1, world.broker(1).replicas.offline.damaged, KEY, "a test says so")
    await world.until(lambda: record(world, 2).leader == 2)
    await world.until(lambda: aside_of(world, 1))
    await world.until(lambda: 1 in record(world, 1).isr)
    await world.until(lambda: not aside_of(world, 1))
    await produce(world, 2, 1)

    assert is_offline
    await world.until(lambda: world.partition(1).log.log_end == RECORDS + 1)
    world.errors.take()


@pytest.mark.brokers(3, **LAG)
async def test_follower_outside_the_isr_that_is_found_damaged_is_copied_again(world: World) -> None:
    """The controller changes nothing then, so no metadata tells the broker to begin."""
    await world.topic(replicas=(1, 2, 3))
    await produce(world, 1, RECORDS)
    world.kill(3)
    await world.until(lambda: record(world, 1).isr == (1, 2))
    await produce(world, 1, RECORDS)
    world.slow_disk(1, 1_000)
    await world.start(3)
    await world.until(lambda: KEY in world.broker(3).partitions)

    world.call(3, world.broker(3).replicas.offline.damaged, KEY, "a test says so")
    aside = aside_of(world, 3)
    world.slow_disk(1, 0)
    await world.until(lambda: 3 in record(world, 1).isr)

    assert aside == ["t-0.0-aside"]
    world.errors.take()


@pytest.mark.brokers(1)
async def test_damage_in_the_only_replica_leaves_the_rest_readable(world: World) -> None:
    """No other could serve: it goes on leading, and what is sound can be read and written."""
    await world.topic()
    client = await world.client()
    await client.produce("t", batch())

    is_offline = world.call(1, world.broker().replicas.offline.damaged, KEY, "a test says so")
    row = await client.produce("t", batch())

    assert not is_offline
    assert (row.error_code, row.base_offset) == (ErrorCode.NONE, 1)


@pytest.mark.brokers(3, **LAG)
async def test_damage_is_remembered_over_a_restart(world: World) -> None:
    """A start may scan nothing, and here it would find nothing: only the note says that the log may not lead."""
    await world.topic(replicas=(1, 2, 3))
    await produce(world, 1, RECORDS)
    await world.until(lambda: record(world, 1).isr == (1, 2, 3))
    world.call(1, world.broker(1).replicas.offline.damaged, KEY, "a test says so")
    for broker_id in (1, 2, 3):
        world.kill(broker_id)

    await world.start(1)
    await world.until(lambda: world.broker(1).image.brokers[1].failed)

    assert record(world, 1).leader == NONE
    assert world.broker(1).logs.damaged[KEY] == "a test says so"
    world.errors.take()


@pytest.mark.brokers(3, offsets_topic_num_partitions=1, **LAG)
async def test_coordinator_that_reads_damage_gives_leadership_away(world: World) -> None:
    """A flipped bit in the log of groups would be read as another commit: a member with a sound copy takes over."""
    await world.topic()
    await world.topic(OFFSETS_TOPIC, replicas=(1, 2, 3), cleanup_policy="compact")
    await coordinator_of(world, "g")
    for offset in range(10):
        await commit(world, 1, "g", {("t", 0): offset})
    await world.until(lambda: len({world.partition(each, OFFSETS_TOPIC).log.log_end for each in (1, 2, 3)}) == 1)
    flip(world, 2, 300, f"{OFFSETS_TOPIC}-0")

    world.kill(1)

    await world.until(lambda: world.broker(3).image.partition(OFFSETS_TOPIC, 0).leader == 3)
    await coordinator_of(world, "g")
    client = await world.client(3)
    asked = [{"name": "t", "partition_indexes": [0]}]
    answer = await client.ask(ApiKey.OFFSET_FETCH, 7, group_id="g", topics=asked, require_stable=False)
    assert answer.topics[0].partitions[0].committed_offset == 9
    world.errors.take()
