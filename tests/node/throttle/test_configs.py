"""Rates and lists of throttles: which value is in force where, and when."""

import pytest

from syncline.core.throttle.mode import ThrottleMode
from syncline.core.throttle.quota import UNLIMITED, KafkaQuota
from syncline.model.errors import ErrorCode
from syncline.model.ids import TopicPartition
from syncline.wire.api import ApiKey
from tests.node.throttle.quotas import (
    APPEND,
    BROKER,
    FOLLOWER_LIST,
    FOLLOWER_RATE,
    LEADER_LIST,
    LEADER_RATE,
    MB,
    SUBTRACT,
    TOPIC,
    alter,
    fill,
    log_end,
    throttle,
)
from tests.node.world import World


def limits(world: World, broker_id: int = 1) -> tuple[int, int]:
    """Return what bounds a broker as a leader and as a follower."""
    leader, follower = (role.states[""].limit_bytes_per_s for role in world.broker(broker_id).throttles.roles)
    return leader, follower


def listed(world: World, broker_id: int = 1, topic: str = "t") -> list[int]:
    """Return which of ten partitions a broker throttles as a leader."""
    throttle_ = world.broker(broker_id).throttles.leader
    return [number for number in range(10) if throttle_.listed(TopicPartition(topic, number)) is not None]


async def described(world: World, kind: int, name: str, key: str) -> list[tuple[str, int]]:
    """Return the value of a configuration and its source, as DescribeConfigs shows it; nothing if it is not shown."""
    client = await world.client()
    answer = await client.ask(
        ApiKey.DESCRIBE_CONFIGS,
        4,
        resources=[{"resource_type": kind, "resource_name": name, "configuration_keys": [key]}],
        include_synonyms=False,
        include_documentation=False,
    )
    client.transport.close()
    return [(each.value, int(each.config_source)) for each in answer.results[0].configs]


@pytest.mark.brokers(2)
async def test_t38_a_rate_is_the_brokers_or_else_that_of_all_or_else_none(world: World) -> None:
    """Deleting the own value falls back to the default of all brokers, and not to none (KAFKA-10190)."""
    found = [limits(world)]
    await alter(world, BROKER, "", {LEADER_RATE: str(5 * MB), FOLLOWER_RATE: "7"})
    await alter(world, BROKER, "1", {LEADER_RATE: str(2 * MB)})
    found.append(limits(world))
    sources = await described(world, BROKER, "1", LEADER_RATE) + await described(world, BROKER, "1", FOLLOWER_RATE)
    other = limits(world, 2)
    await alter(world, BROKER, "1", {LEADER_RATE: None})
    found.append(limits(world))
    sources += await described(world, BROKER, "1", LEADER_RATE)
    await alter(world, BROKER, "", {LEADER_RATE: None, FOLLOWER_RATE: None})
    found.append(limits(world))

    assert [(UNLIMITED, UNLIMITED), (2 * MB, 7), (5 * MB, 7), (UNLIMITED, UNLIMITED)] == found
    assert (5 * MB, 7) == other
    assert [(str(2 * MB), 2), ("7", 3), (str(5 * MB), 3)] == sources
    assert [] == await described(world, BROKER, "1", LEADER_RATE)


@pytest.mark.brokers(1, **{"replication.quota.mode": "kafka"})
async def test_the_mode_is_that_of_the_brokers_file_if_nobody_changes_it(world: World) -> None:
    """Unlike a rate, which has an effect only if it is set while brokers run."""
    await world.topic()
    await alter(world, TOPIC, "t", {LEADER_LIST: "*"})

    assert [ThrottleMode.KAFKA] * 2 == [role.mode for role in world.broker().throttles.roles]
    assert isinstance(world.broker().throttles.leader.listed(TopicPartition("t", 0)), KafkaQuota)


@pytest.mark.brokers(1, **{LEADER_RATE: 1_000})
async def test_a_rate_in_the_brokers_file_has_no_effect(world: World) -> None:
    """As in Kafka; nor does a rate without lists throttle anything."""
    await alter(world, BROKER, "1", {FOLLOWER_RATE: "1000"})

    assert (UNLIMITED, 1_000) == limits(world)
    assert not any(role.is_active for role in world.broker().throttles.roles)


async def test_t11_a_refused_list_leaves_the_one_before(world: World) -> None:
    """Its error says how a list looks."""
    await world.topic()
    assert (await alter(world, TOPIC, "t", {LEADER_LIST: " 0:1, 1:1 "}))[0] == ErrorCode.NONE
    for value in ("0-101", "0:101,*", "a:1", "0:", "**", "0:101:2"):
        code, message = await alter(world, TOPIC, "t", {LEADER_LIST: value})

        assert code == ErrorCode.INVALID_CONFIG
        assert message is not None
        assert "must be the literal '*' or a list of replicas in the following format" in message
    assert [0, 1] == listed(world)
    assert [("0:1,1:1", 1)] == await described(world, TOPIC, "t", LEADER_LIST)


