"""Reassignments on whole brokers: copies appear, take over and disappear, whoever dies meanwhile."""

import asyncio
from typing import Any

import pytest

from syncline.core.cluster import moves
from syncline.model.errors import ErrorCode
from syncline.model.ids import TopicPartition
from syncline.model.metadata import PartitionRecord
from syncline.node.hosting.partition_status import show
from syncline.wire.api import ApiKey
from tests.node.wire_client import batch
from tests.node.world import World

FAST = {"log_segment_delete_delay_ms": 1_000, "replica_lag_time_max_ms": 2_000}
KEY = TopicPartition("t", 0)


async def alter(world: World, *targets: tuple[int, ...] | None, broker: int = 0, **others: Any) -> Any:
    """Request replicas for the partitions of t, from 0 on; None cancels."""
    client = await world.client(broker or world.living()[0])
    rows = [{"partition_index": number, "replicas": target} for number, target in enumerate(targets)]
    answer = await client.ask(
        ApiKey.ALTER_PARTITION_REASSIGNMENTS,
        1,
        **{"timeout": 5_000, "topics": [{"name": "t", "partitions": rows}] if rows else [], **others},
    )
    client.transport.close()
    return answer


async def move(world: World, *targets: tuple[int, ...] | None, **others: Any) -> Any:
    """Request replicas, and expect that they are accepted."""
    answer = await alter(world, *targets, **others)
    rows = [(each.error_code.value, each.error_message) for topic in answer.responses for each in topic.partitions]
    assert (answer.error_code.value, rows) == (0, [(0, None)] * len(targets))
    return answer


async def listed(world: World, broker: int = 0, topics: Any = None) -> Any:
    """Return the reassignments that a broker lists."""
    client = await world.client(broker or world.living()[0])
    answer = await client.ask(ApiKey.LIST_PARTITION_REASSIGNMENTS, 0, timeout=5_000, topics=topics)
    client.transport.close()
    return answer


async def moving(world: World, broker: int = 0) -> list[tuple[tuple[int, ...], ...]]:
    """Return replicas, adding and removing ones of all partitions that are reassigned."""
    answer = await listed(world, broker)
    return [
        (tuple(each.replicas), tuple(each.adding_replicas), tuple(each.removing_replicas))
        for topic in answer.topics
        for each in topic.partitions
    ]


async def produce(world: World, leader: int, records: int = 50) -> None:
    """Append records with acks=all."""
    client = await world.client(leader)
    row = await client.produce("t", batch(records))
    assert ErrorCode(row.error_code) is ErrorCode.NONE
    client.transport.close()


def record(world: World) -> PartitionRecord:
    """Return the record of t-0 as the first living broker knows it."""
    return world.broker(world.living()[0]).image.topics["t"].partitions[0]


async def done(world: World, *replicas: int) -> None:
    """Wait until every broker knows that t-0 has exactly these replicas, all in sync and with all that is committed."""

    def is_done() -> bool:
        records = [world.broker(each).image.topics["t"].partitions[0] for each in world.living()]
        return all(
            each.replicas == replicas and not each.is_reassigned and len(each.isr) == len(replicas) for each in records
        )

    await world.until(is_done)
    hosting = {each: world.partition(each) for each in replicas}
    await world.until(lambda: len({each.high_watermark for each in hosting.values()}) == 1)
    end = hosting[replicas[0]].high_watermark
    contents = {world.cluster.ghost.raw(each, KEY).contents(end) for each in replicas}
    assert len(contents) == 1, "the replicas' logs differ"


def directories(world: World, broker_id: int) -> list[str]:
    """Return the names of directories of t on a broker's disk."""
    disk = world.host(broker_id).disk
    assert disk is not None
    return sorted(name for name in disk.list(world.broker(broker_id).logs.path) if name.startswith("t-"))


async def without(world: World, *brokers: int) -> None:
    """Wait until these brokers have nothing of t on their disks, not even what is renamed for deletion."""
    await world.until(lambda: not any(directories(world, each) for each in brokers))


