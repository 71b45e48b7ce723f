"""ListOffsets: what is committed for consumers, what is there for tools that look into one replica."""

import errno

import pytest

from syncline.model.errors import ErrorCode
from syncline.storage.errors import DiskFullError
from syncline.wire.api import ApiKey
from tests.node.wire_client import WireClient, batch
from tests.node.world import World

CONSUMER, DEBUGGER = -1, -2
LATEST = -1


async def short_of_a_replica(world: World) -> None:
    """Create a topic that lacks one replica of its smallest in-sync set, so that nothing is committed."""
    await world.topic(replicas=(1, 2, 3), min_insync_replicas=3)
    world.kill(3)
    await world.until(lambda: world.partition(1).isr == (1, 2))


async def offset(client: WireClient, replica_id: int, timestamp: int = LATEST) -> tuple[int, int]:
    """Return code and offset of partition 0."""
    partition = {"partition_index": 0, "current_leader_epoch": -1, "timestamp": timestamp}
    answer = await client.ask(
        ApiKey.LIST_OFFSETS,
        7,
        replica_id=replica_id,
        isolation_level=0,
        topics=[{"name": "t", "partitions": [partition]}],
    )
    row = answer.topics[0].partitions[0]
    return row.error_code, row.offset


@pytest.mark.brokers(3)
async def test_debugger_sees_the_log_end_of_any_replica(world: World) -> None:
    """Two records lie beyond the watermark, which stands while the in-sync set is below its minimum."""
    await short_of_a_replica(world)
    leader, follower = await world.client(1), await world.client(2)
    for _ in range(2):
        await leader.produce("t", batch(), acks=1)
    await world.until(lambda: world.partition(2).log.log_end == 2)

    assert (ErrorCode.NONE, 0) == await offset(leader, CONSUMER)
    assert (ErrorCode.NONE, 2) == await offset(leader, DEBUGGER)
    assert (ErrorCode.NONE, 2) == await offset(follower, DEBUGGER)
    assert (ErrorCode.NOT_LEADER_OR_FOLLOWER, -1) == await offset(follower, CONSUMER)


@pytest.mark.brokers(3)
async def test_debugger_finds_records_by_time_beyond_the_watermark(world: World) -> None:
    """A consumer finds nothing there yet."""
    await short_of_a_replica(world)
    client = await world.client()
    await client.produce("t", batch(), acks=1)

    assert (ErrorCode.NONE, -1) == await offset(client, CONSUMER, timestamp=0)
    assert (ErrorCode.NONE, 0) == await offset(client, DEBUGGER, timestamp=0)


async def test_log_whose_disk_refuses_concerns_one_row(world: World) -> None:
    """Guards: a search in a log with a half-done deletion, which is completed first, closed the connection."""
    await world.topic()
    await world.topic("u")
    client = await world.client()
    await client.produce("t", batch())
    log, disk = world.partition().log, world.host().disk
    assert disk is not None
    world.call(1, log.roll)
    await client.produce("t", batch())
    log.raise_log_start(log.high_watermark)
    disk.fail_next("rename", errno.ENOSPC)
    with pytest.raises(DiskFullError):
        world.call(1, log.retention, 0)
    disk.fail_next("rename", errno.ENOSPC)
    partition = {"partition_index": 0, "current_leader_epoch": -1, "timestamp": 0}
    answer = await client.ask(
        ApiKey.LIST_OFFSETS,
        7,
        replica_id=CONSUMER,
        isolation_level=0,
        topics=[{"name": name, "partitions": [partition]} for name in ("t", "u")],
    )
    codes = {each.name: int(each.partitions[0].error_code) for each in answer.topics}

    assert codes == {"t": ErrorCode.KAFKA_STORAGE_ERROR, "u": ErrorCode.NONE}
