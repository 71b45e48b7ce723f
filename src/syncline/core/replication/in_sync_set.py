"""In-sync set: the replicas of a partition, which of them are in sync, and the one pending change.

One hard idea: until the controller has answered, both outcomes of a proposal are true. The watermark respects the
*maximal* ISR, the union of the committed and the proposed members; the committed one decides whether producers may
write.

Units: broker epochs name incarnations, -1 unknown.
Invariants: the leader is in its ISR; committed ISR ⊆ maximal ISR ⊆ replicas; the maximal ISR is the union of the
committed and the proposed one; a follower `counts` exactly if it is in the maximal ISR; one proposal at a time.
Source: KIP-497 (AlterPartition), KIP-841 and KIP-903 (which replicas may be proposed).
"""

from collections.abc import Sequence
from typing import Final

from syncline.core.replication.effects import (
    Effects,
    IsrAnswer,
    IsrChange,
    IsrMember,
    IsrRefused,
    ProposeIsr,
    RefusalOutcome,
)
from syncline.core.replication.evidence import Evidence, Scalar
from syncline.core.replication.follower_state import FollowerState
from syncline.core.replication.known_brokers import KnownBrokers
from syncline.model.ids import NONE, BrokerEpoch, BrokerId, LeaderEpoch, PartitionEpoch

_UNKNOWN_INCARNATION: Final = BrokerEpoch(NONE)


