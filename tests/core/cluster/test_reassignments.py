"""Reassignments at the controller: the states of KIP-455's table, and every refusal in Kafka's words.

Brokers 1 to 6 are active unless a test says otherwise; t-0 starts as S0 (replicas and ISR 1, 2, 3, leader 1, epochs 5
and 20). Names with T-NN are scenarios of the throttling and reassignment catalogue.
"""

from typing import Any

import pytest

from syncline.core.cluster.alter_partition import IsrRequest, alter_partition
from syncline.core.cluster.decision import Decision, Why
from syncline.core.cluster.decision_events import events_of, replaced_by
from syncline.core.cluster.moves import applied
from syncline.core.cluster.reassignments import (
    ReassignmentResult,
    Wanted,
    alter_reassignments,
    change_move,
    owners_of,
)
from syncline.core.cluster.standing import preferred_elections
from syncline.core.cluster.topics import MorePartitions, TopicReference, create_partitions, delete_topics
from syncline.model.broker_config import BrokerConfig
from syncline.model.errors import ErrorCode
from syncline.model.events import Election, Move, Reassignment, TopicChange
from syncline.model.ids import BrokerId
from syncline.model.metadata import MoveRecord, PartitionRecord, Recovery
from syncline.model.reasons import Reason
from tests.core.controller_world import ELR, NO_ELR, TOPIC_ID, World, image, partition

UNCLEAN = {"unclean.leader.election.enable": "true"}


def six(*partitions: PartitionRecord, settings: BrokerConfig = ELR, **others: Any) -> World:
    """Return a cluster of six active brokers."""
    return World(image(*partitions, **{"active": (1, 2, 3, 4, 5, 6), **others}), settings)


def move(world: World, *replicas: int, partition: int = 0, **others: Any) -> ReassignmentResult:
    """Request replicas for a partition of t; none of them means a cancellation."""
    wanted = Wanted("t", partition, replicas or None)
    (result,) = world.take(alter_reassignments(world.image, [wanted], world.settings, **others))
    assert isinstance(result, ReassignmentResult)
    return result


def refusal(world: World, *replicas: int, **others: Any) -> tuple[ErrorCode, str | None]:
    """Request replicas, and assert that nothing changes; return why."""
    before = world.image
    result = move(world, *replicas, **others)
    assert world.image is before
    return result.error, result.message


def join(world: World, *isr: int) -> ErrorCode:
    """Let the leader of t-0 propose an ISR."""
    record = world.t0
    request = IsrRequest(TOPIC_ID, 0, record.leader_epoch, record.partition_epoch, tuple((each, -1) for each in isr))
    epoch = world.image.brokers[record.leader].broker_epoch
    answer = world.take(alter_partition(world.image, record.leader, epoch, [request], world.settings))
    error = answer.results[0].error
    assert isinstance(error, ErrorCode)
    return error


def state(world: World) -> tuple[tuple[int, ...], ...]:
    """Return replicas, adding and removing ones, and the ISR of t-0."""
    record = world.t0
    return record.replicas, record.adding, record.removing, record.isr


def test_t49_full_replacement_passes_through_the_table_of_states() -> None:
    """1,2,3 to 4,5,6: nothing of it leaves before all of the new ones are in sync; then all, in one record."""
    world = six()

    assert move(world, 4, 5, 6).error is ErrorCode.NONE
    assert state(world) == ((4, 5, 6, 1, 2, 3), (4, 5, 6), (1, 2, 3), (1, 2, 3))
    assert (world.t0.leader, world.t0.leader_epoch) == (1, 5)

    join(world, 1, 2, 3, 5)
    join(world, 1, 2, 3, 5, 4)
    assert state(world) == ((4, 5, 6, 1, 2, 3), (4, 5, 6), (1, 2, 3), (1, 2, 3, 5, 4))
    assert (world.t0.leader, world.t0.leader_epoch) == (1, 5)

    assert join(world, 1, 2, 3, 5, 4, 6) is ErrorCode.NEW_LEADER_ELECTED
    assert state(world) == ((4, 5, 6), (), (), (5, 4, 6))
    assert (world.t0.leader, world.t0.leader_epoch, world.t0.original) == (4, 6, ())


