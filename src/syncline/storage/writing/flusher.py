"""Which part of a log is safe from a power cut, and how more of it becomes safe.

One hard idea: the recovery point is a promise about everything below it: the
bytes of all segments, the names of their files, and the epoch history. It moves
only when all of that has been synced, in order, so a flush of the newest
segment never vouches for an older one that is still in the cache (M51).

So the epoch checkpoint need not be written when an epoch begins: while the
batches of the epoch lie above the recovery point, a crash makes recovery scan
them, and the file is synced before the recovery point passes them. Loading a
log drops epochs without a batch anyway.

Background work only syncs files. Its result counts only if the log was not cut
meanwhile (`forget_pending`): otherwise it may have synced other bytes.
A failed sync is final, since a second one may succeed without the pages (M48).
But if there is no room, or no descriptor, for the small files beside a log, or for
syncing its names, nothing is broken: the recovery point stays where it is, and the
next roll tries again.

Units: offsets, exclusive. Invariants: `recovery_point` lies in the log; every segment
is synced up to it (`synced_end`), and so are the names and epochs below it.
"""

import contextlib
import errno
from collections.abc import Callable

from syncline.core.replication.leader_epochs import EpochCache
from syncline.model.ids import Offset
from syncline.storage.checkpoints.formats import encode_epochs
from syncline.storage.disk import BrokenFileError, Disk, File, sync_for_good
from syncline.storage.errors import is_refusal
from syncline.storage.recovery.recover import EPOCHS_FILE
from syncline.storage.segments.segment import HINT_SUFFIXES, INDEX_SUFFIX, TIME_INDEX_SUFFIX, Segment
from syncline.storage.segments.segment_list import SegmentList


