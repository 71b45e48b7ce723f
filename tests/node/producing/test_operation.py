"""Produce with acks=all: it waits for the in-sync set, and gets an answer whatever happens meanwhile."""

import errno
import gc
from dataclasses import replace

import pytest

from syncline.model.errors import ErrorCode
from syncline.records.builder import BatchBuilder
from syncline.wire.api import ApiKey
from syncline.wire.produce import ProduceRequest, encode_produce_request, parse_produce_response
from tests.node.wire_client import batch
from tests.node.world import World

LAG = {"replica_lag_time_max_ms": 60_000, "replica_socket_timeout_ms": 60_000}


@pytest.mark.brokers(3)
async def test_produce_waits_when_a_member_of_the_isr_has_not_fetched(world: World) -> None:
    """acks=1 is answered with the append, acks=all when the follower's next fetch proves that it has the records."""
    await world.topic(replicas=(1, 2))
    world.network.cut("broker-2", "broker-1")
    client, other = await world.client(), await world.client()
    waiting = client.send_produce("t", batch(2))
    written = await other.produce("t", batch(3), acks=1)
    await world.later(0.5)
    early = dict(client.answers)
    world.network.heal("broker-2", "broker-1")
    row = await client.produced(waiting)

    assert early == {}
    assert (written.error_code, written.base_offset) == (ErrorCode.NONE, 2)
    assert (row.error_code, row.base_offset, row.log_start_offset) == (ErrorCode.NONE, 0, 0)
    assert world.partition().high_watermark >= 2
    assert len(world.broker().fetching.deadlines) == len(world.broker().fetching.sessions)


@pytest.mark.brokers(3)
async def test_produce_times_out_when_the_follower_is_silent(world: World) -> None:
    """REQUEST_TIMED_OUT says "perhaps": the records stay, and are committed later."""
    await world.topic(replicas=(1, 2))
    world.network.cut("broker-2", "broker-1")
    client = await world.client()
    began = world.loop.time()
    row = await client.produce("t", batch(), timeout_ms=400)
    took_s = world.loop.time() - began
    world.network.heal("broker-2", "broker-1")
    await world.until(lambda: world.partition().high_watermark == 1)

    assert row.error_code == ErrorCode.REQUEST_TIMED_OUT
    assert 0.4 <= took_s < 0.42
    assert world.partition(2).log.log_end == 1


@pytest.mark.brokers(3)
async def test_produce_is_answered_at_once_when_it_does_not_wait(world: World) -> None:
    """A timeout of 0 with acks=all: appended, but not known to be committed."""
    await world.topic(replicas=(1, 2))
    client = await world.client()
    row = await client.produce("t", batch(), timeout_ms=0)

    assert row.error_code == ErrorCode.REQUEST_TIMED_OUT
    assert world.partition().log.log_end == 1


@pytest.mark.brokers(3)
async def test_produce_is_committed_without_a_member_when_it_leaves_the_isr(world: World) -> None:
    """A follower that is silent for replica.lag.time.max.ms leaves the ISR; the produce no longer waits for it."""
    await world.topic(replicas=(1, 2))
    world.network.cut("broker-2", "broker-1")
    client = await world.client()
    row = await client.produce("t", batch())

    assert row.error_code == ErrorCode.NONE
    assert world.partition().isr == (1,)
    world.network.heal("broker-2", "broker-1")


@pytest.mark.brokers(3)
@pytest.mark.parametrize(
    ("has_gate", "expected"),
    [
        pytest.param(True, ErrorCode.REQUEST_TIMED_OUT, id="the-mark-stands-still"),
        pytest.param(False, ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND, id="the-mark-moves-on"),
    ],
)
async def test_produce_is_not_acknowledged_when_the_isr_falls_below_its_minimum_after_the_append(
    world: World, has_gate: bool, expected: ErrorCode
) -> None:
    """The record is in the leader's log, but on fewer replicas than promised; later ones are refused beforehand."""
    await world.topic(replicas=(1, 2), min_insync_replicas=2)
    leader = world.partition().leader
    leader.settings = replace(leader.settings, high_watermark_min_isr_gate=has_gate)
    world.network.cut("broker-2", "broker-1")
    client, other = await world.client(), await world.client()
    waiting = client.send_produce("t", batch(), timeout_ms=10_000)
    await world.until(lambda: world.partition().isr == (1,))
    refused = await other.produce("t", batch())
    row = await client.produced(waiting)
    world.network.heal("broker-2", "broker-1")

    assert refused.error_code == ErrorCode.NOT_ENOUGH_REPLICAS
    assert row.error_code == expected


