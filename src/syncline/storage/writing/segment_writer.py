"""Writing batches into the active segment of a log, and beginning the next one.

One hard idea: memory follows the file. A batch is written first and accounted
for afterwards; if the write fails, memory does not change (KAFKA-6683). Leaders
and followers update the same: the segment's positions and times, the epoch
history, the producers.

On the event loop, a roll syncs only names; a worker syncs the finished segment,
its indexes and the producer snapshot at its end.

Units: positions are bytes. Invariant: the next batch's offset is the end of the
active segment, and a new segment begins exactly there.
"""

from collections.abc import Callable, Sequence

from syncline.core.producer_state import ProducerTable
from syncline.core.replication.leader_epochs import EpochCache
from syncline.model.ids import LeaderEpoch, Offset
from syncline.records.batch import BatchHeader
from syncline.records.buffers import Buffer
from syncline.storage.arrivals.append_times import CopiedTime
from syncline.storage.arrivals.read_facts import LogState
from syncline.storage.availability import Availability
from syncline.storage.checkpoints import producer_snapshot
from syncline.storage.disk import Disk
from syncline.storage.lag.log_times import copy_times
from syncline.storage.pages.cached_pages import CachedPages
from syncline.storage.pages.written import Written
from syncline.storage.segments import incoming
from syncline.storage.segments.incoming import Incoming
from syncline.storage.segments.segment import Segment
from syncline.storage.segments.segment_list import SegmentList
from syncline.storage.settings import LogSettings
from syncline.storage.writing.flusher import Flusher


