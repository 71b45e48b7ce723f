"""Proposals for where replicas could be."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from syncline.model.ids import TopicPartition
from syncline.reassign.errors import PlanError
from syncline.reassign.generate import Placed, from_scratch, known_racks, with_fewest_bytes

BROKERS = [0, 1, 2, 3, 4]
RACKS = {0: "r0", 1: "r0", 2: "r1", 3: "r1", 4: "r1"}


def topic(name: str, partitions: int, replicas: tuple[int, ...] = (0, 1, 2), size_bytes: int = 1) -> list[Placed]:
    """Return the partitions of a topic, all on the same brokers."""
    return [Placed(TopicPartition(name, index), replicas, size_bytes) for index in range(partitions)]


def test_t40_each_partition_gets_as_many_replicas_as_the_first_of_its_topic() -> None:
    """Two partitions with three replicas on five brokers: other leaders, no broker twice."""
    proposal = from_scratch(topic("foo", 2), BROKERS, {})

    assert [target.key for target in proposal] == [TopicPartition("foo", 0), TopicPartition("foo", 1)]
    assert all(len(set(target.replicas)) == 3 for target in proposal)
    assert proposal[0].replicas[0] != proposal[1].replicas[0]


def test_t40_too_few_brokers_are_refused_in_the_tools_words() -> None:
    """The message has the replication factor and how many brokers there are."""
    message = r"^Replication factor: 3 larger than available brokers: 2\.$"
    with pytest.raises(PlanError, match=message):
        from_scratch(topic("foo", 2), [0, 1], {})
    with pytest.raises(PlanError, match=message):
        with_fewest_bytes(topic("foo", 2), [0, 1], {})


def test_t40_racks_of_some_brokers_are_refused() -> None:
    """All or none; the message says how to go on without."""
    assert known_racks({1: "a", 2: "b"}) == {1: "a", 2: "b"}
    assert known_racks({1: None, 2: ""}) == {}
    with pytest.raises(PlanError, match=r"^Not all brokers have rack information\."):
        known_racks({1: "a", 2: None})


def test_round_gives_each_broker_its_share() -> None:
    """Ten times as many partitions as brokers: equally many leaders and replicas on each."""
    proposal = from_scratch(topic("foo", 50), BROKERS, {}, start=3, shift=2)

    assert Counter(target.replicas[0] for target in proposal) == dict.fromkeys(BROKERS, 10)
    assert Counter(broker for target in proposal for broker in target.replicas) == dict.fromkeys(BROKERS, 30)


@given(st.integers(1, 20), st.integers(1, 5), st.integers(0, 30), st.integers(0, 30))
def test_second_replica_in_a_rack_only_when_every_rack_has_one(
    partitions: int, factor: int, start: int, shift: int
) -> None:
    """Whatever the random numbers."""
    proposal = from_scratch(topic("foo", partitions, tuple(range(factor))), BROKERS, RACKS, start=start, shift=shift)

    for target in proposal:
        assert len(set(target.replicas)) == factor
        assert len({RACKS[broker] for broker in target.replicas}) == min(factor, 2)


def test_minimal_proposal_for_a_balanced_cluster_is_what_there_is() -> None:
    """Replicas and their order stay."""
    current = [
        Placed(TopicPartition("foo", index), ((index) % 5, (index + 2) % 5, (index + 1) % 5), 100) for index in range(5)
    ]

    assert [target.replicas for target in with_fewest_bytes(current, BROKERS, {})] == [row.replicas for row in current]


def test_minimal_proposal_empties_a_broker_and_copies_nothing_else() -> None:
    """Broker 4 leaves: what it had goes elsewhere, and leaders are balanced."""
    current = [
        Placed(TopicPartition("foo", index), ((index) % 5, (index + 1) % 5, (index + 2) % 5), 100)
        for index in range(20)
    ]

    proposal = with_fewest_bytes(current, [0, 1, 2, 3], {})

    copied = sum(len(set(target.replicas) - set(row.replicas)) for row, target in zip(current, proposal, strict=True))
    assert copied == sum(4 in row.replicas for row in current) == 12
    assert Counter(broker for target in proposal for broker in target.replicas) == dict.fromkeys([0, 1, 2, 3], 15)
    assert Counter(target.replicas[0] for target in proposal) == dict.fromkeys([0, 1, 2, 3], 5)


def test_minimal_proposal_balances_leaders_by_order_alone_where_that_suffices() -> None:
    """All three brokers have everything, and broker 0 leads it: orders change, and no byte moves."""
    proposal = with_fewest_bytes(topic("foo", 6, (0, 1, 2), 1_000), [0, 1, 2], {})

    assert all(set(target.replicas) == {0, 1, 2} for target in proposal)
    assert Counter(target.replicas[0] for target in proposal) == {0: 2, 1: 2, 2: 2}


def test_minimal_proposal_mends_racks() -> None:
    """Both replicas are in one rack: one moves to the other, and it is the smaller copy that counts, not the leader."""
    current = [Placed(TopicPartition("foo", 0), (2, 3), 10), Placed(TopicPartition("foo", 1), (0, 4), 10)]

    proposal = with_fewest_bytes(current, BROKERS, RACKS)

    assert all(len({RACKS[broker] for broker in target.replicas}) == 2 for target in proposal)
    assert proposal[1].replicas == (0, 4)
    assert len(set(proposal[0].replicas) & {2, 3}) == 1


def test_topics_that_stay_count() -> None:
    """Broker 0 has another topic, so the topic to move leaves it."""
    proposal = with_fewest_bytes(topic("foo", 2, (0,)), [0, 1], {}, elsewhere=topic("bar", 4, (0,)))

    assert [target.replicas for target in proposal] == [(1,), (1,)]