class Flusher:
    """Makes one log durable, and tracks its recovery point."""

    def __init__(
        self,
        disk: Disk,
        directory: str,
        segments: SegmentList,
        epochs: EpochCache,
        recovery_point: Offset,
        *,
        is_new: bool,
        on_failure: Callable[[Exception, str], None],
        on_lowered: Callable[[], None],
    ) -> None:
        # Everything below is safe from a power cut. This class alone moves it.
        self.recovery_point = recovery_point
        self.is_running = False
        self.is_closed = False
        # Called when a sync begins in a worker; what it returns is called when that sync ends.
        self.on_sync: Callable[[], Callable[[], object]] = _unwatched
        self._disk = disk
        self._directory = directory
        self._segments = segments
        self._epochs = epochs
        self._on_failure = on_failure
        self.on_lowered = on_lowered
        self._generation = 0
        # Finished segments, and the paths of their snapshots, that could not be made safe for want of room.
        self._unfinished: list[tuple[Segment, str]] = []
        # Whether a power cut could still remove the partition directory's own name, and names in it.
        self._is_directory_new = is_new
        self._has_new_names = is_new
        self._are_epochs_unsaved = bool(len(epochs))
        for segment in segments:
            segment.synced_end = max(segment.base_offset, min(segment.end_offset, recovery_point))

    def names_changed(self) -> None:
        """Record that a file of the log was created or removed: that is not safe yet."""
        self._has_new_names = True

    def epochs_changed(self, is_changed: bool = True) -> None:
        """Record that the epoch history is not safe, if it has changed."""
        self._are_epochs_unsaved = self._are_epochs_unsaved or is_changed

    def needs_flush(self, log_end: Offset) -> bool:
        """Return whether a power cut could still lose anything below `log_end`."""
        return self.recovery_point < log_end or self._are_epochs_unsaved

    def flush(self, log_end: Offset) -> None:
        """Return when everything below `log_end` is safe. Raises OSError."""
        for segment in self.unsynced():
            sync_for_good(segment.file)
            segment.synced_end = segment.end_offset
            if segment is not self._segments.active:
                segment.append_times.save(for_good=True)
                if segment.index is not None:
                    segment.save_indexes(sync=True)
                segment.is_synced = True
        self.save_names()
        self.save_epochs()
        self._advance_to(log_end)

    def flush_later(self, log_end: Offset, done: Callable[[Exception | None], None]) -> None:
        """Sync in a worker, then move the recovery point."""
        try:
            synced = [(segment, segment.file, segment.end_offset) for segment in self.unsynced()]
        except OSError as error:
            if not is_refusal(error):
                self._on_failure(error, "flush")
            done(error)
            return
        generation = self._generation
        self.is_running = True
        ended = self.on_sync()

        def work() -> None:
            for _, file, _ in synced:
                _sync_if_open(file)

        def finished(error: Exception | None) -> None:
            ended()
            self.is_running = False
            if error is None and generation == self._generation:
                for segment, _, end_offset in synced:
                    segment.synced_end = max(segment.synced_end, end_offset)
            if not self.is_closed:
                error = error or self._reach(log_end, generation)
                if error is not None and not is_refusal(error):
                    self._on_failure(error, "flush")
            done(error)

        self._disk.run_later(work, finished)

    def _reach(self, offset: Offset, generation: int) -> OSError | None:
        """Move the recovery point to `offset`, below which all bytes are synced; return the error that prevented it."""
        if generation != self._generation or offset <= self.recovery_point:
            return None
        try:
            self.save_names()
            self.save_epochs()
        except OSError as error:
            return error
        self._advance_to(offset)
        return None

    def _advance_to(self, offset: Offset) -> None:
        """Move the recovery point forward: the one place where it promises more than before."""
        assert not self._has_new_names, f"{self._directory}: offset {offset} is promised, names in it are not safe"
        assert not self._are_epochs_unsaved, f"{self._directory}: offset {offset} is promised, its epochs are not safe"
        self.recovery_point = max(self.recovery_point, offset)
        self._check_synced()

    def _check_synced(self) -> None:
        """Assert that every segment is synced up to the recovery point."""
        promised = self.recovery_point
        for segment in self._segments.newest_first():
            assert segment.synced_end >= min(promised, segment.end_offset), (
                f"{self._directory}: {segment!r} is synced up to {segment.synced_end}, {promised} is promised"
            )
            if segment.is_synced:
                break

    def lower(self, offset: Offset) -> None:
        """Lower the recovery point to `offset`, also in the checkpoint, before the log is cut.

        Raises OSError; the recovery point is then as it was.
        """
        before = self.recovery_point
        if offset < before:
            self.recovery_point = offset
            try:
                self.on_lowered()
            except OSError:
                self.recovery_point = before
                raise

    def restart_at(self, offset: Offset) -> None:
        """Follow a log that was emptied: there is nothing below `offset` that could be lost."""
        active = self._segments.active
        assert active.base_offset == active.end_offset == offset, f"{active!r} is not empty at {offset}"
        self.recovery_point = offset

    def check_invariants(self) -> None:
        """Assert that the recovery point lies in the log, and that everything below it was synced."""
        self.check_bounds()
        self._check_synced()

    def check_bounds(self) -> None:
        """Assert that the recovery point lies in the log, or in what was deleted from its beginning a moment ago."""
        first, active = self._segments.first, self._segments.active
        begins_at = 0 if self._has_new_names else first.base_offset
        assert begins_at <= self.recovery_point <= active.end_offset, (
            f"{self._directory}: recovery point {self.recovery_point} outside {begins_at}..{active.end_offset}"
        )

    def unsynced(self) -> list[Segment]:
        """Return the segments that hold something above the recovery point, oldest first."""
        return [
            segment
            for segment in self._segments
            if segment.size_bytes and not segment.is_synced and segment.end_offset > self.recovery_point
        ]

    def save_names(self) -> None:
        """Make the names in the partition directory, and its own, safe. Raises OSError."""
        if self._has_new_names:
            self._disk.sync_directory(self._directory)
            self._has_new_names = False
            # No power cut can bring back the segments that were deleted before the first one.
            self.recovery_point = max(self.recovery_point, self._segments.first.base_offset)
        if self._is_directory_new:
            self._disk.sync_directory(self._directory.rpartition("/")[0] or "/")
            self._is_directory_new = False

    def save_epochs(self) -> None:
        """Make the epoch history safe, if it changed. Raises OSError."""
        if self._are_epochs_unsaved:
            self._disk.replace_file(f"{self._directory}/{EPOCHS_FILE}", encode_epochs(self._epochs.entries), sync=True)
            self._are_epochs_unsaved = False

    def finish_later(self, segment: Segment, snapshot_path: str) -> None:
        """Sync a finished segment, its indexes and the producer snapshot at its end, in a worker.

        Segments for which there was no room before are tried again first.
        """
        again, self._unfinished = self._unfinished, []
        for each, path in again:
            is_due = each in self._segments and not each.is_synced
            if is_due and each.index is not None and each.times is not None:
                self._finish(each, path)
        self._finish(segment, snapshot_path)

    def _finish(self, segment: Segment, snapshot_path: str) -> None:
        file, disk, generation = segment.file, self._disk, segment.generation
        assert not segment.is_synced, f"{segment!r} is safe already"
        assert segment.index is not None, "a segment that was just finished has its index in memory"
        assert segment.times is not None, "a segment that was just finished has its index in memory"
        indexes = (
            (segment.path(INDEX_SUFFIX), segment.index.encode()),
            (segment.path(TIME_INDEX_SUFFIX), segment.times.encode()),
        )
        if segment.append_times.is_being_saved:
            # It was finished before, and cut; that work has not ended. Two workers must not write the same file.
            self._unfinished.append((segment, snapshot_path))
            return
        unsaved = segment.append_times.begin_saving()

        def work() -> bool:
            """Return whether the append times, which are hints, cannot be written."""
            _sync_if_open(file)
            with contextlib.suppress(FileNotFoundError):  # A truncation may have removed it meanwhile.
                snapshot = disk.open(snapshot_path)
                _sync_if_open(snapshot)
                snapshot.close()
            is_lost = unsaved is not None and not unsaved.write(disk, sync=True)
            for path, data in indexes:
                disk.replace_file(path, data, sync=True)
            return is_lost

        ended = self.on_sync()

        def done(result: Exception | bool) -> None:
            ended()
            if self.is_closed:
                return
            error = result if isinstance(result, Exception) else None
            segment.append_times.end_saving(is_sound=result is False and segment.generation == generation)
            if segment not in self._segments:
                for suffix in HINT_SUFFIXES:
                    with contextlib.suppress(FileNotFoundError):
                        disk.remove(segment.path(suffix))
            elif segment.generation != generation:
                # The segment was cut meanwhile, so these indexes describe too much. A crash
                # before this line is harmless, since recovery scans a cut segment.
                segment.forget_saved_indexes()
            elif error is not None and is_refusal(error):
                self._unfinished.append((segment, snapshot_path))
            elif error is not None:
                self._on_failure(error, "sync")
            else:
                if result:
                    segment.append_times.lose()
                segment.is_index_saved = segment.is_synced = True
                segment.synced_end = segment.end_offset
                self._advance()

        disk.run_later(work, done)

    def _advance(self) -> None:
        """Move the recovery point to the start of the first segment that is not safe yet."""
        reached = self._segments.active.base_offset
        for segment in self._segments.finished:
            if not segment.is_synced:
                reached = segment.base_offset
                break
        error = self._reach(Offset(reached), self._generation)
        if error is not None and not is_refusal(error):
            self._on_failure(error, "checkpoint")

    def forget_pending(self) -> None:
        """Ignore the results of background work that has begun."""
        self._generation += 1


def _unwatched() -> Callable[[], object]:
    """Ignore that a sync begins."""
    return _ignore_end


def _ignore_end() -> None:
    """Ignore that a sync ends."""


def _sync_if_open(file: File) -> None:
    """Sync a file unless it was closed meanwhile: then it was cut off, deleted, or is already safe."""
    try:
        sync_for_good(file)
    except BrokenFileError as error:
        if error.errno != errno.EBADF:
            raise
