"""Copies under a throttle while producers write, and while brokers come and go, in virtual time."""

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from syncline.model.errors import ErrorCode
from syncline.model.ids import TopicPartition
from syncline.records.batch import iterate
from syncline.wire.api import ApiKey
from tests.node.throttle.quotas import MB, batch_of, fill, log_end, throttle
from tests.node.wire_client import WireClient, batch
from tests.node.world import World

SMALL_BATCH_BYTES = 10_000
FIRST_MS = 1_700_000_000_000


@pytest.mark.brokers(3)
@pytest.mark.parametrize(
    ("role", "layout"),
    [
        pytest.param("leader", {"a": (1, 2), "b": (1, 3)}, id="one_to_two"),
        pytest.param("follower", {"a": (1, 3), "b": (2, 3)}, id="two_to_one"),
    ],
)
async def test_t28_producers_take_their_part_of_what_a_broker_may_copy(
    world: World, role: str, layout: Mapping[str, tuple[int, int]]
) -> None:
    """6 MB at 3 MB/s, of which producers need 1: 3 s, and nothing of what they wrote is lost."""
    away = {follower for _, follower in layout.values()}
    for topic, replicas in layout.items():
        await world.topic(topic, replicas=replicas)
    for broker in away:
        world.kill(broker)
    for topic, (leader, _) in layout.items():
        await world.until(lambda topic=topic, leader=leader: world.partition(leader, topic).record.isr == (leader,))
        await fill(world, 3 * MB, topic=topic, at=leader)
    for topic in layout:
        await throttle(world, topic, **{role: 3 * MB})
    clients = {topic: await world.client(leader) for topic, (leader, _) in layout.items()}
    records, written = batch_of(SMALL_BATCH_BYTES), dict.fromkeys(layout, 30)
    for broker in away:
        await world.start(broker)
    began = world.loop.time()
    ahead = 0

    def is_behind() -> bool:
        return any(len(world.partition(leader, topic).record.isr) == 1 for topic, (leader, _) in layout.items())

    while is_behind():
        copied = [min(30, log_end(world, follower, topic)) for topic, (_, follower) in layout.items()]
        ahead = max(ahead, abs(copied[0] - copied[1]))
        due = world.loop.time() + SMALL_BATCH_BYTES / 500_000
        for topic, client in clients.items():
            assert (await client.produce(topic, records, acks=1)).error_code == ErrorCode.NONE
            written[topic] += 1
        await world.later(due - world.loop.time())
    took_s = world.loop.time() - began
    await world.later(1)

    assert 2.7 <= took_s <= 3.6
    # The first that asks finds a full bucket and nobody else who waits; from then on both get the same.
    assert ahead <= 8
    for topic, replicas in layout.items():
        assert [log_end(world, each, topic) for each in replicas] == [written[topic]] * 2


class Numbered:
    """A producer with acks=all that sends numbered records to the leaders of topics, and again until they are acked."""

    def __init__(self, world: World, topics: tuple[str, ...]) -> None:
        self._world = world
        self._clients: dict[int, WireClient] = {}
        self._topics = topics
        self.acknowledged: dict[str, list[int]] = {topic: [] for topic in topics}
        self.is_wanted = True

    async def run(self) -> None:
        """Send to each topic in turn until nobody wants more."""
        number = 0
        while self.is_wanted:
            number += 1
            for topic in self._topics:
                is_sent = False
                while not is_sent and self.is_wanted:
                    is_sent = await self._send(topic, number)
                    await asyncio.sleep(0.01)

    async def _send(self, topic: str, number: int) -> bool:
        world = self._world
        leader = world.broker(world.living()[0]).image.topics[topic].partitions[0].leader
        if leader not in world.living():
            return False
        try:
            client = self._clients.get(leader)
            if client is None or client.is_lost:
                client = self._clients[leader] = await world.client(leader)
            row = await client.produce(topic, batch(timestamp_ms=FIRST_MS + number), timeout_ms=5_000)
        except OSError:
            return False
        if row.error_code == ErrorCode.NONE:
            self.acknowledged[topic].append(number)
        return row.error_code == ErrorCode.NONE


async def execute(world: World, targets: Mapping[str, tuple[int, ...]], **others: Any) -> None:
    """Request replicas for the first partitions of topics, as one move."""
    client = await world.client(1)
    rows = [
        {"name": topic, "partitions": [{"partition_index": 0, "replicas": replicas}]}
        for topic, replicas in targets.items()
    ]
    answer = await client.ask(ApiKey.ALTER_PARTITION_REASSIGNMENTS, 1, timeout=5_000, topics=rows, **others)
    client.transport.close()
    assert {each.error_code.value for topic in answer.responses for each in topic.partitions} == {0}


@pytest.mark.brokers(6, replica_lag_time_max_ms=2_000)
@pytest.mark.parametrize("is_bounced", [False, True], ids=["", "bounced"])
async def test_t32_throttled_move_of_three_partitions_takes_what_was_estimated(
    world: World, *, is_bounced: bool
) -> None:
    """Two copies of 2.7 MB go to each of three brokers at 400 kB/s: 13.5 s, also if every other broker restarts."""
    before = {"t0": (1, 2), "t1": (2, 3), "t2": (3, 1)}
    after = {"t0": (4, 5), "t1": (5, 6), "t2": (6, 4)}
    for topic, replicas in before.items():
        await world.topic(topic, replicas=replicas)
        await fill(world, 2_700_000, topic=topic, at=replicas[0])
    producer = Numbered(world, tuple(before))
    producing = asyncio.ensure_future(producer.run())
    await world.later(0.5)
    began = world.loop.time()
    await execute(world, after, throttle=400_000)

    def is_moved() -> bool:
        topics = world.broker(world.living()[0]).image.topics
        return all(topics[topic].partitions[0].replicas == replicas for topic, replicas in after.items())

    for broker in (2, 4, 6) if is_bounced else ():
        await world.later(2)
        world.kill(broker)
        await world.later(0.5)
        await world.start(broker)
    await world.until(is_moved)
    took_s = world.loop.time() - began
    await world.later(0.5)
    producer.is_wanted = False
    await producing

    # Half a second of the rate is there at the beginning, at each broker and again after its restart.
    assert 0.9 * 13.5 - (0.5 if is_bounced else 0) <= took_s <= 2 * 13.5
    for topic, replicas in after.items():
        end = world.partition(replicas[0], topic).high_watermark
        logs = {world.cluster.ghost.raw(each, TopicPartition(topic, 0)).contents(end) for each in replicas}
        (log,) = logs
        found = {int(header.max_timestamp) - FIRST_MS for _, header in iterate(memoryview(log), 0, len(log))}
        assert len(producer.acknowledged[topic]) > 100
        assert set(producer.acknowledged[topic]) <= found
