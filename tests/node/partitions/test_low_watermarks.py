"""DeleteRecords: answered when every live replica has dropped the records (KIP-107)."""

import errno
from typing import Any

import pytest

from syncline.model.errors import ErrorCode
from syncline.wire.api import ApiKey
from tests.node.wire_client import WireClient, at, batch, offsets
from tests.node.world import World

LAG = {"replica_lag_time_max_ms": 60_000, "replica_socket_timeout_ms": 60_000}


async def delete(client: WireClient, offset: int, timeout_ms: int = 30_000, topic: str = "t") -> Any:
    """Delete the records below an offset; return the (error code, low watermark) of the answer."""
    answer = await client.ask(
        ApiKey.DELETE_RECORDS,
        2,
        topics=[{"name": topic, "partitions": [{"partition_index": 0, "offset": offset}]}],
        timeout=timeout_ms,
    )
    row = answer.topics[0].partitions[0]
    return ErrorCode(int(row.error_code)), int(row.low_watermark)


async def replicated(world: World) -> WireClient:
    """Return a client; broker 2 has all ten records of the topic that broker 1 leads."""
    await world.topic(replicas=(1, 2))
    client = await world.client()
    for _ in range(5):
        await client.produce("t", batch(2))
    return client


@pytest.mark.brokers(3)
async def test_delete_records_is_answered_when_the_follower_has_followed(world: World) -> None:
    """The low watermark is that of the slowest live replica."""
    client = await replicated(world)
    answer = await delete(client, 4)

    assert answer == (ErrorCode.NONE, 4)
    assert (world.partition(1).log.log_start, world.partition(2).log.log_start) == (4, 4)


@pytest.mark.brokers(3)
async def test_delete_records_goes_up_to_the_high_watermark_when_no_offset_is_given(world: World) -> None:
    """-1 means everything that is committed."""
    client = await replicated(world)

    assert await delete(client, -1) == (ErrorCode.NONE, 10)


@pytest.mark.brokers(3)
async def test_delete_records_times_out_when_the_follower_is_silent(world: World) -> None:
    """The leader's log start has risen all the same; the answer says how far the slowest is."""
    client = await replicated(world)
    world.network.cut("broker-2", "broker-1")
    began = world.loop.time()
    answer = await delete(client, 4, timeout_ms=300)
    took_s = world.loop.time() - began
    row = await client.fetch("t", 0)
    world.network.heal("broker-2", "broker-1")

    assert answer == (ErrorCode.REQUEST_TIMED_OUT, 0)
    assert 0.3 <= took_s < 0.32
    assert row.error_code == ErrorCode.OFFSET_OUT_OF_RANGE


@pytest.mark.brokers(3)
async def test_delete_records_does_not_wait_for_a_broker_when_it_is_fenced(world: World) -> None:
    """The leader stops waiting for a follower that dies."""
    client = await replicated(world)
    world.network.cut("broker-2", "broker-1")
    waiting = world.loop.create_task(delete(client, 6))
    await world.until(lambda: world.partition().log.log_start == 6)
    await world.later(0.1)
    is_early = waiting.done()
    world.kill(2)
    answer = await waiting
    world.network.heal("broker-2", "broker-1")

    assert not is_early
    assert answer == (ErrorCode.NONE, 6)


@pytest.mark.brokers(3)
async def test_delete_records_is_sent_on_when_leadership_is_lost_while_it_waits(world: World) -> None:
    """The new leader decides; the old one no longer knows its followers."""
    await world.topic(replicas=(3, 2))
    client = await world.client(3)
    await client.produce("t", batch(10))
    world.network.cut("broker-2", "broker-3")
    waiting = world.loop.create_task(delete(client, 6, timeout_ms=60_000))
    await world.until(lambda: world.partition(3).log.log_start == 6)
    world.network.cut("broker-3", "broker-1")
    answer = await waiting
    world.network.heal("broker-3", "broker-1")
    world.network.heal("broker-2", "broker-3")

    assert answer == (ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)


@pytest.mark.parametrize(
    ("offset", "expected"),
    [
        pytest.param(11, ErrorCode.OFFSET_OUT_OF_RANGE, id="above-the-high-watermark"),
        pytest.param(-2, ErrorCode.OFFSET_OUT_OF_RANGE, id="negative"),
    ],
)
async def test_delete_records_is_refused_when_the_offset_is_impossible(
    world: World, offset: int, expected: ErrorCode
) -> None:
    """What is not committed is not deleted."""
    await world.topic()
    client = await world.client()
    await client.produce("t", batch(10))

    assert await delete(client, offset) == (expected, -1)
    assert world.partition().log.log_start == 0


async def test_delete_records_is_refused_when_the_topic_is_compacted_or_unknown(world: World) -> None:
    """A compacted topic keeps the last record of each key; an unknown one keeps nothing."""
    await world.topic("compacted", cleanup_policy="compact")
    client = await world.client()

    assert await delete(client, 0, topic="compacted") == (ErrorCode.POLICY_VIOLATION, -1)
    assert await delete(client, 0, topic="nowhere") == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1)


@pytest.mark.brokers(2)
async def test_delete_records_is_refused_when_another_broker_leads(world: World) -> None:
    """The client asks again where the leader is."""
    await world.topic(replicas=(2, 1))

    assert await delete(await world.client(1), 0) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)


async def test_delete_records_says_so_when_the_log_is_offline(world: World) -> None:
    """A failed disk is an answer, not a reason to hang up."""
    await world.topic()
    client = await world.client()
    await client.produce("t", batch())
    world.host().disk.fail_next("append", errno.EIO)
    await client.produce("t", batch())
    answer = await delete(client, 1)
    world.kill(1)

    assert answer == (ErrorCode.KAFKA_STORAGE_ERROR, -1)


async def test_delete_records_tells_a_parked_fetch_when_its_wait_is_over(world: World) -> None:
    """A new log start wakes no fetch, but a reader below it gets an error and no records."""
    await world.topic()
    client, reader = await world.client(), await world.client()
    await client.produce("t", batch(2))
    await client.produce("t", batch(2))
    parked = reader.send_fetch({"t": [at(0)]}, max_wait_ms=500, min_bytes=1 << 20)
    await world.until(lambda: len(world.broker().fetching.deadlines) == 1)
    await delete(client, 2)
    row = await reader.fetched_row(parked)
    fresh = await client.fetch("t", 2)

    assert (row.error_code, bytes(row.records)) == (ErrorCode.OFFSET_OUT_OF_RANGE, b"")
    assert (offsets(fresh.records), fresh.log_start_offset) == ([2], 2)


@pytest.mark.brokers(3, **LAG)
async def test_g14_delete_records_times_out_when_a_follower_is_silent(world: World) -> None:
    """Broker 3 never reports its new log start: the answer comes when its time is over, the leader's has moved."""
    await world.topic(replicas=(1, 2, 3))
    client = await world.client(1)
    await client.produce("t", batch(70))
    await world.until(lambda: world.partition(3).high_watermark == 70)
    world.network.cut("broker-3", "broker-1")
    began = world.loop.time()
    error, _ = await delete(client, 60, timeout_ms=1_000)
    took_s = world.loop.time() - began
    world.network.heal("broker-3", "broker-1")

    assert error == ErrorCode.REQUEST_TIMED_OUT
    assert 1.0 <= took_s < 1.1
    assert world.partition(1).log.log_start == 60
