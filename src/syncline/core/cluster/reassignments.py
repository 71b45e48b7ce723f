"""Reassignments: other replicas for a partition, which take over when all of them are in sync.

    original 1,2,3, wanted 4,2,1      replicas     adding  removing  ISR
    started                           4,2,1,3      4       3         1,2,3
    4 is in sync: complete            4,2,1                          4,2,1

A request starts or changes reassignments, or cancels them. The one hard idea: a request is compared with the *original*
replicas, those of before the first request, and not with what an earlier one has made of them. So what a partition
passes through does not matter for where it arrives, and a cancellation restores the replicas in their order. Replicas
that an earlier request was adding and this one does not want leave at once: none of them is needed, unless the in-sync
set consists of nothing else. Then only a topic that allows unclean leaders may lose them.

Everything else follows from the record, under any controller: `elections.next_state` completes a reassignment in the
change that brings the last of its replicas into the ISR. A wanted broker need only be registered; until it is alive and
in sync, the reassignment waits.

Invariants: one result per requested partition, in order; with a move, all of its partitions are accepted or none;
`replicas` are the wanted ones and then those to be removed.
Source: KIP-455, KIP-860 (a forbidden change of the replication factor); Kafka's ReplicationControlManager, which
compares with the present replicas, and forgets their order.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple
from uuid import UUID

from syncline.core.cluster.assignments import validate_assignment
from syncline.core.cluster.decision import Decision, Why, topic_rules
from syncline.core.cluster.elections import Assignment, ElectionKind, Replicas, assignment_of, next_state
from syncline.core.cluster.standing import acceptable_in, fitness_in
from syncline.model.broker_config import BrokerConfig
from syncline.model.errors import ErrorCode, RequestError
from syncline.model.ids import NONE
from syncline.model.immutable import Immutable
from syncline.model.metadata import (
    Change,
    MetadataImage,
    MoveChanged,
    MoveRecord,
    PartitionRecord,
    PartitionsChanged,
    Topic,
)
from syncline.model.reasons import Reason

# One request may change this many partitions, as in Kafka (its bound on the records of one decision).
PARTITIONS_PER_REQUEST_MAX: Final = 10_000

_NOT_ATTEMPTED: Final = "Nothing of the move was started, because another of its partitions was refused."


class Wanted(NamedTuple):
    """The replicas that are wanted for one partition; None cancels its reassignment."""

    topic: str
    partition: int
    replicas: Replicas | None


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ReassignmentResult(Immutable):
    """The answer for one partition."""

    topic: str
    partition: int
    error: ErrorCode = ErrorCode.NONE
    message: str | None = None


def alter_reassignments(
    image: MetadataImage,
    wanted: Sequence[Wanted],
    settings: BrokerConfig,
    *,
    allow_factor_change: bool = True,
    move: MoveRecord | None = None,
) -> Decision[tuple[ReassignmentResult, ...]]:
    """Return the outcome of a request.

    Each partition is judged by the state before the request; of one that is named twice, the last change counts.

    With `move` the reassignments become that move's, and if one of them is refused, none starts. If the move is known
    and the request names neither a throttle nor a control, what is known stays.
    """
    changed: dict[UUID, dict[int, PartitionRecord]] = {}
    results = []
    for each in wanted:
        try:
            topic, before = _find(image, each)
            after = _reassigned(image, topic, before, each, settings, allow_factor_change, move)
        except RequestError as refusal:
            results.append(ReassignmentResult(each.topic, each.partition, refusal.code, refusal.message))
            continue
        if after is not before:
            changed.setdefault(topic.topic_id, {})[each.partition] = after
        results.append(ReassignmentResult(each.topic, each.partition))
    assert len(results) == len(wanted), f"{len(results)} results for {len(wanted)} partitions"
    if move is not None and any(result.error for result in results):
        return Decision((), refused_together(results))
    changes: list[Change] = [PartitionsChanged(topic_id, tuple(new.values())) for topic_id, new in changed.items()]
    if move is not None:
        move = _repeated(image, move)
        is_owner = any(record.move for new in changed.values() for record in new.values())
        changes = [*_move_changes(image, move, is_owner=is_owner), *changes]
    is_cancelled = all(each.replicas is None for each in wanted)
    why = Why(Reason.REASSIGNMENT_CANCELLED if is_cancelled else Reason.REASSIGNMENT_REQUESTED)
    return Decision(tuple(changes), tuple(results), why)


def refused_together(results: Sequence[ReassignmentResult]) -> tuple[ReassignmentResult, ...]:
    """Return the results of a move of which something was refused: the rest was not attempted."""
    return tuple(
        result
        if result.error
        else ReassignmentResult(result.topic, result.partition, ErrorCode.OPERATION_NOT_ATTEMPTED, _NOT_ATTEMPTED)
        for result in results
    )


def change_move(image: MetadataImage, move: MoveRecord) -> Decision[ErrorCode]:
    """Return the outcome of a request that names no partition: a move gets another rate or control, or none."""
    if move.move_id not in image.moves:
        return Decision((), ErrorCode.NO_REASSIGNMENT_IN_PROGRESS)
    changes = tuple(_move_changes(image, move, is_owner=True))
    return Decision(changes, ErrorCode.NONE, Why(Reason.REASSIGNMENT_REQUESTED))


def owners_of(image: MetadataImage, wanted: Sequence[Wanted]) -> frozenset[str]:
    """Return the moves that own exactly these reassignments already; "" stands for one that has yet to start.

    Partitions that have arrived need no owner. So a request that is repeated with another throttle changes the
    throttle, and makes no second move, also when it names partitions that are done.
    """
    owners = set()
    for each in wanted:
        record = image.partition(each.topic, each.partition)
        if record is None:
            owners.add("")
            continue
        target = record.replicas[: len(record.replicas) - len(record.removing)]
        if record.is_reassigned or target != each.replicas:
            owners.add(record.move if target == each.replicas else "")
    return frozenset(owners)


def _find(image: MetadataImage, wanted: Wanted) -> tuple[Topic, PartitionRecord]:
    topic = image.topics.get(wanted.topic)
    if topic is None:
        raise RequestError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Unable to find a topic named {wanted.topic}.")
    if not 0 <= wanted.partition < len(topic.partitions):
        raise RequestError(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Unable to find partition {wanted.topic}:{wanted.partition}."
        )
    return topic, topic.partitions[wanted.partition]


def _reassigned(
    image: MetadataImage,
    topic: Topic,
    record: PartitionRecord,
    wanted: Wanted,
    settings: BrokerConfig,
    allow_factor_change: bool,
    move: MoveRecord | None,
) -> PartitionRecord:
    """Return the record after one request for it; raise `RequestError` if it is refused."""
    if wanted.replicas is not None:
        assignment = _wanted_assignment(image, record, wanted.replicas, allow_factor_change, move)
    elif move is not None:
        raise RequestError(
            ErrorCode.INVALID_REQUEST, "A move only starts reassignments: cancel others in a request of its own."
        )
    elif record.is_reassigned:
        assignment = Assignment(record.original)
    else:
        raise RequestError(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS)
    return _assigned(image, topic, record, assignment, settings)


def _wanted_assignment(
    image: MetadataImage,
    record: PartitionRecord,
    replicas: Replicas,
    allow_factor_change: bool,
    move: MoveRecord | None,
) -> Assignment:
    validate_assignment(image, replicas, None)
    original = record.original if record.is_reassigned else record.replicas
    if not allow_factor_change and len(replicas) != len(original):
        raise RequestError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"The replication factor is changed from {len(original)} to {len(replicas)}",
        )
    adding = tuple(sorted(set(replicas).difference(original)))
    removing = tuple(sorted(set(original).difference(replicas)))
    if not adding and not removing:
        return Assignment(replicas)
    assert set(replicas).isdisjoint(removing), f"{removing} are removed and wanted: {replicas}"
    assignment = Assignment((*replicas, *removing), adding, removing, original, "" if move is None else move.move_id)
    if move is None and assignment == assignment_of(record)._replace(move=""):
        # The same once more, from someone who knows nothing of moves: it stays the move's.
        return assignment_of(record)
    return assignment


def _assigned(
    image: MetadataImage, topic: Topic, record: PartitionRecord, assignment: Assignment, settings: BrokerConfig
) -> PartitionRecord:
    rules = topic_rules(image, topic.name, settings)

    def state_by(kind: ElectionKind) -> PartitionRecord:
        return next_state(
            record,
            acceptable=acceptable_in(image, topic.topic_id, record.partition),
            fitness=fitness_in(image, topic.topic_id, record.partition),
            min_isr=rules.min_isr,
            kind=kind,
            isr=tuple(broker for broker in record.isr if broker in assignment.replicas),
            assignment=assignment,
            eligible_replicas=settings.eligible_leader_replicas_enable,
        )

    state = state_by(ElectionKind.ONLINE)
    if _keeps_records(record, state):
        return state
    if not rules.unclean:
        raise RequestError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"Unable to revert partition assignment for {topic.name}:{record.partition} because it would require an"
            " unclean leader election.",
        )
    return state_by(ElectionKind.UNCLEAN)


def _keeps_records(before: PartitionRecord, after: PartitionRecord) -> bool:
    """Return whether a replica that may have everything committed is left, and leads if one led before."""
    had_candidate = before.isr or before.elr or before.last_known_elr
    has_candidate = after.isr or after.elr or after.last_known_elr
    return bool(has_candidate or not had_candidate) and (after.has_leader or not before.has_leader)


def _repeated(image: MetadataImage, move: MoveRecord) -> MoveRecord:
    """Return a move with the throttle that is in force, if it is known and the request names none.

    A request that is repeated without a throttle does not ask to remove it; nor the control, unless another throttle
    takes its place.
    """
    known = image.moves.get(move.move_id)
    if known is None or move.throttle_bytes_per_s != NONE:
        return move
    if move.control:
        return move._replace(throttle_bytes_per_s=known.throttle_bytes_per_s)
    return known._replace(started_ms=move.started_ms, name=move.name)


def _move_changes(image: MetadataImage, move: MoveRecord, *, is_owner: bool) -> Sequence[Change]:
    """Return the change of the move's own record, none if it stays, or would own nothing."""
    known = image.moves.get(move.move_id)
    if known is not None:
        move = move._replace(started_ms=known.started_ms, name=move.name or known.name)
    elif not is_owner:
        return ()
    return () if move == known else (MoveChanged(move),)
