"""Fetches: their looks, when they park and wake, and how they behave while a disk is slow."""

import errno

import pytest

from syncline.core.fetching.session_bytes import session_bytes
from syncline.model.errors import ErrorCode
from syncline.model.ids import TopicPartition
from syncline.wire.api import ApiKey
from tests.node.wire_client import WireClient, at, batch, offsets
from tests.node.world import World

LONG_MS = 30_000


async def parked(world: World, broker_id: int = 1, count: int = 1) -> None:
    """Wait until `count` operations are parked."""
    await world.until(lambda: len(world.broker(broker_id).fetching.deadlines) == count)


async def timed(world: World, client: WireClient, correlation_id: int) -> float:
    """Return how many more seconds the answer took."""
    began = world.loop.time()
    await client.body(correlation_id)
    return world.loop.time() - began


# Waiting


async def test_fetch_is_answered_empty_when_its_wait_is_over(world: World) -> None:
    """Without new records the answer leaves at max.wait.ms, and not before."""
    await world.topic()
    client = await world.client()
    fetch = client.send_fetch({"t": [at(0)]}, max_wait_ms=500)
    took_s = await timed(world, client, fetch)
    row = await client.fetched_row(fetch)

    assert (ErrorCode.NONE, 0, b"") == (row.error_code, row.high_watermark, bytes(row.records))
    assert 0.5 <= took_s < 0.52


async def test_fetch_is_answered_at_once_when_it_does_not_wait(world: World) -> None:
    """A fetch with a wait of 0 is not parked."""
    await world.topic()
    client = await world.client()
    took_s = await timed(world, client, client.send_fetch({"t": [at(0)]}, max_wait_ms=0))

    assert took_s < 0.01


async def test_fetch_without_a_session_leaves_no_trace_unless_it_waits(world: World) -> None:
    """Guards: each such fetch was watched and counted for its client, and forgotten again in the same callback."""
    await world.topic()
    client = await world.client()
    await client.produce("t", batch())
    await client.fetch("t", 0)
    watchers, (connection,) = world.partition().watchers, world.connections()
    before = (len(watchers), connection.holding.kept_bytes)
    client.send_fetch({"t": [at(1)]}, max_wait_ms=LONG_MS)
    await parked(world)

    assert before == (0, 0)
    assert (len(watchers), connection.holding.kept_bytes) == (1, session_bytes(1))


async def test_fetch_waits_when_there_is_less_than_it_wants(world: World) -> None:
    """Each append wakes it, but it is answered only once min.bytes are available."""
    await world.topic()
    reader, writer = await world.client(), await world.client()
    await writer.produce("t", batch(size_bytes=100))
    fetch = reader.send_fetch({"t": [at(0)]}, max_wait_ms=LONG_MS, min_bytes=1_000)
    await parked(world)
    await writer.produce("t", batch(size_bytes=100))
    await world.later(1)
    early = dict(reader.answers)
    await writer.produce("t", batch(size_bytes=1_000))
    row = await reader.fetched_row(fetch)

    assert early == {}
    assert offsets(row.records) == [0, 1, 2]
    assert world.loop.time() < 10


async def test_fetch_answers_with_what_there_is_when_its_wait_is_over(world: World) -> None:
    """Less than min.bytes is better than nothing."""
    await world.topic()
    client = await world.client()
    await client.produce("t", batch())
    row = await client.fetch("t", 0, max_wait_ms=300, min_bytes=1_000_000)

    assert offsets(row.records) == [0]


async def test_parked_fetch_is_answered_when_records_are_appended(world: World) -> None:
    """A consumer at the end gets the next records as soon as they are committed."""
    await world.topic()
    reader, writer = await world.client(), await world.client()
    fetch = reader.send_fetch({"t": [at(0)]}, max_wait_ms=LONG_MS)
    await parked(world)
    await writer.produce("t", batch(3))
    row = await reader.fetched_row(fetch)

    assert (offsets(row.records), row.high_watermark) == ([0], 3)
    assert len(world.broker().fetching.deadlines) == 0