def test_t49_dead_target_keeps_the_move_open_until_it_returns() -> None:
    """A wanted broker need not be alive: the move waits for it, whatever else happens."""
    world = six(active=(1, 2, 3, 4, 5), fenced=(6,))
    move(world, 4, 5, 6)
    join(world, 1, 2, 3, 4, 5)

    assert state(world) == ((4, 5, 6, 1, 2, 3), (4, 5, 6), (1, 2, 3), (1, 2, 3, 4, 5))
    assert join(world, 1, 2, 3, 4, 5, 6) is ErrorCode.INELIGIBLE_REPLICA

    world.restart(6, "again")
    join(world, 1, 2, 3, 4, 5, 6)
    assert state(world) == ((4, 5, 6), (), (), (4, 5, 6))


def test_f18_t50_pure_reorder_is_done_at_once_and_moves_the_preferred_leader_only() -> None:
    """Nothing is added or removed, so nothing is in progress; the leader changes with the next preferred election."""
    world = six()

    move(world, 3, 1, 2)
    assert state(world) == ((3, 1, 2), (), (), (1, 2, 3))
    assert (world.t0.leader, world.t0.leader_epoch) == (1, 5)

    changes = preferred_elections(world.image, world.settings)
    world.take(Decision(changes, None, Why(Reason.PREFERRED_REPLICA_BACK)))
    assert (world.t0.leader, world.t0.leader_epoch) == (3, 6)


@pytest.mark.parametrize(("leader", "leads_then", "epoch"), [(3, 1, 6), (1, 1, 6)])
def test_t51_fewer_replicas_are_done_at_once_when_those_that_stay_are_in_sync(
    leader: int, leads_then: int, epoch: int
) -> None:
    """1,2,3 to 1,2: a leader that goes hands over; the epoch rises because a replica is gone."""
    world = six(partition(leader=leader))

    move(world, 1, 2)

    assert state(world) == ((1, 2), (), (), (1, 2))
    assert (world.t0.leader, world.t0.leader_epoch) == (leads_then, epoch)


def test_f19_t51_fewer_replicas_wait_for_those_that_stay() -> None:
    """2 is out of sync: 3 stays until it is back, and counts until then."""
    world = six(partition(isr=(1, 3)))

    move(world, 1, 2)
    assert state(world) == ((1, 2, 3), (), (3,), (1, 3))

    join(world, 1, 3, 2)
    assert state(world) == ((1, 2), (), (), (1, 2))


def test_t53_second_request_is_compared_with_the_original_replicas() -> None:
    """4,5,6 and then 1,2,5: 5 is added, 3 removed, and 4 and 6 leave at once, 4 although it was in sync already."""
    world = six()
    move(world, 4, 5, 6)
    join(world, 1, 2, 3, 4)

    assert move(world, 1, 2, 5).error is ErrorCode.NONE
    assert state(world) == ((1, 2, 5, 3), (5,), (3,), (1, 2, 3))
    assert (world.t0.original, world.t0.leader_epoch) == ((1, 2, 3), 6)

    join(world, 1, 2, 3, 5)
    assert state(world) == ((1, 2, 5), (), (), (1, 2, 5))


def test_same_request_again_changes_nothing() -> None:
    """Repeated requests are for tools that did not get an answer."""
    world = six()
    move(world, 4, 2, 3)
    before = world.image

    assert move(world, 4, 2, 3).error is ErrorCode.NONE
    assert world.image is before


def test_going_back_to_the_original_replicas_in_another_order_ends_the_reassignment() -> None:
    """As a cancellation, and a reorder."""
    world = six()
    move(world, 4, 5, 6)

    move(world, 2, 1, 3)

    assert state(world) == ((2, 1, 3), (), (), (1, 2, 3))


