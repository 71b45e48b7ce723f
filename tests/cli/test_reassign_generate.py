"""`reassign generate`: which partitions a proposal moves, and which ones count for its balance."""

from collections import Counter

from syncline.cli.reassign.generate import propose
from syncline.model.ids import OFFSETS_TOPIC, TopicPartition
from syncline.reassign.cluster_state import BrokerState, ClusterState, PartitionState, Place

RUNNING = {broker: BrokerState("localhost", 9091 + broker) for broker in (1, 2, 3, 4)}


def _topic(name: str, partitions: int) -> dict[TopicPartition, PartitionState]:
    """Return a topic on brokers 1 to 3, led by each in turn."""
    placed = [(1, 2, 3), (2, 3, 1), (3, 1, 2)]
    return {
        TopicPartition(name, number): PartitionState(placed[number % 3], (1, 2, 3), placed[number % 3][0])
        for number in range(partitions)
    }


def _state(*topics: dict[TopicPartition, PartitionState]) -> ClusterState:
    partitions = {key: each for topic in topics for key, each in topic.items()}
    sizes = {Place(key, broker): 1_000 for key, each in partitions.items() for broker in each.replicas}
    return ClusterState(0, RUNNING, partitions, {}, sizes)


def test_minimal_proposal_gives_a_new_broker_its_share_and_no_more() -> None:
    """Guards: the fifty partitions of the brokers' own topic counted, so broker 4 was to lead all that clients use."""
    state = _state(_topic("orders", 12), _topic(OFFSETS_TOPIC, 50))

    proposal = propose(state, [1, 2, 3, 4], None, is_minimal=True, ignores_racks=False)

    assert {target.key.topic for target in proposal.proposed} == {"orders"}
    assert Counter(target.replicas[0] for target in proposal.proposed) == {1: 3, 2: 3, 3: 3, 4: 3}
    assert Counter(broker for target in proposal.proposed for broker in target.replicas) == {1: 9, 2: 9, 3: 9, 4: 9}
    assert proposal.new_replicas == 9


def test_minimal_proposal_counts_topics_of_clients_that_stay() -> None:
    """Broker 4 is to lead more of `orders`, since `clicks` stays on the others: each leads four of both."""
    state = _state(_topic("orders", 12), _topic("clicks", 4))

    proposal = propose(state, [1, 2, 3, 4], ["orders"], is_minimal=True, ignores_racks=False)

    assert Counter(target.replicas[0] for target in proposal.proposed) == {1: 2, 2: 3, 3: 3, 4: 4}
    assert {target.key.topic for target in proposal.proposed} == {"orders"}


def test_brokers_own_topic_moves_when_it_is_named() -> None:
    """Then its replicas are spread like any others."""
    state = _state(_topic("orders", 12), _topic(OFFSETS_TOPIC, 12))

    proposal = propose(state, [1, 2, 3, 4], [OFFSETS_TOPIC], is_minimal=True, ignores_racks=False)

    assert {target.key.topic for target in proposal.proposed} == {OFFSETS_TOPIC}
    assert any(4 in target.replicas for target in proposal.proposed)
