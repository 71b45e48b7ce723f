"""Replicas move on the word of clients that nobody here wrote; `syncline reassign` sees it, and goes on with it."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic, ResourceType

from tests.cli.terminal import call
from tests.cluster import LocalCluster
from tests.interop.agent import Agent, ClientError
from tests.interop.samples import numbered
from tests.patience import eventually, until

RATE = "follower.replication.throttled.rate"
LIST = "follower.replication.throttled.replicas"
MakeTopic = Callable[..., str]


def replicas_of(admin: AdminClient, topic: str) -> list[int]:
    """Return the replicas of a topic's only partition."""
    return list(admin.list_topics(topic, timeout=10).topics[topic].partitions[0].replicas)


@pytest.fixture
def on_one_and_two(admin: AdminClient, name: str) -> MakeTopic:
    """Return a function that creates a topic of one partition on the brokers 1 and 2."""

    def make(**configs: str) -> str:
        new = NewTopic(name, 1, replica_assignment=[[1, 2]], config={"retention.ms": "-1", **configs})
        admin.create_topics([new])[name].result(10)
        return name

    return make


@pytest.fixture
def ours(three_brokers: LocalCluster, tmp_path: Path) -> Callable[..., str]:
    """Return a function that calls `syncline reassign`, with a plan for a topic's only partition if there is one."""

    def run(action: str, topic: str, *replicas: int) -> str:
        where = ("--bootstrap-server", three_brokers.bootstrap)
        if not replicas:
            return call("reassign", action, *where)
        plan = tmp_path / "plan.json"
        row = {"topic": topic, "partition": 0, "replicas": list(replicas)}
        plan.write_text(json.dumps({"version": 1, "partitions": [row]}))
        return call("reassign", action, "-f", str(plan), *where)

    return run


@pytest.fixture
def held_back(admin: AdminClient) -> Iterator[None]:
    """Let brokers receive nothing of what topics list as throttled, so that moves stand still."""

    def alter(operation: AlterConfigOpType) -> None:
        for broker in ("1", "2", "3"):
            entry = ConfigEntry(RATE, "0", incremental_operation=operation)
            resource = ConfigResource(ResourceType.BROKER, broker, incremental_configs=[entry])
            admin.incremental_alter_configs([resource])[resource].result(10)

    alter(AlterConfigOpType.SET)
    yield
    alter(AlterConfigOpType.DELETE)


@pytest.mark.needs("reassign")
def test_partition_moves_to_another_broker(agent: Agent, admin: AdminClient, on_one_and_two: MakeTopic) -> None:
    """The new replica gets everything, the old one goes, and what was written is read as before."""
    topic = on_one_and_two()
    written = agent.produce(topic, numbered(20))

    agent.do("reassign", topic=topic, partition=0, replicas=[3, 2])

    until(lambda: agent.do("reassignment", topic=topic, partition=0) is None, otherwise="it still moves")
    assert replicas_of(admin, topic) == [3, 2]
    until(lambda: [[0, each["offset"]] for each in agent.consume(topic, 20)] == written)


@pytest.mark.needs("reassign")
def test_move_is_listed_while_it_lasts(
    agent: Agent, on_one_and_two: MakeTopic, ours: Callable[..., str], held_back: None
) -> None:
    """Replicas, adding and removing ones; what cannot be is refused by the error that the library knows for it."""
    del held_back
    topic = on_one_and_two(**{LIST: "*"})
    agent.produce(topic, numbered(20))

    agent.do("reassign", topic=topic, partition=0, replicas=[3, 1])

    wanted = [[3, 1, 2], [3], [2]]
    assert agent.do("reassignment", topic=topic, partition=0) == wanted
    assert f"{topic}-0: replicas: 3,1,2. adding: 3. removing: 2." in ours("list", topic)
    with pytest.raises(ClientError, match=r"(?i)replica(tion)?.?assignment"):
        agent.do("reassign", topic=topic, partition=0, replicas=[9])
    with pytest.raises(ClientError, match=r"(?i)unknown|does not (exist|host)"):
        agent.do("reassign", topic=topic, partition=7, replicas=[1])
    assert agent.do("reassignment", topic=topic, partition=0) == wanted

    assert f"Successfully cancelled partition reassignment for: {topic}-0" in ours("cancel", topic, 3, 1)

    assert agent.do("reassignment", topic=topic, partition=0) is None


@pytest.mark.needs("cancel_reassignment")
def test_move_is_cancelled(agent: Agent, admin: AdminClient, on_one_and_two: MakeTopic, held_back: None) -> None:
    """The replicas of before are back in their order, and there is nothing more to cancel."""
    del held_back
    topic = on_one_and_two(**{LIST: "*"})
    agent.produce(topic, numbered(20))
    agent.do("reassign", topic=topic, partition=0, replicas=[3, 2])

    agent.do("reassign", topic=topic, partition=0, replicas=None)

    assert agent.do("reassignment", topic=topic, partition=0) is None
    assert eventually(lambda: replicas_of(admin, topic), lambda replicas: replicas == [1, 2]) == [1, 2]
    with pytest.raises(ClientError, match=r"(?i)no.?reassignment.?in.?progress|no partition reassignment"):
        agent.do("reassign", topic=topic, partition=0, replicas=None)


@pytest.mark.needs("elect_preferred")
def test_preferred_leader_is_elected(
    agent: Agent, admin: AdminClient, on_one_and_two: MakeTopic, ours: Callable[..., str]
) -> None:
    """After another order of the replicas the first of them leads only when somebody asks for it."""
    topic = on_one_and_two()

    def leader() -> int:
        return int(admin.list_topics(topic, timeout=10).topics[topic].partitions[0].leader)

    until(lambda: leader() == 1)
    ours("execute", topic, 2, 1)
    until(lambda: replicas_of(admin, topic) == [2, 1])
    before = leader()

    agent.do("elect_preferred", topic=topic, partition=0)

    assert before == 1
    until(lambda: leader() == 2)
    with pytest.raises(ClientError, match=r"(?i)election.?not.?needed"):
        agent.do("elect_preferred", topic=topic, partition=0)
