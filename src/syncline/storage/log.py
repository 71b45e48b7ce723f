"""A partition's log: one writer, many readers, and the rules that keep it whole.

One hard idea: an append is one write and a few stores in memory, never an
fsync. Replication is the durability; what the disk itself promises is written
down as the recovery point, and it moves only when everything below it, all
older segments, their names and the epoch history included, has been synced.
Recovery (`recovery.py`) rests on exactly that promise.

Failure: a full disk refuses and leaves the log as it was; any other error of a
write or a sync makes the log final (`LogOfflineError`), since nobody knows what
the file holds then.

Units: offsets count records; `log_end`, `high_watermark` and `recovery_point`
are exclusive; positions are bytes; times are milliseconds.
Invariants: `log_start <= log_end`; segments follow each other without a gap;
the last segment is the only one that grows; `recovery_point <= log_end`.
Source: KIP-101 (epochs), KIP-107 (DeleteRecords), KAFKA-10778, KAFKA-6683.
"""

import contextlib
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from typing import Final, NamedTuple, NoReturn
from uuid import UUID

from syncline.core.producer_state import ProducerTable
from syncline.model.errors import ErrorCode, RequestError
from syncline.model.ids import NONE, LeaderEpoch, Offset, TopicPartition
from syncline.records.batch import BatchHeader
from syncline.records.buffers import Buffer
from syncline.storage import incoming, producer_snapshot, times
from syncline.storage.batch_walk import HeaderReader, NotABatch, NotResident
from syncline.storage.cutting import CutPlan, CutSearch, Shape, Stretch
from syncline.storage.disk import BrokenFileError, Disk
from syncline.storage.errors import (
    DiskFullError,
    LogOfflineError,
    StorageError,
    is_full,
    is_out_of_descriptors,
)
from syncline.storage.flusher import Flusher
from syncline.storage.reading import EMPTY, Search, Slice, Wanted, locate
from syncline.storage.recovery import Recovered
from syncline.storage.retention import SegmentDeleted, Situation, reason_to_delete
from syncline.storage.segment import INDEX_SUFFIX, SNAPSHOT_SUFFIX, Segment, file_name
from syncline.storage.segment_list import SegmentList
from syncline.storage.settings import LogSettings
from syncline.storage.times import TimestampedOffset

# Written this much, the page cache gets a hint.
RECYCLE_BYTES: Final = 8 << 20


class FollowerAppend(NamedTuple):
    """What one answer of a leader added."""

    first_offset: int
    log_end: Offset
    size_bytes: int
    batch_count: int
    max_timestamp_ms: int