class InSyncSet:
    """The replicas of one partition as its leader knows them.

    `followers` are all replicas but the leader, in assignment order, `by_id` the same by broker id. `pending` is the
    proposal that waits for the controller. `complete_size` is how many replicas there are when none is missing; those
    that a reassignment is adding do not count yet.
    """

    __slots__ = (
        "broker_id",
        "brokers",
        "by_id",
        "committed",
        "complete_size",
        "followers",
        "maximal",
        "pending",
        "removing",
        "replicas",
    )

    def __init__(
        self,
        broker_id: BrokerId,
        brokers: KnownBrokers,
        *,
        replicas: Sequence[BrokerId],
        isr: Sequence[BrokerId],
        now_ms: int,
        adding: Sequence[BrokerId] = (),
        removing: Sequence[BrokerId] = (),
    ) -> None:
        self.broker_id = broker_id
        self.brokers = brokers
        self.by_id: dict[BrokerId, FollowerState] = {}
        self.committed: tuple[BrokerId, ...] = ()
        self.assign(replicas, now_ms, adding, removing)
        self.commit(isr)

    def __repr__(self) -> str:
        pending = self.pending
        proposed = "" if pending is None else f" {pending.kind.value} {list(pending.broker_ids)}"
        return f"isr {list(self.committed)}{proposed}"

    def assign(
        self,
        replicas: Sequence[BrokerId],
        now_ms: int,
        adding: Sequence[BrokerId] = (),
        removing: Sequence[BrokerId] = (),
    ) -> None:
        """Keep the state of replicas that stay; start new ones empty."""
        self.replicas = tuple(replicas)
        self.complete_size = len(self.replicas) - len(adding)
        self.removing = tuple(removing)
        assert {*adding, *removing} <= set(replicas), f"{adding} are added and {removing} removed: {replicas}"
        self.by_id = {
            broker_id: self.by_id.get(broker_id) or FollowerState(broker_id, now_ms)
            for broker_id in self.replicas
            if broker_id != self.broker_id
        }
        self.followers = tuple(self.by_id.values())

    def commit(self, isr: Sequence[BrokerId]) -> None:
        """Make `isr` the committed one; nothing is pending any more."""
        before, self.committed = self.committed, tuple(isr)
        if self.complete_size < len(self.replicas) and set(self.replicas).difference(self.removing) <= set(isr):
            # This ISR completes the reassignment. The record that says so may arrive after the next change of the ISR;
            # until then a smaller minimum would commit without replicas that the controller holds eligible.
            self.complete_size = len(self.replicas) - len(self.removing)
        self.pending: ProposeIsr | None = None
        self._count(isr)
        for follower in self.followers:
            if follower.broker_id in before and not follower.counts:
                follower.left()

    def propose(
        self,
        kind: IsrChange,
        broker_ids: Sequence[BrokerId],
        evidence: Evidence,
        leader_epoch: LeaderEpoch,
        partition_epoch: PartitionEpoch,
    ) -> ProposeIsr:
        """Make the one pending proposal; members that it adds count at once, those that it drops still count."""
        assert self.pending is None, f"{kind.value} {list(broker_ids)} while {self.pending!r} is pending"
        assert self.broker_id in broker_ids, f"leader {self.broker_id} proposes {list(broker_ids)}, without itself"
        growth = len(broker_ids) - len(self.committed)
        assert (growth > 0) is (kind is IsrChange.EXPAND), f"{kind.value} of {self!r} to {list(broker_ids)}"
        assert (growth < 0) is (kind is IsrChange.SHRINK), f"{kind.value} of {self!r} to {list(broker_ids)}"
        members = tuple(IsrMember(broker_id, self._incarnation(broker_id)) for broker_id in broker_ids)
        self.pending = ProposeIsr(members, leader_epoch, partition_epoch, kind, evidence)
        if growth > 0:
            for broker_id in broker_ids:
                assert broker_id in self.committed or self._is_eligible(broker_id), (
                    f"broker {broker_id} is proposed to join {list(self.committed)} and may not serve"
                )
            self._count((*self.committed, *broker_ids))
        return self.pending

    def refused(
        self, answer: IsrAnswer, outcome: RefusalOutcome, leader_epoch: LeaderEpoch, partition_epoch: PartitionEpoch
    ) -> Effects:
        """Handle an answer other than success to the pending proposal; the epochs are the leader's own."""
        proposal = self.pending
        assert proposal is not None, f"{answer} answers nothing: {self!r}"
        numbers = (
            ("error", answer.error.name),
            ("answer_leader_epoch", answer.leader_epoch),
            ("answer_partition_epoch", answer.partition_epoch),
            ("leader_epoch", leader_epoch),
            ("partition_epoch", partition_epoch),
        )
        refused = IsrRefused(proposal, answer.error, outcome, self.evidence(f"answer:{outcome.value}", numbers))
        if outcome is RefusalOutcome.REVERTED:
            self.commit(self.committed)
        return (refused, proposal) if outcome is RefusalOutcome.RETRIED else (refused,)

    def reason_of(
        self, new_isr: Sequence[BrokerId], leader_epoch: LeaderEpoch, partition_epoch: PartitionEpoch
    ) -> Evidence:
        """Return why the ISR of a new partition record is what it is.

        The record may be this leader's own accepted proposal, arriving before the answer to it. The reason is then
        the proposal's; it must be taken now, because the leader will ignore the answer.
        """
        pending = self.pending
        if pending is not None and pending.leader_epoch == leader_epoch and set(pending.broker_ids) == set(new_isr):
            return pending.evidence
        return self.evidence("metadata", (("partition_epoch", partition_epoch), ("leader_epoch", leader_epoch)))

    def evidence(self, rule: str, numbers: tuple[tuple[str, Scalar], ...]) -> Evidence:
        """Return the followers as they stand, with the rule and its numbers."""
        return Evidence(rule, numbers, tuple(follower.view() for follower in self.followers))

    def check_invariants(self) -> None:
        """Assert what holds after every event."""
        committed, maximal = set(self.committed), self.maximal
        assert len(committed) == len(self.committed), f"a member twice: {self!r}"
        assert self.broker_id in committed, f"leader {self.broker_id} is not in its own ISR: {self!r}"
        assert committed <= maximal <= set(self.replicas), (
            f"{self!r}, maximal {sorted(maximal)}, replicas {self.replicas}"
        )
        proposed = set() if self.pending is None else set(self.pending.broker_ids)
        assert maximal == committed | proposed, f"maximal ISR {sorted(maximal)} is not the union: {self!r}"
        counted = {follower.broker_id for follower in self.followers if follower.counts}
        assert counted | {self.broker_id} == maximal, f"{sorted(counted)} count, the maximal ISR is {sorted(maximal)}"
        assert tuple(self.by_id.values()) == self.followers, f"{list(self.by_id)} is not {self.followers}"
        for follower in self.followers:
            follower.check_invariants()

    def _count(self, maximal: Sequence[BrokerId]) -> None:
        """Make the watermark respect exactly these replicas."""
        self.maximal = frozenset(maximal)
        for follower in self.followers:
            follower.counts = follower.broker_id in self.maximal

    def _is_eligible(self, broker_id: BrokerId) -> bool:
        return self.by_id[broker_id].is_eligible(self.brokers)

    def _incarnation(self, broker_id: BrokerId) -> BrokerEpoch:
        """Return the broker epoch that the leader can vouch for, -1 when none is known."""
        if broker_id == self.broker_id:
            return self.brokers.broker_epoch(broker_id)
        fetched = self.by_id[broker_id].broker_epoch
        return _UNKNOWN_INCARNATION if fetched is None else fetched
