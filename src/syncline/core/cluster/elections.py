"""The leader of a partition after a change, and the replicas that stay eligible.

One function, `next_state`, takes the present record and what is about to change (another target ISR, other replicas, a
broker that lost its unsynced data) and returns the next record, or the same object when nothing changes. Every path
that changes a partition goes through it, so that its invariants have one place.

A replica whose disk refuses writes, or whose log is damaged, is *unfit*. It leaves the ISR, and leads no longer, as
soon as another member is fit and acceptable; while there is none, everything stays as it is, because moving a
leadership between unfit replicas helps nobody.

A leader must be *acceptable* (registered, not fenced, not leaving) and *valid*: in the target ISR, or, when that is
empty, in the eligible leader replicas. The ELR are replicas that left the ISR while it was below its minimum size. The
high watermark does not advance then, so they hold everything below it, unless they lost data since. When ISR and ELR
are both empty, the last leader is the best guess: it was in the ISR to the end. Electing it, or any other replica
outside ISR and ELR, is unclean: the record says RECOVERING until the leader confirms.

While a partition is reassigned, a replica that is being removed leads on, but becomes leader only when no other can;
and an unclean election takes one that is being added, and so may have nothing yet, last. The reassignment is complete
in the record in which every replica that stays is in sync.

Invariants: the leader is NONE or in the ISR; ISR and ELR are disjoint parts of the replicas; the partition epoch rises
by one with every change, the leader epoch with every change of leader and whenever a replica is taken away. Asserted
here and, over whole decisions, in `invariants`.
Source: Kafka's PartitionChangeBuilder; KIP-966 (ELR), KIP-455 (reassignment), KIP-501 (relinquishing). Unfit replicas
are ours: with one directory per broker, Kafka's broker stops when its disk is full.
"""

from collections.abc import Callable, Collection
from enum import Enum
from typing import Final, NamedTuple

from syncline.model.ids import NONE, BrokerId, LeaderEpoch, PartitionEpoch
from syncline.model.impairments import Fitness
from syncline.model.metadata import NO_BROKER, PartitionRecord, Recovery

Replicas = tuple[BrokerId, ...]
Acceptable = Callable[[BrokerId], bool]
FitnessOf = Callable[[BrokerId], Fitness]

_NOBODY: Final[frozenset[BrokerId]] = frozenset()
_RANKS: Final = {fitness: rank for rank, fitness in enumerate(Fitness)}


class Assignment(NamedTuple):
    """The replicas of a partition and, of a reassignment, what it adds and removes, and what was there before."""

    replicas: Replicas
    adding: Replicas = ()
    removing: Replicas = ()
    original: Replicas = ()
    move: str = ""


class ElectionKind(Enum):
    """Which candidates an election considers, in which order."""

    ONLINE = "online"
    PREFERRED = "preferred"
    UNCLEAN = "unclean"
    # The leader relinquishes: the first valid successor in the order of its request, those that stay before those that
    # are being removed, never itself.
    RELINQUISH = "relinquish"


def _all_able(_broker: BrokerId) -> Fitness:
    return Fitness.ABLE


def next_state(
    record: PartitionRecord,
    *,
    acceptable: Acceptable,
    min_isr: int,
    fitness: FitnessOf = _all_able,
    kind: ElectionKind = ElectionKind.ONLINE,
    isr: Replicas | None = None,
    assignment: Assignment | None = None,
    lost_data: Collection[BrokerId] = _NOBODY,
    eligible_replicas: bool = True,
    recovery: Recovery | None = None,
    succession: Replicas = (),
) -> PartitionRecord:
    """Return the state after the change, the same object if nothing changes.

    `isr` and `assignment` are the targets (None: as now). `lost_data` are brokers that may have lost what they
    acknowledged; they must not be in `isr`. `fitness` prefers replicas, and makes none valid. `min_isr` is the
    configured minimum. Without `eligible_replicas` the last member of an ISR stays in it, and no other replica is
    eligible. `succession` is for RELINQUISH; it must name a valid and fit replica besides the leader.
    """
    draft = _Draft(record, acceptable, fitness, assignment_of(record) if assignment is None else assignment)
    draft.succession = succession
    draft.isr = record.isr if isr is None else isr
    draft.recovery = record.recovery if recovery is None else recovery
    assert not (lost_data and set(lost_data) & set(draft.isr)), f"{lost_data} lost data, and the ISR is {draft.isr}"
    draft.remove_unfit()
    draft.complete_reassignment()
    if eligible_replicas:
        draft.renew_eligible(min_isr, lost_data)
    draft.elect(kind)
    if not eligible_replicas:
        draft.isr = draft.isr or tuple(broker for broker in record.isr if broker in draft.replicas)
        if draft.isr:
            # Left from before ELR was disabled: no rule maintains them now, and ELR may be enabled again.
            draft.elr = ()
    draft.remember_last_leader(eligible_replicas=eligible_replicas)
    return draft.finish()


def assignment_of(record: PartitionRecord) -> Assignment:
    """Return the present assignment of a partition."""
    return Assignment(record.replicas, record.adding, record.removing, record.original, record.move)


def at_rest(record: PartitionRecord) -> PartitionRecord:
    """Return the state when all brokers stop together: no leader, and the same ISR.

    Without a leader nothing is committed, so the members of the ISR keep everything that is committed. The record
    remembers the last leader, because it may be the first to lead again.
    """
    if record.leader == NONE:
        return record
    assert record.leader in record.isr, f"the leader is outside its ISR: {record}"
    return record._replace(
        leader=NO_BROKER,
        last_known_elr=(record.leader,),
        leader_epoch=LeaderEpoch(record.leader_epoch + 1),
        partition_epoch=PartitionEpoch(record.partition_epoch + 1),
    )