@pytest.mark.brokers(6, **FAST)
async def test_t49_replicas_are_replaced_and_the_old_ones_leave_no_directory(world: World) -> None:
    """1,2,3 to 4,5,6: the new ones start empty, get everything, and one of them leads."""
    await world.topic(replicas=(1, 2, 3))
    await produce(world, 1)
    assert all("t-0" in directories(world, each) for each in (1, 2, 3))

    await move(world, (4, 5, 6), broker=5)
    await done(world, 4, 5, 6)

    assert record(world).leader == 4
    size = world.partition(4).log.size_bytes
    assert [world.broker(each).counters.replication.moved_in for each in (2, 4, 5, 6)] == [0, size, size, size]
    assert world.broker(1).counters.replication.moved_out == 3 * size
    assert world.partition(4).high_watermark == 50
    await produce(world, 4)
    await without(world, 1, 2, 3)


@pytest.mark.brokers(6, **FAST)
async def test_t49_dead_target_keeps_the_move_open(world: World) -> None:
    """6 is down: the others catch up and wait for it, for 60 s and more; list tells what is going on."""
    await world.topic(replicas=(1, 2, 3))
    await produce(world, 1)
    world.kill(6)
    await move(world, (4, 5, 6))
    await world.until(lambda: set(record(world).isr) == {1, 2, 3, 4, 5})
    await world.later(61)

    assert await moving(world, 2) == [((4, 5, 6, 1, 2, 3), (4, 5, 6), (1, 2, 3))]
    (row,) = show(world.broker(1), {"topic": "t"})["partitions"]
    assert (row["adding"], row["removing"], row["move"]) == ([4, 5, 6], [1, 2, 3], "")
    assert (record(world).leader, set(record(world).isr)) == (1, {1, 2, 3, 4, 5})

    await world.start(6)
    await done(world, 4, 5, 6)
    await without(world, 1, 2, 3)


@pytest.mark.brokers(6, **FAST)
async def test_t52_move_survives_the_death_of_its_controller(world: World) -> None:
    """Another broker becomes controller, lists the same, and nothing is copied a second time."""
    await world.topic(replicas=(2, 3, 4))
    await produce(world, 2)
    controller = record_controller(world)
    assert controller == 1
    world.kill(6)
    await move(world, (5, 6, 4))
    await world.until(lambda: 5 in record(world).isr)
    log = world.partition(5).log

    world.kill(controller)
    await world.until(lambda: record_controller(world) != controller)
    assert await moving(world) == [((5, 6, 4, 2, 3), (5, 6), (2, 3))]
    assert world.partition(5).log is log
    assert log.log_end == 50

    await world.start(6)
    await done(world, 5, 6, 4)
    await world.start(controller)
    await without(world, 1, 2, 3)


def record_controller(world: World) -> int:
    """Return the controller as the first living broker knows it."""
    return world.broker(world.living()[0]).image.controller_id


@pytest.mark.brokers(6, **FAST)
async def test_t53_copies_that_another_target_does_not_want_are_deleted(world: World) -> None:
    """4,5,6 and then 1,2,5 while it runs: 4 and 6 lose their copies, 5 keeps what it has."""
    await world.topic(replicas=(1, 2, 3))
    await produce(world, 1)
    world.network.cut("broker-6", "broker-1")
    await move(world, (4, 5, 6))
    await world.until(lambda: {4, 5} <= set(record(world).isr))
    log = world.partition(5).log

    await move(world, (1, 2, 5))
    world.network.heal("broker-6", "broker-1")
    await done(world, 1, 2, 5)

    assert world.partition(5).log is log
    assert record(world).leader == 1
    await without(world, 3, 4, 6)


@pytest.mark.brokers(3, **FAST)
async def test_cancelled_copy_of_a_broker_that_was_down_is_deleted_when_it_returns(world: World) -> None:
    """KAFKA-13972: it died with a copy that nobody wants any more."""
    await world.topic(replicas=(1, 2))
    await produce(world, 1)
    world.network.cut("broker-1", "broker-2")
    await world.until(lambda: record(world).isr == (1,))
    await move(world, (3, 2))
    await world.until(lambda: 3 in record(world).isr)
    assert "t-0" in directories(world, 3)
    world.kill(3)
    await world.until(lambda: 3 not in record(world).isr)

    await move(world, None)
    world.network.heal("broker-1", "broker-2")
    await world.start(3)

    await without(world, 3)
    await done(world, 1, 2)


