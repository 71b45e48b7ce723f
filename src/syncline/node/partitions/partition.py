"""One hosted partition: its log, its role, and the requests that wait for it.

The rules are in `core`; this class performs what they decide. Only the event
loop uses it, and no method awaits between reading the state and writing it, so
no decision rests on outdated state.

Order inside one append: log, then epochs, then the leader's state, then the
waiters. A waiter that is woken sees the new state of the log.

Offsets count records; `log_end` and `high_watermark` are exclusive.
"""

from collections import deque
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, Protocol, assert_never
from uuid import UUID

from syncline.core.fetching.watchers import PartitionWatchers
from syncline.core.replication.effects import (
    Effect,
    HighWatermarkAdvanced,
    IsrCommitted,
    IsrRefused,
    ProposeIsr,
    ProtectionChanged,
    RelinquishSkipped,
    WatermarkHeld,
    WatermarkResumed,
)
from syncline.core.replication.follower import FollowerPartition
from syncline.core.replication.known_brokers import KnownBrokers
from syncline.core.replication.leader import LeaderPartition
from syncline.core.replication.tick_index import TickIndex
from syncline.core.replication.truncation import TruncationMode
from syncline.core.replication.watermark import follower_mark
from syncline.model.errors import ErrorCode
from syncline.model.ids import NONE, BrokerId, LeaderEpoch, Offset, TopicPartition
from syncline.model.metadata import PartitionRecord
from syncline.model.topic_config import TopicConfig
from syncline.node.clock import Clock
from syncline.node.counting.counters import Counters
from syncline.node.counting.disk_watch import NOTABLE_MS, DiskWatch
from syncline.node.metadata.live_configs import LiveConfigs
from syncline.node.partitions.internal_append import append_internal
from syncline.node.partitions.log_settings import log_settings
from syncline.node.probe import Probe
from syncline.records.batch import BatchHeader, stamp
from syncline.records.validate import TopicRules
from syncline.storage.errors import StorageError
from syncline.storage.log import PartitionLog

# The first pause of a follower that its leader refused; it doubles up to `replica.fetch.backoff.ms`.
FIRST_BACKOFF_MS: Final = 5


class Waiter(Protocol):
    """Something that waits for records to be committed."""

    def decided(self, topic_index: int, row_index: int, code: ErrorCode) -> None:
        """Take the verdict: NONE if the records are committed."""


class ProposesIsr(Protocol):
    """What proposes ISRs to the controller."""

    def propose(self, partition: "Partition", proposal: ProposeIsr, /) -> None:
        """Propose an ISR to the controller; its answer goes to the partition's leader."""


class JournalsDecisions(Protocol):
    """What journals the decisions of leaders."""

    def isr_committed(self, partition: "Partition", effect: IsrCommitted, /) -> None:
        """Report a change of the ISR that this leader proposed."""

    def isr_refused(self, partition: "Partition", effect: IsrRefused, /) -> None:
        """Report a proposal that the controller refused."""

    def watermark_stalled(self, partition: "Partition", effect: WatermarkHeld | WatermarkResumed, /) -> None:
        """Report that a high watermark is stalled, or advances again."""


class ServesSlowReads(Protocol):
    """What tracks follower fetches that wait for the disk (KIP-501)."""

    def leadership_ended(self, partition: "Partition", error: ErrorCode, /) -> None:
        """Answer the fetches that wait for a read of a partition that this broker no longer leads."""

    def protection_changed(self, partition: "Partition", effect: ProtectionChanged, /) -> None:
        """Report that a member of the ISR is now spared, or no longer spared."""

    def relinquish_skipped(self, partition: "Partition", effect: RelinquishSkipped, /) -> None:
        """Report that this leader is slow but keeps the partition."""


class HearsOfRefusals(Protocol):
    """What follows from appends that the disk refused."""

    def refused(self, key: TopicPartition, error: BaseException, /) -> None:
        """Record a failed append."""


class AwaitsLowWatermarks(Protocol):
    """The DeleteRecords requests that wait for the replicas of a partition."""

    def moved(self, partition: "Partition", /) -> None:
        """Check again: the partition's role or its high watermark changed."""


class PartitionSurroundings(NamedTuple):
    """What a partition uses of its broker; all partitions share one."""

    broker_id: BrokerId
    clock: Clock
    configs: LiveConfigs
    brokers: KnownBrokers
    ticks: TickIndex
    counters: Counters
    disk_watch: DiskWatch
    probe: Probe
    proposals: ProposesIsr
    journal: JournalsDecisions
    refused_writes: HearsOfRefusals
    slow_reads: ServesSlowReads
    low_watermarks: AwaitsLowWatermarks
    check_invariants: bool


