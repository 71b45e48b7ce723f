"""Leader's partition: everything that the leader of one partition decides about replication.

One hard idea: the leader moves on proofs alone. A follower's fetch proves what
it has; the controller's answer proves what the ISR is; time proves nothing but
the absence of the others. Between a proposal and its answer the leader acts as
if both outcomes were true: see `isr`, `watermark`, `follower_state`.

Every event is a method that returns effects, and the shared empty tuple when
nothing came of it: `appended` and `follower_fetched` run for every batch.

Units: offsets are exclusive ends, -1 unknown; times in ms of the node's monotonic clock.
Invariants: `check_invariants`, called by tests and simulations after each step.
Source: KIP-497, KIP-501, KIP-841, KIP-903, KIP-966; scenarios A01-D25.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from syncline.core.replication import acknowledgement, isr, pending_fetches, watermark
from syncline.core.replication.effects import (
    NOTHING,
    Effects,
    HighWatermarkAdvanced,
    IsrAnswer,
    IsrChange,
    IsrCommitted,
    IsrMember,
    IsrRefused,
    ProposeIsr,
    ProtectionChanged,
    ProtectionPhase,
    RefusalOutcome,
    RelinquishSkipped,
    SkipReason,
)
from syncline.core.replication.evidence import Evidence, Scalar
from syncline.core.replication.follower_state import FetchStamp, FollowerState
from syncline.core.replication.known_brokers import KnownBrokers
from syncline.core.replication.lag_policy import LagPolicy
from syncline.core.replication.pending_fetches import PendingEntry, PendingRequest, SlowReadRules
from syncline.core.replication.relinquish import REFUSALS, Backoff, succession
from syncline.core.replication.stall_watch import Cause, StallWatch
from syncline.core.replication.tick_index import TickIndex
from syncline.core.replication.truncation import check_leader_epoch
from syncline.model.errors import ErrorCode
from syncline.model.ids import NONE, BrokerEpoch, BrokerId, LeaderEpoch, Offset, PartitionEpoch


@dataclass(frozen=True, slots=True)
class PartitionSettings:
    """The configuration that a leader's decisions read; shared by the partitions of a topic, replaced as a whole.

    Without the gate the watermark moves on below `min.insync.replicas`, as Kafka's did before 3.7. Without
    `slow_reads` a leader's own slowness counts against its followers, as in Kafka.
    """

    lag: LagPolicy
    min_insync_replicas: int = 1
    high_watermark_min_isr_gate: bool = True
    slow_reads: SlowReadRules | None = None


class LeaderPartition:
    """One partition that this broker leads, from its election until it follows another.

    `ticks` is where it asks for the next tick, None if every tick looks at it; `owner` is whatever the shell keeps
    it in.
    """

    __slots__ = (
        "_backoff",
        "_brokers",
        "_by_id",
        "_committed",
        "_followers",
        "_leads_since_ms",
        "_pending",
        "_replica_count",
        "_spared",
        "_stall",
        "_ticks",
        "broker_id",
        "epoch_start_offset",
        "high_watermark",
        "is_ticked",
        "leader_epoch",
        "log_end",
        "maximal_isr",
        "owner",
        "partition_epoch",
        "replicas",
        "settings",
    )

    def __init__(
        self,
        broker_id: BrokerId,
        *,
        replicas: Sequence[BrokerId],
        isr: Sequence[BrokerId],
        leader_epoch: LeaderEpoch,
        partition_epoch: PartitionEpoch,
        epoch_start_offset: Offset,
        log_end: Offset,
        high_watermark: Offset,
        settings: PartitionSettings,
        brokers: KnownBrokers,
        now_ms: int,
        ticks: TickIndex | None = None,
        owner: object = None,
    ) -> None:
        self.broker_id = broker_id
        self.leader_epoch = leader_epoch
        self.partition_epoch = partition_epoch
        self.epoch_start_offset = epoch_start_offset
        self.log_end = log_end
        self.high_watermark = high_watermark
        self.settings = settings
        self._brokers = brokers
        self._by_id: dict[BrokerId, FollowerState] = {}
        self._pending: ProposeIsr | None = None
        self._stall = StallWatch(high_watermark, now_ms)
        self._leads_since_ms = now_ms
        self._backoff: Backoff | None = None
        # The members that the latest tick spared, and since when.
        self._spared: dict[BrokerId, int] = {}
        self._ticks = ticks
        self.owner = owner
        self.is_ticked = True
        if ticks is not None:
            ticks.add(self)
        self._assign(replicas, now_ms)
        self._commit(isr)
        for follower in self._followers:
            follower.start_first_term(now_ms, in_isr=follower.counts)

    def __repr__(self) -> str:
        pending = "" if self._pending is None else f" {self._pending.kind.value} {list(self._pending.broker_ids)}"
        return (
            f"LeaderPartition({self.broker_id}: epochs {self.leader_epoch}/{self.partition_epoch}"
            f" isr {list(self._committed)}{pending} log end {self.log_end} mark {self.high_watermark})"
        )

    @property
    def isr(self) -> tuple[BrokerId, ...]:
        """The committed ISR, as last confirmed by the controller."""
        return self._committed

    @property
    def is_change_pending(self) -> bool:
        """Whether a proposal waits for the controller."""
        return self._pending is not None

    @property
    def followers(self) -> tuple[FollowerState, ...]:
        """All other replicas, in assignment order."""
        return self._followers

    def follower(self, broker_id: BrokerId) -> FollowerState:
        """Return the state of one assigned replica."""
        return self._by_id[broker_id]

    @property
    def effective_min_isr(self) -> int:
        """`min.insync.replicas`, but never more than there are replicas."""
        return min(self.settings.min_insync_replicas, self._replica_count)

    @property
    def is_under_min_isr(self) -> bool:
        """Whether the committed ISR is too small to commit anything."""
        return len(self._committed) < self.effective_min_isr

    @property
    def are_offsets_available(self) -> bool:
        """Whether clients may ask for the latest offset: not before all of the predecessor's commits are covered."""
        return self.high_watermark >= self.epoch_start_offset

    @property
    def is_settled(self) -> bool:
        """Whether the passing of time alone changes nothing here: nobody lacks anything, nothing waits."""
        if (
            self._pending is not None
            or self.high_watermark != self.log_end
            or self._spared
            or not self.settings.lag.forgives_silence
        ):
            return False
        # Members have everything; somebody else who has everything is to be proposed again, unless it may not join.
        return all(
            follower.counts or not self._brokers.is_eligible(follower.broker_id, follower.broker_epoch)
            if follower.log_end == self.log_end
            else not follower.counts
            for follower in self._followers
        )

    @property
    def spared(self) -> tuple[BrokerId, ...]:
        """The members that are in sync only because this leader owes them an answer, as of the latest tick."""
        return tuple(self._spared)

    def check_fetch(
        self, replica_id: BrokerId, current_leader_epoch: LeaderEpoch, broker_epoch: BrokerEpoch
    ) -> ErrorCode:
        """Return why a follower's fetch is refused before anything is read, or NONE."""
        epoch_error = check_leader_epoch(current_leader_epoch, self.leader_epoch)
        if epoch_error:
            return epoch_error
        if replica_id not in self._by_id:
            # With an epoch the requester knows what it says: then it is this leader that may be behind.
            return ErrorCode.NOT_LEADER_OR_FOLLOWER if current_leader_epoch == NONE else ErrorCode.UNKNOWN_LEADER_EPOCH
        if self._brokers.is_stale(replica_id, broker_epoch):
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        return ErrorCode.NONE

    def check_append(self, acks: int) -> ErrorCode:
        """Return why a produce with `acks` is refused before anything is appended, or NONE."""
        return acknowledgement.may_append(acks, len(self._committed), self.effective_min_isr)

    def acknowledgement(self, required_offset: Offset) -> ErrorCode | None:
        """Return the answer to an acks=all produce that needs everything below `required_offset`; None: wait on."""
        return acknowledgement.produce_outcome(
            required_offset, self.high_watermark, len(self.maximal_isr), self.effective_min_isr
        )

    def appended(self, log_end: Offset, now_ms: int) -> Effects:
        """Take note of records appended here."""
        assert log_end >= self.log_end, f"the leader's log shrank from {self.log_end} to {log_end}"
        self.log_end = log_end
        if not self.is_ticked:
            self._need_tick()
        for follower in self._followers:
            if follower.stamp is not None:
                follower.settle()
        return self.advance_high_watermark(now_ms)

    def follower_fetched(
        self,
        replica_id: BrokerId,
        offset: Offset,
        log_start: Offset,
        captured_log_end: Offset,
        broker_epoch: BrokerEpoch,
        leader_epoch: LeaderEpoch,
        now_ms: int,
        stamp: FetchStamp | None = None,
        entry: PendingEntry | None = None,
        served_ms: int | None = None,
    ) -> Effects:
        """Take note of an accepted fetch, which was read without error.

        `captured_log_end` and `leader_epoch` are from before the read: an append meanwhile must not make
        a follower look late that read to the end, and a new epoch makes the read worthless. `now_ms` is the
        time at which the read began, `served_ms` when it ended (None: at once), `entry` what was registered
        for it if it was slow.
        """
        follower = self._by_id.get(replica_id)
        if follower is None or leader_epoch != self.leader_epoch or self._brokers.is_stale(replica_id, broker_epoch):
            return NOTHING
        slow_reads = self.settings.slow_reads
        if entry is not None and slow_reads is not None and pending_fetches.is_overtaken(entry, follower):
            return NOTHING
        if follower.stamp is not None:
            follower.settle_before(stamp)
        if slow_reads is None:
            self.settings.lag.note_fetch(follower, offset, captured_log_end, now_ms)
        else:
            self._note_served(follower, offset, captured_log_end, broker_epoch, now_ms, stamp, entry, served_ms)
        log_end_before = follower.log_end
        follower.log_end = offset
        follower.log_start = log_start
        follower.previous_log_end = max(follower.previous_log_end, captured_log_end)
        follower.last_fetch_ms = now_ms
        follower.broker_epoch = broker_epoch
        if offset == self.log_end:
            follower.stamp = stamp
        if not self.is_ticked and (offset != self.log_end or not follower.counts):
            self._need_tick()
        if follower.counts:
            return NOTHING if offset == log_end_before else self.advance_high_watermark(now_ms)
        proposal = self._propose_joining(follower, now_ms)
        return proposal if offset == log_end_before else proposal + self.advance_high_watermark(now_ms)

    # Slow reads of this leader itself (KIP-501): see `pending_fetches`.

    def fetch_pends(self, replica_id: BrokerId, offset: Offset, request: PendingRequest) -> PendingEntry | None:
        """Register one partition of a fetch that could not be served at once, after its cheap checks (R1)."""
        follower = self._by_id.get(replica_id)
        if follower is None or self.settings.slow_reads is None:
            return None
        qualifies = offset >= pending_fetches.base_offset(follower, self.epoch_start_offset)
        return pending_fetches.register(request, self, follower, offset, qualifies=qualifies)

    def fetch_answered(self, entry: PendingEntry, now_ms: int) -> None:
        """Take note that the whole request of `entry` was answered."""
        waits = entry.follower.waits
        if waits is None or entry.is_void:
            return
        if entry.is_read and entry.qualifies and entry.request.seq >= waits.served_seq:
            self.settings.lag.note_answered(entry.follower, now_ms)
        waits.answered(entry.request.seq)
        pending_fetches.remove(entry)

    def fetch_lost(self, entry: PendingEntry, now_ms: int) -> None:
        """Take note that the follower's connection ended: it gets the time of one lag window to come back (R5)."""
        waits = entry.follower.waits
        if waits is None or not entry.qualifies or entry.request.seq < waits.served_seq:
            return
        if self._may_spare(entry.follower, now_ms):
            self.settings.lag.note_answered(entry.follower, now_ms)

    def covered_fetch_ended(
        self, replica_id: BrokerId, request: PendingRequest, asker: FetchStamp, now_ms: int, *, is_lost: bool = False
    ) -> None:
        """Take note of the end of a request that covered this partition without looking at it.

        Called before the request is told that it ended, and only where the log has moved meanwhile: for all
        others the session's clock says it. `is_lost`: it got no answer, as its connection ended.
        """
        follower = self._by_id.get(replica_id)
        if follower is None or follower.asker is not asker or pending_fetches.covering(follower) is not request:
            return
        if not is_lost or self._may_spare(follower, now_ms):
            self.settings.lag.note_answered(follower, now_ms)

    def relinquish(self, entry: PendingEntry, now_ms: int) -> Effects:
        """Give the partition to another member if serving `entry` takes too long, and if that may help."""
        rules, request, follower = self.settings.slow_reads, entry.request, entry.follower
        if rules is None or not rules.relinquishes or entry.is_void or not request.is_live:
            return NOTHING
        if self._pending is not None and self._pending.kind is IsrChange.RELINQUISH:
            return NOTHING
        is_member = follower.broker_id in self._committed and follower.broker_id in self._by_id
        processing_ms = request.processing_ms(now_ms)
        if not is_member or not entry.qualifies or processing_ms <= rules.process_time_max_ms:
            return NOTHING
        order = succession(self.broker_id, self._committed, self._followers)
        numbers = (
            ("now_ms", now_ms),
            ("follower", follower.broker_id),
            ("offset", entry.offset),
            ("arrival_ms", request.arrival_ms),
            ("parked_ms", request.parked_ms),
            ("processing_ms", processing_ms),
            ("process_time_max_ms", rules.process_time_max_ms),
            ("leads_since_ms", self._leads_since_ms),
            ("order", ",".join(map(str, order))),
        )
        reason = self._reason_to_stay(rules, now_ms)
        if reason is None:
            return (self._propose(IsrChange.RELINQUISH, order, self._evidence("relinquish:slow-read", numbers)),)
        if reason is entry.skip_told:
            return NOTHING
        entry.skip_told = reason
        return (RelinquishSkipped(reason, self._evidence(f"relinquish-skipped:{reason.value}", numbers)),)

    def configure(self, settings: PartitionSettings, now_ms: int) -> Effects:
        """Go by other settings from now on; a new lag mode finds every member in sync."""
        before, self.settings = self.settings, settings
        if before.lag.name != settings.lag.name:
            for follower in self._followers:
                follower.start_mode(now_ms)
        if settings.slow_reads is None:
            if before.slow_reads is not None:
                self._forget_waits()
        elif before.slow_reads is None:
            for follower in self._followers:
                # The next request of its session covers it, though nobody will look at it as long as it is idle.
                follower.asker = follower.stamp
        self._need_tick()
        return self.advance_high_watermark(now_ms)

    def tick(self, now_ms: int) -> Effects:
        """Judge the followers, and the watermark's progress; due every half lag window."""
        effects = self._propose_leaving(now_ms)
        if self._pending is None:
            effects += self._propose_waiting(now_ms)
        # A follower outside the ISR stops holding the mark by the passing of time alone.
        effects += self.advance_high_watermark(now_ms)
        return effects + self._stall.tick(
            self.high_watermark, self.log_end, now_ms, self._cause_of_stall, self._evidence_of
        )

    def brokers_changed(self, now_ms: int) -> Effects:
        """Take note that other brokers came, went or were unfenced.

        A follower that may no longer join stops holding the watermark back; one that may by now is proposed,
        as it need not fetch again for that: a quiet partition is looked at only when something moves.
        """
        return self._propose_waiting(now_ms) + self.advance_high_watermark(now_ms)

    def metadata_changed(
        self,
        *,
        replicas: Sequence[BrokerId],
        isr: Sequence[BrokerId],
        leader_epoch: LeaderEpoch,
        partition_epoch: PartitionEpoch,
        now_ms: int,
    ) -> Effects:
        """Take over a partition record that names this broker as the leader; a stale one changes nothing.

        The same record may come again. It must not drop a pending proposal: the controller may have
        accepted that in the meantime.
        """
        if leader_epoch < self.leader_epoch or partition_epoch < self.partition_epoch:
            return NOTHING
        if leader_epoch == self.leader_epoch and partition_epoch == self.partition_epoch:
            return self.advance_high_watermark(now_ms)
        before = self._committed
        evidence = self._reason_of(isr, leader_epoch, partition_epoch)
        epochs_passed = leader_epoch - self.leader_epoch
        self.leader_epoch = leader_epoch
        self.partition_epoch = partition_epoch
        self._need_tick()
        self._assign(replicas, now_ms)
        self._commit(isr)
        if epochs_passed:
            self._start_term(now_ms, is_directly_after=epochs_passed == 1)
        effects: Effects = NOTHING
        if set(before) != set(self._committed):
            effects = (IsrCommitted(before, self._committed, IsrChange.METADATA, partition_epoch, evidence),)
        if set(before) < set(self._committed):
            # An expansion of ours, by another way than its answer: the next one may be waiting for it.
            effects += self._propose_waiting(now_ms)
        return effects + self.advance_high_watermark(now_ms)

    def alter_partition_answered(self, proposal: ProposeIsr, answer: IsrAnswer, now_ms: int) -> Effects:
        """Take the controller's answer to `proposal`; an answer to anything but the pending one is ignored."""
        if proposal is not self._pending:
            return NOTHING
        if answer.error:
            if proposal.kind is IsrChange.RELINQUISH and answer.error in REFUSALS:
                self._not_relinquished(now_ms)
            return self._refused(proposal, answer, isr.outcome_of(answer.error))
        if answer.leader_epoch != self.leader_epoch or answer.partition_epoch < self.partition_epoch:
            return self._refused(proposal, answer, RefusalOutcome.IGNORED)
        if proposal.kind is IsrChange.RELINQUISH:
            # A controller that does not know the wish sees an ISR that does not change.
            self._not_relinquished(now_ms)
        before = self._committed
        self.partition_epoch = answer.partition_epoch
        self._commit(answer.isr)
        committed = IsrCommitted(before, self._committed, proposal.kind, answer.partition_epoch, proposal.evidence)
        return (committed, *self._propose_waiting(now_ms), *self.advance_high_watermark(now_ms))

    def advance_high_watermark(self, now_ms: int) -> Effects:
        """Move the watermark as far as the replicas that hold it allow."""
        if self.high_watermark == self.log_end:
            return NOTHING
        reached = watermark.reached(self.log_end, self._followers, self.settings.lag, self._brokers, now_ms)
        if reached <= self.high_watermark or (self.settings.high_watermark_min_isr_gate and self.is_under_min_isr):
            return NOTHING
        self.high_watermark = reached
        return (HighWatermarkAdvanced(reached),)

    def check_invariants(self) -> None:
        """Assert what holds after every event (I1, I4, I5)."""
        assert self.high_watermark <= self.log_end, f"the mark is above the log: {self!r}"
        assert self.broker_id in self._committed, f"the leader is not in its own ISR: {self!r}"
        assert set(self._committed) <= self.maximal_isr <= set(self.replicas), f"ISR beyond its bounds: {self!r}"
        counted = {follower.broker_id for follower in self._followers if follower.counts}
        assert counted | {self.broker_id} == self.maximal_isr, f"the mark counts other replicas: {self!r}"

    def _reason_of(
        self, new_isr: Sequence[BrokerId], leader_epoch: LeaderEpoch, partition_epoch: PartitionEpoch
    ) -> Evidence:
        """Return why the ISR of a new partition record is what it is.

        The record may be this leader's own accepted proposal, come before the answer to it: then the reason is
        the proposal's, and must not get lost with the answer, which will be ignored.
        """
        pending = self._pending
        if pending is not None and leader_epoch == self.leader_epoch and set(pending.broker_ids) == set(new_isr):
            return pending.evidence
        return self._evidence("metadata", (("partition_epoch", partition_epoch), ("leader_epoch", leader_epoch)))

    def _assign(self, replicas: Sequence[BrokerId], now_ms: int) -> None:
        """Keep the state of replicas that stay; begin an empty one for those that are new."""
        self.replicas = tuple(replicas)
        self._replica_count = len(self.replicas)
        self._by_id = {
            broker_id: self._by_id.get(broker_id) or FollowerState(broker_id, now_ms)
            for broker_id in self.replicas
            if broker_id != self.broker_id
        }
        self._followers = tuple(self._by_id.values())

    def _commit(self, isr: Sequence[BrokerId]) -> None:
        """Make `isr` the committed one; nothing is pending any more."""
        self._committed = tuple(isr)
        self._pending = None
        self._count(isr)

    def _count(self, maximal_isr: Sequence[BrokerId]) -> None:
        """Have the watermark respect exactly these replicas."""
        self.maximal_isr = frozenset(maximal_isr)
        for follower in self._followers:
            follower.counts = follower.broker_id in self.maximal_isr

    def _start_term(self, now_ms: int, *, is_directly_after: bool) -> None:
        """Begin a new leader epoch on the broker that led before.

        If epochs were skipped, somebody else may have led in between and followers may have
        been truncated under them: what they once proved to us is worth nothing.
        """
        self.epoch_start_offset = self.log_end
        self._forget_waits()
        self._spared = {}
        if not is_directly_after:
            self._leads_since_ms = now_ms
        for follower in self._followers:
            if is_directly_after:
                follower.start_next_term(self.log_end, now_ms, in_isr=follower.counts)
            else:
                follower.start_first_term(now_ms, in_isr=follower.counts)

    def _propose_joining(self, follower: FollowerState, now_ms: int) -> Effects:
        """Propose to add `follower` to the ISR, if it has what is committed."""
        if self._pending is not None or not isr.may_join(
            follower, self.high_watermark, self.epoch_start_offset, self._brokers
        ):
            return NOTHING
        numbers = (
            ("now_ms", now_ms),
            ("follower", follower.broker_id),
            ("log_end", follower.log_end),
            ("high_watermark", self.high_watermark),
            ("epoch_start_offset", self.epoch_start_offset),
            ("broker_epoch", self._brokers.broker_epoch(follower.broker_id)),
        )
        evidence = self._evidence("reached-the-watermark", numbers)
        proposal = self._propose(IsrChange.EXPAND, (*self._committed, follower.broker_id), evidence)
        self._count(proposal.broker_ids)
        return (proposal,)

    def _propose_waiting(self, now_ms: int) -> Effects:
        """Propose the first follower that proved enough to join when it could not be proposed.

        Only one that has everything: any other gets records, and proves what it has by its next fetch.
        """
        for follower in self._followers:
            if follower.counts or follower.log_end != self.log_end:
                continue
            if self.settings.lag.is_caught_up(follower, self.log_end, now_ms) and (
                proposal := self._propose_joining(follower, now_ms)
            ):
                return proposal
        return NOTHING

    def _propose_leaving(self, now_ms: int) -> Effects:
        """Propose to remove the members that the lag policy gives up."""
        if self._pending is not None:
            return NOTHING
        lag = self.settings.lag
        leaving = isr.out_of_sync(self._followers, lag, self.log_end, now_ms)
        if self._spared or (leaving and self.settings.slow_reads is not None):
            leaving, changes = self._spare(leaving, now_ms)
            return changes + self._propose_without(leaving, now_ms)
        return self._propose_without(leaving, now_ms)

    def _propose_without(self, leaving: Sequence[FollowerState], now_ms: int) -> Effects:
        """Propose the committed ISR without these members, if there are any."""
        if not leaving:
            return NOTHING
        lag = self.settings.lag
        left = {follower.broker_id for follower in leaving}
        numbers = (*lag.numbers(self.log_end, now_ms), ("leaving", ",".join(str(one.broker_id) for one in leaving)))
        evidence = self._evidence(f"lag:{lag.name}", numbers)
        staying = tuple(broker_id for broker_id in self._committed if broker_id not in left)
        return (self._propose(IsrChange.SHRINK, staying, evidence),)

    def _note_served(
        self,
        follower: FollowerState,
        offset: Offset,
        captured_log_end: Offset,
        broker_epoch: BrokerEpoch,
        now_ms: int,
        stamp: FetchStamp | None,
        entry: PendingEntry | None,
        served_ms: int | None,
    ) -> None:
        """Move the follower's times while slow reads protect (R3)."""
        waits = follower.waits
        if entry is None:
            qualifies = offset >= pending_fetches.base_offset(follower, self.epoch_start_offset)
            if waits is not None:
                # Served at once, and newer than all that waits: those are overtaken, and this is their answer.
                if waits.broker_epoch < broker_epoch:
                    pending_fetches.forget(follower)
                else:
                    waits.overtaken()
                    if waits.is_over:
                        follower.waits = None
        else:
            assert waits is not None, f"{entry} was overtaken"
            entry.is_read = True
            waits.served_seq = entry.request.seq
            qualifies = entry.qualifies
        self.settings.lag.note_served(
            follower,
            offset,
            captured_log_end,
            now_ms,
            served_ms=now_ms if served_ms is None else served_ms,
            qualifies=qualifies,
        )
        follower.asker = stamp

    def _may_spare(self, follower: FollowerState, now_ms: int) -> bool:
        """Return whether a member is protected by a request that waits for this leader (R2)."""
        rules = self.settings.slow_reads
        return (
            rules is not None
            and follower.broker_id in self._committed
            and pending_fetches.protecting(follower) is not None
            and pending_fetches.is_within(rules.cap_ms, pending_fetches.waiting_since(follower), now_ms)
        )

    def _spare(self, late: Sequence[FollowerState], now_ms: int) -> tuple[list[FollowerState], Effects]:
        """Return those of `late` that nothing protects, and what is to be told of the others."""
        leaving: list[FollowerState] = []
        before, self._spared = self._spared, {}
        changes: list[ProtectionChanged] = []
        over_cap: set[BrokerId] = set()
        for follower in late:
            broker_id = follower.broker_id
            if self._may_spare(follower, now_ms):
                self._spared[broker_id] = before.get(broker_id, now_ms)
                if broker_id not in before:
                    changes.append(self._protection(follower, ProtectionPhase.BEGAN, now_ms, now_ms))
                continue
            leaving.append(follower)
            if self.settings.slow_reads is not None and pending_fetches.protecting(follower) is not None:
                over_cap.add(broker_id)
                since_ms = before.get(broker_id, now_ms)
                changes.append(self._protection(follower, ProtectionPhase.CAP_EXCEEDED, since_ms, now_ms))
        for broker_id, since_ms in before.items():
            former = self._by_id.get(broker_id)
            if former is not None and broker_id not in self._spared and broker_id not in over_cap:
                changes.append(self._protection(former, ProtectionPhase.ENDED, since_ms, now_ms))
        return leaving, tuple(changes)

    def _protection(
        self, follower: FollowerState, phase: ProtectionPhase, since_ms: int, now_ms: int
    ) -> ProtectionChanged:
        """Return the effect that tells of a member spared, or no longer."""
        rules = self.settings.slow_reads
        request = pending_fetches.protecting(follower)
        numbers = (
            *self.settings.lag.numbers(self.log_end, now_ms),
            ("follower", follower.broker_id),
            ("waiting_since_ms", pending_fetches.waiting_since(follower)),
            ("request", None if request is None else request.seq),
            ("processing_ms", None if request is None else request.processing_ms(now_ms)),
            ("cap_ms", None if rules is None else rules.cap_ms),
        )
        return ProtectionChanged(
            follower.broker_id, phase, since_ms, self._evidence(f"pending-fetch:{phase.value}", numbers)
        )

    def _reason_to_stay(self, rules: SlowReadRules, now_ms: int) -> SkipReason | None:
        """Return why this leader keeps the partition although it serves it slowly."""
        if self._pending is not None:
            return SkipReason.CHANGE_PENDING
        brokers = self._brokers
        if not brokers.is_active(self.broker_id):
            return SkipReason.LEADER_INACTIVE
        if not any(brokers.is_active(each) for each in self._committed if each != self.broker_id):
            return SkipReason.NO_CANDIDATE
        if now_ms - self._leads_since_ms < rules.tenure_min_ms:
            return SkipReason.TENURE
        if self._backoff is not None and not self._backoff.triggered(now_ms):
            return SkipReason.BACKOFF
        return None

    def _not_relinquished(self, now_ms: int) -> None:
        """Wait longer before the next attempt to give the partition away."""
        if self._backoff is None:
            self._backoff = Backoff()
            self._backoff.triggered(now_ms)
        self._backoff.refused(now_ms)

    def _forget_waits(self) -> None:
        """Drop what followers wait for: it was asked of another leadership, or waiting no longer matters (R8)."""
        for follower in self._followers:
            pending_fetches.forget(follower)

    def _need_tick(self) -> None:
        """Have the next tick look at this partition."""
        if self._ticks is not None and not self.is_ticked:
            self._ticks.add(self)

    def _propose(self, kind: IsrChange, broker_ids: Sequence[BrokerId], evidence: Evidence) -> ProposeIsr:
        """Make the one pending proposal."""
        self._need_tick()
        members = tuple(IsrMember(broker_id, self._incarnation(broker_id)) for broker_id in broker_ids)
        self._pending = ProposeIsr(members, self.leader_epoch, self.partition_epoch, kind, evidence)
        return self._pending

    def _incarnation(self, broker_id: BrokerId) -> BrokerEpoch:
        """Return the broker epoch that the leader can vouch for, -1 when none is known."""
        if broker_id == self.broker_id:
            return self._brokers.broker_epoch(broker_id)
        fetched = self._by_id[broker_id].broker_epoch
        return BrokerEpoch(NONE) if fetched is None else fetched

    def _refused(self, proposal: ProposeIsr, answer: IsrAnswer, outcome: RefusalOutcome) -> Effects:
        """Do what an answer other than success asks for."""
        numbers = (
            ("error", answer.error.name),
            ("answer_leader_epoch", answer.leader_epoch),
            ("answer_partition_epoch", answer.partition_epoch),
            ("leader_epoch", self.leader_epoch),
            ("partition_epoch", self.partition_epoch),
        )
        refused = IsrRefused(proposal, answer.error, outcome, self._evidence(f"answer:{outcome.value}", numbers))
        if outcome is RefusalOutcome.REVERTED:
            self._commit(self._committed)
        return (refused, proposal) if outcome is RefusalOutcome.RETRIED else (refused,)

    def _evidence(self, rule: str, numbers: tuple[tuple[str, Scalar], ...]) -> Evidence:
        """Return the followers as they stand, with the rule and its numbers."""
        return Evidence(rule, numbers, tuple(follower.view() for follower in self._followers))

    def _cause_of_stall(self, now_ms: int) -> Cause:
        """Return who or what holds the watermark."""
        if self.settings.high_watermark_min_isr_gate and self.is_under_min_isr:
            return "held:min-isr", (("isr_size", len(self._committed)), ("effective_min_isr", self.effective_min_isr))
        holders = [follower for follower in self._followers if follower.log_end <= self.high_watermark]
        members = [follower.broker_id for follower in holders if follower.counts]
        if members:
            return "held:isr-member", (("holders", ",".join(map(str, members))),)
        lag, brokers = self.settings.lag, self._brokers
        near = [one.broker_id for one in holders if watermark.holds_back(one, self.log_end, lag, brokers, now_ms)]
        return "held:near-isr", (("holders", ",".join(map(str, near))),)

    def _evidence_of(self, cause: Cause) -> Evidence:
        """Return a cause with the followers as they stand."""
        return self._evidence(*cause)