@pytest.mark.brokers(3, **FAST)
async def test_removed_copy_of_a_broker_that_was_down_is_deleted_when_it_returns(world: World) -> None:
    """The move does not need the replica that leaves."""
    await world.topic(replicas=(1, 2))
    await produce(world, 1)
    world.kill(2)
    await move(world, (1, 3))
    await done(world, 1, 3)
    await world.start(2)

    await without(world, 2)


@pytest.mark.brokers(3, **FAST)
async def test_replica_that_leaves_and_comes_back_begins_with_nothing(world: World) -> None:
    """Its old log is on the way to be deleted when the new one is made."""
    await world.topic(replicas=(1, 2))
    await produce(world, 1)
    await move(world, (1, 3))
    await done(world, 1, 3)
    await move(world, (1, 2))
    await done(world, 1, 2)

    assert world.partition(2).high_watermark == 50
    await without(world, 3)
    await world.until(lambda: directories(world, 2) == ["t-0"])


@pytest.mark.brokers(2, **FAST)
async def test_leader_that_stays_answers_what_waits_when_the_move_ends(world: World) -> None:
    """The end raises the leader epoch; the records are those of the same leader, so no producer is sent away."""
    await world.topic(replicas=(1, 2))
    world.network.cut("broker-2", "broker-1")
    partition = world.partition()
    client = await world.client()
    waiting = world.loop.create_task(client.produce("t", batch(), timeout_ms=30_000))
    await world.until(lambda: partition.log.log_end == 1)
    epoch = partition.leader_epoch

    await move(world, (1,))
    row = await waiting

    assert (ErrorCode(row.error_code), partition.leader_epoch) == (ErrorCode.NONE, epoch + 1)


@pytest.mark.brokers(2, **FAST)
async def test_leader_that_leaves_answers_what_waits(world: World) -> None:
    """The producer is sent to the next leader at once, not after its time-out."""
    await world.topic(replicas=(1,), min_insync_replicas=1)
    await produce(world, 1)
    world.network.cut("broker-2", "broker-1")
    await move(world, (2,))
    world.network.heal("broker-2", "broker-1")
    partition = world.partition(1)
    told: list[tuple[ErrorCode, int]] = []

    def keep_waiting() -> bool:
        """Append as long as there is no other leader; the last of it waits when the leader goes."""
        if partition.is_leader and len(told) == sent[0]:
            sent[0] += 1
            world.call(1, partition.append_internal, batch(), lambda code, offset: told.append((code, offset)))
        return record(world).leader == 2

    sent = [0]
    await world.until(keep_waiting)
    await done(world, 2)

    assert len(told) == sent[0]
    assert {code for code, _ in told} <= {ErrorCode.NONE, ErrorCode.NOT_LEADER_OR_FOLLOWER}
    acknowledged = max((offset for code, offset in told if code is ErrorCode.NONE), default=-1)
    assert world.partition(2).high_watermark > acknowledged
    await without(world, 1)


@pytest.mark.brokers(3, min_insync_replicas=2, **FAST)
async def test_lone_replica_accepts_records_while_it_gets_company(world: World) -> None:
    """Its minimum is 2: before the move one replica is all there is, and so it is until the others are in sync."""
    await world.topic(replicas=(1,))
    await produce(world, 1)
    for other in ("broker-2", "broker-3"):
        world.network.cut(other, "broker-1")

    await move(world, (1, 2, 3))
    await produce(world, 1)

    for other in ("broker-2", "broker-3"):
        world.network.heal(other, "broker-1")
    await done(world, 1, 2, 3)


@pytest.mark.brokers(4, **FAST)
async def test_topic_deleted_in_a_move_ends_it(world: World) -> None:
    """With its copies, and the move itself."""
    await world.topic(replicas=(1, 2, 3))
    await produce(world, 1)
    world.kill(4)
    await move(world, (1, 2, 4), throttle=1_000)

    await world.delete_topic()

    answer = await listed(world)
    assert (answer.topics, answer.moves) == ((), ())
    await world.start(4)
    await without(world, 1, 2, 3, 4)


