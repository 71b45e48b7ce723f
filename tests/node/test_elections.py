"""Elections on whole brokers: by request of an administrator, by configuration, and after the loss of a log."""

from typing import Any

import pytest

from syncline.model.errors import ErrorCode
from syncline.model.ids import NONE
from syncline.virtual.cluster import LOG_DIRECTORY
from syncline.wire.api import ApiKey
from tests.node.wire_client import WireClient, batch
from tests.node.world import World

LAG = {"replica_lag_time_max_ms": 60_000, "replica_socket_timeout_ms": 60_000}
PREFERRED, UNCLEAN = 0, 1


async def elect(client: WireClient, kind: int, topic: str = "t") -> ErrorCode:
    """Request an election of t-0 and return the answer."""
    answer = await client.ask(
        ApiKey.ELECT_LEADERS,
        2,
        election_type=kind,
        topic_partitions=[{"topic": topic, "partitions": [0]}],
        timeout=5_000,
    )
    return ErrorCode(int(answer.replica_election_results[0].partition_result[0].error_code))


def record(world: World, broker_id: int) -> Any:
    """Return the state of t-0 in a broker's image."""
    return world.broker(broker_id).image.partition("t", 0)


def take_violations(world: World) -> list[str]:
    """Return which rules of clean elections were broken, as the test intends."""
    violations = world.cluster.ghost.violations
    rules = [each.split()[2] for each in violations]
    violations.clear()
    return rules


@pytest.mark.brokers(3, **LAG)
async def test_preferred_leader_is_elected_when_an_administrator_asks(world: World) -> None:
    """2 restarts and has caught up, 1 leads: an election gives leadership back, a second one is not needed."""
    await world.topic(replicas=(2, 1, 3))
    world.kill(2)
    await world.until(lambda: record(world, 1).leader == 1)
    await world.start(2)
    client = await world.client(3)
    await world.until(lambda: set(record(world, 3).isr) == {1, 2, 3})

    answers = [await elect(client, PREFERRED), await elect(client, PREFERRED)]

    assert answers == [ErrorCode.NONE, ErrorCode.ELECTION_NOT_NEEDED]
    await world.until(lambda: world.partition(2).is_leader)


@pytest.mark.brokers(2, **LAG)
async def test_unclean_leader_is_elected_when_an_administrator_asks(world: World) -> None:
    """2, the only member of the ISR, is gone; 1 lacks a record, and leads only when an election is requested."""
    await world.topic(replicas=(2, 1))
    world.kill(1)
    await world.until(lambda: record(world, 2).isr == (2,))
    await (await world.client(2)).produce("t", batch())
    await world.start(1)
    world.network.cut("broker-2", "broker-1")
    world.kill(2)
    client = await world.client(1)
    await world.until(lambda: record(world, 1).leader == NONE)

    preferred = await elect(client, PREFERRED)
    unclean = await elect(client, UNCLEAN)

    assert (preferred, unclean) == (ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, ErrorCode.NONE)
    await world.until(lambda: world.partition(1).is_leader)
    assert record(world, 1).isr == (1,)
    assert take_violations(world) == ["S4"]


@pytest.mark.brokers(2, unclean_leader_election_interval_ms=2_000, **LAG)
async def test_unclean_leader_is_elected_at_the_next_check_when_the_topic_allows_it(world: World) -> None:
    """The configuration changes while there is no leader: the periodic check finds it."""
    await world.topic(replicas=(2, 1))
    world.kill(1)
    await world.until(lambda: record(world, 2).isr == (2,))
    await world.start(1)
    world.network.cut("broker-2", "broker-1")
    world.kill(2)
    client = await world.client(1)
    await world.until(lambda: record(world, 1).leader == NONE)
    began_s = world.loop.time()

    await client.ask(
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        1,
        resources=[
            {
                "resource_type": 2,
                "resource_name": "t",
                "configs": [{"name": "unclean.leader.election.enable", "config_operation": 0, "value": "true"}],
            }
        ],
        validate_only=False,
    )
    await world.until(lambda: world.partition(1).is_leader)

    assert world.loop.time() - began_s < 3
    assert take_violations(world) == ["S4"]