class Readable(NamedTuple):
    """How much a parked fetch could get, as far as that is known without reading."""

    size_bytes: int
    is_on_older_segment: bool


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
    ) -> None:
        self.topic_partition = topic_partition
        self.topic_id = topic_id
        self.settings = settings
        self.directory = directory
        self.log_start = recovered.log_start
        self.log_end = recovered.log_end
        self.epochs = recovered.epochs
        self.producers = recovered.producers
        # Set by the node whenever it moves; retention stops here.
        self.high_watermark = Offset(min(max(high_watermark, self.log_start), self.log_end))
        self.keep_cached_bytes: int | None = None
        self.on_offline: Callable[[PartitionLog, OSError], None] | None = None
        self._disk = disk
        # Makes the partition directory before the first file; None once it is there.
        self._make_directory = make_directory
        self._on_recovery_point_lowered = on_recovery_point_lowered
        self._segments = SegmentList(
            disk,
            directory,
            recovered.segments or [Segment(disk, directory, recovered.log_end, settings.index_interval_bytes)],
        )
        self._flusher = Flusher(
            disk,
            directory,
            self._segments,
            self.epochs,
            recovered.recovery_point,
            is_new=make_directory is not None,
            on_failure=self._fail_later,
        )
        self._failure: OSError | None = None
        self._is_closed = False
        # So that a plan of a cut can tell that there was another one meanwhile.
        self._cut_count = 0
        self._written_since_recycle = 0
        # (path, when it may be removed) of files that retention has renamed.
        self._graveyard: deque[tuple[str, int]] = deque()

    def __repr__(self) -> str:
        return f"PartitionLog({self.topic_partition}, {self.log_start}..{self.log_end})"

    @property
    def is_offline(self) -> bool:
        """Whether an I/O error has made this log final."""
        return self._failure is not None

    @property
    def recovery_point(self) -> Offset:
        """Everything below was flushed."""
        return self._flusher.recovery_point

    @property
    def size_bytes(self) -> int:
        """All batches that are still there, also those below the log start in a kept segment."""
        return self._segments.size_bytes

    @property
    def segment_count(self) -> int:
        """How many segments there are, the active one included."""
        return len(self._segments)

    @property
    def first_base_offset(self) -> Offset:
        """Where the oldest segment begins, at or below the log start."""
        return self._segments.first.base_offset

    @property
    def segments(self) -> tuple[Segment, ...]:
        """The segments, oldest first; for tools and tests, which must not change them."""
        return tuple(self._segments)

    # Appending

    def append_as_leader(self, batch: Buffer, header: BatchHeader) -> None:
        """Store one validated batch that was stamped with the log end and this leader's epoch.

        Raises DiskFullError when there is no room, LogOfflineError when this log is final.
        """
        self._check_usable()
        if header.base_offset != self.log_end:
            raise AssertionError(f"{self!r}: a batch stamped with {header.base_offset} cannot be appended")
        segment = self._active_for(len(batch), header)
        self._write(segment, batch)
        self._note(segment, header, segment.size_bytes)
        self._after_write(len(batch))

    def append_as_follower(self, buffer: Buffer) -> FollowerAppend:
        """Store the whole batches of a leader's answer as they are; a partial batch at the end is left out.

        Raises CorruptRecordsError if any of them is damaged and
        UnexpectedOffsetError if they do not continue this log; nothing is stored then.
        """
        self._check_usable()
        view = memoryview(buffer)
        batches = incoming.checked(view, self.log_end, self.topic_partition)
        if not batches:
            return FollowerAppend(self.log_end, self.log_end, 0, 0, NONE)
        first_offset = batches[0].header.base_offset
        if first_offset > self.log_end == self.first_base_offset and not self.size_bytes:
            # An empty log takes up where its leader's log begins now.
            self.restart_at(Offset(first_offset))
        size_bytes = 0
        max_timestamp_ms = NONE
        at = 0
        while at < len(batches):
            start, header = batches[at]
            segment = self._active_for(header.size_bytes, header)
            behind = incoming.count_fitting(segment, self.settings.segment_bytes, batches, at)
            end = batches[behind - 1].end
            position = segment.size_bytes
            self._write(segment, view[start:end])
            for batch in batches[at:behind]:
                self._note(segment, batch.header, position + batch.start - start)
                max_timestamp_ms = max(max_timestamp_ms, batch.header.max_timestamp)
            size_bytes += end - start
            self._after_write(end - start)
            at = behind
        return FollowerAppend(first_offset, self.log_end, size_bytes, len(batches), max_timestamp_ms)

    def _active_for(self, size_bytes: int, header: BatchHeader) -> Segment:
        """Return the segment for a batch, a new one if the active one has had enough."""
        segment, settings = self._segments.active, self.settings
        if segment.is_full_for(
            size_bytes, header, settings.segment_bytes, settings.segment_ms
        ) or segment.has_full_index(settings.segment_index_bytes):
            self.roll()
        return self._segments.active

    def _write(self, segment: Segment, data: Buffer) -> None:
        """Append to a segment's file; nothing is remembered if that fails (KAFKA-6683)."""
        try:
            file = segment.open_file
            if file is None:
                self._need_directory()
                file = segment.file
                if not segment.size_bytes:
                    self._flusher.note_name()
            file.append((data,))
        except OSError as error:
            self._refuse(error, "append to")

    def _need_directory(self) -> None:
        """Make the partition directory, if nothing has been stored yet. Raises OSError."""
        if self._make_directory is not None:
            self._make_directory()
            self._make_directory = None

    def _note(self, segment: Segment, header: BatchHeader, position: int) -> None:
        """Take a batch that was written into account."""
        segment.note(header, position)
        self.log_end = segment.end_offset
        if self.epochs.assign(LeaderEpoch(header.leader_epoch), Offset(header.base_offset)):
            self._flusher.note_epochs()
        if header.producer_id >= 0:
            self.producers.record(header)

    def _after_write(self, size_bytes: int) -> None:
        self._written_since_recycle += size_bytes
        if self._written_since_recycle >= RECYCLE_BYTES:
            self._written_since_recycle = 0
            file = self._segments.active.open_file
            if self.keep_cached_bytes is not None and file is not None:
                file.recycle(self.keep_cached_bytes)
        if self.log_end - self.recovery_point >= self.settings.flush_messages and not self._flusher.is_running:
            self.flush_later(_ignore)

    def assign_leader_epoch(self, leader_epoch: LeaderEpoch) -> bool:
        """Note that this broker leads in `leader_epoch` from the log end on; return whether that was news."""
        self._check_usable()
        is_news = self.epochs.assign(leader_epoch, self.log_end)
        self._flusher.note_epochs(is_news)
        return is_news

    # Reading

    def read_plan(
        self, offset: Offset, max_bytes: int, upper_bound: Offset, at_least_one: bool = True
    ) -> Slice | Search:
        """Return where the batches from `offset` to below `upper_bound` lie, at most `max_bytes` of them.

        With `at_least_one` the first batch comes even if it is larger. The answer
        lies in one segment. Raises RequestError when `offset` is outside the log.
        """
        self._check_usable()
        upper = min(upper_bound, self.log_end)
        if offset < self.log_start or offset > self.log_end:
            raise RequestError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"Offset {offset} of {self.topic_partition} is outside {self.log_start}..{self.log_end}",
            )
        if offset >= upper:
            return EMPTY
        segment = self._segments.of(offset)
        wanted = Wanted(offset, upper, max_bytes, at_least_one)
        place = segment.find_in_tail(wanted)
        if place is not None:
            return Slice(segment.file, *place) if place[1] else EMPTY
        if segment is not self._segments.active:
            self._segments.keep_warm(segment)
        return self._plan_from_index(segment, wanted)

    def _plan_from_index(self, segment: Segment, wanted: Wanted) -> Slice | Search:
        hints = segment.hints(wanted)
        if hints is not None:
            try:
                file = segment.file
                reader = HeaderReader(file, segment.size_bytes, resident_only=True)
                position, size = locate(reader, hints, wanted)
            except (NotResident, OSError):
                # What the disk refuses, a descriptor for instance, the worker will meet again and report.
                pass
            except NotABatch:
                # The index leads nowhere: let the search begin at the first batch.
                hints = None
            else:
                return Slice(file, position, size) if size else EMPTY
        return Search(
            self._disk,
            segment.path(),
            segment.base_offset,
            segment.size_bytes,
            segment.end_offset,
            wanted,
            hints,
            segment.path(INDEX_SUFFIX),
        )

    def readable(self, offset: Offset, upper_bound: Offset) -> Readable:
        """Return how much lies between two offsets; exact among the newest batches, elsewhere a little less."""
        upper = min(upper_bound, self.log_end)
        if offset >= upper or offset < self.log_start:
            return Readable(0, is_on_older_segment=False)
        segment = self._segments.of(offset)
        wanted = Wanted(offset, upper, 2**62, at_least_one=True)
        place = segment.find_in_tail(wanted)
        if place is not None:
            return Readable(place[1], is_on_older_segment=False)
        is_older = upper > segment.end_offset
        hints = segment.hints(wanted)
        known = hints.upper - hints.start if hints is not None else segment.size_bytes
        return Readable(max(1, known), is_on_older_segment=is_older)

    def bytes_behind(self, plan: Slice) -> int:
        """Return how much of the log lies at and behind what a plan reads; found from the end, where most read."""
        active = self._segments.active
        if active.open_file is plan.file:
            return active.size_bytes - plan.position_bytes
        size_bytes = 0
        for segment in self._segments.newest_first():
            size_bytes += segment.size_bytes
            if segment.open_file is plan.file:
                return size_bytes - plan.position_bytes
        return size_bytes

    @property
    def newest_timestamp_ms(self) -> int:
        """The largest record time of the newest segment that has any, -1 when none has."""
        newest_ms = self._segments.active.max_timestamp_ms
        if newest_ms >= 0:
            return newest_ms
        for segment in self._segments.newest_first():
            if segment.max_timestamp_ms >= 0:
                return segment.max_timestamp_ms
        return NONE

    def bytes_from(self, offset: Offset) -> int:
        """Return how much lies at and above `offset`; exact among the newest batches, elsewhere a little less."""
        if offset >= self.log_end:
            return 0
        first = self._segments.of(max(offset, self.log_start))
        size_bytes = self.readable(max(offset, self.log_start), first.end_offset).size_bytes
        for segment in self._segments:
            if segment.base_offset > first.base_offset:
                size_bytes += segment.size_bytes
        return size_bytes

    def offset_for_time(self, timestamp_ms: int) -> TimestampedOffset | None:
        """Return the first record in offset order that is not older; may wait for the disk."""
        return times.first_at_or_after(self._places(timestamp_ms), timestamp_ms, self.log_start)

    def offset_for_time_later(
        self, timestamp_ms: int, done: Callable[[TimestampedOffset | Exception | None], None]
    ) -> None:
        """Look `timestamp_ms` up in a worker."""
        places, log_start = self._places(timestamp_ms), self.log_start
        self._disk.run_later(lambda: times.first_at_or_after(places, timestamp_ms, log_start), done)

    def offset_of_max_timestamp(self) -> TimestampedOffset | None:
        """Return the first record with the largest timestamp; may wait for the disk."""
        return times.latest(self._places(self._segments.max_timestamp_ms))

    def offset_of_max_timestamp_later(self, done: Callable[[TimestampedOffset | Exception | None], None]) -> None:
        """Find the first record with the largest timestamp in a worker."""
        places = self._places(self._segments.max_timestamp_ms)
        self._disk.run_later(lambda: times.latest(places), done)

    def _places(self, timestamp_ms: int) -> list[times.Place]:
        """Return what a look-up by time needs of each segment, as plain values that a worker may keep."""
        self._check_usable()
        return [
            segment.place(timestamp_ms)
            for segment in self._segments
            if segment.size_bytes and segment.max_timestamp_ms >= timestamp_ms
        ]

    # Segments and durability

    def roll(self, *, is_snapshot_synced: bool = False) -> None:
        """Begin a new segment; an empty one is not rolled. The old one is synced in the background."""
        self._check_usable()
        old = self._segments.active
        if not old.size_bytes:
            return
        try:
            # The new segment's name may reach the disk before the old one's: the log would seem to begin late.
            self._flusher.save_names()
            self._save_snapshot(sync=is_snapshot_synced)
        except OSError as error:
            self._refuse(error, "roll")
        old.finish()
        old.drop_tail()
        self._segments.add(self.log_end, self.settings.index_interval_bytes)
        self._segments.keep_warm(old)
        self._flusher.finish_later(old, self._snapshot_path(self.log_end))

    def _save_snapshot(self, *, sync: bool) -> None:
        self._disk.replace_file(self._snapshot_path(self.log_end), producer_snapshot.encode(self.producers), sync=sync)

    def _snapshot_path(self, offset: Offset) -> str:
        return f"{self.directory}/{file_name(offset, SNAPSHOT_SUFFIX)}"

    def watch_syncs(self, began: Callable[[], Callable[[], object]]) -> None:
        """Have `began` called when a sync begins beside the loop, and what it returns when that ends."""
        self._flusher.on_sync = began

    def flush(self) -> None:
        """Return when everything appended so far is safe from a power cut."""
        self._check_usable()
        if self._make_directory is None and self._flusher.needs_flush(self.log_end):
            try:
                self._flusher.flush(self.log_end)
            except OSError as error:
                self._fail(error, "flush")

    def flush_later(self, done: Callable[[Exception | None], None]) -> None:
        """Flush behind the loop's back; the recovery point moves, and `done` is called, when that is over."""
        self._check_usable()
        self._flusher.flush_later(self.log_end, done)

    # Cutting

    def truncate_to(self, offset: Offset) -> Offset:
        """Drop everything from `offset` on, and the whole batch that contains it; return the new log end.

        Waits for the disk. Who may not does the same in parts: `plan_cut`, then `cut`.
        """
        plan = self.plan_cut(offset)
        if isinstance(plan, CutSearch):
            try:
                plan = plan.run()
            except (OSError, NotABatch) as error:
                self._fail(error if isinstance(error, OSError) else OSError(str(error)), "truncate")
        self.cut(plan)
        return self.log_end

    def plan_cut(self, offset: Offset) -> CutPlan | CutSearch:
        """Return how to cut at `offset`; if that cannot be told from memory, what a worker needs to find out.

        The log is not touched, and may be used on.
        """
        self._check_usable()
        if offset >= self.log_end or offset < self._segments.first.base_offset:
            return CutPlan(offset, self._shape())
        segment = self._segments.of(offset)
        try:
            search = self._cut_search(offset, segment)
        except OSError as error:
            self._refuse(error, "truncate")
        if segment.index is not None:
            try:
                return replace(search, segment=segment.copy(segment.file)).run_resident()
            except (NotResident, NotABatch, OSError):
                # What is wrong with the log or the disk, the worker will meet again and report.
                pass
        return search

    def _cut_search(self, offset: Offset, segment: Segment) -> CutSearch:
        rests_on = self.producers.rests_on()
        snapshots: list[Offset] = []
        older: list[Stretch] = []
        if rests_on >= segment.base_offset:
            snapshots = producer_snapshot.offsets(self._disk, self.directory)
            older = [
                Stretch(
                    each.path(),
                    each.end_offset,
                    each.size_bytes,
                    tuple(
                        (inner, each.index.position_before(inner))
                        for inner in snapshots
                        if each.index is not None and each.base_offset < inner < each.end_offset
                    ),
                )
                for each in self._segments
                if each.base_offset < segment.base_offset
            ]
        return CutSearch(
            self._disk,
            self.directory,
            offset,
            self._shape(),
            segment.copy(),
            rests_on,
            tuple(snapshots),
            tuple(older),
        )

    def cut(self, plan: CutPlan) -> bool:
        """Cut as planned, reading nothing; return whether that was done: a log that has changed needs a new plan.

        Nothing may be appended before what was cut off is surely gone, so this waits for writes and syncs.
        """
        self._check_usable()
        if plan.shape != self._shape():
            return False
        if plan.rest is not None:
            try:
                self._cut(plan.rest, plan.producers)
            except OSError as error:
                self._fail(error, "truncate")
        elif plan.offset >= self.log_end:
            self._flusher.note_epochs(self.epochs.truncate_from_end(self.log_end))
        else:
            self.restart_at(plan.offset)
        return True

    def search_failed(self, search: CutSearch, error: Exception) -> None:
        """Take note that a plan could not be made; return when it may be tried again.

        Raises LogOfflineError when the disk, or what is on it, is to blame.
        """
        self._check_usable()
        if search.shape != self._shape() or (isinstance(error, OSError) and is_out_of_descriptors(error)):
            return
        self._fail(error if isinstance(error, OSError) else OSError(str(error)), "truncate")

    def _shape(self) -> Shape:
        segments = self._segments
        return Shape(self._cut_count, self.log_end, segments.first.base_offset, segments.active.base_offset)

    def _cut(self, rest: Segment, producers: ProducerTable | None) -> None:
        self._cut_count += 1
        self._flusher.forget_pending()
        segment = self._segments.of(rest.base_offset)
        assert segment.base_offset == rest.base_offset, "a plan names a segment of the log"
        end_offset = rest.end_offset
        # Lowered first: a crash in the middle must not find flushed what is being cut.
        self._lower_recovery_point(end_offset)
        if self._segments.active is not segment:
            while self._segments.active is not segment:
                # Newest first, so that what is left is always a whole log.
                self._segments.destroy(self._segments.take_last())
            self._disk.sync_directory(self.directory)
        segment.cut_to(rest)
        self.log_end = end_offset
        self._flusher.note_epochs(self.epochs.truncate_from_end(end_offset))
        self.log_start = min(self.log_start, end_offset)
        self.high_watermark = min(self.high_watermark, end_offset)
        producer_snapshot.remove_above(self._disk, self.directory, end_offset)
        if producers is not None:
            self.producers.clear()
            self.producers.entries.update(producers.entries)

    def _lower_recovery_point(self, offset: Offset) -> None:
        if offset < self.recovery_point:
            self._flusher.recovery_point = offset
            self._on_recovery_point_lowered()

    def restart_at(self, offset: Offset) -> None:
        """Drop the whole log; it is empty and goes on at `offset` (truncate fully and start at). Reads nothing."""
        self._check_usable()
        self._cut_count += 1
        self._flusher.forget_pending()
        try:
            self._need_directory()
            # To nothing at all: in the middle of this, no segment may be left to say where the log was.
            self._lower_recovery_point(Offset(0))
            while len(self._segments):
                self._segments.destroy(self._segments.take_last())
            producer_snapshot.remove_above(self._disk, self.directory, NONE)
            self._disk.sync_directory(self.directory)
        except OSError as error:
            self._fail(error, "restart")
        finally:
            if not len(self._segments):
                self._segments.add(offset, self.settings.index_interval_bytes)
        self._create_active()
        self.log_start = self.log_end = self.high_watermark = offset
        self._flusher.recovery_point = offset
        self._flusher.note_epochs(self.epochs.clear())
        self.producers.clear()

    def _create_active(self) -> None:
        """Make the file of an empty segment whose name is the only memory of the log end."""
        try:
            assert self._segments.active.file.size_bytes == 0, "a new segment is empty"
            self._disk.sync_directory(self.directory)
        except OSError as error:
            self._fail(error, "restart")

    def raise_log_start(self, offset: Offset) -> bool:
        """Make `offset` the first that may be read; files go later. Return whether that was news.

        Raises RequestError when that would drop records that are not committed.
        """
        self._check_usable()
        if offset > self.high_watermark:
            raise RequestError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"Cannot increment the log start offset to {offset} of partition {self.topic_partition} "
                f"since it is larger than the high watermark {self.high_watermark}",
            )
        if offset <= self.log_start:
            return False
        self.log_start = offset
        self._flusher.note_epochs(self.epochs.truncate_from_start(offset))
        return True

    # Retention

    def retention(self, now_ms: int) -> tuple[SegmentDeleted, ...]:
        """Remove segments that are too old, too much, or below the log start, and sweep what is due.

        Never at or above the high watermark; stops at the first segment that stays.
        """
        self._check_usable()
        deleted: list[SegmentDeleted] = []
        excess_bytes = self.size_bytes - self.settings.retention_bytes
        while True:
            segment = self._segments.first
            is_active = segment is self._segments.active
            situation = Situation(now_ms, self.high_watermark, self.log_start, excess_bytes)
            reason = reason_to_delete(segment, situation, self.settings, is_active=is_active)
            if reason is None:
                break
            if is_active:
                # What producers sent before can be learned from nowhere else once these records are gone.
                self.roll(is_snapshot_synced=True)
                self._create_active()
            excess_bytes -= segment.size_bytes
            deleted.append(SegmentDeleted(segment.base_offset, segment.end_offset, segment.size_bytes, reason))
            self._delete_first(now_ms)
        self.sweep(now_ms)
        return tuple(deleted)

    def _delete_first(self, now_ms: int) -> None:
        segment = self._segments.take_first()
        begins_at = self._segments.first.base_offset
        self.log_start = max(self.log_start, begins_at)
        try:
            self._flusher.note_epochs(self.epochs.truncate_from_start(self.log_start))
            due_ms = now_ms + self.settings.file_delete_delay_ms
            self._graveyard.extend((path, due_ms) for path in self._segments.bury(segment))
            # One by one and oldest first: no crash may leave an older segment without the next.
            self._disk.sync_directory(self.directory)
        except OSError as error:
            self._fail(error, "delete from")
        self._flusher.recovery_point = max(self.recovery_point, begins_at)

    def sweep(self, now_ms: int) -> None:
        """Remove the files of deleted segments whose time has come."""
        while self._graveyard and self._graveyard[0][1] <= now_ms:
            path, _ = self._graveyard.popleft()
            try:
                # Somebody in need of room may have removed it already.
                with contextlib.suppress(FileNotFoundError):
                    self._disk.remove(path)
            except OSError as error:
                self._fail(error, "delete from")

    def remove_expired_producers(self, now_ms: int, expiration_ms: int) -> int:
        """Forget producers that were silent too long; return how many."""
        return self.producers.expire(now_ms, expiration_ms)

    # The end

    def close_cleanly(self) -> None:
        """Make everything durable and write what spares the next start a scan."""
        if self._is_closed:
            return
        self._check_usable()
        self.flush()
        try:
            active = self._segments.active
            if active.size_bytes and active.index is not None and len(active.index):
                active.finish()
                active.save_indexes(sync=True)
            if self.log_end:
                self._save_snapshot(sync=False)
        except OSError as error:
            self._fail(error, "close")
        self.close()

    def close(self) -> None:
        """Give all descriptors back, nothing more."""
        self._is_closed = self._flusher.is_closed = True
        self._segments.release()

    def check_invariants(self) -> None:
        """Assert what must hold between any two calls."""
        assert self.log_start <= self.log_end, f"{self!r} begins behind its end"
        assert self.recovery_point <= self.log_end, f"{self!r} has flushed up to {self.recovery_point}"
        assert self._segments.active.end_offset == self.log_end, (
            f"{self!r} ends elsewhere than {self._segments.active!r}"
        )
        self._segments.check_invariants()
        self.epochs.check_invariants()
        self.producers.check_invariants()

    # Failure

    def _check_usable(self) -> None:
        if self._failure is not None:
            raise LogOfflineError(f"{self.topic_partition} is offline since {self._failure}")
        if self._is_closed:
            raise StorageError(f"{self.topic_partition} was closed")

    def _refuse(self, error: OSError, verb: str) -> NoReturn:
        """Raise what the caller must know: nothing happened, or the log is final."""
        if is_full(error) and not isinstance(error, BrokenFileError):
            raise DiskFullError(f"Cannot {verb} {self.topic_partition}: {error.strerror}") from error
        if is_out_of_descriptors(error):
            raise StorageError(f"Cannot {verb} {self.topic_partition}: {error.strerror}") from error
        self._fail(error, verb)

    def _fail(self, error: OSError, verb: str) -> NoReturn:
        self.take_offline(error)
        raise LogOfflineError(f"Cannot {verb} {self.topic_partition}: {error}") from error

    def _fail_later(self, error: Exception, verb: str) -> None:
        """Take the log offline for an error that no caller waits for."""
        self.take_offline(error if isinstance(error, OSError) else OSError(f"cannot {verb}: {error!r}"))

    def take_offline(self, error: OSError) -> None:
        """Serve this log no more: its disk failed. `on_offline` is told once."""
        if self._failure is None:
            self._failure = error
            if self.on_offline is not None:
                self.on_offline(self, error)


def _ignore(_: Exception | None) -> None:
    """Leave the outcome of a background flush to `on_offline`."""
