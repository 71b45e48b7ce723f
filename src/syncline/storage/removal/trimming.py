"""Taking the oldest segments off a log, and removing their files when those are due.

One hard idea: what goes is always a prefix, one segment after the other. The names of one deletion are safe before the
next begins, so a crash never leaves an older segment without the one that follows it. The epoch history and the log
start follow the names, within the same step.

`retention.py` decides what goes; the log knows its bounds, and is told where it begins now.

Units: offsets count records, times are milliseconds. Failure: as in `log.py`; a deletion that is refused half-way goes
on with the next call. Source: KAFKA-5634, KIP-107.
"""

from collections.abc import Callable

from syncline.model.ids import Offset
from syncline.storage.availability import Availability
from syncline.storage.disk import Disk
from syncline.storage.removal.graveyard import Graveyard
from syncline.storage.removal.retention import SegmentDeleted, Situation, reason_to_delete
from syncline.storage.segments.segment import Segment
from syncline.storage.segments.segment_list import SegmentList
from syncline.storage.settings import LogSettings
from syncline.storage.writing.flusher import Flusher
from syncline.storage.writing.segment_writer import SegmentWriter


class Trimming:
    """Deletes the oldest segments of one log."""

    __slots__ = ("_availability", "_disk", "_flusher", "_graveyard", "_segments", "_writer")

    def __init__(
        self, disk: Disk, segments: SegmentList, flusher: Flusher, writer: SegmentWriter, availability: Availability
    ) -> None:
        self._disk = disk
        self._segments = segments
        self._flusher = flusher
        self._writer = writer
        self._availability = availability
        # Files that have been renamed.
        self._graveyard = Graveyard()

    def delete_due(
        self, situation: Situation, settings: LogSettings, begin_at: Callable[[Offset], None]
    ) -> tuple[SegmentDeleted, ...]:
        """Delete the segments that have a reason to go, oldest first, up to the first that stays.

        `begin_at` is called with the offset at which the log begins then. Raises DiskFullError, LogOfflineError.
        """
        deleted: list[SegmentDeleted] = []
        while True:
            segment = self._segments.first
            is_active = segment is self._segments.active
            reason = reason_to_delete(segment, situation, settings, is_active=is_active)
            if reason is None:
                return tuple(deleted)
            if is_active:
                # Once these records are gone, only the snapshot shows what producers had sent.
                self._writer.roll(settings, is_snapshot_synced=True)
            situation = situation._replace(excess_bytes=situation.excess_bytes - segment.size_bytes)
            deleted.append(SegmentDeleted(segment.base_offset, segment.end_offset, segment.size_bytes, reason))
            self._delete_first(situation.now_ms + settings.file_delete_delay_ms, begin_at)

    def _delete_first(self, due_ms: int, begin_at: Callable[[Offset], None]) -> None:
        """Delete the oldest segment, which is not the active one."""
        segment = self._segments.first
        assert segment is not self._segments.active, f"{segment!r} grows and is not deleted"
        with self._availability.refusing("delete from"):
            if not self._segments.active.size_bytes:
                self._writer.create_active()
            # One by one, oldest first: a crash must not leave an older segment without the next one.
            self._flusher.save_names()
            self._availability.complete("delete from", lambda: self._bury(segment, due_ms, begin_at))
            self._flusher.save_names()

    def _bury(self, segment: Segment, due_ms: int, begin_at: Callable[[Offset], None]) -> None:
        self._flusher.names_changed()
        for path in self._segments.bury_first(segment):
            self._graveyard.add(path, due_ms)
        begin_at(self._segments.first.base_offset)

    def sweep(self, now_ms: int) -> None:
        """Remove the files of deleted segments that are due."""
        with self._availability.refusing("delete from"):
            self._graveyard.remove_files(self._disk, now_ms)