async def test_t12_appending_and_subtracting_leave_no_empty_item(world: World) -> None:
    """From an absent list to one item, the same again, and to an empty list."""
    await world.topic()
    found = []
    for operation, value in ((APPEND, "0:1"), (APPEND, "0:1"), (SUBTRACT, "0:1"), (APPEND, ",2:1,,"), (0, ",3:1")):
        assert (await alter(world, TOPIC, "t", {LEADER_LIST: value}, operation))[0] == ErrorCode.NONE
        found.append((world.broker().image.topic_configs("t")[LEADER_LIST], listed(world)))

    assert [("0:1", [0]), ("0:1", [0]), ("", []), ("2:1", [2]), ("3:1", [3])] == found


async def test_t13_another_list_is_in_force_instead_of_the_one_before(world: World) -> None:
    """Partition 1 is throttled no more; a list given with a new topic counts as well, and ends with the topic."""
    await world.topic(leader_replication_throttled_replicas=",1:1")
    created = listed(world)
    await alter(world, TOPIC, "t", {LEADER_LIST: "2:1"})
    replaced = listed(world)
    await world.delete_topic()

    assert ([1], [2], []) == (created, replaced, listed(world))
    assert not world.broker().throttles.leader.is_active


@pytest.mark.brokers(2)
async def test_t39_a_broker_that_is_down_takes_over_its_rate_when_it_starts(world: World) -> None:
    """Another broker accepts it; at its start it is in force before the first fetch."""
    await world.topic(replicas=(1, 2))
    world.kill(2)
    await world.until(lambda: world.partition().record.isr == (1,))
    await fill(world, 2 * MB)
    rate = await alter(world, BROKER, "2", {FOLLOWER_RATE: "100000"}, at=1)
    other = await alter(world, BROKER, "2", {FOLLOWER_RATE: "1", "num.io.threads": "9"}, at=1)
    unknown = await alter(world, BROKER, "3", {FOLLOWER_RATE: "1"}, at=1)
    shown = [await described(world, BROKER, name, FOLLOWER_RATE) for name in ("2", "02", "3", "1")]
    hidden = await described(world, BROKER, "2", "num.io.threads")
    await alter(world, TOPIC, "t", {FOLLOWER_LIST: "0:2"})
    await world.start(2)
    await world.later(2)

    assert (ErrorCode.NONE, None) == rate
    assert (ErrorCode.INVALID_REQUEST, "Unexpected broker id, expected 1, but received 2") == other
    assert unknown == (
        ErrorCode.INVALID_REQUEST,
        "There is no broker 3: rates can be set for brokers that have been registered",
    )
    # At any broker, but nothing else of another one's configuration.
    assert [[("100000", 2)], [("100000", 2)], [], []] == shown
    assert hidden == []
    assert (UNLIMITED, 100_000) == limits(world, 2)
    # 100 kB/s, and the first batch.
    assert log_end(world, 2) <= 3


@pytest.mark.brokers(2)
async def test_the_mode_changes_while_fetches_wait(world: World) -> None:
    """From a strict quota of 0 to Kafka's, which lets one answer pass; what was recorded stays."""
    await world.topic(replicas=(1, 2))
    world.kill(2)
    await world.until(lambda: world.partition().record.isr == (1,))
    await fill(world, 3 * MB)
    await throttle(world, follower=0)
    await world.start(2)
    await world.later(2)
    before = log_end(world, 2)
    await alter(world, BROKER, "", {"replication.quota.mode": "kafka"})
    await world.later(1.5)

    assert (0, 10) == (before, log_end(world, 2))
    assert all(role.mode is ThrottleMode.KAFKA for role in world.broker(2).throttles.roles)
    code, message = await alter(world, BROKER, "", {"replication.quota.mode": "loose"})
    assert (code, message) == (
        ErrorCode.INVALID_REQUEST,
        "Invalid value loose for configuration replication.quota.mode: String must be one of: strict, kafka",
    )


@pytest.mark.brokers(1, **{"replication.quota.window.num": 2, "replication.quota.window.size.seconds": 5})
async def test_windows_are_as_configured(world: World) -> None:
    """Two samples of 5 s: what was recorded is forgotten after 10 s, and counts as 5 s at least."""
    rate = world.broker().throttles.leader.states[""].rate
    now_ms = world.broker().clock.mono_ms()
    rate.record(10_000, now_ms)

    assert (2_000, 0) == (rate.rate(now_ms + 1_000), rate.rate(now_ms + 10_000))


@pytest.mark.brokers(2)
async def test_list_of_a_deleted_topic_ends_with_it(world: World) -> None:
    """Whatever it named; nobody asks for throttles any more."""
    for items in ("*", "0:1,0:2"):
        await world.topic(replicas=(1, 2))
        await throttle(world, leader=MB, follower=MB, items=items)
        were_active = [role.is_active for broker_id in (1, 2) for role in world.broker(broker_id).throttles.roles]
        await world.delete_topic()

        assert were_active == [True] * 4
        assert not any(role.is_active for broker_id in (1, 2) for role in world.broker(broker_id).throttles.roles)
        assert world.fetcher(2, 1).throttled is None