@pytest.mark.parametrize("wanted", [(3, 4, 2), (1, 2, 3, 4), (4, 5, 6), (4,)], ids=str)
def test_t46_cancellation_restores_the_replicas_in_their_order(wanted: tuple[int, ...]) -> None:
    """Kafka leaves 3,2,1 of 3,4,2,1; here the preferred leader is who it was. A pure increase is cancelled, too."""
    world = six()
    move(world, *wanted)

    assert move(world).error is ErrorCode.NONE

    assert state(world) == ((1, 2, 3), (), (), (1, 2, 3))
    assert world.t0.original == ()
    assert refusal(world) == (ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, None)


def test_f16_f17_replica_is_replaced_or_the_request_cancelled() -> None:
    """1,2,3 to 2,3,4. Complete, 2 leads and 1 learns of it; cancelled, Kafka leaves 2,3,1, and here it is 1,2,3."""
    complete, cancelled = six(), six()
    for world in (complete, cancelled):
        move(world, 2, 3, 4)
        assert state(world) == ((2, 3, 4, 1), (4,), (1,), (1, 2, 3))

    assert join(complete, 1, 2, 3, 4) is ErrorCode.NEW_LEADER_ELECTED
    assert state(complete) == ((2, 3, 4), (), (), (2, 3, 4))
    assert (complete.t0.leader, complete.t0.leader_epoch) == (2, 6)

    move(cancelled)
    assert state(cancelled) == ((1, 2, 3), (), (), (1, 2, 3))
    assert (cancelled.t0.leader, cancelled.t0.leader_epoch) == (1, 6)
    assert refusal(cancelled) == (ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, None)


def test_cancellation_hands_leadership_back() -> None:
    """The preferred election had moved it to a replica that is being added."""
    world = six()
    move(world, 4, 5, 6)
    join(world, 1, 2, 3, 4)
    world.take(Decision(preferred_elections(world.image, ELR), None, Why(Reason.PREFERRED_REPLICA_BACK)))
    assert world.t0.leader == 4

    move(world)

    assert (world.t0.leader, world.t0.leader_epoch, world.t0.isr) == (1, 7, (1, 2, 3))


REVERT = "Unable to revert partition assignment for t:0 because it would require an unclean leader election."


@pytest.mark.parametrize("settings", [ELR, NO_ELR], ids=["elr", "no-elr"])
@pytest.mark.parametrize("replicas", [(), (1, 2, 5), (3, 2, 1)], ids=["cancel", "other-target", "reorder"])
def test_t54_what_only_added_replicas_have_is_not_given_up(settings: BrokerConfig, replicas: tuple[int, ...]) -> None:
    """The ISR is {4}, which is being added: everything committed may be there alone."""
    record = partition(
        leader=4, replicas=(4, 5, 6, 1, 2, 3), isr=(4,), adding=(4, 5, 6), removing=(1, 2, 3), original=(1, 2, 3)
    )
    world = six(record, settings=settings, active=(4, 5, 6), fenced=(1, 2, 3))

    assert refusal(world, *replicas) == (ErrorCode.INVALID_REPLICA_ASSIGNMENT, REVERT)


@pytest.mark.parametrize("settings", [ELR, NO_ELR], ids=["elr", "no-elr"])
@pytest.mark.parametrize("active", [(2, 4, 5, 6), (4, 5, 6)], ids=["an original lives", "none lives"])
def test_t54_unclean_topic_may_give_it_up(settings: BrokerConfig, active: tuple[int, ...]) -> None:
    """An original that lives leads, not yet recovered; without one the partition waits for the first to return."""
    record = partition(
        leader=4, replicas=(4, 5, 6, 1, 2, 3), isr=(4,), adding=(4, 5, 6), removing=(1, 2, 3), original=(1, 2, 3)
    )
    fenced = tuple(each for each in (1, 2, 3) if each not in active)
    world = six(record, settings=settings, active=active, fenced=fenced, configs=UNCLEAN)

    assert move(world).error is ErrorCode.NONE

    assert state(world)[:3] == ((1, 2, 3), (), ())
    if 2 in active:
        assert (world.t0.leader, world.t0.isr, world.t0.recovery) == (2, (2,), Recovery.RECOVERING)
    else:
        assert (world.t0.leader, world.t0.isr) == (-1, ())
        world.restart(3, "again")
        assert world.t0.leader == 3


