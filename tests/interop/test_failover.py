"""A broker is killed: clients find the new leader and the new coordinator by themselves."""

from collections.abc import Callable

from confluent_kafka.admin import AdminClient

from tests.cluster import LocalCluster
from tests.interop.agent import Agent
from tests.interop.samples import numbered, without_offsets
from tests.patience import eventually

COUNT = 20
BROKERS = [1, 2, 3]


def isr_of(admin: AdminClient, topic: str) -> list[list[int]]:
    """Return the in-sync replicas of each partition of a topic."""
    partitions = admin.list_topics(topic, timeout=10).topics[topic].partitions
    return [sorted(partition.isrs) for partition in partitions.values()]


def test_producer_and_consumer_go_on_when_the_leader_is_killed(
    agent: Agent, name: str, make_topic: Callable[..., str], three_brokers: LocalCluster, admin: AdminClient
) -> None:
    """What was acknowledged before and after the death is there once and in order, and the dead broker comes back."""
    topic = make_topic(name)
    how = {"codec": "none", "idempotent": True, "request_timeout_ms": 3000, "singly": True}
    records = numbered(2 * COUNT)
    agent.produce(topic, records[:COUNT], **how)
    (described,) = agent.do("describe_topic", topic=topic)

    three_brokers.kill(described["leader"])
    agent.produce(topic, records[COUNT:], **how)
    read = agent.consume(topic, 2 * COUNT)

    assert records == without_offsets(read)
    assert list(range(2 * COUNT)) == [each["offset"] for each in read]
    assert [BROKERS] == eventually(lambda: isr_of(admin, topic), [BROKERS].__eq__)


def test_group_goes_on_when_its_coordinator_is_killed(
    agent: Agent, name: str, make_topic: Callable[..., str], three_brokers: LocalCluster, admin: AdminClient
) -> None:
    """The member finds the new coordinator, which knows the committed offsets: nothing committed is read again."""
    topic = make_topic(name)
    agent.produce(topic, numbered(COUNT), idempotent=True)
    agent.join("member", name, topic)
    first = [[0, offset] for offset in range(COUNT)]
    assert first == eventually(lambda: agent.do("received", member="member"), first.__eq__)

    coordinator = admin.describe_consumer_groups([name])[name].result(10).coordinator.id
    three_brokers.kill(coordinator)
    agent.produce(topic, numbered(COUNT, start=COUNT), idempotent=True)

    both = [[0, offset] for offset in range(2 * COUNT)]
    assert both == eventually(lambda: agent.do("received", member="member"), lambda read: len(read) >= len(both))
    agent.do("leave", member="member")
    assert [BROKERS] == eventually(lambda: isr_of(admin, topic), [BROKERS].__eq__)
    assert list(agent.do("group_offsets", group=name, topic=topic).values()) == [2 * COUNT]