@pytest.mark.brokers(3)
async def test_produce_is_refused_when_leadership_is_lost_while_it_waits(world: World) -> None:
    """An old leader that learns of its successor refuses all waiting requests; its appended records are truncated."""
    await world.topic(replicas=(3, 2))
    world.network.cut("broker-2", "broker-3")
    client = await world.client(3)
    waiting = client.send_produce("t", batch(), timeout_ms=60_000)
    await world.until(lambda: world.partition(3).log.log_end == 1)
    # The controller does not hear broker 3 any more: it is fenced, and broker 2 elected.
    world.network.cut("broker-3", "broker-1")
    row = await client.produced(waiting)
    is_led_by_another = world.partition(2).is_leader
    world.network.heal("broker-3", "broker-1")
    world.network.heal("broker-2", "broker-3")
    await world.until(lambda: world.partition(3).log.log_end == 0)

    assert row.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert is_led_by_another


@pytest.mark.brokers(3)
async def test_produce_points_to_the_leader_when_it_comes_to_another_broker(world: World) -> None:
    """KIP-951: from version 10 on the refusal names the leader and its address."""
    await world.topic(replicas=(2, 1))
    client = await world.client(1)
    parts = encode_produce_request(10, acks=-1, timeout_ms=1_000, topics=[("t", [(0, batch())])])
    answer = parse_produce_response(await client.body(client.send(ApiKey.PRODUCE, 10, *parts)), 10)
    (row,) = answer.topics[0][1]

    assert (row.error_code, row.current_leader) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, (2, 0))
    assert [(each.node_id, each.host) for each in answer.node_endpoints] == [(2, "broker-2")]


@pytest.mark.brokers(3)
async def test_produce_answers_once_when_some_of_its_partitions_wait(world: World) -> None:
    """One that is refused, one that is committed at once and one that waits: one answer, when the last is decided."""
    await world.topic("now", replicas=(1,))
    await world.topic("later", replicas=(1, 2))
    world.network.cut("broker-2", "broker-1")
    client = await world.client()
    topics = [(name, [(0, batch())]) for name in ("now", "later", "never")]
    parts = encode_produce_request(9, acks=-1, timeout_ms=30_000, topics=topics)
    waiting = client.send(ApiKey.PRODUCE, 9, *parts)
    await world.later(0.3)
    early = dict(client.answers)
    world.network.heal("broker-2", "broker-1")
    answer = parse_produce_response(await client.body(waiting), 9)

    assert early == {}
    assert {name: rows[0].error_code for name, rows in answer.topics} == {
        "now": ErrorCode.NONE,
        "later": ErrorCode.NONE,
        "never": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }


@pytest.mark.brokers(3)
@pytest.mark.parametrize("partition_count", [2, 150], ids=["at-once", "in-steps"])
async def test_produce_that_waits_keeps_no_list_of_what_it_brought(world: World, partition_count: int) -> None:
    """Guards: where each batch of the request began, a hundred bytes a partition, until the last one was decided."""
    await world.topic(replicas=(1, 2))
    world.network.cut("broker-2", "broker-1")
    client = await world.client()
    partitions = [(index, batch()) for index in range(partition_count)]
    parts = encode_produce_request(9, acks=-1, timeout_ms=30_000, topics=[("t", partitions)])
    # Of other tests, which the collector has not found yet.
    before = [each for each in gc.get_objects() if isinstance(each, ProduceRequest)]
    waiting = client.send(ApiKey.PRODUCE, 9, *parts)
    await world.later(0.3)
    found = [each for each in gc.get_objects() if isinstance(each, ProduceRequest)]
    kept = [each.topics for each in found if not any(each is other for other in before)]
    early = dict(client.answers)
    world.network.heal("broker-2", "broker-1")
    answer = parse_produce_response(await client.body(waiting), 9)

    assert early == {}
    assert not any(kept)
    assert [row.error_code for row in answer.topics[0][1]] == [
        ErrorCode.NONE,
        *[ErrorCode.UNKNOWN_TOPIC_OR_PARTITION] * (partition_count - 1),
    ]