@pytest.mark.brokers(4, **FAST)
async def test_offsets_topic_can_be_moved(world: World) -> None:
    """Internal topics are topics; the group's offsets are where they were, at another coordinator."""
    client = await world.client()
    await client.ask(ApiKey.FIND_COORDINATOR, 4, coordinator_keys=("g",), key_type=0)
    await world.until(lambda: "__consumer_offsets" in world.broker(1).image.topics)
    topic = world.broker(1).image.topics["__consumer_offsets"]
    rows = [
        {"partition_index": each.partition, "replicas": tuple(n % 4 + 1 for n in each.replicas)}
        for each in topic.partitions
    ]
    wanted = {row["partition_index"]: row["replicas"] for row in rows}

    answer = await alter(world, topics=[{"name": "__consumer_offsets", "partitions": rows}])
    assert {each.error_code.value for each in answer.responses[0].partitions} == {0}

    def is_done() -> bool:
        records = world.broker(1).image.topics["__consumer_offsets"].partitions
        return all(each.replicas == wanted[each.partition] and not each.is_reassigned for each in records)

    await world.until(is_done)


@pytest.mark.brokers(4, **FAST)
async def test_move_is_listed_with_its_throttle_until_it_ends(world: World) -> None:
    """One request is one move; the same once more with another throttle changes that, a shorter one does, too.

    Without a throttle it changes none, and a partition that has arrived makes no difference.
    """
    await world.topic(partitions=3, replicas=(1, 2, 3))
    records = world.broker(1).image.topics["t"].partitions
    targets = [tuple(sorted({1, 2, 3, 4} - {each.replicas[0]})) for each in records[:2]]
    targets.append(records[2].replicas)
    world.kill(4)

    answer = await move(world, *targets, throttle=1_000_000, name="night")
    ((started,), topics) = (await listed(world)).moves, (await listed(world)).topics
    again = await move(world, *targets, throttle=2_000_000)
    changed = await alter(world, move_id=answer.move_id, throttle=3_000_000, control="deadline", deadline_ms=99)
    kept = await move(world, *targets, name="night")
    ((latest,)) = (await listed(world, broker=3)).moves

    assert answer.move_id == again.move_id == kept.move_id == started.move_id
    assert [row.move_id for row in topics[0].partitions] == [answer.move_id] * 2
    assert (started.throttle, started.name, started.control) == (1_000_000, "night", "")
    assert changed.error_code.value == 0
    assert (latest.throttle, latest.control, latest.deadline_ms, latest.name) == (3_000_000, "deadline", 99, "night")
    assert latest.started_ms == started.started_ms

    await world.start(4)
    await world.until(lambda: not world.broker(1).image.moves)
    assert (await listed(world)).moves == ()
    late = await alter(world, move_id=answer.move_id, throttle=1)
    assert late.error_code.value == ErrorCode.NO_REASSIGNMENT_IN_PROGRESS


@pytest.mark.brokers(2, **FAST)
async def test_move_is_refused_as_a_whole(world: World) -> None:
    """No partition starts if another is refused, and an odd move names what is odd."""
    await world.topic(partitions=2, replicas=(1, 2))
    answer = await alter(world, (2,), (9,), throttle=5)
    assert [each.error_code.value for each in answer.responses[0].partitions] == [
        ErrorCode.OPERATION_NOT_ATTEMPTED,
        ErrorCode.INVALID_REPLICA_ASSIGNMENT,
    ]
    for others, words in (
        ({"throttle": 0}, "would let nothing pass"),
        ({"throttle": 5, "control": "mood"}, "not controlled by 'mood'"),
        ({"throttle": 5, "control": "deadline"}, "exactly if"),
        ({"throttle": 5, "impact_percent": 5}, "exactly if"),
        ({"throttle": 5, "control": "impact", "impact_percent": 101}, "0 to 100"),
        ({"throttle": 5, "move_id": "a b"}, "letters, digits"),
        ({"throttle": 5, "name": "n" * 251}, "at most 250"),
        ({"throttle": 5, "name": "\x1b]0;x\a"}, "printable"),
    ):
        odd = await alter(world, (2,), (2,), **others)
        assert (odd.error_code.value, words in odd.error_message) == (ErrorCode.INVALID_REQUEST, True), odd
    assert not record(world).is_reassigned