def test_t54_eligible_original_takes_over_cleanly() -> None:
    """Below the minimum nothing was committed since 2 left, so it has everything: the cancellation is clean."""
    record = partition(
        leader=4, replicas=(4, 1, 2, 3), isr=(4,), elr=(2,), adding=(4,), removing=(1, 2, 3), original=(1, 2, 3)
    )
    world = six(record, active=(2, 4, 5, 6), fenced=(1, 3), configs={"min.insync.replicas": "2"})

    assert move(world).error is ErrorCode.NONE

    assert (world.t0.leader, world.t0.isr, world.t0.recovery) == (2, (2,), Recovery.RECOVERED)


def journal(world: World, decide: Any, *, proposed_by_leader: bool = False) -> list[tuple[Any, ...]]:
    """Take a decision and return what the journal says of it."""
    before = world.image
    decision = decide()
    world.take(decision)
    changes, _ = applied(before, decision.changes, before.version + 1)
    events = events_of(
        replaced_by(changes, before),
        changes,
        why=decision.why,
        proposed_by_leader=proposed_by_leader,
        writer=BrokerId(9),
        ts_ms=1,
    )
    return [_told(each) for each in events]


def _told(event: Any) -> tuple[Any, ...]:
    match event:
        case Reassignment():
            return event.phase, event.replicas, event.adding, event.removing, event.original, event.move, event.reason
        case Election():
            return "leads", event.leader_after, event.reason
        case Move():
            return "move", event.phase, event.move, event.throttle_bytes_per_s, event.reason
        case TopicChange():
            return "topic", event.change
        case _:
            return event.rule, event.before, event.after, event.evidence["reason"]


def test_journal_tells_each_step_of_a_move() -> None:
    """Started, changed, completed with the election and the ISR that follow from it; the leader tells only of 4."""
    world = six()

    def ask(replicas: tuple[int, ...] | None, owner: MoveRecord | None = None) -> Any:
        return lambda: alter_reassignments(world.image, [Wanted("t", 0, replicas)], ELR, move=owner)

    def joining() -> Any:
        record = world.t0
        isr = tuple((each, -1) for each in (*record.isr, *record.adding))
        request = IsrRequest(TOPIC_ID, 0, record.leader_epoch, record.partition_epoch, isr)
        return alter_partition(world.image, record.leader, record.leader + 100, [request], ELR)

    requested, completed = Reason.REASSIGNMENT_REQUESTED, Reason.REASSIGNMENT_COMPLETED
    before = (1, 2, 3)
    assert journal(world, ask((4, 5, 3))) == [("started", (4, 5, 3, 1, 2), (4, 5), (1, 2), before, "", requested)]
    assert journal(world, ask((4, 2, 3), owned())) == [
        ("move", "started", "m", 1_000_000, requested),
        ("changed", (4, 2, 3, 1), (4,), (1,), before, "m", requested),
    ]
    assert journal(world, ask((4, 2, 3), owned(throttle_bytes_per_s=1))) == [("move", "changed", "m", 1, requested)]
    assert journal(world, joining, proposed_by_leader=True) == [
        ("completed", (4, 2, 3), (4,), (1,), before, "m", completed),
        ("leads", 4, completed),
        ("reassignment", (1, 2, 3), (2, 3, 4), completed),
        ("move", "ended", "m", 1, completed),
    ]
    before = (4, 2, 3)
    assert journal(world, ask((2, 3, 4))) == [("completed", (2, 3, 4), (), (), before, "", requested)]
    before = (2, 3, 4)
    assert journal(world, ask((2, 3))) == [
        ("completed", (2, 3), (), (4,), before, "", requested),
        ("leads", 2, requested),
        ("reassignment", (2, 3, 4), (2, 3), requested),
    ]
    journal(world, ask((2, 5)))
    assert journal(world, ask(None)) == [("cancelled", (2, 3), (5,), (3,), (2, 3), "", Reason.REASSIGNMENT_CANCELLED)]
    journal(world, ask((2, 5), owned()))
    assert journal(world, ask(None))[1:] == [("move", "ended", "m", 1_000_000, Reason.REASSIGNMENT_CANCELLED)]
    journal(world, ask((2, 5)))
    assert journal(world, lambda: delete_topics(world.image, [TopicReference("t")])) == [
        ("cancelled", (2, 5, 3), (5,), (3,), (2, 3), "", Reason.DELETED),
        ("topic", "deleted"),
    ]