class Partition:
    """One partition that this broker hosts, as leader or follower."""

    __slots__ = (
        "_surroundings",
        "_waiting",
        "config",
        "counters",
        "follower",
        "is_fresh",
        "key",
        "leader",
        "leader_epoch",
        "leader_mark",
        "log",
        "record",
        "rules",
        "topic_id",
        "watchers",
    )

    def __init__(
        self,
        surroundings: PartitionSurroundings,
        key: TopicPartition,
        topic_id: UUID,
        log: PartitionLog,
        config: TopicConfig,
    ) -> None:
        self._surroundings = surroundings
        self.key = key
        self.topic_id = topic_id
        self.log = log
        # The topic's counters, shared with its other partitions at this broker.
        self.counters = surroundings.counters.host(key.topic)
        self.leader: LeaderPartition | None = None
        self.follower: FollowerPartition | None = None
        self.leader_epoch = LeaderEpoch(NONE)
        # Whether the log began empty although the partition has a history, so that it has to catch up.
        self.is_fresh = False
        self.record: PartitionRecord | None = None
        self.watchers = PartitionWatchers()
        # (offset that must be committed, waiter, its topic index, its row index), ordered by offset.
        self._waiting: deque[tuple[int, Waiter, int, int]] = deque()
        self.apply_config(config)

    def __repr__(self) -> str:
        role = "leader" if self.leader else "follower" if self.follower else "idle"
        return (
            f"<{self.key} {role} epoch {self.leader_epoch} log {self.log.log_start}..{self.log.log_end} "
            f"high watermark {self.high_watermark}>"
        )

    @property
    def is_leader(self) -> bool:
        """Return whether this broker leads the partition."""
        return self.leader is not None

    @property
    def isr(self) -> tuple[int, ...] | None:
        """Return the committed in-sync set; None on a follower."""
        return self.leader.isr if self.leader is not None else None

    @property
    def offset_lag(self) -> int:
        """Return how many committed records this replica lacks, by its leader's last answer."""
        return 0 if self.leader is not None else max(0, max(self.high_watermark, self.leader_mark) - self.log.log_end)

    @property
    def is_offline(self) -> bool:
        """Return whether this log failed, which is final until the broker restarts."""
        return self.log.is_offline

    @property
    def high_watermark(self) -> Offset:
        """Return the offset below which all records are committed, as far as this replica knows."""
        return self.log.high_watermark

    @high_watermark.setter
    def high_watermark(self, mark: Offset) -> None:
        self.log.high_watermark = mark

    def apply_config(self, config: TopicConfig) -> None:
        """Apply a topic configuration."""
        self.config = config
        self.log.settings = log_settings(config)
        self.rules = TopicRules(
            topic_partition=str(self.key),
            message_bytes_max=config.max_message_bytes,
            segment_bytes_max=config.segment_bytes,
            append_time=config.message_timestamp_type == "LogAppendTime",
            timestamp_before_max_ms=config.message_timestamp_before_max_ms,
            timestamp_after_max_ms=config.message_timestamp_after_max_ms,
            compacted="compact" in config.cleanup_policy,
        )
        if self.leader is not None:
            settings = self._surroundings.configs.partition_settings(config)
            self.perform(self.leader.configure(settings, self._surroundings.clock.mono_ms()))

    def lead(self, record: PartitionRecord, now_ms: int) -> None:
        """Become leader, or apply a change while leading. Raises StorageError; the role is then as it was."""
        is_new_term = record.leader_epoch != self.leader_epoch
        # A leader that is confirmed in the next epoch, as when replicas were removed, led all the time.
        leads_on = self.leader is not None and record.leader_epoch == self.leader_epoch + 1
        if is_new_term:
            self.log.assign_leader_epoch(record.leader_epoch)
        self.record = record
        self.leader_epoch = record.leader_epoch
        self.follower = None
        leader = self.leader
        if leader is None:
            leader = LeaderPartition(
                self._surroundings.broker_id,
                replicas=record.replicas,
                isr=record.isr,
                adding=record.adding,
                removing=record.removing,
                leader_epoch=record.leader_epoch,
                partition_epoch=record.partition_epoch,
                epoch_start_offset=self.log.log_end,
                log_end=self.log.log_end,
                high_watermark=self.high_watermark,
                settings=self._surroundings.configs.partition_settings(self.config),
                brokers=self._surroundings.brokers,
                now_ms=now_ms,
                ticks=self._surroundings.ticks,
                owner=self,
            )
            self.leader = leader
            self.is_fresh = False
            self._surroundings.probe("lead", self.key, record.leader_epoch, self.log.log_end)
        else:
            self.perform(
                leader.metadata_changed(
                    replicas=record.replicas,
                    isr=record.isr,
                    adding=record.adding,
                    removing=record.removing,
                    leader_epoch=record.leader_epoch,
                    partition_epoch=record.partition_epoch,
                    now_ms=now_ms,
                )
            )
        if is_new_term and not leads_on:
            # The waiting records were appended in an earlier leader epoch and may be truncated.
            self.fail_waiting(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        if is_new_term:
            self._surroundings.slow_reads.leadership_ended(self, ErrorCode.NOT_LEADER_OR_FOLLOWER)
            self.watchers.role_changed()
        self.perform(leader.advance_high_watermark(now_ms))

    def follow(self, record: PartitionRecord) -> bool:
        """Become follower; return whether the leader epoch is new, so that the fetcher must start again."""
        self.record = record
        is_new_term = record.leader_epoch != self.leader_epoch or self.leader is not None
        if is_new_term:
            self.leader_mark = -1
        self.leader_epoch = record.leader_epoch
        if self.leader is not None:
            self.resign()
        if self.follower is None:
            config = self._surroundings.configs.broker
            self.follower = FollowerPartition(
                config.replica_fetch_backoff_ms, FIRST_BACKOFF_MS, mode=TruncationMode(config.log_truncation_mode)
            )
            self._surroundings.probe("follow", self.key, record.leader_epoch, self.log.log_end)
        return is_new_term

    def resign(self) -> None:
        """Stop leading; refuse the requests that wait for this leader."""
        self.leader = None
        self.fail_waiting(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        self._surroundings.low_watermarks.moved(self)
        self._surroundings.slow_reads.leadership_ended(self, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        self.watchers.role_changed()

    def leave(self) -> None:
        """Give up either role: this broker no longer hosts the partition."""
        self.follower = None
        self.resign()

    def log_failed(self) -> None:
        """Refuse the requests that wait for a log that has failed."""
        self.fail_waiting(ErrorCode.KAFKA_STORAGE_ERROR)
        self._surroundings.slow_reads.leadership_ended(self, ErrorCode.KAFKA_STORAGE_ERROR)
        self.watchers.role_changed()

    def append(self, buffer: memoryview | bytearray, position: int, header: BatchHeader, wall_ms: int) -> Offset:
        """Append one validated batch as leader, at this time, stamping it in place; return its base offset.

        Raises `StorageError` when the disk refuses; nothing is appended then.
        """
        leader = self.leader
        assert leader is not None
        base_offset = self.log.log_end
        stamp(buffer, position, base_offset, self.leader_epoch)
        size_bytes = header.size_bytes
        batch = memoryview(buffer)[position : position + size_bytes]
        clock = self._surroundings.clock
        began_ms = clock.mono_ms()
        header = header.placed(base_offset, self.leader_epoch)
        try:
            self.log.append_as_leader(batch, header, wall_ms)
        except StorageError as error:
            self._surroundings.refused_writes.refused(self.key, error)
            raise
        now_ms = clock.mono_ms()
        if now_ms - began_ms >= NOTABLE_MS:
            self._surroundings.disk_watch.wrote(self.key, now_ms - began_ms)
        counters = self.counters
        counters.bytes_in += size_bytes
        counters.messages_in += header.record_count
        effects = leader.appended(self.log.log_end, now_ms)
        self.watchers.log_end_moved()
        if effects or self._surroundings.check_invariants:
            self.perform(effects)
        return base_offset

    def append_internal(self, batch: bytes | bytearray, done: Callable[[ErrorCode, int], None]) -> None:
        """Append a batch made by this broker, with acks=all; `done(code, base offset)` is called once."""
        append_internal(self, batch, self._surroundings.clock.wall_ms(), done)

    def wait(self, required_offset: int, waiter: Waiter, topic_index: int, row_index: int) -> None:
        """Call `waiter.decided` when everything below `required_offset` is committed, or can no longer be."""
        leader = self.leader
        code = leader.acknowledgement(Offset(required_offset)) if leader else ErrorCode.NOT_LEADER_OR_FOLLOWER
        if code is not None:
            waiter.decided(topic_index, row_index, code)
            return
        entry = (required_offset, waiter, topic_index, row_index)
        waiting = self._waiting
        if not waiting or waiting[-1][0] <= required_offset:
            waiting.append(entry)
            return
        # A retry of an idempotent producer waits for its original, which may come before other waiters' records.
        at = len(waiting)
        while at and waiting[at - 1][0] > required_offset:
            at -= 1
        waiting.insert(at, entry)

    def fail_waiting(self, code: ErrorCode) -> None:
        """Give all waiters the same verdict."""
        waiting, self._waiting = self._waiting, deque()
        for _, waiter, topic_index, row_index in waiting:
            waiter.decided(topic_index, row_index, code)

    def _decide_waiting(self) -> None:
        leader = self.leader
        waiting = self._waiting
        while waiting and leader is not None and self.leader is leader:
            code = leader.acknowledgement(Offset(waiting[0][0]))
            if code is None:
                return
            required_offset, waiter, topic_index, row_index = waiting.popleft()
            if not code:
                self._surroundings.probe("acknowledge", self.key, self.leader_epoch, required_offset)
            waiter.decided(topic_index, row_index, code)

    def perform(self, effects: Sequence[Effect]) -> None:
        """Perform the effects of the leader's state, in order."""
        surroundings = self._surroundings
        for effect in effects:
            match effect:
                case HighWatermarkAdvanced():
                    self.log.high_watermark = effect.high_watermark
                    surroundings.probe("high-watermark", self.key, self.leader_epoch, effect.high_watermark)
                    self._decide_waiting()
                    self.watchers.high_watermark_moved()
                    surroundings.low_watermarks.moved(self)
                case ProposeIsr():
                    surroundings.proposals.propose(self, effect)
                case IsrCommitted():
                    surroundings.journal.isr_committed(self, effect)
                    self._decide_waiting()
                case IsrRefused():
                    surroundings.journal.isr_refused(self, effect)
                case WatermarkHeld() | WatermarkResumed():
                    surroundings.journal.watermark_stalled(self, effect)
                case ProtectionChanged():
                    surroundings.slow_reads.protection_changed(self, effect)
                case RelinquishSkipped():
                    surroundings.slow_reads.relinquish_skipped(self, effect)
                case _:
                    assert_never(effect)
        if surroundings.check_invariants:
            self.check_invariants()

    def take_leader_mark(self, leader_high_watermark: Offset) -> None:
        """Move a follower's high watermark after an answer of its leader; it may go down."""
        self.leader_mark = leader_high_watermark
        log = self.log
        mark = follower_mark(leader_high_watermark, log.log_start, log.log_end)
        assert mark <= log.log_end, f"{self} would take the mark {mark}"
        if mark != log.high_watermark:
            log.high_watermark = mark
            self._surroundings.probe("high-watermark", self.key, self.leader_epoch, mark)
            self.watchers.high_watermark_moved()
        if self._surroundings.check_invariants:
            self.check_invariants()

    def truncated(self) -> None:
        """Wake the fetches that watch this partition: the log was cut, and has lowered its high watermark."""
        self.watchers.role_changed()
        self._surroundings.probe("truncate", self.key, self.leader_epoch, self.log.log_end)
        if self._surroundings.check_invariants:
            self.check_invariants()

    def check_invariants(self) -> None:
        """Assert that log, role and waiters agree."""
        log, leader = self.log, self.leader
        log.check_newest()
        if leader is not None and not log.is_offline:
            # No tick looks at the leader of a failed log any more, whatever it has still proposed.
            leader.check_invariants()
        if self.follower is not None:
            self.follower.check_invariants()
        self.watchers.check_invariants()
        assert leader is None or self.follower is None, f"{self} leads and follows"
        assert log.log_start <= log.log_end, f"{self.key}: the log starts at {log.log_start}, ends at {log.log_end}"
        assert self.high_watermark <= log.log_end, (
            f"{self.key}: high watermark {self.high_watermark} beyond the log end"
        )
        if leader is None:
            assert not self._waiting, f"{self.key}: {len(self._waiting)} wait for a leader that is gone"
            return
        assert leader.leader_epoch == self.leader_epoch, f"{self}: its leader is of epoch {leader.leader_epoch}"
        assert leader.log_end == log.log_end, f"{self}: its leader knows the log end {leader.log_end}"
        offsets = [entry[0] for entry in self._waiting]
        assert offsets == sorted(offsets), f"{self.key}: waiters out of order: {offsets}"
