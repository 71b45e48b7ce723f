"""Slow leader: what the leader of one partition does about its own slow reads (KIP-501).

One hard idea: a follower that waits for its leader's disk is not late. Solution 1 protects it: the proof of its fetch
has the time of the service, not of the arrival, and a tick spares the follower while its request waits, up to a cap.
Solution 2 hands the partition to another member when serving takes too long (`succession`).

Protection adds no broker to the ISR, holds no watermark and moves none.

Units: offsets are exclusive ends; times in ms of one monotonic clock.
Invariants: the leader never spares itself; entries are of the current term; nothing waits while the feature is off.
Source: KIP-501 with the rules R1-R11 of docs/slow-leaders.md; scenarios D01-D25.
"""

from collections.abc import Sequence
from typing import Protocol

from syncline.core.replication.effects import (
    NOTHING,
    Effects,
    IsrChange,
    ProposeIsr,
    ProtectionChanged,
    ProtectionPhase,
    RelinquishSkipped,
    SkipReason,
)
from syncline.core.replication.evidence import Evidence
from syncline.core.replication.follower_state import NEVER_MS, FollowerState
from syncline.core.replication.in_sync_set import InSyncSet
from syncline.core.replication.lag_policy import LagPolicy
from syncline.core.replication.slow_leader.rules import SlowReadRules
from syncline.core.replication.slow_leader.succession import REFUSALS, Backoff, succession
from syncline.core.replication.slow_leader.waits import (
    FollowerWaits,
    PendingEntry,
    PendingRequest,
    SessionStamp,
    is_of_session,
)
from syncline.model.errors import ErrorCode
from syncline.model.ids import BrokerEpoch, BrokerId, LeaderEpoch, Offset


class Leadership(Protocol):
    """The leader's partition, as far as this module reads it."""

    @property
    def in_sync(self) -> InSyncSet:
        """Members and the pending change."""

    @property
    def leader_epoch(self) -> LeaderEpoch:
        """The current term."""

    @property
    def epoch_start_offset(self) -> Offset:
        """Where the term begins."""

    @property
    def leads_since_ms(self) -> int:
        """When this broker became leader, possibly some terms ago."""

    @property
    def log_end(self) -> Offset:
        """The leader's log end."""

    @property
    def owner(self) -> object:
        """The shell's object that holds the partition."""

    def propose(self, kind: IsrChange, broker_ids: Sequence[BrokerId], evidence: Evidence) -> ProposeIsr:
        """Make the one pending proposal."""


