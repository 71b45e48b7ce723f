"""Scenarios that need whole brokers: roles that change under a waiting request, old clients, bad disks."""

import errno
from typing import Any

import pytest

from syncline.model.errors import ErrorCode
from syncline.model.ids import NONE
from syncline.records.builder import BatchBuilder
from syncline.wire.api import ApiKey
from tests.node.wire_client import WireClient, batch, offsets
from tests.node.world import World

LAG = {"replica_lag_time_max_ms": 60_000, "replica_socket_timeout_ms": 60_000}


async def old_fetch(client: WireClient, version: int, offset: int = 0) -> Any:
    """Return the answer to a consumer's fetch of t-0 in an old version."""
    answer = await client.ask(
        ApiKey.FETCH,
        version,
        replica_id=-1,
        max_wait=0,
        min_bytes=0,
        max_bytes=1 << 20,
        isolation_level=0,
        session_id=0,
        session_epoch=-1,
        rack_id="",
        forgotten_topics_data=[],
        topics=[
            {
                "topic": "t",
                "partitions": [
                    {
                        "partition": 0,
                        "current_leader_epoch": -1,
                        "fetch_offset": offset,
                        "log_start_offset": -1,
                        "partition_max_bytes": 1 << 20,
                    }
                ],
            }
        ],
    )
    return answer.responses[0].partitions[0]


@pytest.mark.brokers(3, **LAG)
async def test_c13_a_waiting_produce_is_sent_on_when_leadership_goes(world: World) -> None:
    """acks=all waits at broker 2, which is cut off; when metadata names another leader it is answered."""
    await world.topic(replicas=(2, 1, 3))
    client = await world.client(2)
    leader_epoch = world.partition(2).leader_epoch
    for other in ("broker-1", "broker-3"):
        world.network.cut("broker-2", other)

    row = await client.produce("t", batch(), timeout_ms=50_000)
    for other in ("broker-1", "broker-3"):
        world.network.heal("broker-2", other)

    assert row.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert not world.partition(2).is_leader
    assert world.partition(2).leader_epoch == leader_epoch + 1
    assert world.partition(1).is_leader


@pytest.mark.brokers(2)
async def test_c15_a_produce_without_acknowledgement_closes_when_it_is_refused(world: World) -> None:
    """acks=0 to a follower: no answer can carry the error, so the connection ends."""
    await world.topic(replicas=(1, 2))
    await world.until(lambda: world.partition(2).follower is not None)
    follower, leader = await world.client(2), await world.client(1)

    follower.send_produce("t", batch(), acks=0)
    leader.send_produce("t", batch(), acks=0)
    await follower.lost()

    assert follower.answers == {}
    await world.until(lambda: world.partition(1).log.log_end == 1)
    assert not leader.is_lost


@pytest.mark.brokers(3, **LAG)
async def test_c27_a_retry_waits_for_its_original_when_that_is_not_committed(world: World) -> None:
    """The same sequences twice while the followers are silent: one batch in the log, two answers with its offset."""
    await world.topic(replicas=(1, 2, 3))
    client = await world.client(1)
    for _ in range(40):
        await client.produce("t", batch())
    builder = BatchBuilder(producer_id=9, producer_epoch=0, base_sequence=0)
    builder.append(1_700_000_000_000, b"key", b"a")
    builder.append(1_700_000_000_000, b"key", b"b")
    records = bytes(builder.build())
    for follower in ("broker-2", "broker-3"):
        world.network.cut("broker-1", follower)
    first, retry = client.send_produce("t", records), client.send_produce("t", records)
    await world.until(lambda: world.partition(1).log.log_end == 42)
    waited = (world.partition(1).high_watermark, {first, retry} & client.answers.keys())
    for follower in ("broker-2", "broker-3"):
        world.network.heal("broker-1", follower)
    rows = [await client.produced(each) for each in (first, retry)]

    assert waited == (40, set())
    assert [(row.error_code, row.base_offset) for row in rows] == [(ErrorCode.NONE, 40)] * 2
    assert (world.partition(1).log.log_end, world.partition(1).high_watermark) == (42, 42)


@pytest.mark.brokers(3, **LAG)
async def test_g14_delete_records_times_out_when_a_follower_is_silent(world: World) -> None:
    """Broker 3 never reports its new log start: the answer comes when its time is over, the leader's has moved."""
    await world.topic(replicas=(1, 2, 3))
    client = await world.client(1)
    await client.produce("t", batch(70))
    await world.until(lambda: world.partition(3).high_watermark == 70)
    world.network.cut("broker-3", "broker-1")
    began = world.loop.time()

    answer = await client.ask(
        ApiKey.DELETE_RECORDS,
        2,
        topics=[{"name": "t", "partitions": [{"partition_index": 0, "offset": 60}]}],
        timeout=1_000,
    )
    took_s = world.loop.time() - began
    world.network.heal("broker-3", "broker-1")

    row = answer.topics[0].partitions[0]
    assert int(row.error_code) == ErrorCode.REQUEST_TIMED_OUT
    assert 1.0 <= took_s < 1.1
    assert world.partition(1).log.log_start == 60


@pytest.mark.brokers(1)
@pytest.mark.parametrize(
    ("version", "error"),
    [
        pytest.param(5, ErrorCode.NOT_LEADER_OR_FOLLOWER, id="v5"),
        pytest.param(6, ErrorCode.KAFKA_STORAGE_ERROR, id="v6"),
    ],
)
async def test_h10_a_failed_log_is_told_in_words_the_client_knows(world: World, version: int, error: ErrorCode) -> None:
    """Up to version 5 a client is sent to look for another leader; from 6 on it may hear of the disk."""
    await world.topic()
    client = await world.client()
    await client.produce("t", batch())
    world.host().disk.fail_next("append", errno.EIO)
    refused = await client.produce("t", batch())

    row = await old_fetch(client, version)
    # A broker with a failed log cannot stop in good order.
    world.kill(1)

    assert refused.error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert int(row.error_code) == error


@pytest.mark.brokers(2)
async def test_h11_a_follower_serves_consumers_that_may_know_it(world: World) -> None:
    """Version 10 is sent to the leader; from 11 on a consumer reads from a follower, up to the follower's watermark."""
    await world.topic(replicas=(1, 2))
    leader, follower = await world.client(1), await world.client(2)
    await leader.produce("t", batch())
    await world.until(lambda: world.partition(2).high_watermark == 1)

    old, new = await old_fetch(follower, 10), await old_fetch(follower, 11)

    assert int(old.error_code) == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert int(new.error_code) == ErrorCode.NONE
    assert offsets(new.records) == [0]
    assert new.high_watermark == 1
    assert new.preferred_read_replica == NONE