@pytest.mark.brokers(3, replica_fetch_max_bytes=100, **LAG)
async def test_lag_of_a_replica_is_told_by_its_log_directory(world: World) -> None:
    """Broker 3 was away and fetches batch by batch: until it has everything, it lacks what its leader has committed."""
    await world.topic(replicas=(1, 2, 3))
    world.kill(3)
    await world.until(lambda: record(world, 1).isr == (1, 2))
    client = await world.client(1)
    for _ in range(50):
        await client.produce("t", batch())
    world.cluster.start(world.host(3))
    await world.until(lambda: world.host(3).node is not None and hasattr(world.node(3), "broker"))
    await world.until(lambda: world.broker(3).partitions and 0 < world.partition(3).log.log_end < 30)
    lagging = world.partition(3).offset_lag

    starting = world.host(3).starting
    assert starting is not None
    await starting
    follower = await world.client(3)
    await world.until(lambda: set(record(world, 1).isr) == {1, 2, 3})
    await world.until(lambda: world.partition(3).log.log_end == 50)

    assert 20 < lagging < 50
    assert [await lag_of(follower), await lag_of(client)] == [0, 0]


async def lag_of(client: WireClient) -> int:
    """Return the lag of t-0 from DescribeLogDirs."""
    answer = await client.ask(ApiKey.DESCRIBE_LOG_DIRS, 4, topics=[{"topic": "t", "partitions": [0]}])
    return int(answer.results[0].topics[0].partitions[0].offset_lag)


@pytest.mark.brokers(1)
async def test_damaged_log_is_led_by_nobody_and_costs_no_other(world: World) -> None:
    """The log of t vanishes while the broker is down: u is served again, t has no leader, also not an unclean one."""
    client = await world.client()
    for topic in ("t", "u"):
        await world.topic(topic)
        await client.produce(topic, batch())
    await world.as_broker(1, world.node().stop())
    world.kill(1)
    del world.host().medium.root.names[LOG_DIRECTORY.strip("/")].names["t-0"]

    await world.start(1)
    again = await world.client()
    await world.until(lambda: world.broker().image.brokers[1].failed)
    rows = [await again.produce(topic, batch()) for topic in ("t", "u")]

    assert [row.error_code for row in rows] == [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NONE]
    assert record(world, 1).leader == NONE
    assert await elect(again, UNCLEAN) == ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE
    answer = await again.ask(ApiKey.DESCRIBE_LOG_DIRS, 4, topics=None)
    assert [(int(each.error_code), each.log_dir) for each in answer.results] == [
        (ErrorCode.NONE, LOG_DIRECTORY),
        (ErrorCode.KAFKA_STORAGE_ERROR, f"{LOG_DIRECTORY}/t-0"),
    ]
    world.errors.take()


@pytest.mark.brokers(1)
@pytest.mark.parametrize("is_restarted", [False, True])
async def test_damaged_log_goes_with_its_topic(world: World, is_restarted: bool) -> None:
    """As its message advises, the topic is deleted; a new one of that name is served, at once and after a restart."""
    client = await world.client()
    await world.topic("t")
    await client.produce("t", batch())
    await world.as_broker(1, world.node().stop())
    world.kill(1)
    data = world.host().medium.root.names[LOG_DIRECTORY.strip("/")]
    log = data.names["t-0"].names["00000000000000000000.log"]
    log.data[:] = log.durable[:] = bytes(len(log.data))

    await world.start(1)
    again = await world.client()
    await world.until(lambda: world.broker().image.brokers[1].failed)
    await again.ask(ApiKey.DELETE_TOPICS, 3, topic_names=("t",), timeout=5_000)
    await world.until(lambda: "t" not in world.broker().image.topics)
    left = list(world.broker().logs.damaged)
    if is_restarted:
        world.kill(1)
        await world.start(1)
        again = await world.client()
    await world.topic("t")
    row = await again.produce("t", batch())

    assert left == []
    assert row.error_code == ErrorCode.NONE
    assert world.partition(1).log.log_end == 1
    world.errors.take()


@pytest.mark.brokers(3, auto_leader_rebalance_enable=True, leader_imbalance_check_interval_seconds=2, **LAG)
async def test_f05_balancer_gives_leadership_back_at_its_next_look(world: World) -> None:
    """2 restarts and is in sync again: it leads within an interval, without a request."""
    await world.topic(replicas=(2, 1, 3))
    world.kill(2)
    await world.until(lambda: record(world, 1).leader == 1)
    await world.start(2)
    await world.until(lambda: set(record(world, 3).isr) == {1, 2, 3})
    began_s = world.loop.time()

    await world.until(lambda: world.partition(2).is_leader)

    assert world.loop.time() - began_s < 3
    assert set(record(world, 2).isr) == {1, 2, 3}