EMPTY = "The manual partition assignment includes an empty replica list."
NOT_REGISTERED = "The manual partition assignment includes broker {}, but no such broker is registered."


@pytest.mark.parametrize(
    ("topic", "number", "replicas", "error", "message"),
    [
        ("nope", 0, (1,), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "Unable to find a topic named nope."),
        ("nope", 0, None, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "Unable to find a topic named nope."),
        ("t", 9, (1,), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "Unable to find partition t:9."),
        ("t", -1, None, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "Unable to find partition t:-1."),
        ("t", 0, (), ErrorCode.INVALID_REPLICA_ASSIGNMENT, EMPTY),
        ("t", 0, (1, 9), ErrorCode.INVALID_REPLICA_ASSIGNMENT, NOT_REGISTERED.format(9)),
        ("t", 0, (1, -1), ErrorCode.INVALID_REPLICA_ASSIGNMENT, NOT_REGISTERED.format(-1)),
        ("t", 0, (2, 1, 2), ErrorCode.INVALID_REPLICA_ASSIGNMENT,
         "The manual partition assignment includes the broker 2 more than once."),
        ("t", 0, None, ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, None),
    ],
)  # fmt: skip
def test_refusals_have_kafkas_words(
    topic: str, number: int, replicas: tuple[int, ...] | None, error: ErrorCode, message: str | None
) -> None:
    """What is wrong with one partition of a request is said of it, and the others are reassigned."""
    world = six(partition(), partition(partition=1))
    wanted = [Wanted(topic, number, replicas), Wanted("t", 1, (4, 5, 6))]

    results = world.take(alter_reassignments(world.image, wanted, ELR))

    assert results == (ReassignmentResult(topic, number, error, message), ReassignmentResult("t", 1))
    assert world.image.topics["t"].partitions[1].adding == (4, 5, 6)


def test_replication_factor_changes_only_if_that_is_allowed() -> None:
    """KIP-860: it is compared with the count of before the reassignment that is in progress."""
    world = six()
    move(world, 4, 5, 6)

    assert refusal(world, 4, 5, allow_factor_change=False) == (
        ErrorCode.INVALID_REPLICATION_FACTOR, "The replication factor is changed from 3 to 2",
    )  # fmt: skip
    assert move(world, 4, 5, 3, allow_factor_change=False).error is ErrorCode.NONE
    assert move(world, 4, 5, 3, 6, allow_factor_change=True).error is ErrorCode.NONE


def test_partition_named_twice_is_judged_by_what_it_was() -> None:
    """The last change counts; a cancellation finds nothing that the same request has begun."""
    world = six()
    wanted = [Wanted("t", 0, (4, 5, 6)), Wanted("t", 0, (1, 2, 5)), Wanted("t", 0, None), Wanted("t", 0, (1, 2, 3))]

    results = world.take(alter_reassignments(world.image, wanted, ELR))

    none = ErrorCode.NONE
    assert [result.error for result in results] == [none, none, ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, none]
    assert state(world) == ((1, 2, 5, 3), (5,), (3,), (1, 2, 3))


