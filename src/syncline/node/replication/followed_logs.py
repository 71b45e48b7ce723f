"""The logs of the partitions followed from one leader: appending records, and cutting off diverged ends.

A cut may have to wait for the disk (`cuts.py`); the follower is TRUNCATING meanwhile, and a new role cancels the cut.
A log that began empty although its partition has a history is reported while it catches up.
"""

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import cast
from uuid import UUID

from syncline.core.replication.evidence import Evidence
from syncline.core.replication.follower import (
    FollowerEffects,
    FollowerPartition,
    FollowerPhase,
    RestartLog,
    TruncateLog,
)
from syncline.model.ids import OFFSETS_TOPIC, Offset
from syncline.node.counting.disk_watch import NOTABLE_MS
from syncline.node.partitions.partition import Partition
from syncline.node.replication.append_time_gaps import AppendTimeGaps, Ask
from syncline.node.replication.cuts import Cut
from syncline.node.replication.doubts import Doubt, RefusedRecords
from syncline.node.replication.leader_questions import Key
from syncline.node.replication.surroundings import FetcherSurroundings
from syncline.records.buffers import Buffer
from syncline.storage.errors import (
    CorruptRecordsError,
    LogOfflineError,
    StorageError,
    UnexpectedOffsetError,
    is_refusal,
)
from syncline.storage.log import PartitionLog
from syncline.wire.fetch_response import FetchedPartition

log = logging.getLogger("syncline.node")


