"""Performing a cut that was planned (`cutting.py`), or emptying a log, step by step.

One hard idea: after a cut other records get the same offsets. So everything that a power cut could bring back must be
gone for good first: the checkpoint that counts the records as flushed, the segments behind, the snapshots of producers,
then the bytes. What the disk may refuse is asked for before the first step (`_prepare`); a step that is refused even so
is repeated by the next call (`Availability.complete`).

The loop performs this, so nothing here reads a batch. The log knows its bounds, and is told where it ends now.

Units: positions are bytes; `end_offset` is exclusive. Source: KIP-101; KAFKA-10778.
"""

from collections.abc import Callable

from syncline.core.producer_state import ProducerTable
from syncline.core.replication.leader_epochs import EpochCache
from syncline.model.ids import NONE, Offset
from syncline.storage.availability import Availability
from syncline.storage.checkpoints import producer_snapshot
from syncline.storage.disk import Disk
from syncline.storage.removal.cutting import Shape
from syncline.storage.segments.segment import Segment
from syncline.storage.segments.segment_list import SegmentList
from syncline.storage.writing.flusher import Flusher
from syncline.storage.writing.segment_writer import SegmentWriter


class CutSteps:
    """Cuts the end off one log."""

    __slots__ = (
        "_availability",
        "_cut_count",
        "_directory",
        "_disk",
        "_epochs",
        "_flusher",
        "_producers",
        "_segments",
        "_writer",
    )

    def __init__(
        self,
        disk: Disk,
        directory: str,
        segments: SegmentList,
        flusher: Flusher,
        writer: SegmentWriter,
        epochs: EpochCache,
        producers: ProducerTable,
        availability: Availability,
    ) -> None:
        self._disk = disk
        self._directory = directory
        self._segments = segments
        self._flusher = flusher
        self._writer = writer
        self._epochs = epochs
        self._producers = producers
        self._availability = availability
        # A change of this makes every earlier plan of a cut outdated.
        self._cut_count = 0

    def shape(self) -> Shape:
        """Return what a plan depends on."""
        return Shape.of(self._segments, self._cut_count)

    def cut_to(self, rest: Segment, producers: ProducerTable | None, end_at: Callable[[Offset], None]) -> None:
        """Cut the log so that `rest`, a copy of one of its segments, is the last one; reads nothing.

        `end_at` is called with the new log end. Raises DiskFullError, LogOfflineError.
        """
        segment = self._segments.of(rest.base_offset)
        assert segment.base_offset == rest.base_offset, "a plan names a segment of the log"
        snapshots = self._prepare("truncate", segment, rest.end_offset)

        def steps() -> None:
            if snapshots or self._segments.active is not segment:
                self._flusher.names_changed()
            self._segments.destroy_behind(segment)
            producer_snapshot.remove(self._disk, snapshots)
            # Once other records get these offsets, a power cut must not bring back what was behind.
            self._flusher.save_names()
            segment.cut_to(rest)
            end_at(rest.end_offset)
            self._flusher.epochs_changed(self._epochs.truncate_from_end(rest.end_offset))
            if producers is not None:
                self._producers.clear()
                self._producers.entries.update(producers.entries)

        self._availability.complete("truncate", steps)

    def restart_at(self, offset: Offset, index_interval_bytes: int, restart_at: Callable[[Offset], None]) -> None:
        """Drop all segments, without reading; the empty log, which `restart_at` tells so, goes on at `offset`."""
        # The recovery point goes to 0: a crash during this may leave no segment that shows where the log was.
        snapshots = self._prepare("restart", None, Offset(NONE))

        def steps() -> None:
            self._flusher.names_changed()
            self._segments.destroy_all()
            self._segments.add(offset, index_interval_bytes)
            restart_at(offset)
            self._flusher.epochs_changed(self._epochs.clear())
            self._producers.clear()
            producer_snapshot.remove(self._disk, snapshots)
            # The old names must be gone before the new one is there.
            self._disk.sync_directory(self._directory)
            self._writer.create_active()
            self._flusher.restart_at(offset)

        self._availability.complete("restart", steps)

    def _prepare(self, verb: str, kept: Segment | None, end_offset: Offset) -> list[str]:
        """Do what the disk may refuse, while the log is whole; return the paths of snapshots above the cut.

        `kept` is the segment in which the log will end, None if no segment is kept. What follows needs no descriptor
        but one for syncing names. If the disk refuses, the log is as it was.
        """
        with self._availability.refusing(verb):
            self._writer.need_directory()
            if kept is not None:
                file = kept.file
                assert file.size_bytes >= kept.size_bytes, f"{kept!r} is in a file of {file.size_bytes} bytes"
            offsets = producer_snapshot.offsets(self._disk, self._directory)
            # After a crash during the cut, no checkpoint may count the records as flushed.
            self._flusher.lower(end_offset if kept is not None else Offset(0))
        self._cut_count += 1
        self._flusher.forget_pending()
        return [producer_snapshot.path(self._directory, each) for each in offsets if each > end_offset]