class _Draft:
    """The next state during the decision."""

    def __init__(
        self, record: PartitionRecord, acceptable: Acceptable, fitness: FitnessOf, assignment: Assignment
    ) -> None:
        self._record = record
        self._acceptable = acceptable
        self._fitness = fitness
        self.assignment = assignment
        self.succession: Replicas = ()
        self.isr: Replicas = record.isr
        self.elr: Replicas = record.elr
        self.last_known: Replicas = record.last_known_elr
        self.leader = record.leader
        self.recovery = record.recovery

    @property
    def replicas(self) -> Replicas:
        return self.assignment.replicas

    def remove_unfit(self) -> None:
        """Take unfit members out of the ISR if a fit one remains that can lead."""
        fit = tuple(broker for broker in self.isr if self._fitness(broker) is Fitness.ABLE)
        if any(broker in self.replicas and self._acceptable(broker) for broker in fit):
            self.isr = fit

    def complete_reassignment(self) -> None:
        """Drop the replicas to be removed once every remaining one is in sync."""
        adding, removing = self.assignment.adding, self.assignment.removing
        if not adding and not removing:
            return
        target = tuple(broker for broker in self.replicas if broker not in removing)
        remaining_isr = tuple(broker for broker in self.isr if broker not in removing)
        if target and set(target) <= set(remaining_isr):
            self.assignment, self.isr = Assignment(target), remaining_isr

    def renew_eligible(self, min_isr: int, lost_data: Collection[BrokerId]) -> None:
        record = self._record
        # Replicas that are being added do not count: a lone replica would accept nothing while it gets company.
        if len(self.isr) >= min(min_isr, len(self.replicas) - len(self.assignment.adding)):
            self.elr = ()
            return
        candidates = {*record.elr, *record.isr}
        self.elr = tuple(
            broker
            for broker in sorted(candidates)
            if broker not in self.isr
            and broker not in lost_data
            and broker in self.replicas
            # With a member in sync, a damaged log is worth nothing; without one it may be the best copy left.
            and not (self.isr and self._fitness(broker) is Fitness.DAMAGED)
        )

    def elect(self, kind: ElectionKind) -> None:
        leader, clean = self._choose(kind)
        self.leader = leader
        if leader == NONE:
            return
        if not clean:
            self.isr, self.elr = (leader,), ()
            self.recovery = Recovery.RECOVERING
        elif not self.isr:
            self.isr = (leader,)
            self.elr = tuple(broker for broker in self.elr if broker != leader)

    def _choose(self, kind: ElectionKind) -> tuple[BrokerId, bool]:
        """Return the leader and whether the choice is clean."""
        if kind is ElectionKind.PREFERRED and self.replicas and self._is_fit(self.replicas[0]):
            return self.replicas[0], True
        current = self._record.leader
        if kind is ElectionKind.RELINQUISH:
            for broker in sorted(self.succession, key=self._goes):
                if broker != current and self._is_fit(broker):
                    return broker, True
        in_order = self.replicas if current == NONE else (current, *self.replicas)
        for is_candidate in (self._is_fit, self._is_valid):
            for broker in in_order:
                if is_candidate(broker):
                    return broker, True
        last = self.last_known
        is_last_left = not self.isr and not self.elr and len(last) == 1 and last[0] in self.replicas
        if is_last_left and self._acceptable(last[0]):
            return last[0], False
        if kind is ElectionKind.UNCLEAN:
            candidates = [broker for broker in self.replicas if self._acceptable(broker)]
            if candidates:
                # Of equals the first one; `Fitness` names the fitter ones first.
                return min(candidates, key=lambda each: (self._comes(each), _RANKS[self._fitness(each)])), False
        return NO_BROKER, True

    def _comes(self, broker: BrokerId) -> bool:
        return broker in self.assignment.adding

    def _goes(self, broker: BrokerId) -> bool:
        return broker in self.assignment.removing

    def _is_valid(self, broker: BrokerId) -> bool:
        members = self.isr or self.elr
        return broker in members and broker in self.replicas and self._acceptable(broker)

    def _is_fit(self, broker: BrokerId) -> bool:
        return self._is_valid(broker) and self._fitness(broker) is Fitness.ABLE

    def remember_last_leader(self, *, eligible_replicas: bool) -> None:
        if self.leader != NONE:
            self.last_known = ()
        elif eligible_replicas and not self.isr and self._record.leader != NONE:
            self.last_known = (self._record.leader,)
        self.last_known = tuple(broker for broker in self.last_known if broker in self.replicas)

    def finish(self) -> PartitionRecord:
        record = self._record
        replica_lost = not set(record.replicas) <= set(self.replicas)
        leader_changes = self.leader != record.leader or (replica_lost and self.leader != NONE)
        state = record._replace(
            leader=self.leader,
            isr=self.isr,
            elr=self.elr,
            last_known_elr=self.last_known,
            recovery=self.recovery,
            **self.assignment._asdict(),
        )
        if state == record:
            return record
        assert state.leader == NONE or state.leader in state.isr, f"the leader is outside its ISR: {state}"
        assert state.leader == NONE or not state.last_known_elr, f"a leader, and the last one is remembered: {state}"
        assert not state.elr or not set(state.isr) & set(state.elr), f"ISR and ELR overlap: {state}"
        return state._replace(
            leader_epoch=LeaderEpoch(record.leader_epoch + (1 if leader_changes else 0)),
            partition_epoch=PartitionEpoch(record.partition_epoch + 1),
        )
