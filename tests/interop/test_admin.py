"""Administration: what each client asks for is done, and another client sees it."""

from collections.abc import Callable

import pytest
from confluent_kafka.admin import AdminClient

from tests.cluster import LocalCluster
from tests.interop.agent import Agent, ClientError
from tests.interop.samples import FIRST_TIMESTAMP_MS, STEP_MS, numbered
from tests.patience import eventually

BROKERS = [1, 2, 3]


def topics_of(admin: AdminClient) -> dict:
    """Return all topics, as seen by a client that is not on trial."""
    return admin.list_topics(timeout=10).topics


@pytest.mark.needs("create_topic")
def test_topic_is_created_with_its_partitions_replicas_and_configs(agent: Agent, name: str, admin: AdminClient) -> None:
    """A new topic has what was asked for, and a leader for each partition that all replicas follow."""
    agent.do("create_topic", topic=name, partitions=3, replication=2, configs={"retention.ms": "123456"})

    partitions = agent.do("describe_topic", topic=name)
    assert [0, 1, 2] == sorted(each["partition"] for each in partitions)
    assert all(len(each["replicas"]) == 2 for each in partitions)
    assert all(sorted(each["replicas"]) == sorted(each["isr"]) for each in partitions)
    assert all(each["leader"] == each["replicas"][0] for each in partitions)
    assert agent.do("describe_configs", kind="topic", name=name)["retention.ms"] == "123456"
    assert len(topics_of(admin)[name].partitions) == 3
    assert name in agent.do("list_topics")


def test_topic_is_refused_when_it_exists_or_cannot_be(agent: Agent, name: str) -> None:
    """A refusal reaches the client as the error that its library knows for it."""
    agent.do("create_topic", topic=name, partitions=1, replication=1, configs={})

    with pytest.raises(ClientError, match=r"(?i)already.?exists"):
        agent.do("create_topic", topic=name, partitions=1, replication=1, configs={})
    with pytest.raises(ClientError, match=r"(?i)replication.?factor"):
        agent.do("create_topic", topic=f"{name}-wide", partitions=1, replication=4, configs={})
    with pytest.raises(ClientError, match=r"(?i)topic"):
        agent.do("create_topic", topic="not a name", partitions=1, replication=1, configs={})
    with pytest.raises(ClientError, match=r"(?i)config"):
        agent.do("create_topic", topic=f"{name}-odd", partitions=1, replication=1, configs={"no.such": "1"})


def test_topic_is_gone_when_it_was_deleted(agent: Agent, name: str, admin: AdminClient) -> None:
    """A deleted topic disappears, and its name is free for a new, empty topic."""
    agent.do("create_topic", topic=name, partitions=1, replication=3, configs={})
    agent.produce(name, numbered(3))

    agent.do("delete_topic", topic=name)

    assert name not in eventually(lambda: topics_of(admin), lambda topics: name not in topics)

    agent.do("create_topic", topic=name, partitions=1, replication=3, configs={})

    assert [[0, 0]] == agent.produce(name, numbered(1))


def test_topic_grows_when_partitions_are_added(agent: Agent, name: str, make_topic: Callable[..., str]) -> None:
    """New partitions join the old ones and take records; fewer partitions are refused."""
    topic = make_topic(name, 1)
    agent.produce(topic, numbered(1))

    agent.do("create_partitions", topic=topic, total=3)

    described = eventually(lambda: agent.do("describe_topic", topic=topic), lambda partitions: len(partitions) == 3)
    assert [0, 1, 2] == sorted(each["partition"] for each in described)
    with pytest.raises(ClientError, match=r"(?i)partitions"):
        agent.do("create_partitions", topic=topic, total=2)


def test_records_below_an_offset_are_deleted(agent: Agent, name: str, make_topic: Callable[..., str]) -> None:
    """The log begins where the deletion ended, and reading begins there, too."""
    topic = make_topic(name)
    agent.produce(topic, numbered(10))

    assert agent.do("delete_records", topic=topic, partition=0, before=4) == 4
    assert [4, 10] == agent.do("list_offsets", topic=topic, partition=0, timestamp_ms=0)[:2]
    with pytest.raises(ClientError, match=r"(?i)out.?of.?range|not within the range"):
        agent.do("delete_records", topic=topic, partition=0, before=11)


@pytest.mark.parametrize("codec", ["none", "lz4"])
def test_offsets_are_found_by_time(agent: Agent, codec: str, name: str, make_topic: Callable[..., str]) -> None:
    """A time leads to the first record at or after it, in the middle of a compressed batch, too."""
    topic = make_topic(name)
    agent.produce(topic, numbered(20), codec=codec)
    seventh_ms = FIRST_TIMESTAMP_MS + 7 * STEP_MS

    exact = agent.do("list_offsets", topic=topic, partition=0, timestamp_ms=seventh_ms)
    between = agent.do("list_offsets", topic=topic, partition=0, timestamp_ms=seventh_ms + 1)

    assert [0, 20, 7] == exact
    assert [0, 20, 8] == between


def test_configs_of_topics_and_brokers_are_described(agent: Agent, name: str, make_topic: Callable[..., str]) -> None:
    """The answer has defaults, the topic's overrides, and what the cluster was started with."""
    topic = make_topic(name, **{"cleanup.policy": "compact", "max.message.bytes": "65536"})

    of_topic = agent.do("describe_configs", kind="topic", name=topic)
    of_broker = agent.do("describe_configs", kind="broker", name="1")

    assert ["compact", "65536", "producer"] == [
        of_topic[config] for config in ("cleanup.policy", "max.message.bytes", "compression.type")
    ]
    assert of_broker["group.min.session.timeout.ms"] == "500"


