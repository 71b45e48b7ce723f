"""Slow reads: follower fetches that wait for this broker's disk, and the consequences (KIP-501).

The rules are in `core/replication/slow_leader`. This module registers each fetch that waits for a read, and runs a
watchdog while there are any. A broker that reads everything from memory, or has the feature off, does neither.

Metrics read `pending_count` (PendingFollowerFetches) and the counters `pending_cap_exceeded`, `relinquished`,
`relinquish_skipped` (by reason) and `fetch_process_ms`. The process time covers only fetches that waited for a read;
that of all others is 0.
"""

import asyncio
import errno
import logging
from collections.abc import Callable
from typing import Literal, Protocol

from syncline.core.fetching.session import FetchSession
from syncline.core.replication.effects import (
    ProposeIsr,
    ProtectionChanged,
    ProtectionPhase,
    RelinquishSkipped,
)
from syncline.core.replication.evidence import Evidence
from syncline.core.replication.slow_leader.pending_fetches import PendingFetches
from syncline.core.replication.slow_leader.rules import RELINQUISHED_AT_ONCE_MAX, watch_period_ms
from syncline.core.replication.slow_leader.waits import PendingEntry, PendingRequest
from syncline.model.errors import ErrorCode
from syncline.model.events import Json, Observation
from syncline.model.ids import BrokerEpoch, BrokerId, TopicPartition
from syncline.node.clock import Clock
from syncline.node.counting.counters import Counters
from syncline.node.metadata.live_configs import LiveConfigs
from syncline.node.partitions.partition import Partition

log = logging.getLogger("syncline.node")


class WaitingFetch(Protocol):
    """A follower's fetch that waits for the disk."""

    def leadership_ended(self, partition: Partition, error: ErrorCode, /) -> None:
        """Stop waiting for the reads of a partition that this broker no longer leads."""