def test_leadership_goes_to_a_replica_that_stays() -> None:
    """The leader dies in a move: a replica that is being removed leads only when no other is in sync."""
    world = six()
    move(world, 4, 2, 5)
    world.fence(1)
    assert world.t0.leader == 2

    world.fence(2)
    assert world.t0.leader == 3


def test_unclean_election_takes_a_replica_that_may_be_empty_last() -> None:
    """4 is being added and has nothing yet; 2 was out of the ISR, and has much."""
    record = partition(replicas=(4, 1, 2, 3), isr=(1,), adding=(4,), removing=(1, 2, 3), original=(1, 2, 3))
    world = six(record, active=(1, 2, 4), fenced=(3,), configs=UNCLEAN, settings=NO_ELR)

    world.fence(1)

    assert (world.t0.leader, world.t0.recovery) == (2, Recovery.RECOVERING)


def test_minimum_counts_the_replicas_of_before() -> None:
    """A lone replica with a minimum of 2 keeps committing while others are added, so none of them is eligible."""
    world = six(partition(replicas=(1,), isr=(1,)), configs={"min.insync.replicas": "2"})
    move(world, 1, 2, 3)
    join(world, 1, 2)

    world.fence(2)

    assert (world.t0.isr, world.t0.elr) == ((1,), ())


def test_partitions_are_added_in_a_move_with_the_factor_that_is_wanted() -> None:
    """KIP-455 forbade it first; the replication factor does not count what is being removed."""
    world = six()
    move(world, 1, 4, 5, 6)

    world.take(create_partitions(world.image, [MorePartitions("t", 2)], below=lambda _bound: 0))

    assert len(world.image.topics["t"].partitions[1].replicas) == 4


def owned(move_id: str = "m", **others: Any) -> MoveRecord:
    """Return a move."""
    return MoveRecord(move_id, **{"throttle_bytes_per_s": 1_000_000, "started_ms": 7, **others})


def test_move_lives_as_long_as_a_reassignment_of_it() -> None:
    """Its record comes with the first, and goes with the last: here one is complete, and one is cancelled."""
    world = six(partition(), partition(partition=1))
    wanted = [Wanted("t", 0, (4, 2, 3)), Wanted("t", 1, (5, 2, 3))]

    world.take(alter_reassignments(world.image, wanted, ELR, move=owned()))
    assert world.image.moves == {"m": owned()}
    assert world.image.move_sizes == {"m": 2}

    join(world, 1, 2, 3, 4)
    assert world.image.move_sizes == {"m": 1}
    move(world, partition=1)
    assert (world.image.moves, world.image.move_sizes) == ({}, {})


def test_move_ends_with_its_topic() -> None:
    """And so does its throttle."""
    world = six()
    move(world, 4, 2, 3, move=owned())

    world.take(delete_topics(world.image, [TopicReference("t")]))

    assert (world.image.moves, world.image.move_sizes) == ({}, {})


def test_move_that_has_nothing_to_wait_for_leaves_no_record() -> None:
    """A pure reorder is done at once."""
    world = six()

    assert move(world, 3, 2, 1, move=owned()).error is ErrorCode.NONE

    assert (world.t0.replicas, world.image.moves) == ((3, 2, 1), {})


def test_overtaken_move_ends() -> None:
    """Another move takes its last partition over; or a request without a move does, which no throttle bounds."""
    world = six()
    move(world, 4, 2, 3, move=owned())
    move(world, 5, 2, 3, move=owned("other"))
    assert list(world.image.moves) == ["other"]

    move(world, 6, 2, 3)
    assert (world.t0.move, world.image.moves) == ("", {})


def test_request_without_a_move_for_the_same_replicas_leaves_them_to_their_move() -> None:
    """Kafka's tools repeat requests, and know nothing of moves."""
    world = six()
    move(world, 4, 2, 3, move=owned())
    before = world.image

    move(world, 4, 2, 3)

    assert world.image is before