@pytest.mark.brokers(3)
async def test_produce_is_told_when_its_topic_is_deleted_while_it_waits(world: World) -> None:
    """There is nothing left that could be committed."""
    await world.topic(replicas=(1, 2))
    world.network.cut("broker-2", "broker-1")
    client = await world.client()
    waiting = client.send_produce("t", batch(), timeout_ms=60_000)
    await world.until(lambda: world.partition().log.log_end == 1)
    deleting = world.loop.create_task(world.delete_topic())
    row = await client.produced(waiting)
    world.network.heal("broker-2", "broker-1")
    await deleting

    assert row.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


async def test_produce_is_refused_and_stores_nothing_when_the_disk_is_full(world: World) -> None:
    """KAFKA_STORAGE_ERROR; the log is as it was, and takes the next batch when there is room."""
    await world.topic()
    client = await world.client()
    world.host().disk.fail_next("append", errno.ENOSPC)
    refused = await client.produce("t", batch())
    row = await client.produce("t", batch())

    assert refused.error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert (row.error_code, row.base_offset) == (ErrorCode.NONE, 0)


@pytest.mark.brokers(3)
async def test_produce_that_waits_is_told_when_the_disk_fails(world: World) -> None:
    """After a write error the file may hold anything: all that wait for this log get KAFKA_STORAGE_ERROR."""
    await world.topic(replicas=(1, 2))
    world.network.cut("broker-2", "broker-1")
    client, other = await world.client(), await world.client()
    waiting = client.send_produce("t", batch(), timeout_ms=60_000)
    await world.until(lambda: world.partition().log.log_end == 1)
    world.host().disk.fail_next("append", errno.EIO)
    refused = await other.produce("t", batch())
    row = await client.produced(waiting)
    is_offline = world.partition().is_offline
    world.kill(1)
    world.network.heal("broker-2", "broker-1")

    assert [refused.error_code, row.error_code] == [ErrorCode.KAFKA_STORAGE_ERROR] * 2
    assert is_offline


@pytest.mark.brokers(3, replica_lag_time_max_ms=2_000, broker_session_timeout_ms=20_000)
async def test_leader_whose_disk_failed_waits_for_no_tick(world: World) -> None:
    """Its proposal is unanswered, but it judges no follower any more; the invariants allow that."""
    await world.topic(replicas=(2, 3))
    world.network.cut("broker-2", "broker-1")
    world.network.cut("broker-3", "broker-2")
    await (await world.client(2)).produce("t", batch(), acks=1)
    await world.until(lambda: world.partition(2).leader.in_sync.pending is not None)
    world.host(2).disk.fail_next("append", errno.EIO)
    refused = await (await world.client(2)).produce("t", batch(), acks=1)
    leader = world.partition(2).leader
    await world.until(lambda: not leader.is_ticked)
    world.cluster.invariants.check(world.host(2))
    world.kill(2)
    world.network.heal("broker-2", "broker-1")
    world.network.heal("broker-3", "broker-2")

    assert refused.error_code == ErrorCode.KAFKA_STORAGE_ERROR


@pytest.mark.brokers(3, min_insync_replicas=2)
async def test_produce_does_not_wait_for_a_follower_whose_disk_has_failed(world: World) -> None:
    """The controller takes the follower out at once; acks=all waited a whole lag window for it all the same."""
    await world.topic(replicas=(1, 2, 3))
    client = await world.client()
    await client.produce("t", batch())
    world.host(2).disk.fail_next("append", errno.EIO)
    began_s = world.loop.time()
    row = await client.produce("t", batch(), timeout_ms=40_000)
    took_s = world.loop.time() - began_s
    # A broker with a failed log does not stop in good order.
    world.kill(2)

    assert row.error_code == ErrorCode.NONE
    assert took_s < 1


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
