"""Many partitions that move, or are throttled, at once: no callback works on all of them, whatever happens to them."""

from collections.abc import Collection, Iterator
from itertools import pairwise
from typing import Any
from uuid import UUID

import pytest

from syncline.core.throttle.quota import HeldBack
from syncline.model.errors import ErrorCode
from syncline.model.ids import NONE, BrokerId, TopicPartition
from syncline.model.metadata import MetadataImage, MoveRecord, PartitionRecord
from syncline.model.metadata_delta import MetadataDelta
from syncline.model.topic_config import TopicConfig
from syncline.node.api.api_03_metadata import TOPIC_OPERATIONS
from syncline.node.partitions.partition import Partition
from syncline.node.throttle.moves import Moving
from syncline.node.throttle.role import QuotaState
from syncline.node.throttle.throttles import ReplicationThrottles
from syncline.wire.api import ApiKey
from tests.node.counted_calls import counted
from tests.node.throttle.quotas import (
    APPEND,
    BROKER,
    FOLLOWER_LIST,
    FOLLOWER_RATE,
    LEADER_LIST,
    LEADER_RATE,
    TOPIC,
    alter,
    log_end,
)
from tests.node.wire_client import batch
from tests.node.world import World

MANY = 600
NO_UUID = UUID(int=0)
many_partitions = pytest.mark.brokers(3, is_checked=False, log_segment_delete_delay_ms=1_000)


def records(world: World, broker_id: int = 1) -> tuple[PartitionRecord, ...]:
    """Return the partitions of t as a broker knows them."""
    return world.broker(broker_id).image.topics["t"].partitions


async def with_records(world: World) -> None:
    """Create t with one replica of each partition, and append to each."""
    await world.topic(partitions=MANY, replicas=(1,))
    for leader in sorted({each.leader for each in records(world)}):
        client = await world.client(leader)
        for each in records(world):
            if each.leader == leader:
                await client.produce("t", batch(), partition=each.partition, acks=1)
        client.transport.close()


async def reassign(world: World, target: tuple[int, ...] | None, **others: Any) -> None:
    """Request the same replicas for all partitions of t."""
    client = await world.client()
    rows = [{"partition_index": number, "replicas": target} for number in range(MANY)]
    topics = [{"name": "t", "partitions": rows}]
    answer = await client.ask(ApiKey.ALTER_PARTITION_REASSIGNMENTS, 1, timeout=30_000, topics=topics, **others)
    client.transport.close()
    codes = {int(row.error_code) for topic in answer.responses for row in topic.partitions}
    # A few have arrived before they are cancelled.
    assert codes <= ({ErrorCode.NONE} if target else {ErrorCode.NONE, ErrorCode.NO_REASSIGNMENT_IN_PROGRESS})


@many_partitions
async def test_many_partitions_move_and_no_callback_works_on_all_of_them(world: World) -> None:
    """They start, wait under a throttle, are cancelled, start again, arrive, and leave where they were."""
    await with_records(world)
    # A decision is about few partitions: a broker opens their logs, or drops them, in one go.
    async with counted(world, 9_500):
        await reassign(world, (2, 3), throttle=1)
        await world.later(2)
    async with counted(world, 6_000):
        await reassign(world, None)
        await world.until(lambda: not any(each.is_reassigned for each in records(world)))
        await world.later(2)
    async with counted(world):
        await reassign(world, (2, 3), throttle=1_000_000_000)
        await world.until(lambda: all(set(each.isr) == {2, 3} for each in records(world)))
        await world.later(2)

    assert all(log_end(world, broker_id, number=number) == 1 for broker_id in (2, 3) for number in range(MANY))
    assert not [key for key in world.broker(1).partitions if key.topic == "t"]


@many_partitions
async def test_throttles_of_many_partitions_are_set_and_removed_in_slices(world: World) -> None:
    """Lists, wildcards and rates; and another rate alone concerns no partition, however many are throttled."""
    await with_records(world)
    await reassign(world, (2, 3), throttle=1)
    async with counted(world):
        for broker_id in (1, 2, 3):
            items = ",".join(f"{number}:{broker_id}" for number in range(MANY))
            await alter(world, TOPIC, "t", {LEADER_LIST: items, FOLLOWER_LIST: items}, APPEND)
        await world.later(1)
    async with counted(world):
        await alter(world, TOPIC, "t", {LEADER_LIST: "*", FOLLOWER_LIST: "*"})
        await alter(world, TOPIC, "t", {LEADER_LIST: None, FOLLOWER_LIST: None})
        await alter(world, TOPIC, "t", {LEADER_LIST: "*", FOLLOWER_LIST: "*"})
        await world.later(1)
    async with counted(world):
        await alter(world, BROKER, "", {LEADER_RATE: "1", FOLLOWER_RATE: "1"})
        await world.later(1)
    async with counted(world, 4_000):
        for rate in range(20):
            await alter(world, BROKER, "", {LEADER_RATE: str(rate + 2), FOLLOWER_RATE: str(rate + 2)})


