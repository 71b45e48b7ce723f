"""A partition's log: one writer, many readers, and the rules that keep it whole.

One hard idea: an append is one write and a few stores in memory, never an
fsync. Replication is the durability; what the disk itself promises is written
down as the recovery point, and it moves only when everything below it, all
older segments, their names and the epoch history included, has been synced.
Recovery (`recovery.py`) rests on exactly that promise.

So the epoch checkpoint need not be written when an epoch begins: as long as the
batches that show the epoch lie above the recovery point they are scanned after
a crash, and the file is made durable before the recovery point passes them. An
epoch without a batch is dropped when a log is loaded anyway.

Failure: a full disk refuses and leaves the log as it was; any other error of a
write or a sync makes the log final (`LogOfflineError`), since nobody knows what
the file holds then.

Units: offsets count records; `log_end`, `high_watermark` and `recovery_point`
are exclusive; positions are bytes; times are milliseconds.
Invariants: `log_start <= log_end`; segments follow each other without a gap;
the last segment is the only one that grows; `recovery_point <= log_end`.
Source: KIP-101 (epochs), KIP-107 (DeleteRecords), KAFKA-10778, KAFKA-6683.
"""

from bisect import bisect_right
from collections import deque
from collections.abc import Callable
from typing import Final, NamedTuple, NoReturn
from uuid import UUID

from syncline.model.errors import ErrorCode, RequestError
from syncline.model.ids import LeaderEpoch, Offset, TopicPartition
from syncline.records.batch import BatchHeader, crc_matches, iterate
from syncline.records.buffers import Buffer
from syncline.records.errors import DecodeError
from syncline.storage import producer_snapshot, recovery, times
from syncline.storage.batch_walk import HeaderReader, NotABatch, NotResident
from syncline.storage.checkpoints import encode_epochs
from syncline.storage.disk import BrokenFileError, Disk
from syncline.storage.errors import (
    CorruptRecordsError,
    DiskFullError,
    LogOfflineError,
    StorageError,
    UnexpectedOffsetError,
    is_full,
    is_out_of_descriptors,
)
from syncline.storage.reading import EMPTY, Search, Slice, Wanted, locate
from syncline.storage.segment import (
    DELETED_SUFFIX,
    INDEX_SUFFIX,
    LOG_SUFFIX,
    SNAPSHOT_SUFFIX,
    TIME_INDEX_SUFFIX,
    Segment,
)
from syncline.storage.settings import LogSettings
from syncline.storage.times import TimestampedOffset

# Written this much, the page cache gets a hint.
RECYCLE_BYTES: Final = 8 << 20
# Finished segments whose file stays open and whose index stays in memory; the least recently read goes first.
WARM_SEGMENTS_MAX: Final = 4


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


class SegmentDeleted(NamedTuple):
    """One segment that retention removed, and why."""

    base_offset: Offset
    end_offset: Offset
    size_bytes: int
    reason: str