class FollowedLogs:
    """Applies one leader's answers to logs."""

    def __init__(
        self,
        leader_id: int,
        surroundings: FetcherSurroundings,
        *,
        on_late_cut: Callable[[Key], None],
        send_doubt: Callable[[Doubt], object],
        ask_append_times: Ask,
        follows: Callable[[Key, Partition], bool],
    ) -> None:
        self._leader_id = leader_id
        self._surroundings = surroundings
        # Called after a cut that had to wait for the disk.
        self._on_late_cut = on_late_cut
        # Partitions whose log began empty and is being filled, and since when.
        self._catching_up_since_ms: dict[Key, int] = {}
        # Logs that are synced before they adopt their leader's log start.
        self._syncing: dict[Key, None] = {}
        # Logs to cut as soon as a worker has planned the cut.
        self._cuts: dict[Key, Cut] = {}
        self._refused = RefusedRecords(leader_id, surroundings.clock, surroundings.observer.episodes, send_doubt)
        self._gaps = AppendTimeGaps(leader_id, surroundings.tasks, ask_append_times, follows)
        # For the metrics.
        self.fetched_bytes = 0

    def begin(self, key: Key, partition: Partition) -> None:
        """Start following a partition."""
        self._gaps.begin(key, partition)
        if partition.is_fresh:
            partition.is_fresh = False
            self._catching_up_since_ms[key] = self._surroundings.clock.mono_ms()

    def end(self, key: Key, partition: Partition) -> None:
        """Stop following a partition. A pending cut is cancelled: the next role decides again."""
        self.cancel_cut(key)
        self._gaps.end(key)
        self._refused.forget(partition.key)
        if self._catching_up_since_ms.pop(key, None) is not None:
            # The next leader's fetcher continues the report.
            partition.is_fresh = True
            self._surroundings.observer.catching_up_ended(partition.key)

    def close(self) -> None:
        """Cancel all cuts: the broker is stopping."""
        for key in list(self._cuts):
            self.cancel_cut(key)

    def check_invariants(self, partitions: Mapping[Key, Partition]) -> None:
        """Assert that cuts are pending, and logs catch up, only for followers of this leader."""
        assert self._catching_up_since_ms.keys() <= partitions.keys(), "a log catches up that is not followed"
        for key in self._cuts:
            partition = partitions.get(key)
            follower = partition.follower if partition is not None else None
            assert follower is not None, f"a cut of {key} is under way, and it is not followed from {self._leader_id}"
            assert follower.phase is FollowerPhase.TRUNCATING, f"{partition}: a cut is under way in {follower.phase}"

    def append(self, key: Key, partition: Partition, row: FetchedPartition) -> FollowerEffects:
        """Append the leader's records, and adopt its high watermark and log start."""
        follower, partition_log = partition.follower, partition.log
        assert follower is not None, f"{partition} does not follow"
        leader_mark = Offset(row.high_watermark)
        try:
            if row.records:
                self._write(partition, row)
            partition.take_leader_mark(leader_mark)
            if row.log_start_offset > partition_log.log_start:
                if partition.key.topic == OFFSETS_TOPIC:
                    self._adopt_when_synced(key, partition, row)
                else:
                    _adopt_log_start(partition, row)
        except CorruptRecordsError as error:
            # Those that were sent unread change if their leader has just lost its role: it refuses the next fetch.
            self._doubt(key, partition, error)
            follower.back_off(self._surroundings.clock.mono_ms())
            return ()
        except UnexpectedOffsetError as error:
            # The network has checksums of its own: offsets that go back are no accident on the way.
            self._doubt(key, partition, error)
            self._doubt(key, partition, error)
            return follower.fail(str(error))
        except LogOfflineError as error:
            return follower.fail(str(error))
        except StorageError as error:
            # Lack of space or descriptors is temporary. An answer may take several writes, of which some may be done.
            self._surroundings.refused_writes.refused(partition.key, error)
            resume_at_log_end(follower, partition_log)
            follower.back_off(self._surroundings.clock.mono_ms())
            return ()
        if self._refused.places and row.records:
            self._refused.forget(partition.key)
        follower.appended(
            log_end=partition_log.log_end,
            log_start=partition_log.log_start,
            latest_epoch=partition_log.epochs.latest_epoch,
            leader_high_watermark=leader_mark,
        )
        if self._gaps.waiting:
            self._gaps.answered(key, partition)
        return ()

    def _adopt_when_synced(self, key: Key, partition: Partition, row: FetchedPartition) -> None:
        """Adopt the log start of a log of groups when all that its leader had committed is here, and synced.

        What lies below was synced long ago, and its copies have just come (`groups/log_renewal.py`): they would be lost
        if all brokers lost power, or if this one were elected before it has caught up.
        """
        follower, partition_log = partition.follower, partition.log
        if partition_log.log_end < row.high_watermark or key in self._syncing:
            return
        self._syncing[key] = None

        def done(error: Exception | None) -> None:
            self._syncing.pop(key, None)
            if error is None and partition.follower is follower:
                # A log that has failed meanwhile, or was closed, stays as it is.
                with suppress(StorageError):
                    _adopt_log_start(partition, row)

        try:
            partition_log.flush_later(done)
        except StorageError:
            del self._syncing[key]
            raise

    def _doubt(self, key: Key, partition: Partition, error: StorageError) -> None:
        topic_id, index = UUID(bytes=key[0]), key[1]
        doubt = Doubt(self._surroundings.broker_id, topic_id, index, partition.leader_epoch, partition.log.log_end)
        self._refused.refused(partition.key, doubt, error)

    def _write(self, partition: Partition, row: FetchedPartition) -> None:
        clock = self._surroundings.clock
        began_ms = clock.mono_ms()
        partition.log.append_as_follower(cast("Buffer", row.records), row.append_times, row.unread)
        now_ms = clock.mono_ms()
        took_ms = now_ms - began_ms
        if took_ms >= NOTABLE_MS:
            self._surroundings.observer.disk_watch.wrote(partition.key, took_ms)
        record = partition.record
        is_moved = record is not None and self._surroundings.broker_id in record.adding
        self._surroundings.counters.replicated_in(len(row.records), now_ms, is_moved=is_moved)
        self.fetched_bytes += len(row.records)
        partition.watchers.log_end_moved()

    def report_catching_up(self, key: Key, partition: Partition, leader_end: int) -> None:
        """Report how far a log that began empty has been filled."""
        since_ms = self._catching_up_since_ms.get(key)
        if since_ms is None:
            return
        if not self._surroundings.observer.catching_up(partition, since_ms, self._leader_id, leader_end):
            del self._catching_up_since_ms[key]

    def truncate(self, key: Key, partition: Partition, effect: TruncateLog) -> None:
        """Cut the log, at once or when a worker has planned the cut; the follower is TRUNCATING meanwhile."""
        self.cancel_cut(key)
        before = partition.log.log_end
        is_late = False

        def done(error: StorageError | None) -> None:
            self._cuts.pop(key, None)
            self._truncated(partition, before, effect.evidence, error)
            if is_late:
                self._on_late_cut(key)

        def refused(error: StorageError) -> None:
            self._surroundings.refused_writes.refused(partition.key, error)

        cut = self._surroundings.cuts.order(partition, effect.offset, done, refused)
        follower = partition.follower
        if follower is not None and follower.phase is FollowerPhase.TRUNCATING:
            self._cuts[key] = cut
            is_late = True

    def cancel_cut(self, key: Key) -> None:
        """Cancel the pending cut of a log, if there is one."""
        cut = self._cuts.pop(key, None)
        if cut is not None:
            cut.cancel()

    def restart(self, partition: Partition, effect: RestartLog) -> None:
        """Replace the log by an empty one that starts where the leader's log does."""
        before, error = partition.log.log_end, None
        try:
            with self._surroundings.cuts.holding_loop(partition.key):
                partition.log.restart_at(effect.start_offset)
        except StorageError as refusal:
            error = refusal
        self._truncated(partition, before, effect.evidence, error)

    def _truncated(self, partition: Partition, before: Offset, evidence: Evidence, error: StorageError | None) -> None:
        """Continue at the log end after a cut, or after one that failed."""
        follower = partition.follower
        assert follower is not None, f"the cut of {partition} was not cancelled"
        if error is not None and is_refusal(error):
            # The next fetch, at an offset that the leader does not have, leads to the same restart.
            self._surroundings.refused_writes.refused(partition.key, error)
            resume_at_log_end(follower, partition.log)
            follower.back_off(self._surroundings.clock.mono_ms())
            return
        if error is not None:
            follower.fail(str(error))
            return
        partition.truncated()
        self._surroundings.journal.truncated(partition, self._leader_id, before, evidence)
        resume_at_log_end(follower, partition.log)


def resume_at_log_end(follower: FollowerPartition, partition_log: PartitionLog) -> None:
    """Let a follower fetch from its current log end."""
    follower.truncated(partition_log.log_end, partition_log.epochs.latest_epoch, partition_log.log_start)


def resume_at_log_ends(partitions: Mapping[Key, Partition]) -> Iterator[Key]:
    """Let followers fetch from their log ends, as records may have been written before a failure; yield their keys."""
    for key, partition in partitions.items():
        follower = partition.follower
        if follower is not None and follower.phase is FollowerPhase.FETCHING:
            resume_at_log_end(follower, partition.log)
            yield key


def _adopt_log_start(partition: Partition, row: FetchedPartition) -> None:
    if partition.log.raise_log_start(Offset(min(row.log_start_offset, partition.high_watermark))):
        partition.watchers.log_start_moved()