@pytest.mark.brokers(1)
@pytest.mark.interpreted
async def test_throttle_lists_alone_configure_no_partition_again(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not even those that were created when other topics were configured otherwise, and so have another object."""
    await world.topic("u")
    await world.topic(partitions=3)
    assert await alter(world, TOPIC, "u", {"retention.ms": "1000000"}) == (ErrorCode.NONE, None)
    client = await world.client()
    more = [{"name": "t", "count": 6, "assignments": None}]
    await client.ask(ApiKey.CREATE_PARTITIONS, 3, topics=more, timeout=30_000, validate_only=False)
    client.transport.close()
    await world.until(lambda: len(records(world)) == 6)
    configured: list[str] = []
    apply_config = Partition.apply_config

    def counted_apply(partition: Partition, config: TopicConfig) -> None:
        configured.append(str(partition.key))
        apply_config(partition, config)

    monkeypatch.setattr(Partition, "apply_config", counted_apply)
    await alter(world, TOPIC, "t", {LEADER_LIST: "0:1,5:1", FOLLOWER_LIST: "*"})
    with_lists = list(configured)
    await alter(world, TOPIC, "t", {"retention.ms": "2000000"})

    assert with_lists == []
    assert configured == [f"t-{number}" for number in range(6)]
    assert {each.config.leader_replication_throttled_replicas for each in world.broker().partitions.values()} == {
        (),
        ("0:1", "5:1"),
    }


@many_partitions
async def test_metadata_of_many_partitions_is_encoded_in_slices(world: World) -> None:
    """While they move, what was encoded for the request before is of no use to the next."""
    await world.topic(partitions=MANY, replicas=(1,))
    client = await world.client()
    fields = {"allow_auto_topic_creation": False, "include_topic_authorized_operations": True}
    async with counted(world, 4_000):
        asked = await client.ask(ApiKey.METADATA, 12, topics=[{"topic_id": NO_UUID, "name": "t"}], **fields)
        of_all = await client.ask(ApiKey.METADATA, 9, topics=None, include_cluster_authorized_operations=True, **fields)
        again = await client.ask(ApiKey.METADATA, 12, topics=[{"topic_id": NO_UUID, "name": "t"}], **fields)
    client.transport.close()

    for answer in (asked, of_all, again):
        topic = next(topic for topic in answer.topics if topic.name == "t")
        shown = [(int(each.partition_index), int(each.leader_id)) for each in topic.partitions]
        assert shown == [(each.partition, each.leader) for each in records(world)]
        assert topic.topic_authorized_operations == TOPIC_OPERATIONS


class OneMove:
    """Says that all partitions of t move to broker 2, at a rate that a test sets."""

    def __init__(self) -> None:
        self.throttle_bytes_per_s = NONE

    def has_any(self) -> bool:
        """Return that partitions move."""
        return True

    def move_of(self, key: TopicPartition, /) -> Moving:
        """Return the move."""
        return Moving("m", self.throttle_bytes_per_s, (BrokerId(2),))


class Told:
    """Those who fetch: notes how many partitions are named to them at once, and whether the throttles are on."""

    def __init__(self, throttles: ReplicationThrottles) -> None:
        self._throttles = throttles
        self.counts: list[int] = []
        self.are_on: list[bool] = []
        self.go_count = 0

    def held(self) -> Iterator[HeldBack]:
        """Return that nothing is held back."""
        return iter(())

    def throttle_changed(self, keys: Collection[TopicPartition]) -> None:
        """Note it."""
        self.counts.append(len(keys))
        self.are_on.append(any(role.is_active for role in self._throttles.roles))

    def go(self) -> None:
        """Count it."""
        self.go_count += 1


@pytest.mark.brokers(1)
async def test_those_who_fetch_are_told_in_slices_and_throttles_stay_on_until_all_know(world: World) -> None:
    """Else a partition that is not told of yet would wait for a quota that nobody watches any more."""
    broker, moves = world.broker(), OneMove()
    throttles = ReplicationThrottles(
        broker_id=broker.broker_id,
        loop=world.loop,
        clock=broker.clock,
        holds=broker.dispatcher.holds,
        config=broker.configs.broker,
        moves=moves,
        note=lambda _event: None,
    )
    told = Told(throttles)
    throttles.connect(told, Told(throttles), told.go)
    delta = MetadataDelta(partitions=tuple(TopicPartition("t", number) for number in range(1_000)))
    for rate in (1, NONE):
        moves.throttle_bytes_per_s = rate
        world.call(1, world.loop.call_soon, throttles.apply, MetadataImage(), delta, broker.configs)
        await world.later(0.1)
    throttles.close()

    assert told.counts == [250] * 8
    assert told.are_on == [True] * 7 + [False]
    # Of the first ones they are told while metadata are applied, which ends with it.
    assert told.go_count == 6


@pytest.mark.brokers(1)
async def test_one_turn_at_a_time_tells_those_who_fetch(world: World) -> None:
    """Guards: changes that came while the last few partitions were told of began a second chain of turns."""
    broker, moves = world.broker(), OneMove()
    throttles = throttles_of(world, moves)
    told = Told(throttles)
    throttles.connect(told, Told(throttles), told.go)
    some, few, many = (
        MetadataDelta(partitions=tuple(TopicPartition("t", number) for number in range(count)))
        for count in (400, 10, 2_000)
    )
    per_turn: list[int] = []

    def look() -> None:
        per_turn.append(told.go_count)
        if len(per_turn) < 20:
            world.loop.call_soon(look)

    def change() -> None:
        # Of some, 150 are left, which are told of with a few others; and then many, in one callback.
        for rate, delta in ((1, some), (NONE, few), (1, many)):
            moves.throttle_bytes_per_s = rate
            throttles.apply(MetadataImage(), delta, broker.configs)
        look()

    world.call(1, world.loop.call_soon, change)
    await world.later(0.1)
    throttles.close()

    assert told.go_count > 2
    assert max(after - before for before, after in pairwise(per_turn)) == 1


@pytest.mark.brokers(1)
async def test_others_are_told_though_one_who_fetches_fails(world: World) -> None:
    """Guards: a failure ended the chain of turns for good, and throttles stayed on for ever."""
    broker, moves = world.broker(), OneMove()
    throttles = throttles_of(world, moves)

    class Failing(Told):
        """Fails once."""

        def throttle_changed(self, keys: Collection[TopicPartition]) -> None:
            super().throttle_changed(keys)
            if len(self.counts) == 1:
                raise OSError("cannot be told")

    told = Failing(throttles)
    throttles.connect(told, Told(throttles), told.go)
    delta = MetadataDelta(partitions=tuple(TopicPartition("t", number) for number in range(1_000)))
    moves.throttle_bytes_per_s = 1

    def change() -> None:
        with pytest.raises(OSError, match="cannot be told"):
            throttles.apply(MetadataImage(), delta, broker.configs)

    world.call(1, world.loop.call_soon, change)
    await world.later(0.1)
    throttles.close()

    assert told.counts == [250] * 4


def throttles_of(world: World, moves: OneMove) -> ReplicationThrottles:
    """Return throttles of the first broker that know these moves."""
    broker = world.broker()
    return ReplicationThrottles(
        broker_id=broker.broker_id,
        loop=world.loop,
        clock=broker.clock,
        holds=broker.dispatcher.holds,
        config=broker.configs.broker,
        moves=moves,
        note=lambda _event: None,
    )


@pytest.mark.brokers(1)
async def test_first_rate_of_a_move_concerns_its_partitions_in_slices(world: World) -> None:
    """And so does its last one; another rate meanwhile concerns those that have one, and the rest later."""
    broker, moves = world.broker(), OneMove()
    throttles = ReplicationThrottles(
        broker_id=broker.broker_id,
        loop=world.loop,
        clock=broker.clock,
        holds=broker.dispatcher.holds,
        config=broker.configs.broker,
        moves=moves,
        note=lambda _event: None,
    )
    keys = tuple(TopicPartition("t", number) for number in range(5_000))
    throttles.apply(MetadataImage(), MetadataDelta(partitions=keys), broker.configs)

    async def rate(bytes_per_s: int) -> None:
        moves.throttle_bytes_per_s = bytes_per_s
        image = MetadataImage(moves={"m": MoveRecord("m", bytes_per_s)})
        delta = MetadataDelta(moves=("m",))
        world.call(1, world.loop.call_soon, throttles.apply, image, delta, broker.configs)
        await world.later(0)

    def states() -> list[QuotaState | None]:
        return [role.states.get("m") for role in throttles.roles]

    found = []
    async with counted(world):
        for rates in ((1, 5), (NONE,), (7, NONE, 9), (NONE,)):
            for each in rates:
                await rate(each)
            await world.later(0.1)
            throttles.check_invariants()
            found.append([(state.limit_bytes_per_s, state.partition_count) for state in states() if state is not None])
    throttles.close()

    assert found == [[(5, 5_000)] * 2, [], [(9, 5_000)] * 2, []]
