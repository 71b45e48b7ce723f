"""The journal's events about a committed decision of the controller.

Events are derived from the changes, by comparing each record with the one before, so that no path can change a leader
or an ISR without an event. The ISR that a leader proposed is left out: the leader writes that event, with its evidence;
unless the proposal completes a reassignment, which takes members out that the leader did not mention.
A decision keeps the replaced records until then, and not the image that it rests on: thousands of decisions may wait
for one commit, and each image of a large cluster is megabytes.

Units: `ts_ms` is Unix time.
Source: ours; docs/journal.md describes the events.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, Literal, NamedTuple
from uuid import UUID

from syncline.core.cluster.decision import Why
from syncline.model.events import BrokerState, Election, Event, IsrChange, Json, Move, Reassignment, TopicChange
from syncline.model.ids import NONE, BrokerId, uuid_text
from syncline.model.metadata import (
    NO_BROKER,
    BrokerChanged,
    BrokerRecord,
    Change,
    MetadataImage,
    MoveChanged,
    MoveRecord,
    MoveRemoved,
    PartitionRecord,
    PartitionsChanged,
    Recovery,
    TopicCreated,
    TopicDeleted,
)
from syncline.model.reasons import Reason

_REASSIGNING: Final = frozenset(
    {Reason.REASSIGNMENT_REQUESTED, Reason.REASSIGNMENT_CANCELLED, Reason.REASSIGNMENT_COMPLETED}
)


class _Pen(NamedTuple):
    """The fields that all events of one decision share."""

    writer: BrokerId
    ts_ms: int
    why: Why


class ReplacedTopic(NamedTuple):
    """A topic of which a decision changes partitions: its name, its number of partitions, and the changed ones."""

    name: str
    partition_count: int
    partitions: Mapping[int, PartitionRecord]


class Replaced(NamedTuple):
    """The records that one decision replaces, as they were before it."""

    brokers: Mapping[BrokerId, BrokerRecord] = {}
    topics: Mapping[UUID, ReplacedTopic] = {}
    moves: Mapping[str, MoveRecord] = {}


def replaced_by(changes: Iterable[Change], before: MetadataImage) -> Replaced:
    """Return what `changes` replace in the image `before`."""
    brokers: dict[BrokerId, BrokerRecord] = {}
    topics: dict[UUID, ReplacedTopic] = {}
    moves: dict[str, MoveRecord] = {}
    for change in changes:
        if isinstance(change, BrokerChanged):
            known = before.brokers.get(change.record.broker_id)
            if known is not None:
                brokers[known.broker_id] = known
        elif isinstance(change, PartitionsChanged):
            topic = before.topic_by_id(change.topic_id)
            if topic is not None:
                present = topic.partitions
                records = {
                    each.partition: present[each.partition]
                    for each in change.partitions
                    if each.partition < len(present)
                }
                if change.topic_id in topics:
                    records = {**topics[change.topic_id].partitions, **records}
                topics[change.topic_id] = ReplacedTopic(topic.name, len(present), records)
        elif isinstance(change, TopicDeleted):
            topic = before.topic_by_id(change.topic_id)
            if topic is not None:
                records = {each.partition: each for each in topic.partitions if each.is_reassigned}
                topics[change.topic_id] = ReplacedTopic(topic.name, len(topic.partitions), records)
        elif isinstance(change, MoveChanged | MoveRemoved):
            move_id = change.record.move_id if isinstance(change, MoveChanged) else change.move_id
            if move_id in before.moves:
                moves[move_id] = before.moves[move_id]
    return Replaced(brokers, topics, moves)


def events_of(
    before: Replaced,
    changes: Iterable[Change],
    *,
    why: Why,
    proposed_by_leader: bool,
    writer: BrokerId,
    ts_ms: int,
) -> Iterator[Event]:
    """Return the events of one decision; `before` is what it replaced."""
    pen = _Pen(writer, ts_ms, why)
    created = pen._replace(why=Why(Reason.CREATED))
    for change in changes:
        if isinstance(change, BrokerChanged):
            yield from _broker_events(before, change.record, pen)
        elif isinstance(change, TopicCreated):
            yield _topic_change(change.name, change.topic_id, "created", len(change.partitions), pen)
            for record in change.partitions:
                yield _election(change.name, None, record, created)
        elif isinstance(change, TopicDeleted):
            gone = before.topics.get(change.topic_id)
            if gone is None:
                continue
            for record in gone.partitions.values():
                yield _reassignment(gone.name, "cancelled", record, record, pen)
            yield _topic_change(gone.name, change.topic_id, "deleted", gone.partition_count, pen)
        elif isinstance(change, PartitionsChanged):
            topic = before.topics.get(change.topic_id)
            if topic is None:
                continue
            partition_count = max((each.partition + 1 for each in change.partitions), default=0)
            if partition_count > topic.partition_count:
                yield _topic_change(topic.name, change.topic_id, "grown", partition_count, pen)
            for record in change.partitions:
                if record.partition >= topic.partition_count:
                    yield _election(topic.name, None, record, created)
                    continue
                old = topic.partitions[record.partition]
                assert record.partition_epoch > old.partition_epoch, f"{topic.name}: {old} is followed by {record}"
                yield from _changed(topic.name, old, record, pen, proposed_by_leader=proposed_by_leader)
        elif isinstance(change, MoveChanged):
            known = before.moves.get(change.record.move_id)
            yield _move("started" if known is None else "changed", change.record, pen)
        elif isinstance(change, MoveRemoved):
            ended = pen._replace(why=Why(Reason.REASSIGNMENT_COMPLETED)) if proposed_by_leader else pen
            yield _move("ended", before.moves[change.move_id], ended)


def _changed(
    topic: str, old: PartitionRecord, new: PartitionRecord, pen: _Pen, *, proposed_by_leader: bool
) -> Iterator[Event]:
    phase = _phase(old, new, pen.why.reason)
    if phase == "completed" and proposed_by_leader:
        pen = pen._replace(why=pen.why._replace(reason=Reason.REASSIGNMENT_COMPLETED))
    if phase is not None:
        yield _reassignment(topic, phase, old, new, pen)
    if old.leader != new.leader:
        yield _election(topic, old, new, pen)
    is_leaders = proposed_by_leader and not (phase == "completed" and old.removing)
    if not is_leaders and set(old.isr) != set(new.isr):
        yield _isr_change(topic, old, new, pen)


_Phase = Literal["started", "changed", "completed", "cancelled"]


def _phase(old: PartitionRecord, new: PartitionRecord, reason: Reason) -> _Phase | None:
    """Return what a change does to the reassignment of a partition, None if nothing."""
    if new.is_reassigned:
        if not old.is_reassigned:
            return "started"
        is_same = (old.adding, old.removing, old.move) == (new.adding, new.removing, new.move)
        return None if is_same else "changed"
    if old.is_reassigned:
        return "cancelled" if set(new.replicas) == set(old.original) else "completed"
    # What needed no waiting is complete as soon as it is requested.
    return "completed" if reason is Reason.REASSIGNMENT_REQUESTED and old.replicas != new.replicas else None


def _reassignment(topic: str, phase: _Phase, old: PartitionRecord, new: PartitionRecord, pen: _Pen) -> Reassignment:
    shown = new if new.is_reassigned else old
    adding, removing = shown.adding, shown.removing
    if not shown.is_reassigned:
        adding = tuple(sorted(set(new.replicas).difference(old.replicas)))
        removing = tuple(sorted(set(old.replicas).difference(new.replicas)))
    return Reassignment(
        ts_ms=pen.ts_ms,
        broker=pen.writer,
        topic=topic,
        partition=new.partition,
        phase=phase,
        replicas=new.replicas,
        adding=adding,
        removing=removing,
        original=shown.original or old.replicas,
        move=shown.move,
        reason=pen.why.reason,
        evidence={**pen.why.numbers, "leader_epoch": new.leader_epoch, "isr": list(new.isr)},
    )


def _topic_change(
    topic: str, topic_id: UUID, change: Literal["created", "grown", "deleted"], partitions: int, pen: _Pen
) -> TopicChange:
    return TopicChange(
        ts_ms=pen.ts_ms,
        broker=pen.writer,
        topic=topic,
        topic_id=uuid_text(topic_id),
        change=change,
        partitions=partitions,
    )


def _move(phase: Literal["started", "changed", "ended"], record: MoveRecord, pen: _Pen) -> Move:
    return Move(
        ts_ms=pen.ts_ms,
        broker=pen.writer,
        move=record.move_id,
        phase=phase,
        name=record.name,
        throttle_bytes_per_s=record.throttle_bytes_per_s,
        control=record.control,
        deadline_ms=record.deadline_ms,
        impact_percent=record.impact_percent,
        reason=pen.why.reason,
    )


def _broker_events(before: Replaced, record: BrokerRecord, pen: _Pen) -> Iterator[Event]:
    old = before.brokers.get(record.broker_id)
    state: Literal["registered", "unfenced", "fenced", "shutdown"]
    if old is None or old.broker_epoch != record.broker_epoch:
        state = "registered"
    elif record.fenced != old.fenced:
        state = "fenced" if record.fenced else "unfenced"
    elif record.shutting_down and not old.shutting_down:
        state = "shutdown"
    else:
        return
    yield BrokerState(
        ts_ms=pen.ts_ms,
        broker=pen.writer,
        subject=record.broker_id,
        state=state,
        reason=pen.why.reason,
        evidence=dict(pen.why.numbers),
    )


def _election(topic: str, old: PartitionRecord | None, new: PartitionRecord, pen: _Pen) -> Election:
    eligible = () if old is None else (*old.isr, *old.elr)
    unclean = old is not None and new.leader != NONE and new.recovery is Recovery.RECOVERING
    return Election(
        ts_ms=pen.ts_ms,
        broker=pen.writer,
        topic=topic,
        partition=new.partition,
        leader_before=NO_BROKER if old is None else old.leader,
        leader_after=new.leader,
        leader_epoch=new.leader_epoch,
        isr=new.isr,
        reason=pen.why.reason,
        clean=not unclean or new.leader in eligible,
        isr_before=() if old is None else tuple(sorted(old.isr)),
        evidence=dict(pen.why.numbers) if old is None else {**pen.why.numbers, **_standing(old, new)},
    )


def _standing(old: PartitionRecord, new: PartitionRecord) -> dict[str, Json]:
    """Return what the election considered besides the ISR."""
    return {
        "leader_epoch_before": old.leader_epoch,
        "replicas": list(new.replicas),
        "elr": list(old.elr),
        "last_known_elr": list(old.last_known_elr),
    }


def _isr_change(topic: str, old: PartitionRecord, new: PartitionRecord, pen: _Pen) -> IsrChange:
    shrinks = set(old.isr) > set(new.isr)
    is_reassigned = pen.why.reason in _REASSIGNING
    return IsrChange(
        ts_ms=pen.ts_ms,
        broker=pen.writer,
        topic=topic,
        partition=new.partition,
        leader_epoch=new.leader_epoch,
        partition_epoch=new.partition_epoch,
        change="shrink" if shrinks else "expand",
        outcome="committed",
        before=tuple(sorted(old.isr)),
        after=tuple(sorted(new.isr)),
        rule="reassignment" if is_reassigned else "fencing" if shrinks else "election",
        evidence={
            "reason": pen.why.reason,
            **pen.why.numbers,
            "elr": list(new.elr),
            "last_known_elr": list(new.last_known_elr),
        },
    )