def test_repeated_move_changes_its_rate_and_nothing_else() -> None:
    """The same replicas with another throttle: the partition's record and the move's start stay."""
    world = six()
    move(world, 4, 2, 3, move=owned(name="night"))
    before = world.t0
    assert owners_of(world.image, [Wanted("t", 0, (4, 2, 3))]) == {"m"}
    assert owners_of(world.image, [Wanted("t", 0, (2, 4, 3))]) == {""}

    move(world, 4, 2, 3, move=owned(throttle_bytes_per_s=5, started_ms=99))

    assert world.t0 is before
    assert world.image.moves == {"m": owned(throttle_bytes_per_s=5, name="night")}


def test_repeated_move_is_the_same_when_some_of_its_partitions_have_arrived() -> None:
    """And if one of them never had to move; but not if one was cancelled: that starts again, in another move."""
    world = six(partition(), partition(partition=1), partition(partition=2))
    wanted = [Wanted("t", 0, (4, 2, 3)), Wanted("t", 1, (5, 2, 3)), Wanted("t", 2, (1, 2, 3))]
    world.take(alter_reassignments(world.image, wanted, ELR, move=owned()))
    join(world, 1, 2, 3, 4)
    assert not world.t0.is_reassigned

    assert owners_of(world.image, wanted) == {"m"}
    assert owners_of(world.image, [wanted[0], wanted[2]]) == frozenset()
    assert owners_of(world.image, [*wanted, Wanted("t", 7, (1,))]) == {"m", ""}
    move(world, partition=1)
    assert owners_of(world.image, wanted) == {""}


def test_repeated_move_without_a_throttle_keeps_its_throttle_and_its_control() -> None:
    """A deadline without a rate keeps the rate; a rate without a deadline takes the place of both."""
    world = six()
    steered = {"control": "deadline", "deadline_ms": 99}
    unthrottled = owned(throttle_bytes_per_s=-1)
    move(world, 4, 2, 3, move=owned(**steered))

    found = []
    for asked in (unthrottled, owned(throttle_bytes_per_s=5), unthrottled._replace(**steered), unthrottled):
        move(world, 4, 2, 3, move=asked)
        found.append(world.image.moves["m"])

    assert found == [
        owned(**steered),
        owned(throttle_bytes_per_s=5),
        owned(throttle_bytes_per_s=5, **steered),
        owned(throttle_bytes_per_s=5, **steered),
    ]


def test_rate_of_a_move_changes_without_its_partitions() -> None:
    """What controls a move does so often; a move that is over says so."""
    world = six()
    move(world, 4, 2, 3, move=owned())

    assert world.take(change_move(world.image, owned(throttle_bytes_per_s=-1))) is ErrorCode.NONE
    assert world.image.moves["m"].throttle_bytes_per_s == -1
    assert world.take(change_move(world.image, owned("over"))) is ErrorCode.NO_REASSIGNMENT_IN_PROGRESS


def test_t48_move_starts_as_a_whole_or_not_at_all() -> None:
    """One partition names a broker that is not registered: the other is not attempted, and there is no throttle."""
    world = six(partition(), partition(partition=1))
    before = world.image
    wanted = [Wanted("t", 0, (4, 2, 3)), Wanted("t", 1, (9, 2, 3))]

    results = world.take(alter_reassignments(world.image, wanted, ELR, move=owned()))

    assert [each.error for each in results] == [
        ErrorCode.OPERATION_NOT_ATTEMPTED,
        ErrorCode.INVALID_REPLICA_ASSIGNMENT,
    ]
    assert world.image is before


def test_move_cancels_nothing() -> None:
    """A request with both would be half a start."""
    world = six()
    move(world, 4, 2, 3)

    error, message = refusal(world, move=owned())

    assert (error, "request of its own" in str(message)) == (ErrorCode.INVALID_REQUEST, True)