class SegmentWriter:
    """The only writer of a log's segments."""

    __slots__ = (
        "_availability",
        "_directory",
        "_disk",
        "_epochs",
        "_flusher",
        "_make_directory",
        "_producers",
        "_segments",
        "_written",
        "last_written_bytes",
        "pages",
    )

    def __init__(
        self,
        disk: Disk,
        directory: str,
        segments: SegmentList,
        flusher: Flusher,
        epochs: EpochCache,
        producers: ProducerTable,
        availability: Availability,
        written: Written,
        *,
        make_directory: Callable[[], None] | None,
    ) -> None:
        self._disk = disk
        self._directory = directory
        self._segments = segments
        self._flusher = flusher
        self._epochs = epochs
        self._producers = producers
        self._availability = availability
        self._written = written
        # What all logs had written when this one got its last batch; 0: that was in an earlier life.
        self.last_written_bytes = 0
        self.pages = CachedPages(segments, written.behind)
        # Creates the partition directory before the first file; None once it exists.
        self._make_directory = make_directory

    @property
    def has_directory(self) -> bool:
        """Whether the partition directory exists; an empty new log has none."""
        return self._make_directory is None

    def state(self, active: Segment) -> LogState:
        """Return what a read tells of the log as a whole; `active` is its active segment."""
        newest_ms = active.max_timestamp_ms
        if newest_ms < 0:
            newest_ms = self._segments.newest_timestamp_ms
        end_bytes, is_kept = active.bytes_before + active.size_bytes, self.pages.is_counted
        return (end_bytes, newest_ms, self._written.total_bytes, self.last_written_bytes, is_kept)

    def append(self, batch: Buffer, header: BatchHeader, settings: LogSettings, append_ms: int) -> Offset:
        """Write one batch, at this time by the wall clock (-1: unknown); return the new log end."""
        segment = self._segment_for(len(batch), header, settings)
        position = segment.size_bytes
        self._write(segment, batch)
        self._account_for(segment, header, position)
        times = segment.append_times.recent
        assert times is not None, f"{segment!r} grows, its append times are in memory"
        written = self._written
        if append_ms >= times.due_ms:
            times.add(header.base_offset, position, append_ms, written.total_bytes, header.crc)
            written.has_times(self._availability.topic_partition)
        if self.pages.is_counted:
            written.total_bytes += len(batch)
        self.pages.wrote(len(batch))
        self.last_written_bytes = written.total_bytes
        return segment.end_offset

    def append_all(
        self, view: memoryview, batches: Sequence[Incoming], settings: LogSettings, append_times: Sequence[CopiedTime]
    ) -> None:
        """Write the batches of a leader's answer, with one write for all batches of the same segment.

        `append_times` are those of the leader for some of them.
        """
        at = 0
        while at < len(batches):
            start, end, header = batches[at]
            segment = self._segment_for(end - start, header, settings)
            behind = incoming.count_fitting(segment, settings.segment_bytes, batches, at)
            assert behind > at, f"{segment!r} has no room for the batch at {header.base_offset}"
            position = segment.size_bytes
            data = view[start : batches[behind - 1].end]
            self._write(segment, data)
            shift = position - start
            for batch_start, _, header in batches[at:behind]:
                self._account_for(segment, header, shift + batch_start)
            if append_times or not position:
                self._copy_times(segment, batches[at:behind], shift, append_times)
            if self.pages.is_counted:
                self._written.total_bytes += len(data)
            self.pages.wrote(len(data))
            self.last_written_bytes = self._written.total_bytes
            at = behind

    def _copy_times(
        self, segment: Segment, batches: Sequence[Incoming], shift: int, append_times: Sequence[CopiedTime]
    ) -> None:
        written = self._written
        is_kept = self.pages.is_counted
        kept, before_bytes = segment.append_times, written.total_bytes
        if copy_times(kept, batches, shift, append_times, before_bytes, counts_as_written=is_kept):
            written.has_times(self._availability.topic_partition)

    def _segment_for(self, size_bytes: int, header: BatchHeader, settings: LogSettings) -> Segment:
        """Return the segment for a batch: the active one, or a new one if that is full."""
        segment = self._segments.active
        if segment.is_full_for(
            size_bytes, header, settings.segment_bytes, settings.segment_ms
        ) or segment.has_full_index(settings.segment_index_bytes):
            self.roll(settings)
            return self._segments.active
        return segment

    def _write(self, segment: Segment, data: Buffer) -> None:
        """Append to a segment's file. Raises DiskFullError, StorageError, LogOfflineError."""
        try:
            file = segment.open_file
            if file is None:
                self.need_directory()
                file = segment.file
                if not segment.size_bytes:
                    self._flusher.names_changed()
            file.append((data,))
        except OSError as error:
            self._availability.refuse(error, "append to")

    def _account_for(self, segment: Segment, header: BatchHeader, position: int) -> None:
        """Account for a batch that was written."""
        segment.add_batch(header, position)
        if header.leader_epoch != self._epochs.latest_epoch:
            self._flusher.epochs_changed(
                self._epochs.assign(LeaderEpoch(header.leader_epoch), Offset(header.base_offset))
            )
        if header.producer_id >= 0:
            self._producers.record(header)

    def need_directory(self) -> None:
        """Create the partition directory unless it exists. Raises OSError."""
        if self._make_directory is not None:
            self._make_directory()
            self._make_directory = None

    def roll(self, settings: LogSettings, *, is_snapshot_synced: bool = False) -> None:
        """Begin a new segment unless the active one is empty; sync the old one in the background."""
        old = self._segments.active
        if not old.size_bytes:
            return
        try:
            # The new segment's name may reach the disk before the old one's: the log would seem to begin late.
            self._flusher.save_names()
            snapshot_path = self.save_snapshot(sync=is_snapshot_synced)
        except OSError as error:
            self._availability.refuse(error, "roll")
        self.pages.roll()
        old.finish()
        old.drop_tail()
        self._segments.add(old.end_offset, settings.index_interval_bytes)
        self._segments.keep_warm(old)
        self._flusher.finish_later(old, snapshot_path)

    def save_snapshot(self, *, sync: bool) -> str:
        """Write a snapshot of producer state at the log end; return its path. Raises OSError."""
        path = producer_snapshot.path(self._directory, self._segments.active.end_offset)
        self._disk.replace_file(path, producer_snapshot.encode(self._producers), sync=sync)
        return path

    def create_active(self) -> None:
        """Create the file of an empty segment, since only its name records the log end. Raises OSError."""
        active = self._segments.active
        assert not active.size_bytes, f"{active!r} is not empty"
        if active.open_file is None:
            self.need_directory()
            file = active.file
            assert file.size_bytes == 0, f"{file.path} has {file.size_bytes} bytes, though it is new"
            self._flusher.names_changed()
        self._flusher.save_names()
