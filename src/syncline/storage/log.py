"""A partition's log: one writer, many readers, and the rules that keep it whole.

One hard idea: an append is one write and a few stores in memory, never an fsync. Replication makes records durable.
What the disk itself promises is the recovery point; it moves only when everything below it has been synced, including
older segments, their names and the epoch history. Recovery (`recovery/`) relies on exactly that promise.

Failure: a full disk, or a process without descriptors, refuses a call and leaves the log as it was (a cut that is half
done goes on with the next call); any other error of a write or a sync takes the log offline (`LogOfflineError`),
because the file may hold anything.

Units: offsets count records; `log_end`, `high_watermark` and `recovery_point` are exclusive; positions are bytes; times
are milliseconds. Invariants: `log_start <= log_end`; segments follow each other without a gap; the last one alone
grows; `recovery_point <= log_end`.
Source: KIP-101 (epochs), KIP-107 (DeleteRecords), KAFKA-10778, KAFKA-6683.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Final
from uuid import UUID

from syncline.core.producer_state import OFFSET_MAX
from syncline.model.errors import ErrorCode, RequestError
from syncline.model.ids import NONE, LeaderEpoch, Offset, TopicPartition
from syncline.model.lag import OffsetPlace
from syncline.records.batch import STAMP, BatchHeader
from syncline.records.buffers import Buffer, FileRange
from syncline.records.unread import Unread
from syncline.storage.arrivals.append_times import CopiedTime
from syncline.storage.arrivals.read_facts import Noted, ReadReport
from syncline.storage.availability import Availability
from syncline.storage.disk import Disk
from syncline.storage.errors import StorageError, is_refusal
from syncline.storage.lag import byte_lag
from syncline.storage.lag.byte_lag import CoordinateSearch
from syncline.storage.lag.log_times import LogTimes
from syncline.storage.lag.places import Places, PlaceSearch
from syncline.storage.pages.written import Written
from syncline.storage.recovery.recover import Recovered
from syncline.storage.removal import cutting
from syncline.storage.removal.cut_steps import CutSteps
from syncline.storage.removal.cutting import CutPlan, CutSearch
from syncline.storage.removal.retention import SegmentDeleted, Situation
from syncline.storage.removal.trimming import Trimming
from syncline.storage.segments import incoming, read_plans, segment_checks, times
from syncline.storage.segments.incoming import FollowerAppend
from syncline.storage.segments.read_plans import Readable
from syncline.storage.segments.reading import EMPTY, Search, Slice, Wanted
from syncline.storage.segments.segment import Segment
from syncline.storage.segments.segment_list import SegmentList
from syncline.storage.segments.times import TimestampedOffset
from syncline.storage.settings import LogSettings
from syncline.storage.writing.flusher import Flusher
from syncline.storage.writing.segment_writer import SegmentWriter

_make: Final = tuple.__new__  # A named tuple's own constructor takes three times as long.


class PartitionLog:
    """The log of one partition on this broker."""

    def __init__(
        self,
        disk: Disk,
        directory: str,
        *,
        topic_partition: TopicPartition,
        topic_id: UUID | None,
        settings: LogSettings,
        recovered: Recovered,
        high_watermark: Offset,
        make_directory: Callable[[], None] | None,
        on_recovery_point_lowered: Callable[[], None],
        written: Written,
    ) -> None:
        self.topic_partition = topic_partition
        self.topic_id = topic_id
        self.settings = settings
        self.directory = directory
        self.log_start = recovered.log_start
        self.log_end = recovered.log_end
        self.epochs = recovered.epochs
        self.producers = recovered.producers
        # The node sets it whenever it moves; retention stops here.
        self.high_watermark = Offset(min(max(high_watermark, self.log_start), self.log_end))
        self.on_offline: Callable[[PartitionLog, OSError], None] | None = None
        self._availability = Availability(topic_partition, self._went_offline)
        self._disk = disk
        segments = self._segments = SegmentList(
            disk,
            directory,
            recovered.segments or [Segment(disk, directory, recovered.log_end, settings.index_interval_bytes)],
        )
        self.append_times = LogTimes(self._segments, self._availability, written)
        self._places = Places(self._segments)
        self._flusher = Flusher(
            disk,
            directory,
            self._segments,
            self.epochs,
            recovered.recovery_point,
            is_new=make_directory is not None,
            on_failure=self._availability.fail_later,
            on_lowered=on_recovery_point_lowered,
        )
        self._writer = SegmentWriter(
            disk,
            directory,
            self._segments,
            self._flusher,
            self.epochs,
            self.producers,
            self._availability,
            written,
            make_directory=make_directory,
        )
        self._cuts = CutSteps(
            disk, directory, segments, self._flusher, self._writer, self.epochs, self.producers, self._availability
        )
        self._trimming = Trimming(disk, self._segments, self._flusher, self._writer, self._availability)

    def __repr__(self) -> str:
        return f"PartitionLog({self.topic_partition}, {self.log_start}..{self.log_end})"

    @property
    def is_offline(self) -> bool:
        """Whether an I/O error has taken this log offline."""
        return self._availability.failure is not None

    @property
    def recovery_point(self) -> Offset:
        """Everything below was flushed."""
        return self._flusher.recovery_point

    @property
    def keep_cached_bytes(self) -> int:
        """How many of the newest bytes stay in the page cache; or ALL or WANTED of `cached_pages.py`."""
        return self._writer.pages.keep_bytes

    @keep_cached_bytes.setter
    def keep_cached_bytes(self, newest_bytes: int) -> None:
        self._writer.pages.keep_bytes = newest_bytes

    @property
    def size_bytes(self) -> int:
        """The size of all batches that are still there, including those below the log start in a kept segment."""
        return self._segments.size_bytes

    @property
    def segment_count(self) -> int:
        """The number of segments, including the active one."""
        return len(self._segments)

    @property
    def first_base_offset(self) -> Offset:
        """The base offset of the oldest segment, at or below the log start."""
        return self._segments.first.base_offset

    @property
    def active_base_offset(self) -> Offset:
        """The base offset of the segment that grows."""
        return self._segments.active.base_offset

    @property
    def segments(self) -> tuple[Segment, ...]:
        """The segments, oldest first, for tools and tests; callers must not change them."""
        return tuple(self._segments)

    def append_as_leader(self, batch: Buffer, header: BatchHeader, append_ms: int = NONE) -> None:
        """Store one validated batch that was stamped with the log end and this leader's epoch.

        `append_ms` is the wall clock's time, of which the log keeps what `append_times` tells; -1: it keeps nothing.
        Raises DiskFullError if there is no room, LogOfflineError if this log is offline.
        """
        self._availability.check()
        base_offset, _, leader_epoch = STAMP.unpack_from(batch)
        assert base_offset == header.base_offset == self.log_end, (
            f"{self!r}: a batch of offset {header.base_offset} is stamped with {base_offset}"
        )
        assert leader_epoch == header.leader_epoch >= self.epochs.latest_epoch, (
            f"{self!r}: a batch of epoch {header.leader_epoch} is stamped with {leader_epoch}, behind {self.epochs!r}"
        )
        self.log_end = self._writer.append(batch, header, self.settings, append_ms)
        self._after_write()

    def append_as_follower(
        self, buffer: Buffer, append_times: Sequence[CopiedTime] = (), unread: Unread | None = None
    ) -> FollowerAppend:
        """Store the whole batches of a leader's answer as they are; drop a partial batch at the end.

        `append_times` are the leader's entries for some of them, in order, and possibly the one before. `unread` is
        what the leader says of batches that it has not read. Raises as `incoming.checked` does, and stores nothing.
        """
        asked_from = self.log_end
        self._availability.check()
        if self.log_end != asked_from:
            raise StorageError(f"{self.topic_partition} was cut at {self.log_end} after this fetch from {asked_from}")
        view = memoryview(buffer)
        batches = incoming.checked(view, self.log_end, self.epochs.latest_epoch, self.topic_partition, unread)
        if not batches:
            return FollowerAppend(self.log_end, self.log_end, 0, 0, NONE)
        first_offset = batches[0].header.base_offset
        if first_offset > self.log_end == self.first_base_offset and not self.size_bytes:
            # An empty log begins where its leader's log does.
            self.restart_at(Offset(first_offset))
        try:
            self._writer.append_all(view, batches, self.settings, append_times)
        finally:
            # If the batches belong to two segments, those for the first one may have been stored.
            self.log_end = self._segments.active.end_offset
        size_bytes = batches[-1].end
        self._after_write()
        newest_ms: int = NONE
        for _, _, header in batches:
            newest_ms = max(newest_ms, header.max_timestamp)
        return _make(FollowerAppend, (first_offset, self.log_end, size_bytes, len(batches), newest_ms))

    def _after_write(self) -> None:
        if self.log_end - self._flusher.recovery_point >= self.settings.flush_messages and not self._flusher.is_running:
            self.flush_later(lambda _: None)

    def assign_leader_epoch(self, leader_epoch: LeaderEpoch) -> bool:
        """Record that this broker leads in `leader_epoch` from the log end on; return whether that changed anything."""
        self._availability.check()
        is_changed = self.epochs.assign(leader_epoch, self.log_end)
        self._flusher.epochs_changed(is_changed)
        return is_changed

    def read_plan(
        self, offset: Offset, max_bytes: int, upper_bound: Offset, at_least_one: bool = True
    ) -> Slice | Search:
        """Return where the batches from `offset` up to `upper_bound` (exclusive) lie, at most `max_bytes` of them.

        With `at_least_one` the first batch is included even if it is larger. The result
        lies in one segment. Raises RequestError if `offset` is outside the log.
        """
        self._availability.check()
        upper = min(upper_bound, self.log_end)
        if offset < self.log_start or offset > self.log_end:
            raise RequestError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"Offset {offset} of {self.topic_partition} is outside {self.log_start}..{self.log_end}",
            )
        if offset >= upper:
            return EMPTY
        self._writer.pages.was_read(offset)
        return read_plans.plan(self._segments, _make(Wanted, (offset, upper, max_bytes, at_least_one)))

    def unread(self, offset: Offset, plan: Slice) -> tuple[FileRange, Unread] | None:
        """Return batches from `offset` on to be sent unread, and what to say of them; None if they must be read."""
        return read_plans.unread(self._segments, self.epochs, offset, plan)

    def readable(self, offset: Offset, upper_bound: Offset) -> Readable:
        """Return the bytes between two offsets: exact among the newest batches, elsewhere a little too few."""
        upper = min(upper_bound, self.log_end)
        if offset >= upper or offset < self.log_start:
            return Readable(0, is_on_older_segment=False)
        return read_plans.readable(self._segments, _make(Wanted, (offset, upper, 2**62, True)))

    @property
    def newest_timestamp_ms(self) -> int:
        """The largest timestamp of the newest segment that has one, -1 if none has."""
        return self._segments.newest_timestamp_ms

    def read_noted(self, offset: Offset, plan: Slice) -> Noted:
        """Return what a read from `offset` notes of its lag, from memory alone. At the moment of the read."""
        _, position_bytes, size_bytes, base_bytes = plan
        active = self._segments.active
        # Most consumers read there.
        segment = active if offset >= active.base_offset else self._segments.of(offset)
        assert position_bytes + size_bytes <= segment.size_bytes, f"{segment!r} ends within a planned read"
        recent = segment.append_times.recent
        floor = None if recent is None else recent.floor_at(position_bytes)
        return self._writer.state(active), base_bytes, position_bytes, floor, segment.dropped_to

    def read_report(self, offset: Offset, *, with_time: bool) -> ReadReport:
        """Return what the worker of a read from `offset` fills in; `with_time`: also when its first batch came."""
        assert self.log_start <= offset < self.log_end, f"{self!r} is read from {offset}"
        segment = self._segments.of(offset)
        state = self._writer.state(self._segments.active)
        return ReadReport(state, segment.append_times.find(offset) if with_time else None, segment.dropped_to)

    def bytes_from(self, offset: Offset) -> int:
        """Return the bytes at and above `offset`: exact among the newest batches, elsewhere a little too many."""
        if offset >= self.log_end:
            return 0
        return self._segments.end_bytes - byte_lag.floor(self._segments, max(offset, self.log_start))

    def byte_bounds(self) -> tuple[int, int]:
        """Return the byte coordinates of the log start, possibly a little too low, and of the log end."""
        return byte_lag.floor(self._segments, self.log_start), self._segments.end_bytes

    def place(self, offset: Offset, *, is_exact: bool) -> OffsetPlace | PlaceSearch:
        """Return what `places` returns for one offset."""
        return self.places((offset,), is_exact=is_exact)[0]

    def places(self, offsets: Iterable[Offset], *, is_exact: bool) -> list[OffsetPlace | PlaceSearch]:
        """Return where offsets lie and when they came, or what a worker needs to find that out; ascending is quickest.

        An offset below the log start counts as the log start, one beyond the log end as the log end. Without
        `is_exact`, the coordinate may be too low by less than one index interval and one batch.
        """
        self._availability.check()
        start, end = self.log_start, self.log_end
        retention_ms = self.settings.retention_ms if self.settings.is_delete_policy else NONE
        return self._places.find([min(max(each, start), end) for each in offsets], end, retention_ms, is_exact=is_exact)

    def readable_before(self, offset: Offset) -> int:
        """Return the records that consumers can read below `offset`, from an origin; -1: it takes the disk to know."""
        return self._places.readable_before(offset)

    def coordinate(self, offset: Offset, *, is_exact: bool) -> int | CoordinateSearch:
        """Return the byte coordinate of the batch that holds `offset`, or what a worker needs to find it.

        An offset outside the log counts as the nearest inside. Without `is_exact`, it may be too low by less than one
        index interval and one batch. The lag of a reader at `offset` is what it lacks to the end of `byte_bounds`.
        """
        self._availability.check()
        return byte_lag.find(self._segments, min(max(offset, self.log_start), self.log_end), is_exact=is_exact)

    def offset_for_time_later(
        self, timestamp_ms: int, done: Callable[[TimestampedOffset | Exception | None], None]
    ) -> None:
        """Look `timestamp_ms` up in a worker."""
        self._availability.check()
        places, log_start = self._segments.places(timestamp_ms), self.log_start
        self._disk.run_later(lambda: times.first_at_or_after(places, timestamp_ms, log_start), done)

    def offset_of_max_timestamp_later(self, done: Callable[[TimestampedOffset | Exception | None], None]) -> None:
        """Find the first record with the largest timestamp in a worker."""
        self._availability.check()
        places = self._segments.places(self._segments.max_timestamp_ms)
        self._disk.run_later(lambda: times.latest(places), done)

    def roll(self, *, is_snapshot_synced: bool = False) -> None:
        """Begin a new segment unless the active one is empty; sync the old one in the background."""
        self._availability.check()
        self._writer.roll(self.settings, is_snapshot_synced=is_snapshot_synced)

    def watch_syncs(self, began: Callable[[], Callable[[], object]]) -> None:
        """Call `began` when a sync begins in a worker, and what it returns when that sync ends."""
        self._flusher.on_sync = began

    def flush(self) -> None:
        """Make everything appended so far safe from a power cut."""
        self._availability.check()
        if self._writer.has_directory and self._flusher.needs_flush(self.log_end):
            with self._availability.refusing("flush"):
                self._flusher.flush(self.log_end)

    def flush_later(self, done: Callable[[Exception | None], None]) -> None:
        """Flush in a worker; then move the recovery point and call `done`."""
        self._availability.check()
        self._flusher.flush_later(self.log_end, done)

    def plan_cut(self, offset: Offset) -> CutPlan | CutSearch:
        """Return how to cut at `offset`, or what a worker needs to find that out on the disk.

        The log does not change and stays usable.
        """
        self._availability.check()
        if offset >= self.log_end or offset < self._segments.first.base_offset:
            return CutPlan(offset, self._cuts.shape())
        try:
            return cutting.plan(self._disk, self.directory, self._segments, self.producers, offset, self._cuts.shape())
        except OSError as error:
            self._availability.refuse(error, "truncate")

    def cut(self, plan: CutPlan) -> bool:
        """Cut as planned, without reading; return False if the log has changed since and needs a new plan.

        Waits for writes and syncs: no append may come before the cut is safe on the disk.
        """
        self._availability.check()
        if plan.shape != self._cuts.shape():
            return False
        if plan.rest is not None:
            self._cuts.cut_to(plan.rest, plan.producers, self._end_at)
        elif plan.offset >= self.log_end:
            self._flusher.epochs_changed(self.epochs.truncate_from_end(self.log_end))
        else:
            self.restart_at(plan.offset)
        return True

    def search_failed(self, search: CutSearch, error: Exception) -> None:
        """Decide what follows from a failed search for a plan; return if the caller may try again.

        Raises LogOfflineError if the disk, or what is on it, is to blame.
        """
        self._availability.check()
        if search.shape != self._cuts.shape() or is_refusal(error):
            return
        self._availability.fail(error, "truncate")

    def restart_at(self, offset: Offset) -> None:
        """Drop all records, without reading; the empty log goes on at `offset` (truncate fully and start at)."""
        self._availability.check()
        self._cuts.restart_at(offset, self.settings.index_interval_bytes, self._be_empty_at)

    def _end_at(self, offset: Offset) -> None:
        self.log_end = offset
        self.log_start = min(self.log_start, offset)
        self.high_watermark = min(self.high_watermark, offset)

    def _be_empty_at(self, offset: Offset) -> None:
        self.log_start = self.log_end = self.high_watermark = offset

    def _begin_at(self, offset: Offset) -> None:
        """Make `offset` the first readable one, unless a later one is."""
        self.log_start = max(self.log_start, offset)
        self._flusher.epochs_changed(self.epochs.truncate_from_start(self.log_start))

    def raise_log_start(self, offset: Offset) -> bool:
        """Make `offset` the first readable one; retention removes files later. Return whether anything changed.

        Raises RequestError if that would drop records that are not committed.
        """
        self._availability.check()
        if offset > self.high_watermark:
            raise RequestError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"Cannot increment the log start offset to {offset} of partition {self.topic_partition} "
                f"since it is larger than the high watermark {self.high_watermark}",
            )
        if offset <= self.log_start:
            return False
        self._begin_at(offset)
        return True

    def retention(self, now_ms: int) -> tuple[SegmentDeleted, ...]:
        """Remove segments that are too old, beyond the size limit or below the log start; sweep what is due.

        Removes nothing at or above the high watermark; stops at the first segment that stays.
        """
        self._availability.check()
        excess_bytes = self.size_bytes - self.settings.retention_bytes
        situation = Situation(now_ms, self.high_watermark, self.log_start, excess_bytes)
        deleted = self._trimming.delete_due(situation, self.settings, self._begin_at)
        self._trimming.sweep(now_ms)
        return deleted

    def sweep(self, now_ms: int) -> None:
        """Remove the files of deleted segments that are due."""
        self._trimming.sweep(now_ms)

    def close_cleanly(self) -> None:
        """Make everything durable; write the indexes and the snapshot, so that the next start need not scan."""
        if self._availability.is_closed:
            return
        self._availability.check()
        self.flush()
        with self._availability.refusing("close"):
            active = self._segments.active
            active.save_for_good()
            if self.log_end:
                self._writer.save_snapshot(sync=False)
        self.close()

    def close(self) -> None:
        """Close all files without writing anything."""
        self._availability.close()
        self._flusher.is_closed = True
        self.on_offline = None
        self._writer.pages.close()
        self._segments.release()

    def check_invariants(self) -> None:
        """Assert what must hold between any two calls while the log is whole and not offline; reads no file."""
        if self.is_offline or not self._availability.is_whole:
            return
        self.check_newest()
        self._segments.check_invariants()
        self._flusher.check_invariants()
        self.epochs.check_invariants()
        self.producers.check_invariants()
        rests_on = self.producers.rests_on()
        assert rests_on < self.log_end or rests_on == OFFSET_MAX, f"{self!r}: producers rest on offset {rests_on}"

    def check_newest(self) -> None:
        """Assert what a single step could break: bounds, and the end of the active segment."""
        if self.is_offline or not self._availability.is_whole:
            return
        first, active = self._segments.first, self._segments.active
        assert first.base_offset <= self.log_start <= self.log_end, f"{self!r} begins before {first!r}"
        assert active.end_offset == self.log_end, f"{self!r} does not end with {active!r}"
        assert self.log_start <= self.high_watermark <= self.log_end, f"{self!r}: watermark {self.high_watermark}"
        self._flusher.check_bounds()
        segment_checks.check_newest(active)
        if entries := self.epochs.entries:
            first_start, last_start = entries[0].start_offset, entries[-1].start_offset
            assert self.log_start <= first_start <= last_start <= self.log_end, f"{self!r}: {self.epochs!r}"

    def take_offline(self, error: OSError) -> None:
        """Stop serving this log: its disk failed. The first error calls `on_offline`."""
        self._availability.take_offline(error)

    def _went_offline(self, error: OSError) -> None:
        if self.on_offline is not None:
            self.on_offline(self, error)