class SlowReads:
    """The follower fetches of one broker that wait for its disk."""

    def __init__(
        self,
        *,
        broker_id: BrokerId,
        loop: asyncio.AbstractEventLoop,
        clock: Clock,
        configs: LiveConfigs,
        counters: Counters,
        note: Callable[[Observation], None],
        settle: Callable[[], None],
    ) -> None:
        self._broker_id = broker_id
        self._loop = loop
        self._clock = clock
        self._configs = configs
        self._counters = counters
        self._note_event = note
        self._settle = settle
        self._fetches = PendingFetches()
        # A dict stands for an ordered set.
        self._operations: dict[WaitingFetch, None] = {}
        self._suspects: set[int] = set()
        # When each reported protection began, in Unix time: its end names the same time.
        self._reported_since_ms: dict[tuple[TopicPartition, BrokerId], int] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._is_closed = False
        # None while the feature is off, which is all that a fetch checks.
        self.rules = configs.slow_read_rules

    @property
    def pending_count(self) -> int:
        """How many partitions followers wait for, counted once per request."""
        return self._fetches.entry_count

    @property
    def waiting_fetches(self) -> tuple[WaitingFetch, ...]:
        """The fetches that wait."""
        return tuple(self._operations)

    def configure(self) -> None:
        """Apply the configuration; switching off drops all entries, switching on begins with the next request."""
        self.rules = self._configs.slow_read_rules
        if self.rules is None:
            self._fetches.clear()
            self._operations.clear()
            self._suspects.clear()
        if self.rules is None or not self.rules.relinquishes:
            self._stop_watch()
        elif len(self._fetches):
            self._start_watch()

    def close(self) -> None:
        """Stop the watchdog."""
        self._is_closed = True
        self._stop_watch()

    def opened(
        self, operation: WaitingFetch, session: FetchSession, broker_epoch: int, arrival_ms: int, parked_ms: int
    ) -> PendingRequest:
        """Register a request that has to wait for a read."""
        request = self._fetches.open(
            session.replica_id, BrokerEpoch(broker_epoch), arrival_ms, parked_ms, cover=session.slow_fetches()
        )
        self._operations[operation] = None
        if self.rules is not None and self.rules.relinquishes:
            self._start_watch()
        return request

    def answered(self, operation: WaitingFetch, request: PendingRequest, session: FetchSession) -> None:
        """Close a request that is being answered; its session does not know of the answer yet."""
        now_ms = self._clock.mono_ms()
        self._operations.pop(operation, None)
        self._counters.fetch_process_ms.note(request.processing_ms(now_ms))
        self._covered_ended(request, session, now_ms, is_lost=False)
        self._fetches.answered(request, now_ms)

    def lost(self, operation: WaitingFetch, request: PendingRequest, session: FetchSession) -> None:
        """Close a request whose connection ended."""
        now_ms = self._clock.mono_ms()
        self._operations.pop(operation, None)
        self._covered_ended(request, session, now_ms, is_lost=True)
        self._fetches.lost(request, now_ms, None if self.rules is None else self.rules.cap_ms)

    def _covered_ended(self, request: PendingRequest, session: FetchSession, now_ms: int, *, is_lost: bool) -> None:
        """Report the request's end to idle partitions of the session that got records; its clock covers the others."""
        for entry in session.pending():
            partition = entry.target
            if entry in request.looked or not isinstance(partition, Partition) or partition.leader is None:
                continue
            slow_leader = partition.leader.slow_leader
            if slow_leader is not None:
                slow_leader.covered_fetch_ended(request.replica_id, request, entry, now_ms, is_lost=is_lost)

    def read_failed(self, entry: PendingEntry) -> None:
        """Drop a partition whose read failed."""
        self._fetches.read_ended(entry)

    def read_ended(self, entry: PendingEntry) -> None:
        """Record that the read of one partition has succeeded; if it was late, this leader may relinquish."""
        if entry.request.lost_ms is not None:
            self._fetches.read_ended(entry)
        elif self.rules is not None and self.rules.relinquishes:
            now_ms = self._clock.mono_ms()
            self._fetches.excuse_pause(now_ms, watch_period_ms(self.rules.process_time_max_ms))
            self._relinquish(entry, now_ms)

    def leadership_ended(self, partition: Partition, error: ErrorCode) -> None:
        """Answer the fetches that wait for a read of a partition that this broker no longer leads."""
        for operation in list(self._operations):
            operation.leadership_ended(partition, error)
        for key, broker_id in [name for name in self._reported_since_ms if name[0] == partition.key]:
            since_wall_ms = self._reported_since_ms.pop((key, broker_id))
            since_ms = self._clock.mono_ms() - (self._clock.wall_ms() - since_wall_ms)
            evidence = Evidence("pending-fetch:leadership-ended")
            self._note(partition, "protection", broker_id, "end", since_ms, evidence, since_wall_ms)

    def drop_older(self, broker_id: BrokerId, broker_epoch: BrokerEpoch) -> None:
        """Drop the requests of earlier processes of a broker."""
        self._fetches.drop_older(broker_id, broker_epoch)

    def _start_watch(self) -> None:
        if self._timer is None and not self._is_closed:
            self._fetches.start_watch(self._clock.mono_ms())
            self._watch_later()

    def _watch_later(self) -> None:
        rules = self.rules
        assert rules is not None, "nothing is watched while the feature is off"
        period_s = watch_period_ms(rules.process_time_max_ms) / 1000
        self._timer = self._loop.call_later(period_s, self._watch)

    def _stop_watch(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _watch(self) -> None:
        self._timer = None
        rules = self.rules
        if rules is None or not rules.relinquishes or not len(self._fetches):
            return
        self._watch_later()
        now_ms = self._clock.mono_ms()
        proposed = 0
        for entry in self._fetches.watch(now_ms, watch_period_ms(rules.process_time_max_ms)):
            proposed += self._relinquish(entry, now_ms)
            if proposed >= RELINQUISHED_AT_ONCE_MAX:
                break
        self._settle()

    def _relinquish(self, entry: PendingEntry, now_ms: int) -> bool:
        """Relinquish a partition if its leader decides so; return whether it did."""
        partition = _partition_of(entry)
        if partition is None:
            return False
        effects = entry.server.relinquish(entry, now_ms)
        if effects:
            partition.perform(effects)
        return any(type(effect) is ProposeIsr for effect in effects)

    def tick(self) -> None:
        """Find reads that take longer than a follower may be spared: the disk may be stuck."""
        rules = self.rules
        if rules is None or rules.cap_ms is None or not len(self._fetches):
            return
        now_ms = self._clock.mono_ms()
        self._suspects.intersection_update(self._fetches.requests)
        for request in list(self._fetches.requests.values()):
            if request.seq in self._suspects or request.processing_ms(now_ms) <= rules.cap_ms:
                continue
            self._suspects.add(request.seq)
            for entry in list(request.entries):
                if not entry.is_read:
                    self._suspect(entry, request, now_ms)

    def _suspect(self, entry: PendingEntry, request: PendingRequest, now_ms: int) -> None:
        partition = _partition_of(entry)
        if partition is None:
            return
        read_ms = request.processing_ms(now_ms)
        log.error("%s: a read has not returned for %s ms; the disk may be stuck", partition.key, read_ms)
        if self._configs.broker.log_dir_stuck_read_offline:
            partition.log.take_offline(OSError(errno.ETIMEDOUT, f"a read has not returned for {read_ms} ms"))

    def protection_changed(self, partition: Partition, effect: ProtectionChanged) -> None:
        """Count and journal that a member is now spared, or no longer spared."""
        log.info("%s: protection of broker %s %s", partition.key, effect.broker_id, effect.phase.value)
        if effect.phase is ProtectionPhase.CAP_EXCEEDED:
            self._counters.pending_cap_exceeded += 1
        phase: Literal["begin", "end"] = "begin" if effect.phase is ProtectionPhase.BEGAN else "end"
        name = (partition.key, effect.broker_id)
        since_wall_ms = None if phase == "begin" else self._reported_since_ms.pop(name, None)
        reported = self._note(
            partition, "protection", effect.broker_id, phase, effect.since_ms, effect.evidence, since_wall_ms
        )
        if phase == "begin":
            self._reported_since_ms[name] = reported.since_ms

    def relinquish_skipped(self, partition: Partition, effect: RelinquishSkipped) -> None:
        """Count and journal that this leader is slow but keeps the partition."""
        skipped = self._counters.relinquish_skipped
        reason = effect.reason.value
        skipped[reason] = skipped.get(reason, 0) + 1
        log.info("%s: served too slowly, but leadership is not handed over: %s", partition.key, reason)
        now_ms = self._clock.mono_ms()
        self._note(partition, "relinquish-skipped", self._broker_id, "end", now_ms, effect.evidence)

    def _note(
        self,
        partition: Partition,
        kind: str,
        subject: BrokerId,
        phase: Literal["begin", "end"],
        since_ms: int,
        evidence: Evidence,
        since_wall_ms: int | None = None,
    ) -> Observation:
        """Journal an observation, and return it."""
        clock = self._clock
        now_ms, wall_ms = clock.mono_ms(), clock.wall_ms()
        followers = [follower.as_json() for follower in evidence.followers]
        numbers: dict[str, Json] = {"noted_ms": now_ms, "rule": evidence.rule, **dict(evidence.numbers)}
        seen = Observation(
            ts_ms=wall_ms,
            broker=self._broker_id,
            kind=kind,
            subject=subject,
            phase=phase,
            since_ms=wall_ms - (now_ms - since_ms) if since_wall_ms is None else since_wall_ms,
            lasted_ms=now_ms - since_ms,
            topic=partition.key.topic,
            partition=partition.key.partition,
            evidence={**numbers, "followers": followers},
        )
        self._note_event(seen)
        return seen


def _partition_of(entry: PendingEntry) -> Partition | None:
    """Return the partition of an entry; None once this broker no longer leads it."""
    partition = entry.server.owner
    if not isinstance(partition, Partition) or partition.leader is None:
        return None
    return partition if partition.leader.slow_leader is entry.server else None
