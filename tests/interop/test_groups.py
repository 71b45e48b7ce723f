"""Consumer groups: partitions are shared as members join, leave and die; offsets outlive them all."""

from collections.abc import Callable
from itertools import chain

import pytest

from tests.interop.agent import Agent
from tests.interop.clients import CLIENTS
from tests.interop.conftest import Pool
from tests.interop.samples import numbered
from tests.patience import eventually

PARTITIONS = 4
COUNT = 40
ALL = list(range(PARTITIONS))
# Short enough to be missed soon, long enough for a busy machine.
SESSION_TIMEOUT_MS = 1500


def shares(*members: tuple[Agent, str]) -> Callable[[], list[list[int]]]:
    """Return a look at the partitions that each member has."""
    return lambda: [agent.do("assignment", member=member) for agent, member in members]


def fair(assigned: list[list[int]]) -> bool:
    """Whether every partition has one owner and the shares differ by one at most."""
    sizes = [len(share) for share in assigned]
    return sorted(chain.from_iterable(assigned)) == ALL and max(sizes) - min(sizes) <= 1


def committed(agent: Agent, group: str, topic: str) -> dict[int, int]:
    """Return what the group has committed, by partition."""
    return {int(key): value for key, value in agent.do("group_offsets", group=group, topic=topic).items()}


def test_group_shares_its_partitions_as_members_join_and_leave(
    agent: Agent, second_agent: Agent, name: str, make_topic: Callable[..., str]
) -> None:
    """A member alone has all partitions, two have half each, and who stays gets back what the other had."""
    topic = make_topic(name, PARTITIONS)
    agent.join("first", name, topic)

    assert [ALL] == eventually(shares((agent, "first")), [ALL].__eq__)

    second_agent.join("second", name, topic)
    both = shares((agent, "first"), (second_agent, "second"))

    assert fair(eventually(both, fair))

    second_agent.do("leave", member="second")

    assert [ALL] == eventually(shares((agent, "first")), [ALL].__eq__)

    agent.do("leave", member="first")


def test_group_gives_the_partitions_of_a_killed_member_to_the_others(
    agent: Agent, second_agent: Agent, name: str, make_topic: Callable[..., str]
) -> None:
    """The group misses a killed member after its session timeout, and the others read its records.

    At least once, which is what a rebalance promises. That no record is read again after its commit when a coordinator
    dies: `test_failover.py`.
    """
    topic = make_topic(name, PARTITIONS)
    agent.join("stays", name, topic, session_timeout_ms=SESSION_TIMEOUT_MS)
    second_agent.join("dies", name, topic, session_timeout_ms=SESSION_TIMEOUT_MS)
    both = shares((agent, "stays"), (second_agent, "dies"))
    assert fair(eventually(both, fair))

    second_agent.kill()
    agent.produce(topic, numbered(COUNT, partitions=PARTITIONS))

    assert [ALL] == eventually(shares((agent, "stays")), [ALL].__eq__)
    everything = {(number % PARTITIONS, number // PARTITIONS) for number in range(COUNT)}
    assert everything == eventually(lambda: set(map(tuple, agent.do("received", member="stays"))), everything.__eq__)

    agent.do("leave", member="stays")
    assert dict.fromkeys(ALL, COUNT // PARTITIONS) == committed(agent, name, topic)


def test_group_goes_on_from_its_committed_offsets(agent: Agent, name: str, make_topic: Callable[..., str]) -> None:
    """Each record reaches the group once, although its only member left and came back in between."""
    topic = make_topic(name, PARTITIONS)
    halves = [numbered(COUNT, partitions=PARTITIONS), numbered(COUNT, partitions=PARTITIONS, start=COUNT)]
    seen = []

    for half in halves:
        agent.produce(topic, half)
        agent.join("member", name, topic)
        seen.append(sorted(eventually(lambda: agent.do("received", member="member"), lambda read: len(read) >= COUNT)))
        agent.do("leave", member="member")

    each = COUNT // PARTITIONS
    assert [
        [[partition, offset] for partition in ALL for offset in range(start, start + each)] for start in (0, each)
    ] == seen
    assert dict.fromkeys(ALL, 2 * each) == committed(agent, name, topic)


@pytest.mark.parametrize(
    "members",
    [
        pytest.param({"confluent-kafka": None, "kafka-python": None, "java": None}, id="eager"),
        pytest.param({"confluent-kafka": "cooperative-sticky", "franz-go": None}, id="cooperative"),
    ],
)
def test_group_of_different_clients_shares_its_partitions(
    members: dict[str, str | None], pool: Pool, name: str, make_topic: Callable[..., str]
) -> None:
    """Libraries in different languages understand each other's subscriptions and assignments."""
    topic = make_topic(name, PARTITIONS)
    agents = [pool.of(CLIENTS[library]) for library in members]
    for agent, strategy in zip(agents, members.values(), strict=True):
        agent.join("mixed", name, topic, strategy=strategy)

    assigned = eventually(shares(*((agent, "mixed") for agent in agents)), fair)

    assert fair(assigned)
    for agent in agents:
        agent.do("leave", member="mixed")