@pytest.mark.brokers(2)
async def test_parked_fetch_is_answered_when_the_high_watermark_passes(world: World) -> None:
    """A consumer sees nothing above the mark; when a follower has it, the mark moves and the fetch wakes."""
    await world.topic(replicas=(1, 2))
    world.network.cut("broker-2", "broker-1")
    reader, writer = await world.client(), await world.client()
    await writer.produce("t", batch(), acks=1)
    fetch = reader.send_fetch({"t": [at(0)]}, max_wait_ms=LONG_MS)
    await parked(world)
    await world.later(0.5)
    early = dict(reader.answers)
    world.network.heal("broker-2", "broker-1")
    row = await reader.fetched_row(fetch)

    assert early == {}
    assert (offsets(row.records), row.high_watermark) == ([0], 1)


@pytest.mark.brokers(3)
async def test_parked_fetch_is_told_when_the_leader_changes(world: World) -> None:
    """A reader that names the old epoch must not wait for the new one's records in the belief that nothing happened."""
    await world.topic(replicas=(3, 1))
    client = await world.client(1)
    fetch = client.send_fetch({"t": [at(0, leader_epoch=0)]}, max_wait_ms=LONG_MS)
    await parked(world)
    world.kill(3)
    row = await client.fetched_row(fetch)

    assert row.error_code == ErrorCode.FENCED_LEADER_EPOCH
    assert world.loop.time() < 10


async def test_parked_fetch_is_told_when_the_topic_is_deleted(world: World) -> None:
    """No leader appends there any more."""
    await world.topic()
    client = await world.client()
    fetch = client.send_fetch({"t": [at(0)]}, max_wait_ms=LONG_MS)
    await parked(world)
    await world.delete_topic()
    row = await client.fetched_row(fetch)

    assert row.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert world.loop.time() < 10


async def test_parked_fetch_sleeps_on_when_only_another_partition_moves(world: World) -> None:
    """Waking is by partition."""
    await world.topic("t")
    await world.topic("other")
    reader, writer = await world.client(), await world.client()
    reader.send_fetch({"t": [at(0)]}, max_wait_ms=LONG_MS)
    await parked(world)
    await writer.produce("other", batch())
    await world.later(1)

    assert reader.answers == {}


@pytest.mark.parametrize("offset", [pytest.param(-1, id="below"), pytest.param(5, id="above")])
async def test_fetch_is_refused_at_once_when_its_offset_is_out_of_range(world: World, offset: int) -> None:
    """A reader with a wrong offset gets the error at once, without a wait."""
    await world.topic()
    client = await world.client()
    await client.produce("t", batch(4))
    fetch = client.send_fetch({"t": [at(offset)]}, max_wait_ms=LONG_MS)
    took_s = await timed(world, client, fetch)
    row = await client.fetched_row(fetch)

    assert (ErrorCode.OFFSET_OUT_OF_RANGE, -1) == (row.error_code, row.high_watermark)
    assert took_s < 0.01


async def test_fetch_waits_when_an_unknown_topic_stands_beside_a_good_one(world: World) -> None:
    """The unknown one is reported with the answer, which the good one may take its time for."""
    await world.topic()
    reader, writer = await world.client(), await world.client()
    fetch = reader.send_fetch({"nowhere": [at(0)], "t": [at(0)]}, max_wait_ms=LONG_MS)
    await parked(world)
    await writer.produce("t", batch())
    answer = await reader.fetched(fetch)
    codes = {name: rows[0].error_code for name, rows in answer.topics}

    assert codes == {"nowhere": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "t": ErrorCode.NONE}


async def test_fetch_of_a_session_names_only_what_changed_when_it_is_asked_again(world: World) -> None:
    """KIP-227: the second request lists nothing, parks for all, and is answered with the partition that moved."""
    await world.topic("t")
    await world.topic("u")
    reader, writer = await world.client(), await world.client()
    first = await reader.fetched(reader.send_fetch({"t": [at(0)], "u": [at(0)]}, session=(0, 0)))
    fetch = reader.send_fetch({}, session=(first.session_id, 1), max_wait_ms=LONG_MS)
    await parked(world)
    await writer.produce("u", batch())
    answer = await reader.fetched(fetch)

    assert [name for name, _ in first.topics] == ["t", "u"]
    assert [name for name, _ in answer.topics] == ["u"]