@pytest.mark.needs("alter_configs")
def test_configs_change_one_by_one_when_altered_incrementally(
    agent: Agent, name: str, make_topic: Callable[..., str]
) -> None:
    """What is not named stays as it is; nonsense is refused and changes nothing."""
    topic = make_topic(name, **{"max.message.bytes": "65536"})

    agent.do("alter_configs", topic=topic, configs={"retention.bytes": "1000000"})
    with pytest.raises(ClientError, match=r"(?i)invalid"):
        agent.do("alter_configs", topic=topic, configs={"retention.bytes": "many"})

    described = agent.do("describe_configs", kind="topic", name=topic)
    assert ["1000000", "65536"] == [described[config] for config in ("retention.bytes", "max.message.bytes")]


@pytest.mark.needs("replace_configs")
def test_configs_are_set_by_the_older_request(agent: Agent, name: str, make_topic: Callable[..., str]) -> None:
    """AlterConfigs sets what it names."""
    topic = make_topic(name)

    agent.do("replace_configs", topic=topic, configs={"retention.bytes": "2000000"})

    assert agent.do("describe_configs", kind="topic", name=topic)["retention.bytes"] == "2000000"


def test_cluster_is_described(agent: Agent, admin: AdminClient) -> None:
    """Every client sees the same cluster id and the same three brokers."""
    described = agent.do("describe_cluster")

    assert described["brokers"] == BROKERS
    assert described["cluster_id"] == admin.describe_cluster().result(10).cluster_id


def test_groups_are_listed_and_described_while_they_live(
    agent: Agent, name: str, make_topic: Callable[..., str]
) -> None:
    """A group with a member is stable and says how many it has; without members it is empty and remembers offsets."""
    topic = make_topic(name)
    agent.produce(topic, numbered(5))
    agent.join("member", name, topic)
    eventually(lambda: agent.do("received", member="member"), lambda read: len(read) == 5)

    assert {"state": "Stable", "members": 1} == agent.do("describe_group", group=name)
    assert name in agent.do("list_groups")

    agent.do("leave", member="member")

    assert {"state": "Empty", "members": 0} == eventually(
        lambda: agent.do("describe_group", group=name), lambda group: group["members"] == 0
    )
    assert list(agent.do("group_offsets", group=name, topic=topic).values()) == [5]


@pytest.mark.needs("set_group_offsets")
def test_group_offsets_are_set_without_members(agent: Agent, name: str, make_topic: Callable[..., str]) -> None:
    """Offsets that an administrator commits are where the group's next member begins."""
    topic = make_topic(name)
    agent.produce(topic, numbered(10))

    agent.do("set_group_offsets", group=name, topic=topic, offsets=[[0, 7]])

    assert list(agent.do("group_offsets", group=name, topic=topic).values()) == [7]

    agent.join("member", name, topic)

    rest = [[0, 7], [0, 8], [0, 9]]
    assert rest == eventually(lambda: agent.do("received", member="member"), lambda read: len(read) >= 3)

    agent.do("leave", member="member")


@pytest.mark.needs("delete_group")
def test_group_is_deleted_when_it_has_no_members(agent: Agent, name: str, make_topic: Callable[..., str]) -> None:
    """A group in use is not deleted; an empty one is, and its offsets with it."""
    topic = make_topic(name)
    agent.produce(topic, numbered(1))
    agent.join("member", name, topic)
    eventually(lambda: agent.do("received", member="member"), len)

    with pytest.raises(ClientError):
        agent.do("delete_group", group=name)

    agent.do("leave", member="member")
    agent.do("delete_group", group=name)

    assert name not in agent.do("list_groups")
    assert agent.do("group_offsets", group=name, topic=topic) == {}


@pytest.mark.needs("delete_group_offsets")
def test_group_offset_is_forgotten_when_deleted(agent: Agent, name: str, make_topic: Callable[..., str]) -> None:
    """OffsetDelete takes one partition's offset and leaves the others."""
    topic = make_topic(name, 2)
    agent.do("set_group_offsets", group=name, topic=topic, offsets=[[0, 1], [1, 2]])

    agent.do("delete_group_offsets", group=name, topic=topic, partition=0)

    left = agent.do("group_offsets", group=name, topic=topic)
    assert {"1": 2} == {str(partition): offset for partition, offset in left.items()}


@pytest.mark.needs("log_dirs")
def test_log_directories_tell_the_size_of_each_replica(
    agent: Agent, name: str, make_topic: Callable[..., str], three_brokers: LocalCluster
) -> None:
    """All three brokers hold the same number of bytes of the topic, as their files do."""
    topic = make_topic(name)
    agent.produce(topic, numbered(50))

    sizes = eventually(
        lambda: agent.do("log_dirs", topic=topic), lambda seen: len(seen) == 3 and len(set(seen.values())) == 1
    )

    assert ["1", "2", "3"] == sorted(str(broker) for broker in sizes)
    on_disk = {
        sum(file.stat().st_size for file in directory.glob("*.log"))
        for directory in three_brokers.directory.glob(f"broker-*/{topic}-0")
    }
    assert on_disk == set(sizes.values())