class SlowLeader:
    """The waits of one partition's followers; `rules` is None after the feature was switched off."""

    __slots__ = ("_backoff", "_leader", "_spared", "_waits", "lag", "rules")

    def __init__(self, leader: Leadership, rules: SlowReadRules | None, lag: LagPolicy) -> None:
        self._leader = leader
        self._waits: dict[BrokerId, FollowerWaits] = {}
        # The members that the latest tick spared, and since when.
        self._spared: dict[BrokerId, int] = {}
        self._backoff: Backoff | None = None
        self.rules = rules
        self.lag = lag

    def __repr__(self) -> str:
        waits = [each for each in self._waits.values() if not each.is_over]
        return f"SlowLeader({self.rules}: {waits}, spared {self._spared}, {self._backoff})"

    @property
    def owner(self) -> object:
        """The shell's object that holds the partition."""
        return self._leader.owner

    @property
    def leader_epoch(self) -> LeaderEpoch:
        """The leader's current term."""
        return self._leader.leader_epoch

    @property
    def spared(self) -> tuple[BrokerId, ...]:
        """The members that are in sync only because this leader has not answered them, as of the latest tick."""
        return tuple(self._spared)

    def waits_of(self, follower: FollowerState) -> FollowerWaits:
        """Return what `follower` waits for; a newly assigned replica waits for nothing."""
        waits = self._waits.get(follower.broker_id)
        if waits is None or waits.follower is not follower:
            waits = self._waits[follower.broker_id] = FollowerWaits(follower)
        return waits

    def configure(self, rules: SlowReadRules | None, lag: LagPolicy) -> None:
        """Switch to other rules; switching the feature off forgets all waits."""
        before, self.rules, self.lag = self.rules, rules, lag
        if rules is None and before is not None:
            self._forget_waits()
        elif rules is not None and before is None:
            self.switched_on()

    def switched_on(self) -> None:
        """Let the next request of each session cover its idle partitions: none may look at them for a long time."""
        for follower in self._leader.in_sync.followers:
            stamp = follower.stamp
            self.waits_of(follower).stamp = stamp if is_of_session(stamp) else None

    def start_term(self) -> None:
        """Begin a new leader epoch: the followers' requests were made in the former term."""
        self._forget_waits()
        self._spared = {}

    def fetched(
        self,
        follower: FollowerState,
        offset: Offset,
        captured_log_end: Offset,
        broker_epoch: BrokerEpoch,
        now_ms: int,
        stamp: SessionStamp | None,
        entry: PendingEntry | None,
    ) -> bool:
        """Move the follower's times for a fetch that arrived at `now_ms`; return False if a newer one overtook it.

        `entry` is the entry of a slow request, None if the fetch was served at once.
        """
        if self.rules is None:
            if follower.stamp is not None:
                follower.record_stamp_before(stamp)
            self.lag.note_fetch(follower, offset, captured_log_end, now_ms)
            return True
        waits = self._waits.get(follower.broker_id)
        if waits is None or waits.follower is not follower:
            waits = self.waits_of(follower)
        if entry is not None and waits.is_overtaken(entry):
            return False
        if follower.stamp is not None:
            follower.record_stamp_before(stamp)
        served_ms = now_ms
        if entry is None:
            qualifies = offset >= self._base_offset(follower)
            if waits.entries or waits.since_ms is not None:
                waits.served_at_once(broker_epoch)
        else:
            qualifies = entry.qualifies
            waits.read(entry)
            if entry.ended_ms is not None:
                served_ms = entry.ended_ms
        assert served_ms >= now_ms, f"{entry!r} was served at {served_ms}, taken up at {now_ms}"
        self.lag.note_served(follower, offset, captured_log_end, now_ms, served_ms=served_ms, qualifies=qualifies)
        waits.stamp = stamp
        return True

    def fetch_pends(self, replica_id: BrokerId, offset: Offset, request: PendingRequest) -> PendingEntry | None:
        """Register one partition of a fetch that could not be served at once, after its cheap checks."""
        follower = self._leader.in_sync.by_id.get(replica_id)
        if follower is None or self.rules is None:
            return None
        qualifies = offset >= self._base_offset(follower)
        return self.waits_of(follower).register(request, self, offset, qualifies=qualifies)

    def fetch_answered(self, entry: PendingEntry, now_ms: int) -> None:
        """The whole request of `entry` was answered: that dates the follower, which could not fetch earlier."""
        if entry.is_void:
            return
        if entry.is_read and entry.qualifies and not entry.waits.is_overtaken(entry):
            self.lag.note_answered(entry.follower, now_ms)
        entry.waits.answered(entry)

    def fetch_lost(self, entry: PendingEntry, now_ms: int) -> None:
        """The follower's connection ended: the follower gets one lag window to come back."""
        if entry.qualifies and not entry.waits.is_overtaken(entry) and self._may_spare(entry.waits, now_ms):
            self.lag.note_answered(entry.follower, now_ms)

    def covered_fetch_ended(
        self, replica_id: BrokerId, request: PendingRequest, stamp: SessionStamp, now_ms: int, *, is_lost: bool = False
    ) -> None:
        """A request that covered this partition without looking at it has ended.

        Called before the session records the end, and only where the log has moved meanwhile: all other partitions
        read the session's times. `is_lost`: its connection ended before the answer.
        """
        follower = self._leader.in_sync.by_id.get(replica_id)
        if follower is None:
            return
        waits = self.waits_of(follower)
        if waits.stamp is not stamp or waits.covering is not request:
            return
        if not is_lost or self._may_spare(waits, now_ms):
            self.lag.note_answered(follower, now_ms)

    def spare(self, late: Sequence[FollowerState], now_ms: int) -> tuple[Sequence[FollowerState], Effects]:
        """Return those of `late` that nothing protects, and reports on the others."""
        if not self._spared and (not late or self.rules is None):
            return late, NOTHING
        leaving: list[FollowerState] = []
        before, self._spared = self._spared, {}
        changes: list[ProtectionChanged] = []
        over_cap: set[BrokerId] = set()
        for follower in late:
            broker_id, waits = follower.broker_id, self.waits_of(follower)
            if self._may_spare(waits, now_ms):
                self._spared[broker_id] = before.get(broker_id, now_ms)
                if broker_id not in before:
                    changes.append(self._protection(waits, ProtectionPhase.BEGAN, now_ms, now_ms))
                continue
            leaving.append(follower)
            if self.rules is not None and waits.protecting is not None:
                over_cap.add(broker_id)
                since_ms = before.get(broker_id, now_ms)
                changes.append(self._protection(waits, ProtectionPhase.CAP_EXCEEDED, since_ms, now_ms))
        for broker_id, since_ms in before.items():
            former = self._leader.in_sync.by_id.get(broker_id)
            if former is not None and broker_id not in self._spared and broker_id not in over_cap:
                changes.append(self._protection(self.waits_of(former), ProtectionPhase.ENDED, since_ms, now_ms))
        return leaving, tuple(changes)

    def relinquish(self, entry: PendingEntry, now_ms: int) -> Effects:
        """Hand the partition to another member if serving `entry` takes too long and another leader may help."""
        rules, request = self.rules, entry.request
        if rules is None or not rules.relinquishes or entry.is_void or not request.is_live:
            return NOTHING
        leader, in_sync, broker_id = self._leader, self._leader.in_sync, entry.follower.broker_id
        if in_sync.pending is not None and in_sync.pending.kind is IsrChange.RELINQUISH:
            return NOTHING
        is_member = broker_id in in_sync.committed and broker_id in in_sync.by_id
        processing_ms = request.processing_ms(now_ms)
        if not is_member or not entry.qualifies or processing_ms <= rules.process_time_max_ms:
            return NOTHING
        order = succession(in_sync.broker_id, in_sync.committed, in_sync.followers, in_sync.removing)
        numbers = (
            ("now_ms", now_ms),
            ("follower", broker_id),
            ("offset", entry.offset),
            ("arrival_ms", request.arrival_ms),
            ("parked_ms", request.parked_ms),
            ("processing_ms", processing_ms),
            ("process_time_max_ms", rules.process_time_max_ms),
            ("leads_since_ms", leader.leads_since_ms),
            ("order", ",".join(map(str, order))),
        )
        reason = self._reason_to_stay(rules, now_ms)
        if reason is None:
            evidence = in_sync.evidence("relinquish:slow-read", numbers)
            return (leader.propose(IsrChange.RELINQUISH, order, evidence),)
        if reason is entry.skip_reported:
            return NOTHING
        entry.skip_reported = reason
        return (RelinquishSkipped(reason, in_sync.evidence(f"relinquish-skipped:{reason.value}", numbers)),)

    def relinquish_answered(self, error: ErrorCode, now_ms: int) -> None:
        """Wait longer before the next attempt to hand the partition over, if the controller refused this one.

        A controller that does not know such requests sees an unchanged ISR, and reports success.
        """
        if error and error not in REFUSALS:
            return
        if self._backoff is None:
            self._backoff = Backoff()
            self._backoff.triggered(now_ms)
        self._backoff.refused(now_ms)

    def check_invariants(self) -> None:
        """Assert what holds after every event of the leader."""
        for waits in self._waits.values():
            waits.check_invariants()
            assert self.rules is not None or (waits.is_over and waits.stamp is None), f"off, but waiting: {self!r}"
            for entry in waits.entries:
                assert entry.leader_epoch == self.leader_epoch, f"{entry!r} is of term {entry.leader_epoch}: {self!r}"
        assert self._leader.in_sync.broker_id not in self._spared, f"the leader spares itself: {self!r}"

    def _base_offset(self, follower: FollowerState) -> Offset:
        """Return the lowest offset at which a fetch qualifies: the end of this term's answers, or the term's start."""
        if follower.last_fetch_ms == NEVER_MS and follower.previous_log_end <= 0:
            return self._leader.epoch_start_offset
        return follower.previous_log_end

    def _may_spare(self, waits: FollowerWaits, now_ms: int) -> bool:
        """Return whether a request that this leader has not answered protects a member."""
        return (
            self.rules is not None
            and waits.follower.broker_id in self._leader.in_sync.committed
            and waits.protecting is not None
            and self.rules.is_within_cap(waits.waiting_since_ms, now_ms)
        )

    def _protection(
        self, waits: FollowerWaits, phase: ProtectionPhase, since_ms: int, now_ms: int
    ) -> ProtectionChanged:
        """Return the effect that reports that a member is spared, or no longer."""
        broker_id, request = waits.follower.broker_id, waits.protecting
        numbers = (
            *self.lag.numbers(self._leader.log_end, now_ms),
            ("follower", broker_id),
            ("waiting_since_ms", waits.waiting_since_ms),
            ("request", None if request is None else request.seq),
            ("processing_ms", None if request is None else request.processing_ms(now_ms)),
            ("cap_ms", None if self.rules is None else self.rules.cap_ms),
        )
        evidence = self._leader.in_sync.evidence(f"pending-fetch:{phase.value}", numbers)
        return ProtectionChanged(broker_id, phase, since_ms, evidence)

    def _reason_to_stay(self, rules: SlowReadRules, now_ms: int) -> SkipReason | None:
        """Return why this leader keeps the partition although it is slow."""
        in_sync = self._leader.in_sync
        if in_sync.pending is not None:
            return SkipReason.CHANGE_PENDING
        brokers = in_sync.brokers
        if not brokers.is_active(in_sync.broker_id):
            return SkipReason.LEADER_INACTIVE
        if not any(brokers.is_active(each) for each in in_sync.committed if each != in_sync.broker_id):
            return SkipReason.NO_CANDIDATE
        if now_ms - self._leader.leads_since_ms < rules.tenure_min_ms:
            return SkipReason.TENURE
        if self._backoff is not None and not self._backoff.triggered(now_ms):
            return SkipReason.BACKOFF
        return None

    def _forget_waits(self) -> None:
        for waits in self._waits.values():
            waits.forget()