@pytest.mark.brokers(2, **FAST)
async def test_no_room_for_another_move_is_room_for_the_same(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A rate can be changed by the same request, however many moves there are."""
    monkeypatch.setattr(moves, "MOVES_MAX", 1)
    await world.topic(replicas=(1,))
    await world.topic("u", replicas=(1,))
    world.kill(2)
    answer = await move(world, (2,), throttle=1)
    again = await move(world, (2,), throttle=2)
    rows = [{"partition_index": 0, "replicas": (2,)}]
    other = await alter(world, topics=[{"name": "u", "partitions": rows}], throttle=1)

    assert again.move_id == answer.move_id
    assert other.error_code.value == ErrorCode.POLICY_VIOLATION
    assert "moves are in progress" in other.error_message
    assert [each.throttle for each in (await listed(world)).moves] == [2]


@pytest.mark.brokers(2, **FAST)
async def test_request_without_time_changes_nothing(world: World) -> None:
    """As in Kafka: 7 at the top and for each partition."""
    await world.topic(replicas=(1, 2))

    answer = await alter(world, (2,), timeout=0)

    assert (answer.error_code.value, answer.responses[0].partitions[0].error_code.value) == (7, 7)
    assert record(world).replicas == (1, 2)


@pytest.mark.brokers(2, **FAST)
async def test_thousands_of_partitions_move_in_parts(world: World) -> None:
    """A request and its list are long: both come back whole, and in order."""
    await world.topic(partitions=600, replicas=(1,))
    leaders = [each.replicas for each in world.broker(1).image.topics["t"].partitions]
    targets = [(2,) if each == (1,) else (1,) for each in leaders]
    world.kill(2)

    answer = await move(world, *targets, throttle=1)

    expected = [number for number, each in enumerate(leaders) if each == (1,)]
    rows = (await listed(world)).topics[0].partitions
    assert [each.partition_index for each in answer.responses[0].partitions] == list(range(600))
    assert set(expected) <= {each.partition_index for each in rows}
    assert {each.move_id for each in rows} == {answer.move_id}
    named = [
        {"name": "t", "partition_indexes": (*(expected[0],) * 3, 7_000)},
        {"name": "u", "partition_indexes": (0,)},
    ]
    some = (await listed(world, topics=named)).topics
    assert [(topic.name, [each.partition_index for each in topic.partitions]) for topic in some] == [
        ("t", [expected[0]] * 2)
    ]


@pytest.mark.brokers(2, **FAST)
async def test_rate_that_changes_while_a_move_starts_in_parts_stays(world: World) -> None:
    """The later parts take the move as it is by then, and not as it was requested."""
    await world.topic(partitions=600, replicas=(1,))
    world.kill(2)
    start = asyncio.create_task(move(world, *[(2,)] * 600, throttle=1))
    await world.until(lambda: world.broker(1).image.moves)
    (move_id,) = world.broker(1).image.moves
    size = world.broker(1).image.move_sizes[move_id]

    changed = await alter(world, move_id=move_id, throttle=7)
    await start

    assert changed.error_code.value == 0
    assert size < world.broker(1).image.move_sizes[move_id]
    assert world.broker(1).image.moves[move_id].throttle_bytes_per_s == 7


@pytest.mark.brokers(2, **FAST)
async def test_copies_that_go_together_are_synced_together(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each sync of a directory takes the loop milliseconds, and a cancellation may end thousands of copies at once."""
    await world.topic(partitions=20, replicas=(1, 2))
    client = await world.client()
    leaders = [each.leader for each in world.broker(1).image.topics["t"].partitions]
    clients = {1: client, 2: await world.client(2)}
    for number, leader in enumerate(leaders):
        await clients[leader].produce("t", batch(), partition=number)
    disk = world.host(2).disk
    assert disk is not None
    await world.until(lambda: sum(name in directories(world, 2) for name in map("t-{}".format, range(20))) == 20)
    synced: list[str] = []
    sync = disk.sync_directory
    monkeypatch.setattr(disk, "sync_directory", lambda path: synced.append(path) or sync(path))

    await move(world, *[(1,)] * 20)
    await world.until(lambda: all(name.endswith("-delete") for name in directories(world, 2)))

    assert synced.count(world.broker(2).logs.path) == 1
    await without(world, 2)
