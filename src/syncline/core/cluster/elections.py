"""The leader of a partition after a change, and the replicas that stay eligible.

One function, `next_state`, takes the present record and what is about to change (another target ISR, other replicas, a
broker that lost its unsynced data) and returns the next record, or the same object when nothing changes. Every path
that changes a partition goes through it, so that its invariants have one place.

A leader must be *acceptable* (registered, not fenced, not leaving) and *valid*: in the target ISR, or, when that is
empty, in the eligible leader replicas. The ELR are replicas that left the ISR while it was below its minimum size. The
high watermark does not advance then, so they hold everything below it, unless they lost data since. When ISR and ELR
are both empty, the last leader is the best guess: it was in the ISR to the end. Electing it, or any other replica
outside ISR and ELR, is unclean: the record says RECOVERING until the leader confirms.

Invariants: the leader is NONE or in the ISR; ISR and ELR are disjoint parts of the replicas; the partition epoch rises
by one with every change, the leader epoch with every change of leader and whenever a replica is taken away. Asserted
here and, over whole decisions, in `invariants`.
Source: Kafka's PartitionChangeBuilder; KIP-966 (ELR), KIP-455 (reassignment), KIP-501 (relinquishing).
"""

from collections.abc import Callable, Collection
from enum import Enum
from typing import Final

from syncline.model.ids import NONE, BrokerId, LeaderEpoch, PartitionEpoch
from syncline.model.metadata import NO_BROKER, PartitionRecord, Recovery

Replicas = tuple[BrokerId, ...]
Acceptable = Callable[[BrokerId], bool]

_NOBODY: Final[frozenset[BrokerId]] = frozenset()


class ElectionKind(Enum):
    """Which candidates an election considers, in which order."""

    ONLINE = "online"
    PREFERRED = "preferred"
    UNCLEAN = "unclean"
    # The leader relinquishes: the first valid successor in the order of its request, never itself.
    RELINQUISH = "relinquish"


def next_state(
    record: PartitionRecord,
    *,
    acceptable: Acceptable,
    min_isr: int,
    kind: ElectionKind = ElectionKind.ONLINE,
    isr: Replicas | None = None,
    replicas: Replicas | None = None,
    lost_data: Collection[BrokerId] = _NOBODY,
    eligible_replicas: bool = True,
    recovery: Recovery | None = None,
    succession: Replicas = (),
) -> PartitionRecord:
    """Return the state after the change, the same object if nothing changes.

    `isr` and `replicas` are the targets (None: as now). `lost_data` are brokers that may have lost what they
    acknowledged; they must not be in `isr`. `min_isr` is the configured minimum. Without `eligible_replicas` the last
    member of an ISR stays in it, and no other replica is eligible. `succession` is for RELINQUISH; it must name a
    valid replica besides the leader.
    """
    draft = _Draft(record, acceptable, record.replicas if replicas is None else replicas)
    draft.succession = succession
    draft.isr = record.isr if isr is None else isr
    draft.recovery = record.recovery if recovery is None else recovery
    assert not (lost_data and set(lost_data) & set(draft.isr)), f"{lost_data} lost data, and the ISR is {draft.isr}"
    draft.complete_reassignment()
    if eligible_replicas:
        draft.renew_eligible(min_isr, lost_data)
    draft.elect(kind)
    if not eligible_replicas:
        draft.isr = draft.isr or record.isr
        if draft.isr:
            # Left from before ELR was disabled: no rule maintains them now, and ELR may be enabled again.
            draft.elr = ()
    draft.remember_last_leader(eligible_replicas=eligible_replicas)
    return draft.finish()


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

    def __init__(self, record: PartitionRecord, acceptable: Acceptable, replicas: Replicas) -> None:
        self._record = record
        self._acceptable = acceptable
        self.replicas = replicas
        self.succession: Replicas = ()
        self.adding = record.adding
        self.removing = record.removing
        self.isr: Replicas = record.isr
        self.elr: Replicas = record.elr
        self.last_known: Replicas = record.last_known_elr
        self.leader = record.leader
        self.recovery = record.recovery

    def complete_reassignment(self) -> None:
        """Drop the replicas to be removed once every remaining one is in sync."""
        if not self.adding and not self.removing:
            return
        target = tuple(broker for broker in self.replicas if broker not in self.removing)
        remaining_isr = tuple(broker for broker in self.isr if broker not in self.removing)
        if target and set(target) <= set(remaining_isr):
            self.replicas, self.isr, self.adding, self.removing = target, remaining_isr, (), ()

    def renew_eligible(self, min_isr: int, lost_data: Collection[BrokerId]) -> None:
        record = self._record
        if len(self.isr) >= min(min_isr, len(self.replicas)):
            self.elr = ()
            return
        candidates = {*record.elr, *record.isr}
        self.elr = tuple(
            broker
            for broker in sorted(candidates)
            if broker not in self.isr and broker not in lost_data and broker in self.replicas
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
        if kind is ElectionKind.PREFERRED and self.replicas and self._is_valid(self.replicas[0]):
            return self.replicas[0], True
        current = self._record.leader
        if kind is ElectionKind.RELINQUISH:
            for broker in self.succession:
                if broker != current and self._is_valid(broker):
                    return broker, True
        if current != NONE and self._is_valid(current):
            return current, True
        for broker in self.replicas:
            if self._is_valid(broker):
                return broker, True
        last = self.last_known
        if not self.isr and not self.elr and len(last) == 1 and self._acceptable(last[0]):
            return last[0], False
        if kind is ElectionKind.UNCLEAN:
            for broker in self.replicas:
                if self._acceptable(broker):
                    return broker, False
        return NO_BROKER, True

    def _is_valid(self, broker: BrokerId) -> bool:
        members = self.isr or self.elr
        return broker in members and broker in self.replicas and self._acceptable(broker)

    def remember_last_leader(self, *, eligible_replicas: bool) -> None:
        if self.leader != NONE:
            self.last_known = ()
        elif eligible_replicas and not self.isr and self._record.leader != NONE:
            self.last_known = (self._record.leader,)

    def finish(self) -> PartitionRecord:
        record = self._record
        replica_lost = not set(record.replicas) <= set(self.replicas)
        leader_changes = self.leader != record.leader or (replica_lost and self.leader != NONE)
        state = record._replace(
            leader=self.leader,
            replicas=self.replicas,
            isr=self.isr,
            elr=self.elr,
            last_known_elr=self.last_known,
            adding=self.adding,
            removing=self.removing,
            recovery=self.recovery,
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
