"""ElectLeaders at the controller: what an administrator may force, and the answers."""

import pytest

from syncline.core.cluster.elections import ElectionKind
from syncline.core.cluster.leader_elections import elect_leaders
from syncline.model.errors import ErrorCode
from syncline.model.metadata import Recovery, directory_id
from tests.core.controller_world import ELR, NO_ELR, TOPIC_ID, World, broker, image, partition

PREFERRED, UNCLEAN = ElectionKind.PREFERRED, ElectionKind.UNCLEAN


def ask(world: World, kind: ElectionKind, wanted: object = (("t", (0,)),)) -> list[ErrorCode]:
    """Request elections; return the errors in order."""
    return [each.error for each in world.take(elect_leaders(world.image, world.settings, kind, wanted))]


def test_f05_preferred_election_is_held_once() -> None:
    """AR[0] is in sync and active: it leads, and both epochs rise; a second request finds nothing to do."""
    world = World(image(partition(leader=2)))

    answers = [*ask(world, PREFERRED), *ask(world, PREFERRED)]

    assert answers == [ErrorCode.NONE, ErrorCode.ELECTION_NOT_NEEDED]
    assert world.t0 == partition(leader=1, leader_epoch=6, partition_epoch=21)


def test_f06_preferred_leader_that_is_not_in_sync_is_not_available() -> None:
    """AR[0] is alive but out of the ISR, or fenced: the leader stays."""
    behind = World(image(partition(leader=2, isr=(2, 3))))
    fenced = World(image(partition(leader=2, isr=(2, 3)), active=(2, 3), fenced=(1,)))

    for world in (behind, fenced):
        assert ask(world, PREFERRED) == [ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE]
        assert world.t0 == partition(leader=2, isr=(2, 3))


def test_message_about_an_unknown_topic_fits_into_any_answer() -> None:
    """Guards: a name of 32,767 bytes and some words did not fit into a string of the old versions."""
    world = World(image(partition()))
    (answer,) = world.take(elect_leaders(world.image, world.settings, PREFERRED, (("x" * 32_767, (0,)),)))

    assert answer.error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert answer.message is not None
    assert len(answer.message) < 300


def test_preferred_election_without_a_leader_takes_any_replica_that_may_lead() -> None:
    """There is no leader and AR[0] is away: a valid member leads, and that is a success, as in Kafka."""
    world = World(image(partition(leader=-1, isr=(2,)), active=(2, 3), fenced=(1,)), NO_ELR)

    assert ask(world, PREFERRED) == [ErrorCode.NONE]
    assert world.t0.leader == 2


def test_unclean_election_needs_no_configuration() -> None:
    """No member of ISR or ELR is alive: the first living replica leads, although the topic does not allow it."""
    world = World(image(partition(leader=-1, isr=(), elr=(1,)), active=(2, 3), fenced=(1,)))

    assert ask(world, UNCLEAN) == [ErrorCode.NONE]
    assert (world.t0.leader, world.t0.isr, world.t0.elr) == (2, (2,), ())
    assert world.t0.recovery is Recovery.RECOVERING


def test_unclean_election_prefers_a_clean_one() -> None:
    """An eligible replica that lives is elected cleanly, also by an unclean request."""
    world = World(image(partition(leader=-1, isr=(), elr=(3,)), active=(2, 3), fenced=(1,)))

    assert ask(world, UNCLEAN) == [ErrorCode.NONE]
    assert (world.t0.leader, world.t0.recovery) == (3, Recovery.RECOVERED)


def test_unclean_election_is_not_needed_where_a_broker_leads() -> None:
    """Any leader will do, even if it is not the preferred one."""
    assert ask(World(image(partition(leader=2))), UNCLEAN) == [ErrorCode.ELECTION_NOT_NEEDED]


def test_unclean_election_needs_a_living_replica() -> None:
    """All replicas are fenced, or have lost their log: no broker can lead."""
    world = World(image(partition(leader=-1, isr=(), replicas=(1, 2)), active=(3,), fenced=(1, 2)))
    failed = (directory_id(TOPIC_ID, 0).hex,)
    lost = image(partition(leader=-1, isr=(), replicas=(1,)))
    brokers = {**lost.brokers, 1: broker(1, failed=failed)}

    assert ask(world, UNCLEAN) == [ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE]
    world.image = lost.__class__(version=200, brokers=brokers, topics=lost.topics, topic_names=lost.topic_names)
    assert ask(world, UNCLEAN) == [ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE]


def test_unknown_topics_and_partitions_have_their_own_answers() -> None:
    """One wrong name does not keep the others from their elections."""
    world = World(image(partition(leader=2)))

    decision = elect_leaders(world.image, ELR, PREFERRED, (("nope", (0,)), ("t", (-1, 0, 1, 0))))

    assert [(each.error, each.message) for each in decision.answer] == [
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "No such topic as nope"),
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "No such partition as t--1"),
        (ErrorCode.NONE, None),
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "No such partition as t-1"),
        (ErrorCode.NONE, None),
    ]
    assert [len(each.partitions) for each in decision.changes] == [1]


@pytest.mark.parametrize(("leader", "count"), [(1, 0), (2, 1)])
def test_request_for_all_partitions_has_results_only_where_an_election_is_needed(leader: int, count: int) -> None:
    """Without a list the controller looks at every partition; those that need nothing are left out of the answer."""
    assert len(ask(World(image(partition(leader=leader))), PREFERRED, None)) == count
