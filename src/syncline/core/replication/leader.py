"""Leader's partition: everything that the leader of one partition decides about replication.

One hard idea: the leader acts on proofs only. A follower's fetch proves what
it has; the controller's answer proves what the ISR is; passing time proves only
that neither came. Between a proposal and its answer the leader acts as if both
outcomes were true: see `in_sync_set` and `watermark`. What a leader does about
its own slowness is in `slow_leader`, and off by default.

Every event is a method that returns effects. Without any it returns the shared
empty tuple, because `appended` and `follower_fetched` run for every batch.

Units: offsets are exclusive ends, -1 unknown; times in ms of the node's monotonic clock.
Invariants: the watermark passes no member that counts and never the log end; a
follower has read no more than the log holds; a partition that no tick looks at is
settled. `check_invariants` asserts them; tests and simulations call it after each step.
Source: KIP-497, KIP-501, KIP-841, KIP-903, KIP-966; scenarios A01-D25.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from syncline.core.replication import acknowledgement, isr, watermark
from syncline.core.replication.effects import (
    NOTHING,
    Effects,
    HighWatermarkAdvanced,
    IsrAnswer,
    IsrChange,
    IsrCommitted,
    ProposeIsr,
    RefusalOutcome,
)
from syncline.core.replication.evidence import Evidence
from syncline.core.replication.follower_state import FollowerState
from syncline.core.replication.in_sync_set import InSyncSet
from syncline.core.replication.known_brokers import KnownBrokers
from syncline.core.replication.lag_policy import LagPolicy
from syncline.core.replication.slow_leader.rules import SlowReadRules
from syncline.core.replication.slow_leader.slow_leader import SlowLeader
from syncline.core.replication.slow_leader.waits import PendingEntry, SessionStamp
from syncline.core.replication.stall_watch import StallWatch, cause_of_stall
from syncline.core.replication.tick_index import TickIndex
from syncline.core.replication.truncation import check_leader_epoch
from syncline.model.errors import NO_ERROR, ErrorCode
from syncline.model.ids import NONE, BrokerEpoch, BrokerId, LeaderEpoch, Offset, PartitionEpoch
from syncline.model.immutable import Immutable


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class PartitionSettings(Immutable):
    """The configuration behind a leader's decisions; partitions of a topic share it, a change replaces it as a whole.

    Without the gate the watermark advances below `min.insync.replicas`, as Kafka's did before 3.7. Without
    `slow_reads` a leader's own slowness counts against its followers, as in Kafka.
    """

    lag: LagPolicy
    min_insync_replicas: int = 1
    high_watermark_min_isr_gate: bool = True
    slow_reads: SlowReadRules | None = None


class LeaderPartition:
    """One partition that this broker leads, from its election until it follows another.

    `ticks` is where it requests the next tick, None if every tick looks at it; `owner` is the shell's object that
    holds it. `leads_since_ms` survives terms that directly follow each other. `slow_leader` is None until KIP-501
    is switched on.
    """

    __slots__ = (
        "_brokers",
        "_stall",
        "_ticks",
        "broker_id",
        "effective_min_isr",
        "epoch_start_offset",
        "high_watermark",
        "in_sync",
        "is_ticked",
        "leader_epoch",
        "leads_since_ms",
        "log_end",
        "owner",
        "partition_epoch",
        "settings",
        "slow_leader",
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
        adding: Sequence[BrokerId] = (),
        removing: Sequence[BrokerId] = (),
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
        self.leads_since_ms = now_ms
        self.owner = owner
        self.is_ticked = False
        self._brokers = brokers
        self._stall = StallWatch(high_watermark, now_ms)
        self._ticks = TickIndex() if ticks is None else ticks
        self._ticks.add(self)
        self.in_sync = InSyncSet(
            broker_id, brokers, replicas=replicas, isr=isr, now_ms=now_ms, adding=adding, removing=removing
        )
        self.effective_min_isr = self._effective_min_isr()
        for follower in self.in_sync.followers:
            follower.start_first_term(now_ms, in_isr=follower.counts)
        self.slow_leader: SlowLeader | None = None
        if settings.slow_reads is not None:
            self.slow_leader = SlowLeader(self, settings.slow_reads, settings.lag)

    def __repr__(self) -> str:
        return (
            f"LeaderPartition({self.broker_id}: epochs {self.leader_epoch}/{self.partition_epoch}"
            f" {self.in_sync!r} log end {self.log_end} mark {self.high_watermark})"
        )

    @property
    def isr(self) -> tuple[BrokerId, ...]:
        """The committed ISR, as last confirmed by the controller."""
        return self.in_sync.committed

    @property
    def followers(self) -> tuple[FollowerState, ...]:
        """All other replicas, in assignment order."""
        return self.in_sync.followers

    @property
    def is_under_min_isr(self) -> bool:
        """Whether the committed ISR is too small to commit anything."""
        return len(self.in_sync.committed) < self.effective_min_isr

    @property
    def are_offsets_available(self) -> bool:
        """Whether clients get the latest offset: once the watermark covers everything the predecessor committed."""
        return self.high_watermark >= self.epoch_start_offset

    @property
    def is_settled(self) -> bool:
        """Whether passing time alone changes nothing here: no replica lacks anything, nothing waits."""
        if (
            self.in_sync.pending is not None
            or self.high_watermark != self.log_end
            or (self.slow_leader is not None and self.slow_leader.spared)
            or not self.settings.lag.forgives_silence
        ):
            return False
        # A tick would propose again a replica outside the ISR that has everything, unless it may not join.
        return all(
            follower.counts or not follower.is_eligible(self._brokers)
            if follower.log_end == self.log_end
            else not follower.counts
            for follower in self.in_sync.followers
        )

    def check_fetch(
        self, replica_id: BrokerId, current_leader_epoch: LeaderEpoch, broker_epoch: BrokerEpoch
    ) -> ErrorCode:
        """Return why a follower's fetch is refused before anything is read, or NONE."""
        # Each look of a follower's fetch asks this, and nearly always they agree.
        if current_leader_epoch != self.leader_epoch:
            epoch_error = check_leader_epoch(current_leader_epoch, self.leader_epoch)
            if epoch_error:
                return epoch_error
        if replica_id not in self.in_sync.by_id:
            # Follower and leader agree on the epoch: this leader's assignment may be the stale one.
            return ErrorCode.NOT_LEADER_OR_FOLLOWER if current_leader_epoch == NONE else ErrorCode.UNKNOWN_LEADER_EPOCH
        if self._brokers.is_stale(replica_id, broker_epoch):
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        return NO_ERROR

    def check_append(self, acks: int) -> ErrorCode:
        """Return why a produce with `acks` is refused before anything is appended, or NONE."""
        return acknowledgement.may_append(acks, len(self.in_sync.committed), self.effective_min_isr)

    def acknowledgement(self, required_offset: Offset) -> ErrorCode | None:
        """Return the answer to an acks=all produce that needs all below `required_offset`; None: keep waiting."""
        assert required_offset <= self.log_end, f"a produce waits for {required_offset}: {self!r}"
        return acknowledgement.produce_outcome(
            required_offset, self.high_watermark, len(self.in_sync.maximal), self.effective_min_isr
        )

    def appended(self, log_end: Offset, now_ms: int) -> Effects:
        """Account for records that this leader appended."""
        assert log_end >= self.log_end, f"the leader's log shrank from {self.log_end} to {log_end}"
        self.log_end = log_end
        if not self.is_ticked:
            self._ticks.add(self)
        for follower in self.in_sync.followers:
            if follower.stamp is not None:
                follower.record_stamp()
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
        stamp: SessionStamp | None = None,
        entry: PendingEntry | None = None,
    ) -> Effects:
        """Account for an accepted fetch that was read without an error.

        `captured_log_end` and `leader_epoch` are from before the read: an append meanwhile must not make
        a follower look late that read to the end, and a new epoch makes the read worthless. `now_ms` is when
        the read began, `entry` what `slow_leader` registered for a slow one.
        """
        follower = self.in_sync.by_id.get(replica_id)
        if follower is None or leader_epoch != self.leader_epoch or self._brokers.is_stale(replica_id, broker_epoch):
            return NOTHING
        assert offset <= captured_log_end <= self.log_end, f"{offset} read, log end {captured_log_end}: {self!r}"
        if self.slow_leader is None:
            if follower.stamp is not None:
                follower.record_stamp_before(stamp)
            self.settings.lag.note_fetch(follower, offset, captured_log_end, now_ms)
        elif not self.slow_leader.fetched(follower, offset, captured_log_end, broker_epoch, now_ms, stamp, entry):
            return NOTHING
        log_end_before = follower.log_end
        follower.log_end = offset
        follower.log_start = log_start
        follower.previous_log_end = max(follower.previous_log_end, captured_log_end)
        follower.fetched(now_ms)
        follower.broker_epoch = broker_epoch
        if offset == self.log_end:
            follower.stamp = stamp
        if not self.is_ticked and (offset != self.log_end or not follower.counts):
            self._ticks.add(self)
        if follower.counts:
            return NOTHING if offset == log_end_before else self.advance_high_watermark(now_ms)
        proposal = self._propose_joining(follower, now_ms)
        return proposal if offset == log_end_before else proposal + self.advance_high_watermark(now_ms)

    def configure(self, settings: PartitionSettings, now_ms: int) -> Effects:
        """Switch to other settings; under a new lag mode every member starts in sync."""
        before, self.settings = self.settings, settings
        self.effective_min_isr = self._effective_min_isr()
        if before.lag.name != settings.lag.name:
            for follower in self.in_sync.followers:
                follower.start_mode(now_ms)
        if self.slow_leader is not None:
            self.slow_leader.configure(settings.slow_reads, settings.lag)
        elif settings.slow_reads is not None:
            self.slow_leader = SlowLeader(self, settings.slow_reads, settings.lag)
            self.slow_leader.switched_on()
        if not self.is_ticked:
            self._ticks.add(self)
        return self.advance_high_watermark(now_ms)

    def tick(self, now_ms: int) -> Effects:
        """Judge the followers and the watermark's progress; due every half lag window."""
        effects = self._propose_leaving(now_ms)
        if self.in_sync.pending is None:
            effects += self._propose_waiting(now_ms)
        # Passing time alone makes a follower outside the ISR stop holding the mark.
        effects += self.advance_high_watermark(now_ms)
        effects += self._stall.tick(self.high_watermark, self.log_end, now_ms)
        if self._stall.is_stalled:
            gate = self.effective_min_isr if self.settings.high_watermark_min_isr_gate else 0
            cause = cause_of_stall(
                self.high_watermark, self.log_end, self.in_sync, self.settings.lag, min_isr_gate=gate, now_ms=now_ms
            )
            effects += self._stall.report(cause, self.log_end, self.in_sync)
        return effects

    def brokers_changed(self, now_ms: int, failed: Collection[BrokerId] = ()) -> Effects:
        """Account for other brokers that registered, left, or were fenced or unfenced.

        A follower that may no longer join stops holding the watermark back. One that now may join is proposed at
        once: on a quiet partition no later fetch would do it. `failed` are the brokers that cannot serve their
        replicas of this partition.
        """
        for follower in self.in_sync.followers:
            follower.has_failed = follower.broker_id in failed
        return self._propose_waiting(now_ms) + self.advance_high_watermark(now_ms)

    def metadata_changed(
        self,
        *,
        replicas: Sequence[BrokerId],
        isr: Sequence[BrokerId],
        leader_epoch: LeaderEpoch,
        partition_epoch: PartitionEpoch,
        now_ms: int,
        adding: Sequence[BrokerId] = (),
        removing: Sequence[BrokerId] = (),
    ) -> Effects:
        """Apply a partition record that names this broker as the leader; a stale one changes nothing.

        The same record may arrive again. It must not drop a pending proposal: the controller may have
        accepted that in the meantime.
        """
        if leader_epoch < self.leader_epoch or partition_epoch < self.partition_epoch:
            return NOTHING
        if leader_epoch == self.leader_epoch and partition_epoch == self.partition_epoch:
            # The same metadata may make a follower eligible that was not: `brokers_changed` proposes it.
            if not self.is_ticked and not self.is_settled:
                self._ticks.add(self)
            return self.advance_high_watermark(now_ms)
        in_sync = self.in_sync
        before, evidence = in_sync.committed, in_sync.reason_of(isr, leader_epoch, partition_epoch)
        epochs_passed = leader_epoch - self.leader_epoch
        self.leader_epoch = leader_epoch
        self.partition_epoch = partition_epoch
        if not self.is_ticked:
            self._ticks.add(self)
        in_sync.assign(replicas, now_ms, adding, removing)
        in_sync.commit(isr)
        self.effective_min_isr = self._effective_min_isr()
        if epochs_passed:
            self._start_term(now_ms, is_directly_after=epochs_passed == 1)
        effects: Effects = NOTHING
        if set(before) != set(in_sync.committed):
            effects = (IsrCommitted(before, in_sync.committed, IsrChange.METADATA, partition_epoch, evidence),)
        if set(before) < set(in_sync.committed):
            # The metadata brought our own expansion before its answer: the next follower may be waiting for it.
            effects += self._propose_waiting(now_ms)
        return effects + self.advance_high_watermark(now_ms)

    def alter_partition_answered(self, proposal: ProposeIsr, answer: IsrAnswer, now_ms: int) -> Effects:
        """Handle the controller's answer to `proposal`; ignore it unless that proposal is pending."""
        in_sync, slow_leader = self.in_sync, self.slow_leader
        if proposal is not in_sync.pending:
            return NOTHING
        gives_up = proposal.kind is IsrChange.RELINQUISH
        is_stale = answer.leader_epoch != self.leader_epoch or answer.partition_epoch < self.partition_epoch
        if gives_up and slow_leader is not None and (answer.error or not is_stale):
            slow_leader.relinquish_answered(answer.error, now_ms)
        if answer.error or is_stale:
            outcome = isr.outcome_of(answer.error) if answer.error else RefusalOutcome.IGNORED
            return in_sync.refused(answer, outcome, self.leader_epoch, self.partition_epoch)
        before = in_sync.committed
        assert set(answer.isr) <= in_sync.maximal, f"the controller commits {answer.isr} for {proposal!r}: {self!r}"
        self.partition_epoch = answer.partition_epoch
        in_sync.commit(answer.isr)
        self.effective_min_isr = self._effective_min_isr()
        committed = IsrCommitted(before, in_sync.committed, proposal.kind, answer.partition_epoch, proposal.evidence)
        return (committed, *self._propose_waiting(now_ms), *self.advance_high_watermark(now_ms))

    def advance_high_watermark(self, now_ms: int) -> Effects:
        """Advance the watermark as far as the replicas that hold it allow."""
        if self.high_watermark == self.log_end:
            return NOTHING
        followers = self.in_sync.followers
        reached = watermark.reached(self.log_end, followers, self.settings.lag, self._brokers, now_ms)
        if reached <= self.high_watermark or (self.settings.high_watermark_min_isr_gate and self.is_under_min_isr):
            return NOTHING
        for follower in followers:
            assert follower.log_end >= reached or not follower.counts, f"{follower!r} lacks records below {reached}"
        self.high_watermark = reached
        return (HighWatermarkAdvanced(reached),)

    def propose(self, kind: IsrChange, broker_ids: Sequence[BrokerId], evidence: Evidence) -> ProposeIsr:
        """Make the one pending proposal."""
        if not self.is_ticked:
            self._ticks.add(self)
        return self.in_sync.propose(kind, broker_ids, evidence, self.leader_epoch, self.partition_epoch)

    def check_invariants(self) -> None:
        """Assert what holds after every event."""
        self.in_sync.check_invariants()
        assert self.effective_min_isr == self._effective_min_isr(), f"{self.effective_min_isr} is out of date: {self!r}"
        assert self.high_watermark <= self.log_end, f"the mark is above the log: {self!r}"
        assert self.epoch_start_offset <= self.log_end, f"the term starts at {self.epoch_start_offset}: {self!r}"
        for follower in self.in_sync.followers:
            assert follower.previous_log_end <= self.log_end, f"{follower!r} was shown more than the log has: {self!r}"
            assert follower.stamp is None or follower.log_end == self.log_end, f"{follower!r} is stamped: {self!r}"
        assert self.is_ticked or self.is_settled, f"no tick looks at it: {self!r}"
        pending = self.in_sync.pending
        assert pending is None or pending.leader_epoch == self.leader_epoch, f"{pending!r} is of another term: {self!r}"
        if self.slow_leader is not None:
            self.slow_leader.check_invariants()

    def _effective_min_isr(self) -> int:
        """Return `min.insync.replicas`, but never more than there are replicas, without those being added."""
        return min(self.settings.min_insync_replicas, self.in_sync.complete_size)

    def _start_term(self, now_ms: int, *, is_directly_after: bool) -> None:
        """Begin a new leader epoch on the broker that led before.

        If epochs were skipped, another broker may have led in between and followers may have truncated their logs
        under it: what they proved to this leader no longer holds.
        """
        self.epoch_start_offset = self.log_end
        if self.slow_leader is not None:
            self.slow_leader.start_term()
        if not is_directly_after:
            self.leads_since_ms = now_ms
        for follower in self.in_sync.followers:
            if is_directly_after:
                follower.start_next_term(self.log_end, now_ms, in_isr=follower.counts)
            else:
                follower.start_first_term(now_ms, in_isr=follower.counts)

    def _propose_joining(self, follower: FollowerState, now_ms: int) -> Effects:
        """Propose to add `follower` to the ISR, if it has all committed records."""
        in_sync = self.in_sync
        if in_sync.pending is not None or not isr.may_join(
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
        evidence = in_sync.evidence("reached-the-watermark", numbers)
        return (self.propose(IsrChange.EXPAND, (*in_sync.committed, follower.broker_id), evidence),)

    def _propose_waiting(self, now_ms: int) -> Effects:
        """Propose the first follower whose proof sufficed to join at a time when no proposal was possible.

        It must have everything: any other follower still gets records, and its next fetch proves what it has.
        """
        for follower in self.in_sync.followers:
            if follower.counts or follower.log_end != self.log_end:
                continue
            if self.settings.lag.is_caught_up(follower, self.log_end, now_ms) and (
                proposal := self._propose_joining(follower, now_ms)
            ):
                return proposal
        return NOTHING

    def _propose_leaving(self, now_ms: int) -> Effects:
        """Propose to remove the members that the lag policy gives up, all of them in one change."""
        in_sync, lag = self.in_sync, self.settings.lag
        if in_sync.pending is not None:
            return NOTHING
        leaving: Sequence[FollowerState] = isr.out_of_sync(in_sync.followers, lag, self.log_end, now_ms)
        changes: Effects = NOTHING
        if self.slow_leader is not None:
            leaving, changes = self.slow_leader.spare(leaving, now_ms)
        if not leaving:
            return changes
        left = {follower.broker_id for follower in leaving}
        numbers = (*lag.numbers(self.log_end, now_ms), ("leaving", ",".join(str(one.broker_id) for one in leaving)))
        evidence = in_sync.evidence(f"lag:{lag.name}", numbers)
        staying = tuple(broker_id for broker_id in in_sync.committed if broker_id not in left)
        return (*changes, self.propose(IsrChange.SHRINK, staying, evidence))