# Limits (KIP-74)


async def three_topics(world: World) -> WireClient:
    """Return a client; topics a, b and c have three batches of 1 KB each."""
    client = await world.client()
    for name in "abc":
        await world.topic(name)
        for _ in range(3):
            await client.produce(name, batch(size_bytes=1_000))
    return client


async def lengths(client: WireClient, max_bytes: int, partition_bytes: int) -> list[int]:
    """Return how many batches a fetch of all three topics has of each."""
    topics = {name: [at(0, max_bytes=partition_bytes)] for name in "abc"}
    answer = await client.fetched(client.send_fetch(topics, max_bytes=max_bytes))
    return [len(offsets(rows[0].records)) for _, rows in answer.topics]


@pytest.mark.parametrize(
    ("max_bytes", "partition_bytes", "expected"),
    [
        pytest.param(1 << 20, 1 << 20, [3, 3, 3], id="room-for-all"),
        pytest.param(1, 1 << 20, [1, 0, 0], id="one-batch-although-larger-than-the-answer"),
        pytest.param(1 << 20, 1, [1, 0, 0], id="one-batch-although-larger-than-the-partition"),
        pytest.param(1 << 20, 2_300, [2, 2, 2], id="whole-batches-per-partition"),
        pytest.param(4_500, 1 << 20, [3, 1, 0], id="the-answer-ends-in-the-second"),
        pytest.param(0, 0, [1, 0, 0], id="no-room-at-all"),
    ],
)
async def test_fetch_keeps_its_limits_when_more_is_there(
    world: World, max_bytes: int, partition_bytes: int, expected: list[int]
) -> None:
    """Whole batches in the requested order; the first whatever its size, or its reader would never progress."""
    client = await three_topics(world)

    assert await lengths(client, max_bytes, partition_bytes) == expected


# Reads that have to wait for the disk


async def test_fetch_is_read_by_the_worker_when_the_records_are_not_in_memory(world: World) -> None:
    """Meanwhile the broker answers others: a slow disk never blocks the loop."""
    await world.topic()
    client, other = await world.client(), await world.client()
    await client.produce("t", batch(7))
    world.slow_disk(1, 800)
    fetch = client.send_fetch({"t": [at(0)]})
    began = world.loop.time()
    took_other_s = await timed(world, other, other.send(ApiKey.API_VERSIONS, 0))
    row = await client.fetched_row(fetch)

    assert offsets(row.records) == [0]
    assert took_other_s < 0.01
    assert world.loop.time() - began >= 0.8


async def test_fetch_does_not_see_what_comes_while_it_reads(world: World) -> None:
    """The answer is consistent: high watermark and records are those of the look."""
    await world.topic()
    reader, writer = await world.client(), await world.client()
    await writer.produce("t", batch())
    world.slow_disk(1, 800)
    fetch = reader.send_fetch({"t": [at(0)]})
    await writer.produce("t", batch(), acks=1)
    row = await reader.fetched_row(fetch)

    assert (offsets(row.records), row.high_watermark) == ([0], 1)


@pytest.mark.brokers(3)
async def test_cold_fetch_is_refused_when_the_leader_changes_while_it_reads(world: World) -> None:
    """The log may have been cut and written anew under the read."""
    await world.topic(replicas=(3, 1))
    writer, reader = await world.client(3), await world.client(1)
    await writer.produce("t", batch())
    await world.until(lambda: world.partition(1).high_watermark == 1)
    world.slow_disk(1, 5_000)
    fetch = reader.send_fetch({"t": [at(0)]})
    await world.later(0.1)
    world.kill(3)
    row = await reader.fetched_row(fetch)

    assert world.partition(1).leader_epoch == 1
    assert (ErrorCode.NOT_LEADER_OR_FOLLOWER, b"") == (row.error_code, bytes(row.records))


