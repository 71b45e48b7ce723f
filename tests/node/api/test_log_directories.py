"""AlterReplicaLogDirs: every replica of a broker is in its one directory."""

from typing import Any

import pytest

from syncline.model.errors import ErrorCode
from syncline.virtual.cluster import LOG_DIRECTORY
from syncline.wire.api import ApiKey
from tests.node.wire_client import batch
from tests.node.world import World


async def answered(
    world: World, broker_id: int, *directories: tuple[str, dict[str, list[int]]], version: int = 2
) -> Any:
    """Ask a broker to have replicas in these directories; return the error of each partition."""
    client = await world.client(broker_id)
    rows = [
        {"path": path, "topics": [{"name": name, "partitions": numbers} for name, numbers in topics.items()]}
        for path, topics in directories
    ]
    answer = await client.ask(ApiKey.ALTER_REPLICA_LOG_DIRS, version, dirs=rows)
    client.transport.close()
    return {
        str(topic.topic_name): {int(each.partition_index): ErrorCode(int(each.error_code)) for each in topic.partitions}
        for topic in answer.results
    }


@pytest.mark.brokers(2)
@pytest.mark.parametrize("version", [1, 2])
async def test_replica_is_where_it_can_be(world: World, version: int) -> None:
    """A broker's own directory, with what it hosts, what it does not, and what nobody knows; and another directory."""
    await world.topic("t", replicas=(1,))
    named = {"t": [0, 7, -1], "nope": [0]}
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    here = await answered(world, 1, (LOG_DIRECTORY, named), version=version)
    elsewhere = await answered(world, 2, (LOG_DIRECTORY, named), version=version)
    nowhere = await answered(world, 1, ("/nowhere", named), version=version)

    assert here == {"t": {0: ErrorCode.NONE, 7: unknown, -1: unknown}, "nope": {0: unknown}}
    assert elsewhere["t"][0] == ErrorCode.REPLICA_NOT_AVAILABLE
    assert {code for rows in nowhere.values() for code in rows.values()} == {ErrorCode.LOG_DIR_NOT_FOUND}
    assert await answered(world, 1, version=version) == {}


@pytest.mark.brokers(1)
async def test_last_directory_of_a_replica_counts(world: World) -> None:
    """As in Kafka, where a later row replaces the one before."""
    await world.topic("t")
    here, nowhere = (LOG_DIRECTORY, {"t": [0]}), ("/nowhere", {"t": [0]})

    assert await answered(world, 1, nowhere, here) == {"t": {0: ErrorCode.NONE}}
    assert await answered(world, 1, here, nowhere) == {"t": {0: ErrorCode.LOG_DIR_NOT_FOUND}}


@pytest.mark.brokers(1)
async def test_damaged_replica_cannot_move(world: World) -> None:
    """Its log is gone: the same error as that of its directory in DescribeLogDirs."""
    await world.topic("t")
    client = await world.client()
    await client.produce("t", batch())
    await world.as_broker(1, world.node().stop())
    world.kill(1)
    del world.host().medium.root.names[LOG_DIRECTORY.strip("/")].names["t-0"]
    await world.start(1)

    assert await answered(world, 1, (LOG_DIRECTORY, {"t": [0]})) == {"t": {0: ErrorCode.KAFKA_STORAGE_ERROR}}
    world.errors.take()


@pytest.mark.brokers(3)
async def test_brokers_say_for_how_long_nothing_has_moved(world: World) -> None:
    """Only while a move runs, only in the newest version, and no longer than the move has been running."""
    await world.topic("t", replicas=(1,))
    client = await world.client(1)
    for _ in range(3):
        await client.produce("t", batch(size_bytes=1_000))

    async def told(broker_id: int, version: int = 4) -> tuple[int, int]:
        asked = await world.client(broker_id)
        answer = await asked.ask(ApiKey.DESCRIBE_LOG_DIRS, version, topics=None)
        asked.transport.close()
        return getattr(answer, "nothing_received_ms", -1), getattr(answer, "nothing_sent_ms", -1)

    before = await told(1)
    await world.later(5)
    rows = [{"partition_index": 0, "replicas": (2, 1)}]
    topics = [{"name": "t", "partitions": rows}]
    await client.ask(ApiKey.ALTER_PARTITION_REASSIGNMENTS, 1, timeout=30_000, topics=topics, throttle=1)
    await world.later(3)
    still = await told(1), await told(2)
    older = await told(1, 3)
    client.transport.close()

    assert before == older == (-1, -1)
    # A batch comes at once, and then nothing for a quarter of an hour.
    assert all(2_000 <= each <= 3_100 for pair in still for each in pair)
    assert world.broker(2).counters.replication.moved_in >= 1_000