class PartitionLog:
    """The log of one partition on this broker."""

    def __init__(
        self,
        disk: Disk,
        directory: str,
        topic_partition: TopicPartition,
        topic_id: UUID | None,
        settings: LogSettings,
        recovered: recovery.Recovered,
        *,
        high_watermark: Offset,
        is_new: bool,
        on_recovery_point_lowered: Callable[[], None],
    ) -> None:
        self.topic_partition = topic_partition
        self.topic_id = topic_id
        self.settings = settings
        self.directory = directory
        self.log_start = recovered.log_start
        self.log_end = recovered.log_end
        self.recovery_point = recovered.recovery_point
        self.epochs = recovered.epochs
        self.producers = recovered.producers
        # Set by the node whenever it moves; retention stops here.
        self.high_watermark = Offset(min(max(high_watermark, self.log_start), self.log_end))
        self.keep_cached_bytes: int | None = None
        self.on_offline: Callable[[PartitionLog, OSError], None] | None = None
        self._disk = disk
        self._on_recovery_point_lowered = on_recovery_point_lowered
        self._segments = recovered.segments or [self._new_segment(recovered.log_end)]
        self._bases = [segment.base_offset for segment in self._segments]
        self._active = self._segments[-1]
        self._warm: list[Segment] = []
        self._failure: OSError | None = None
        self._is_closed = False
        # Raised by truncation: what background work reports of older contents is ignored.
        self._generation = 0
        self._is_flushing = False
        # The partition directory's own name, and names in it, that a power cut could still take.
        self._is_directory_new = is_new
        self._has_new_names = is_new
        self._are_epochs_unsaved = bool(len(self.epochs))
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
    def size_bytes(self) -> int:
        """All batches that are still there, also those below the log start in a kept segment."""
        return sum(segment.size_bytes for segment in self._segments)

    @property
    def segment_count(self) -> int:
        """How many segments there are, the active one included."""
        return len(self._segments)

    @property
    def first_base_offset(self) -> Offset:
        """Where the oldest segment begins, at or below the log start."""
        return Offset(self._segments[0].base_offset)

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
        batches = self._checked_batches(view)
        if not batches:
            return FollowerAppend(self.log_end, self.log_end, 0, 0, -1)
        first_offset = batches[0][1].base_offset
        if first_offset > self.log_end == self._segments[0].base_offset and not self.size_bytes:
            # An empty log takes up where its leader's log begins now.
            self.restart_at(Offset(first_offset))
        size_bytes = 0
        max_timestamp_ms = -1
        at = 0
        while at < len(batches):
            start, header = batches[at]
            segment = self._active_for(header.size_bytes, header)
            behind = self._fitting(segment, batches, at)
            end = batches[behind][0] if behind < len(batches) else batches[-1][0] + batches[-1][1].size_bytes
            position = segment.size_bytes
            self._write(segment, view[start:end])
            for batch_start, batch_header in batches[at:behind]:
                self._note(segment, batch_header, position + batch_start - start)
                max_timestamp_ms = max(max_timestamp_ms, batch_header.max_timestamp)
            size_bytes += end - start
            self._after_write(end - start)
            at = behind
        return FollowerAppend(first_offset, self.log_end, size_bytes, len(batches), max_timestamp_ms)

    def _checked_batches(self, view: memoryview) -> list[tuple[int, BatchHeader]]:
        """Return (start, header) of the sound batches of a leader's answer."""
        batches: list[tuple[int, BatchHeader]] = []
        expected = self.log_end
        try:
            for start, header in iterate(view, 0, len(view)):
                if not crc_matches(view, start, header):
                    raise CorruptRecordsError(
                        f"{self.topic_partition}: the batch at offset {header.base_offset} arrived damaged"
                    )
                if header.base_offset < expected or header.last_offset_delta < 0:
                    raise UnexpectedOffsetError(
                        f"{self.topic_partition}: got offset {header.base_offset} where {expected} or more is due"
                    )
                expected = Offset(header.next_offset)
                batches.append((start, header))
        except DecodeError as error:
            raise CorruptRecordsError(f"{self.topic_partition}: {error}") from None
        return batches

    def _fitting(self, segment: Segment, batches: list[tuple[int, BatchHeader]], first: int) -> int:
        """Return the index behind the last batch that may share one write with the first."""
        room = self.settings.segment_bytes - segment.size_bytes
        last_start, last = batches[-1]
        whole = last_start + last.size_bytes - batches[first][0]
        if whole <= room and last.last_offset - segment.base_offset < 2**31:
            return len(batches)
        start = batches[first][0]
        behind = first + 1
        while behind < len(batches):
            batch_start, header = batches[behind]
            is_far = header.last_offset - segment.base_offset >= 2**31
            if is_far or batch_start + header.size_bytes - start > room:
                break
            behind += 1
        return behind

    def _active_for(self, size_bytes: int, header: BatchHeader) -> Segment:
        """Return the segment for a batch, a new one if the active one has had enough."""
        segment, settings = self._active, self.settings
        if segment.is_full_for(
            size_bytes, header, settings.segment_bytes, settings.segment_ms
        ) or segment.has_full_index(settings.segment_index_bytes):
            self.roll()
        return self._active

    def _write(self, segment: Segment, data: Buffer) -> None:
        """Append to a segment's file; nothing is remembered if that fails (KAFKA-6683)."""
        try:
            file = segment.open_file
            if file is None:
                file = segment.file
                self._has_new_names = self._has_new_names or not segment.size_bytes
            file.append((data,))
        except OSError as error:
            self._refuse(error, "append to")

    def _note(self, segment: Segment, header: BatchHeader, position: int) -> None:
        """Take a batch that was written into account."""
        segment.note(header, position)
        self.log_end = segment.end_offset
        if self.epochs.assign(LeaderEpoch(header.leader_epoch), Offset(header.base_offset)):
            self._are_epochs_unsaved = True
        if header.producer_id >= 0:
            self.producers.record(header)

    def _after_write(self, size_bytes: int) -> None:
        self._written_since_recycle += size_bytes
        if self._written_since_recycle >= RECYCLE_BYTES:
            self._written_since_recycle = 0
            file = self._active.open_file
            if self.keep_cached_bytes is not None and file is not None:
                file.recycle(self.keep_cached_bytes)
        if self.log_end - self.recovery_point >= self.settings.flush_messages and not self._is_flushing:
            self.flush_later(_ignore)

    def assign_leader_epoch(self, leader_epoch: LeaderEpoch) -> bool:
        """Note that this broker leads in `leader_epoch` from the log end on; return whether that was news."""
        self._check_usable()
        is_news = self.epochs.assign(leader_epoch, self.log_end)
        self._are_epochs_unsaved = self._are_epochs_unsaved or is_news
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
        segment = self._segment_of(offset)
        wanted = Wanted(offset, upper, max_bytes, at_least_one)
        place = segment.find_in_tail(wanted)
        if place is not None:
            return Slice(segment.file, *place) if place[1] else EMPTY
        if segment is not self._active:
            self._warm_up(segment)
        return self._plan_from_index(segment, wanted)

    def _plan_from_index(self, segment: Segment, wanted: Wanted) -> Slice | Search:
        hints = segment.hints(wanted)
        file = segment.file
        if hints is not None:
            try:
                reader = HeaderReader(file, segment.size_bytes, resident_only=True)
                position, size = locate(reader, hints, wanted)
            except NotResident:
                pass
            except NotABatch:
                # The index leads nowhere: let the search begin at the first batch.
                hints = None
            else:
                return Slice(file, position, size) if size else EMPTY
        return Search(
            self._disk,
            file,
            segment.base_offset,
            segment.size_bytes,
            segment.end_offset,
            wanted,
            hints,
            segment.path(INDEX_SUFFIX),
        )

    def _segment_of(self, offset: Offset) -> Segment:
        if offset >= self._active.base_offset:
            return self._active
        return self._segments[max(0, bisect_right(self._bases, offset) - 1)]

    def _warm_up(self, segment: Segment) -> None:
        """Count a finished segment as just read; let go of the one that was not read for longest."""
        if segment in self._warm:
            self._warm.remove(segment)
        self._warm.append(segment)
        if len(self._warm) > WARM_SEGMENTS_MAX:
            self._warm.pop(0).release()

    def readable(self, offset: Offset, upper_bound: Offset) -> Readable:
        """Return how much lies between two offsets; exact among the newest batches, else a little less than there is."""
        upper = min(upper_bound, self.log_end)
        if offset >= upper or offset < self.log_start:
            return Readable(0, is_on_older_segment=False)
        segment = self._segment_of(offset)
        wanted = Wanted(offset, upper, 2**62, at_least_one=True)
        place = segment.find_in_tail(wanted)
        if place is not None:
            return Readable(place[1], is_on_older_segment=False)
        is_older = upper > segment.end_offset
        hints = segment.hints(wanted)
        known = hints.upper - hints.start if hints is not None else segment.size_bytes
        return Readable(max(1, known), is_on_older_segment=is_older)

    def offset_for_time(self, timestamp_ms: int) -> TimestampedOffset | None:
        """Return the first record in offset order that is not older; may wait for the disk."""
        return times.first_at_or_after(self._places(timestamp_ms), timestamp_ms, self.log_start)

    def offset_for_time_later(
        self, timestamp_ms: int, done: Callable[[TimestampedOffset | None | Exception], None]
    ) -> None:
        """Look `timestamp_ms` up in a worker."""
        places, log_start = self._places(timestamp_ms), self.log_start
        self._disk.run_later(lambda: times.first_at_or_after(places, timestamp_ms, log_start), done)

    def offset_of_max_timestamp(self) -> TimestampedOffset | None:
        """Return the first record with the largest timestamp; may wait for the disk."""
        return times.latest(self._places(self._max_timestamp_ms))

    def offset_of_max_timestamp_later(self, done: Callable[[TimestampedOffset | None | Exception], None]) -> None:
        """Find the first record with the largest timestamp in a worker."""
        places = self._places(self._max_timestamp_ms)
        self._disk.run_later(lambda: times.latest(places), done)

    @property
    def _max_timestamp_ms(self) -> int:
        return max(segment.max_timestamp_ms for segment in self._segments)

    def _places(self, timestamp_ms: int) -> list[times.Place]:
        """Return what a look-up by time needs of each segment, as plain values that a worker may keep."""
        self._check_usable()
        return [
            segment.place(timestamp_ms)
            for segment in self._segments
            if segment.size_bytes and segment.max_timestamp_ms >= timestamp_ms
        ]

    # Segments and durability

    def roll(self) -> None:
        """Begin a new segment; an empty one is not rolled. The old one is synced in the background."""
        self._check_usable()
        old = self._active
        if not old.size_bytes:
            return
        try:
            if self._has_new_names:
                # The new segment's name may reach the disk before the old one's: the log would seem to begin late.
                self._disk.sync_directory(self.directory)
                self._has_new_names = False
            self._disk.replace_file(
                self._snapshot_path(self.log_end), producer_snapshot.encode(self.producers), sync=False
            )
        except OSError as error:
            self._refuse(error, "roll")
        old.finish()
        old.drop_tail()
        self._add_segment(self._new_segment(self.log_end))
        self._warm_up(old)
        self._sync_later(old)

    def _new_segment(self, base_offset: Offset) -> Segment:
        return Segment(self._disk, self.directory, base_offset, self.settings.index_interval_bytes)

    def _add_segment(self, segment: Segment) -> None:
        self._segments.append(segment)
        self._bases.append(segment.base_offset)
        self._active = segment

    def _snapshot_path(self, offset: Offset) -> str:
        return f"{self.directory}/{recovery.snapshot_name(offset)}"

    def _sync_later(self, segment: Segment) -> None:
        """Make a finished segment and its indexes safe behind the loop's back."""
        file, disk, generation = segment.file, self._disk, segment.generation
        assert segment.index is not None, "a segment that was just finished has its index in memory"
        assert segment.times is not None, "a segment that was just finished has its index in memory"
        indexes = (
            (segment.path(INDEX_SUFFIX), segment.index.encode()),
            (segment.path(TIME_INDEX_SUFFIX), segment.times.encode()),
        )

        def work() -> None:
            file.sync()
            for path, data in indexes:
                disk.replace_file(path, data, sync=True)

        def done(error: Exception | None) -> None:
            if self._is_closed:
                return
            if segment not in self._segments:
                self._remove_files([path for path, _ in indexes])
            elif segment.generation != generation:
                # It was cut meanwhile: these indexes describe too much. A crash before
                # this line is harmless, as a cut segment is scanned.
                segment.forget_saved_indexes()
            elif error is not None:
                self._fail_later(error, "sync")
            else:
                segment.is_index_saved = segment.is_synced = True
                self._advance_recovery_point()

        disk.run_later(work, done)

    def _remove_files(self, paths: list[str]) -> None:
        for path in paths:
            if self._disk.exists(path):
                self._disk.remove(path)

    def _advance_recovery_point(self) -> None:
        """Move the recovery point to the first segment that is not safe yet (M51: none may be skipped)."""
        reached = self._active.base_offset
        for segment in self._segments[:-1]:
            if not segment.is_synced:
                reached = segment.base_offset
                break
        if reached > self.recovery_point:
            try:
                self._save_epochs()
            except OSError as error:
                self._fail_later(error, "checkpoint")
                return
            self.recovery_point = reached

    def flush(self) -> None:
        """Return when everything appended so far is safe from a power cut."""
        self._check_usable()
        if self.recovery_point >= self.log_end and not self._are_epochs_unsaved:
            return
        try:
            for segment in self._unsynced():
                segment.file.sync()
                if segment is not self._active:
                    if segment.index is not None:
                        segment.save_indexes(sync=True)
                    segment.is_synced = True
            self._sync_names()
            self._save_epochs()
        except OSError as error:
            self._fail(error, "flush")
        self.recovery_point = self.log_end

    def flush_later(self, done: Callable[[Exception | None], None]) -> None:
        """Do the waiting part of a flush in a worker; the recovery point moves when that is over."""
        self._check_usable()
        log_end, generation = self.log_end, self._generation
        segments = self._unsynced()
        files = [segment.file for segment in segments]
        self._is_flushing = True

        def work() -> None:
            for file in files:
                file.sync()

        def finished(error: Exception | None) -> None:
            self._is_flushing = False
            if error is None and not self.is_offline and not self._is_closed and generation == self._generation:
                try:
                    self._sync_names()
                    self._save_epochs()
                    self.recovery_point = max(self.recovery_point, log_end)
                except OSError as failure:
                    error = failure
            if error is not None and not self._is_closed:
                self._fail_later(error, "flush")
            done(error)

        self._disk.run_later(work, finished)

    def _unsynced(self) -> list[Segment]:
        """Return the segments that hold something above the recovery point, oldest first."""
        return [
            segment
            for segment in self._segments
            if segment.size_bytes and not segment.is_synced and segment.end_offset > self.recovery_point
        ]

    def _sync_names(self) -> None:
        if self._has_new_names:
            self._disk.sync_directory(self.directory)
            self._has_new_names = False
        if self._is_directory_new:
            self._disk.sync_directory(self.directory.rpartition("/")[0] or "/")
            self._is_directory_new = False

    def _save_epochs(self) -> None:
        """Make the epoch history durable, if it changed."""
        if self._are_epochs_unsaved:
            path = f"{self.directory}/{recovery.EPOCHS_FILE}"
            self._disk.replace_file(path, encode_epochs(self.epochs.entries), sync=True)
            self._are_epochs_unsaved = False

    # Cutting

    def truncate_to(self, offset: Offset) -> Offset:
        """Drop everything from `offset` on, and the whole batch that contains it; return the new log end.

        Waits for the disk: it is rare, and nothing may be appended before it is safe.
        """
        self._check_usable()
        if offset >= self.log_end:
            self._are_epochs_unsaved |= self.epochs.truncate_from_end(self.log_end)
            return self.log_end
        if offset < self._segments[0].base_offset:
            self.restart_at(offset)
            return self.log_end
        try:
            self._truncate(offset)
        except (OSError, NotABatch) as error:
            self._fail(error if isinstance(error, OSError) else OSError(str(error)), "truncate")
        return self.log_end

    def _truncate(self, offset: Offset) -> None:
        self._generation += 1
        segment = self._segment_of(offset)
        segment.need_indexes()
        position, end_offset = self._cut_place(segment, offset)
        # Lowered first: a crash in the middle must not find flushed what is being cut.
        self._lower_recovery_point(end_offset)
        self._drop_segments_above(offset)
        segment.cut(position, end_offset)
        self.log_end = end_offset
        self._are_epochs_unsaved |= self.epochs.truncate_from_end(end_offset)
        self.log_start = min(self.log_start, end_offset)
        self.recovery_point = min(self.recovery_point, end_offset)
        self.high_watermark = min(self.high_watermark, end_offset)
        self._restore_producers(end_offset)

    def _cut_place(self, segment: Segment, offset: Offset) -> tuple[int, Offset]:
        """Return the position of the batch that holds `offset` or follows it, and the log end after cutting there."""
        assert segment.index is not None, "the segment to cut has its index in memory"
        if offset >= segment.end_offset:
            return segment.size_bytes, segment.end_offset
        reader = HeaderReader(segment.file, segment.size_bytes, resident_only=False)
        position = segment.index.position_before(offset)
        header = reader.header_at(position)
        while header.next_offset <= offset:
            position += header.size_bytes
            header = reader.header_at(position)
        return position, Offset(min(offset, header.base_offset))

    def _lower_recovery_point(self, offset: Offset) -> None:
        if offset < self.recovery_point:
            self.recovery_point = offset
            self._on_recovery_point_lowered()

    def _drop_segments_above(self, offset: Offset) -> None:
        """Remove the segments that begin above `offset`, newest first, so that what is left is always a whole log."""
        has_dropped = False
        while len(self._segments) > 1 and self._segments[-1].base_offset > offset:
            self._remove_segment(self._segments.pop())
            self._bases.pop()
            has_dropped = True
        self._active = self._segments[-1]
        if self._active in self._warm:
            self._warm.remove(self._active)
        if has_dropped:
            self._disk.sync_directory(self.directory)

    def _remove_segment(self, segment: Segment) -> None:
        """Close, rename, delete: a name that ends in `.deleted` is never loaded."""
        segment.release()
        if segment in self._warm:
            self._warm.remove(segment)
        for path in self._bury(segment):
            self._disk.remove(path)

    def _bury(self, segment: Segment) -> list[str]:
        """Give the files of a closed segment their `.deleted` names and return these."""
        buried = []
        for suffix in (LOG_SUFFIX, INDEX_SUFFIX, TIME_INDEX_SUFFIX, SNAPSHOT_SUFFIX):
            path = segment.path(suffix)
            if self._disk.exists(path):
                self._disk.rename(path, path + DELETED_SUFFIX)
                buried.append(path + DELETED_SUFFIX)
        return buried

    def _restore_producers(self, log_end: Offset) -> None:
        """Bring producer state to what the log below `log_end` says (S16)."""
        has_removed = False
        newest: Offset | None = None
        for name in self._disk.list(self.directory):
            if name.endswith(SNAPSHOT_SUFFIX):
                offset = Offset(int(name[:20]))
                if offset > log_end:
                    self._disk.remove(f"{self.directory}/{name}")
                    has_removed = True
                else:
                    newest = offset
        if has_removed:
            # Before other records get these offsets, no snapshot of the old ones may come back.
            self._disk.sync_directory(self.directory)
        if not self.producers.reaches(log_end):
            return
        loaded = None
        if newest is not None:
            loaded = producer_snapshot.decode(self._disk.read_file(self._snapshot_path(newest)))
        self.producers.clear()
        for producer_id, state in (loaded.entries if loaded else {}).items():
            self.producers.restore(producer_id, state)
        recovery.replay(self._segments, self.producers, newest if newest and loaded else Offset(0), frozenset())

    def restart_at(self, offset: Offset) -> None:
        """Drop the whole log; it is empty and goes on at `offset` (truncate fully and start at)."""
        self._check_usable()
        self._generation += 1
        try:
            self._lower_recovery_point(self._segments[0].base_offset)
            while self._segments:
                self._remove_segment(self._segments.pop())
            self._remove_files([f"{self.directory}/{name}" for name in self._snapshots()])
            self._disk.sync_directory(self.directory)
            self._bases.clear()
            self._add_segment(self._new_segment(offset))
            self._create_active()
        except OSError as error:
            if not self._segments:
                self._bases.clear()
                self._add_segment(self._new_segment(offset))
            self._fail(error, "restart")
        self.log_start = self.log_end = self.high_watermark = self.recovery_point = offset
        self._are_epochs_unsaved |= self.epochs.clear()
        self.producers.clear()

    def _snapshots(self) -> list[str]:
        return [name for name in self._disk.list(self.directory) if name.endswith(SNAPSHOT_SUFFIX)]

    def _create_active(self) -> None:
        """Make the file of an empty segment whose name is the only memory of the log end."""
        assert self._active.file.size_bytes == 0, "a new segment is empty"
        self._disk.sync_directory(self.directory)

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
        self._are_epochs_unsaved |= self.epochs.truncate_from_start(offset)
        return True

    # Retention

    def retention(self, now_ms: int) -> tuple[SegmentDeleted, ...]:
        """Remove segments that are too old, too much, or below the log start, and sweep what is due.

        Never at or above the high watermark; stops at the first segment that stays.
        """
        self._check_usable()
        deleted: list[SegmentDeleted] = []
        try:
            excess_bytes = self.size_bytes - self.settings.retention_bytes
            while (reason := self._reason_to_delete(self._segments[0], now_ms, excess_bytes)) is not None:
                segment = self._segments[0]
                if segment is self._active:
                    self.roll()
                    self._create_active()
                    self._mark_empty_log_safe()
                excess_bytes -= segment.size_bytes
                deleted.append(
                    SegmentDeleted(Offset(segment.base_offset), segment.end_offset, segment.size_bytes, reason)
                )
                self._delete_first(now_ms)
            self.sweep(now_ms)
        except OSError as error:
            self._fail(error, "delete from")
        return tuple(deleted)

    def _reason_to_delete(self, segment: Segment, now_ms: int, excess_bytes: int) -> str | None:
        if not segment.size_bytes or segment.end_offset > self.high_watermark:
            return None
        settings = self.settings
        if segment is not self._active and segment.end_offset <= self.log_start:
            return f"log start offset {self.log_start} breach"
        if not settings.is_delete_policy:
            return None
        age_ms = now_ms - segment.max_timestamp_ms
        if settings.retention_ms >= 0 and segment.max_timestamp_ms >= 0 and age_ms > settings.retention_ms:
            return f"retention time {settings.retention_ms}ms breach"
        if settings.retention_bytes >= 0 and excess_bytes - segment.size_bytes >= 0:
            return f"retention size {settings.retention_bytes} breach"
        return None

    def _mark_empty_log_safe(self) -> None:
        """Nothing is left to flush once only the new, empty segment remains; its name is safe already."""
        self._save_epochs()

    def _delete_first(self, now_ms: int) -> None:
        segment = self._segments.pop(0)
        self._bases.pop(0)
        if segment in self._warm:
            self._warm.remove(segment)
        segment.release()
        self.log_start = Offset(max(self.log_start, self._segments[0].base_offset))
        self.recovery_point = Offset(max(self.recovery_point, self._segments[0].base_offset))
        self._are_epochs_unsaved |= self.epochs.truncate_from_start(self.log_start)
        due_ms = now_ms + self.settings.file_delete_delay_ms
        self._graveyard.extend((path, due_ms) for path in self._bury(segment))
        # One by one and oldest first: no crash may leave an older segment without the next.
        self._disk.sync_directory(self.directory)

    def sweep(self, now_ms: int) -> None:
        """Remove the files of deleted segments whose time has come."""
        while self._graveyard and self._graveyard[0][1] <= now_ms:
            path, _ = self._graveyard.popleft()
            self._disk.remove(path)

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
            active = self._active
            if active.size_bytes and active.index is not None and len(active.index):
                active.finish()
                active.save_indexes(sync=True)
            if self.log_end:
                self._disk.replace_file(
                    self._snapshot_path(self.log_end), producer_snapshot.encode(self.producers), sync=False
                )
        except OSError as error:
            self._fail(error, "close")
        self.close()

    def close(self) -> None:
        """Give all descriptors back, nothing more."""
        self._is_closed = True
        for segment in self._segments:
            segment.release()
        self._warm.clear()

    def check_invariants(self) -> None:
        """Assert what must hold between any two calls."""
        assert self.log_start <= self.log_end, f"{self!r} begins behind its end"
        assert self.recovery_point <= self.log_end, f"{self!r} has flushed up to {self.recovery_point}"
        assert self._active.end_offset == self.log_end, f"{self!r} ends elsewhere than {self._active!r}"
        assert [segment.base_offset for segment in self._segments] == self._bases, f"{self!r}: bases are out of step"
        recovery.check_contiguous(self._segments)
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
        self._take_offline(error)
        raise LogOfflineError(f"Cannot {verb} {self.topic_partition}: {error}") from error

    def _fail_later(self, error: Exception, verb: str) -> None:
        """Take the log offline for an error that no caller waits for."""
        self._take_offline(error if isinstance(error, OSError) else OSError(f"cannot {verb}: {error!r}"))

    def _take_offline(self, error: OSError) -> None:
        if self._failure is None:
            self._failure = error
            if self.on_offline is not None:
                self.on_offline(self, error)


def _ignore(_: Exception | None) -> None:
    """Leave the outcome of a background flush to `on_offline`."""