async def test_cold_fetch_is_refused_when_the_topic_is_deleted_while_it_reads(world: World) -> None:
    """A fetch returns no records of a deleted topic, even if its name exists again."""
    await world.topic()
    client = await world.client()
    await client.produce("t", batch())
    world.slow_disk(1, 2_000)
    fetch = client.send_fetch({"t": [at(0)]})
    await world.later(0.1)
    await world.delete_topic()
    await world.topic()
    row = await client.fetched_row(fetch)

    assert (ErrorCode.NOT_LEADER_OR_FOLLOWER, b"") == (row.error_code, bytes(row.records))


async def test_cold_fetch_is_not_answered_twice_when_its_partition_moves_while_it_reads(world: World) -> None:
    """An event that would wake a parked fetch does not affect one that is reading."""
    await world.topic()
    await world.topic("idle")
    reader, writer = await world.client(), await world.client()
    await writer.produce("t", batch())
    world.slow_disk(1, 500)
    fetch = reader.send_fetch({"t": [at(0)], "idle": [at(0)]}, max_wait_ms=100, min_bytes=10_000)
    for _ in range(5):
        await writer.produce("t", batch(), acks=1)
    answer = await reader.fetched(fetch)
    later = await reader.body(reader.send(ApiKey.API_VERSIONS, 0))

    # The wait was over when the first read was, so there was a second look, and a second read.
    assert [len(offsets(rows[0].records)) for _, rows in answer.topics] == [6, 0]
    assert later


async def test_cold_fetch_says_so_when_the_read_fails(world: World) -> None:
    """The row has the error of the disk; other partitions of the request have their records."""
    await world.topic("bad")
    await world.topic("good")
    client = await world.client()
    for name in ("bad", "good"):
        await client.produce(name, batch())
    world.slow_disk(1, 500)
    fetch = client.send_fetch({"bad": [at(0)], "good": [at(0)]})
    await world.later(0.1)
    world.host().disk.fail_next("read", errno.EIO)
    answer = await client.fetched(fetch)

    assert [rows[0].error_code for _, rows in answer.topics] == [ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NONE]


async def test_fetch_says_so_when_the_disk_refuses_to_look(world: World) -> None:
    """An error of the look itself is the partition's, not the connection's."""
    await world.topic()
    client = await world.client()
    await client.produce("t", batch())
    world.host().disk.fail_next("read", errno.EIO)
    refused = await client.fetch("t", 0)
    row = await client.fetch("t", 0)

    assert refused.error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert offsets(row.records) == [0]


# Followers


@pytest.mark.brokers(2)
async def test_fetch_of_a_follower_is_refused_when_it_is_no_replica(world: World) -> None:
    """Progress counts only for those who are assigned."""
    await world.topic(replicas=(1,))
    client = await world.peer()
    lost = await client.fetch("t", 0, replica_id=2)
    sure = await client.fetched_row(client.send_fetch({"t": [at(0, leader_epoch=0)]}, replica_id=2))

    assert lost.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    # A request with the leader's epoch means that the leader may not know its new replica yet.
    assert sure.error_code == ErrorCode.UNKNOWN_LEADER_EPOCH
    assert world.partition().leader.followers == ()


@pytest.mark.brokers(2)
async def test_fetch_of_an_old_consumer_is_sent_to_the_leader_when_it_asks_a_follower(world: World) -> None:
    """Follower reads came with version 11 (KIP-392); a consumer of that version may read committed records there."""
    await world.topic(replicas=(2, 1))
    writer, reader = await world.client(2), await world.client(1)
    await writer.produce("t", batch())
    await world.until(lambda: world.partition(1).high_watermark == 1)
    row = await reader.fetch("t", 0)
    old = await reader.ask(
        ApiKey.FETCH,
        10,
        replica_id=-1,
        max_wait=0,
        min_bytes=0,
        max_bytes=1 << 20,
        isolation_level=0,
        session_id=0,
        session_epoch=-1,
        topics=[
            {
                "topic": "t",
                "partitions": [
                    {
                        "partition": 0,
                        "current_leader_epoch": -1,
                        "fetch_offset": 0,
                        "log_start_offset": -1,
                        "partition_max_bytes": 1 << 20,
                    }
                ],
            }
        ],
        forgotten_topics_data=(),
    )

    assert offsets(row.records) == [0]
    assert int(old.responses[0].partitions[0].error_code) == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert TopicPartition("t", 0) in world.broker(1).partitions
