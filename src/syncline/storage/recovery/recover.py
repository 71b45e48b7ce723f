"""From the files of a partition directory to a log that can be trusted.

One hard idea: the first bad place decides (`damage.py`), and nothing that
recovery does makes another place the first. So a crash may interrupt it
anywhere: the next recovery has the same result (R3).

Steps: remove leftovers; per segment either check its end (after a clean stop, or
if it is wholly below the recovery point) or scan every batch; decide about a bad
place; then load epochs, producers and log start.

Source: LogLoader of Kafka; KAFKA-10432, KAFKA-10471, KAFKA-6388.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from syncline.core.producer_state import OFFSET_MAX, ProducerTable
from syncline.core.replication.leader_epochs import EpochCache
from syncline.model.ids import NONE, LeaderEpoch, Offset
from syncline.storage.arrivals.append_times import Matching
from syncline.storage.checkpoints import producer_snapshot
from syncline.storage.checkpoints.formats import CheckpointError, decode_epochs
from syncline.storage.disk import Disk
from syncline.storage.errors import DamagedLogError
from syncline.storage.recovery.damage import ADVICE, Circumstances, Damage, check_flushed, judge
from syncline.storage.recovery.scan import holds_batch_behind, is_unfinished, scan
from syncline.storage.segments.batch_walk import NotABatch, walk
from syncline.storage.segments.segment import (
    DELETED_SUFFIX,
    HINT_SUFFIXES,
    LOG_SUFFIX,
    SNAPSHOT_SUFFIX,
    Segment,
)

EPOCHS_FILE: Final = "leader-epoch-checkpoint"
MENDED_SUFFIX: Final = ".mended"
# `.cleaned` comes from Kafka's compaction, `.tmp` and `.mended` from a file that was not finished.
_LEFTOVERS: Final = (DELETED_SUFFIX, ".cleaned", ".tmp", MENDED_SUFFIX)


@dataclass(kw_only=True)
class Recovered:
    """The log that a partition directory holds."""

    segments: list[Segment]
    epochs: EpochCache
    producers: ProducerTable
    log_start: Offset
    log_end: Offset
    recovery_point: Offset

    def check_invariants(self) -> None:
        """Assert that the parts describe one and the same log."""
        bounds = f"{self.log_start}..{self.log_end}"
        assert self.log_start <= self.log_end, f"the log begins behind its end: {bounds}"
        assert self.recovery_point <= self.log_end, f"{bounds} was flushed up to {self.recovery_point}"
        for older, newer in pairwise(self.segments):
            assert older.end_offset == newer.base_offset, f"{older!r} is not followed by {newer!r}"
        if self.segments:
            first, last = self.segments[0], self.segments[-1]
            assert first.base_offset <= self.log_start, f"{bounds} begins before {first!r}"
            assert last.end_offset == self.log_end, f"{bounds} does not end with {last!r}"
        if entries := self.epochs.entries:
            assert entries[-1].start_offset <= self.log_end, f"{bounds} remembers epochs behind it: {self.epochs!r}"
        rests_on = self.producers.rests_on()
        assert rests_on < self.log_end or rests_on == OFFSET_MAX, f"{bounds}: producers rest on offset {rests_on}"


def recover(disk: Disk, directory: str, circumstances: Circumstances, index_interval_bytes: int) -> Recovered:
    """Return the log in `directory`. Raises DamagedLogError if cutting it would destroy acknowledged records."""
    names = _remove_leftovers(disk, directory)
    bases = [Offset(int(name[:20])) for name in names if name.endswith(LOG_SUFFIX)]
    segments = [Segment(disk, directory, base, index_interval_bytes) for base in bases]
    _remove_orphans(disk, directory, names, set(bases))
    loading = _Loading(disk, directory, circumstances, segments)
    loading.load_segments()
    recovered = loading.finish([name for name in names if name.endswith(SNAPSHOT_SUFFIX)])
    recovered.check_invariants()
    return recovered


def _remove_leftovers(disk: Disk, directory: str) -> list[str]:
    names = []
    for name in disk.list(directory):
        if name.endswith(_LEFTOVERS):
            disk.remove(f"{directory}/{name}")
        elif name[:20].isdecimal():
            # Files that do not belong to the log stay.
            names.append(name)
    return names


def _remove_orphans(disk: Disk, directory: str, names: Sequence[str], bases: set[Offset]) -> None:
    """Remove indexes and append times whose segment is gone."""
    for name in names:
        if name.endswith(HINT_SUFFIXES) and int(name[:20]) not in bases:
            disk.remove(f"{directory}/{name}")


class _Loading:
    """One recovery in progress."""

    def __init__(self, disk: Disk, directory: str, circumstances: Circumstances, segments: list[Segment]) -> None:
        self.disk = disk
        self.directory = directory
        self.circumstances = circumstances
        self.segments = segments
        # (epoch, base offset) of scanned batches at which the epoch changed.
        self.scanned_epochs: list[tuple[LeaderEpoch, Offset]] = []
        # Segments in which a scan saw no producer: replaying them would change nothing.
        self.without_producers: set[Offset] = set()
        self.scanned_from: Offset | None = None
        # The last place in the scanned segment where offsets are missing: compaction leaves such gaps, damage too.
        self.leap: Damage | None = None

    def load_segments(self) -> None:
        """Check or scan the segments, oldest first, up to the first bad place."""
        expected = self.segments[0].base_offset if self.segments else Offset(0)
        for number, segment in enumerate(self.segments):
            if segment.base_offset < expected and self.leap is not None:
                self._break_off(number - 1, self.leap)
                break
            if segment.base_offset != expected:
                self._break_off(number, Damage(expected, None, f"the next segment begins at {segment.base_offset}"))
                break
            if damage := self._load(number, segment):
                self._break_off(number, damage)
                break
            expected = segment.end_offset
        for segment in self.segments[:-1]:
            if not segment.is_index_saved:
                segment.finish()
                segment.save_indexes(sync=False)
            segment.append_times.save(for_good=True)
            segment.drop_tail()
        if self.segments:
            last = self.segments[-1]
            last.read_first_timestamp()
            if not self.circumstances.is_clean:
                # The index files may not match the log file: a crash can cut that at any batch.
                last.forget_saved_indexes()

    def _load(self, number: int, segment: Segment) -> Damage | None:
        if self._must_scan(number):
            if self.scanned_from is None:
                self.scanned_from = segment.base_offset
            matching = segment.append_times.compare()
            damage = self._scan(segment, matching)
            segment.append_times.take(matching)
            return damage
        is_last = number == len(self.segments) - 1
        end = segment.file.size_bytes
        try:
            is_trusted = segment.load_indexes()
            # What lies before the last entry of an index is not walked.
            segment.holes = NONE if is_trusted else 0
            segment.resume(end=end)
        except NotABatch as found:
            raise DamagedLogError(
                f"{segment.path()}: no batch at position {found.position} of {end}, below the recovery point "
                f"{self.circumstances.recovery_point}: {found.reason}. {ADVICE}"
            ) from None
        segment.is_index_saved = segment.is_synced = is_trusted and not is_last
        if is_last:
            segment.append_times.load(segment.end_offset, segment.size_bytes)
        else:
            segment.append_times.leave_on_disk()
        return None

    def _must_scan(self, number: int) -> bool:
        if self.circumstances.is_clean:
            return False
        is_last = number == len(self.segments) - 1
        return is_last or self.segments[number + 1].base_offset > self.circumstances.recovery_point

    def _scan(self, segment: Segment, matching: Matching) -> Damage | None:
        """Read every batch of a segment, and show each to `matching`; return the first bad place.

        The checksum does not cover the base offset and the leader epoch. A wrong
        offset shows as a leap that the next batch undoes, a wrong epoch as one
        that is lower than the epoch before; neither happens in a sound log.
        """
        self.leap = None
        has_producers = False
        latest = self.scanned_epochs[-1][0] if self.scanned_epochs else LeaderEpoch(NONE)
        for position, found in scan(segment.file, segment.file.size_bytes):
            if isinstance(found, str):
                return self._damage(segment, position, found, is_sound=False)
            if found.base_offset < segment.end_offset:
                due = f"offset {found.base_offset} where {segment.end_offset} or more is due"
                return self.leap or self._damage(segment, position, due)
            if found.base_offset > segment.end_offset:
                self.leap = self._damage(segment, position, f"offsets leap to {found.base_offset} here")
                if self.leap.offset < self.circumstances.recovery_point < found.base_offset:
                    return self.leap
            if not segment.has_room_for(found):
                return self._damage(segment, position, f"offset {found.last_offset} is too far for its segment")
            if found.leader_epoch < latest:
                return self._damage(segment, position, f"leader epoch {found.leader_epoch} after {latest}")
            segment.add_batch(found, position)
            matching.saw(position, found)
            has_producers = has_producers or found.producer_id >= 0
            if found.leader_epoch != latest:
                latest = LeaderEpoch(found.leader_epoch)
                self.scanned_epochs.append((latest, Offset(found.base_offset)))
        if not has_producers:
            self.without_producers.add(segment.base_offset)
        return None

    def _damage(self, segment: Segment, position: int, reason: str, *, is_sound: bool = True) -> Damage:
        place = f"{segment.path()}, position {position}"
        return Damage(segment.end_offset, position, f"{place}: {reason}", is_sound=is_sound)

    def _break_off(self, number: int, damage: Damage) -> None:
        """Cut the log at `damage`, or refuse to."""
        broken = self.segments[number]
        later = self.segments[number + 1 :] if damage.position is not None else self.segments[number:]
        has_good_behind = (
            damage.is_sound
            or any(segment.file.size_bytes for segment in later)
            or (
                damage.position is not None
                and holds_batch_behind(broken.file, damage.position, damage.offset, broken.file.size_bytes)
            )
        )
        # Without a bad place in this file, it is the next segment that is not needed.
        is_cut_short = damage.position is None or is_unfinished(broken.file, damage.position, broken.file.size_bytes)
        judge(damage, self.circumstances, has_good_behind=has_good_behind, is_unfinished=is_cut_short)
        for segment in reversed(later):
            segment.release()
            for suffix in (LOG_SUFFIX, *HINT_SUFFIXES):
                if self.disk.exists(segment.path(suffix)):
                    self.disk.remove(segment.path(suffix))
        del self.segments[len(self.segments) - len(later) :]
        if later:
            self.disk.sync_directory(self.directory)
        if damage.position is not None:
            broken.cut(damage.position, damage.offset)

    def finish(self, snapshots: Sequence[str]) -> Recovered:
        """Return the log when its segments are loaded: with its bounds, epochs and producers."""
        first = self.segments[0].base_offset if self.segments else self.circumstances.log_start
        log_end = self.segments[-1].end_offset if self.segments else first
        check_flushed(self.directory, log_end, self.circumstances.recovery_point)
        log_start = max(first, self.circumstances.log_start)
        if log_end < log_start:
            # A log that ends before its start holds nothing readable.
            self._drop_all()
            log_end = log_start
        try:
            epochs = self._epochs(log_start, log_end)
            producers = self._producers(snapshots, log_end)
        except NotABatch as found:
            raise DamagedLogError(f"{self.directory}: {found}. {ADVICE}") from None
        for segment in self.segments[:-1]:
            segment.release()
        recovery_point = log_end if self.circumstances.is_clean else min(self.circumstances.recovery_point, log_end)
        return Recovered(
            segments=self.segments,
            epochs=epochs,
            producers=producers,
            log_start=log_start,
            log_end=log_end,
            recovery_point=max(recovery_point, first),
        )

    def _drop_all(self) -> None:
        for segment in reversed(self.segments):
            segment.release()
            for suffix in (LOG_SUFFIX, *HINT_SUFFIXES):
                if self.disk.exists(segment.path(suffix)):
                    self.disk.remove(segment.path(suffix))
        self.segments.clear()
        self.disk.sync_directory(self.directory)

    def _epochs(self, log_start: Offset, log_end: Offset) -> EpochCache:
        """Return the epoch cache: from the file for what was flushed, from the batches for the rest.

        Above the start of the scanned part, the file may list too many epochs or be
        old; below, it was synced before the recovery point passed.
        """
        cache = EpochCache()
        entries = self._epochs_of_file()
        if entries is None:
            for segment in self._unscanned():
                for position, header in walk(segment.file, 0, segment.size_bytes):
                    if header.base_offset < segment.base_offset:
                        raise NotABatch(
                            position, f"offset {header.base_offset} in the segment at {segment.base_offset}"
                        )
                    if header.leader_epoch >= 0:  # Kafka stores -1 where it knows none.
                        cache.assign(LeaderEpoch(header.leader_epoch), Offset(header.base_offset))
        else:
            for leader_epoch, start_offset in entries:
                if self.scanned_from is None or start_offset < self.scanned_from:
                    cache.assign(leader_epoch, start_offset)
        for leader_epoch, start_offset in self.scanned_epochs:
            if start_offset < log_end:  # The log may have been cut before this batch.
                cache.assign(leader_epoch, start_offset)
        cache.truncate_from_end(log_end)
        cache.truncate_from_start(log_start)
        return cache

    def _epochs_of_file(self) -> list[tuple[LeaderEpoch, Offset]] | None:
        """Return the checkpoint's entries, None if the file is damaged or does not fit this log."""
        path = f"{self.directory}/{EPOCHS_FILE}"
        try:
            entries = decode_epochs(path, self.disk.read_file(path))
        except (FileNotFoundError, CheckpointError):
            return None
        unscanned = next(self._unscanned(), None)
        if unscanned is None:
            return entries
        # A log with records has had a leader, so a history that is empty or begins too late was lost.
        is_lost = not entries or entries[0][1] > max(unscanned.base_offset, self.circumstances.log_start)
        return None if is_lost else entries

    def _unscanned(self) -> Iterator[Segment]:
        for segment in self.segments:
            if segment.size_bytes and (self.scanned_from is None or segment.base_offset < self.scanned_from):
                yield segment

    def _producers(self, snapshots: Sequence[str], log_end: Offset) -> ProducerTable:
        """Return producer state: from the newest sound snapshot, and the batches after it."""
        table, replay_from = ProducerTable(), None
        first = self.segments[0].base_offset if self.segments else log_end
        bases = {segment.base_offset for segment in self.segments}
        for name in reversed(snapshots):
            path = f"{self.directory}/{name}"
            offset = Offset(int(name[:20]))
            # If records are missing between snapshot and log, a live producer would seem to have skipped sequences.
            is_useful = first <= offset <= log_end and (replay_from is None or offset in bases)
            loaded = producer_snapshot.decode(self.disk.read_file(path), offset) if is_useful else None
            if loaded is None:
                self.disk.remove(path)
            elif replay_from is None:
                table, replay_from = loaded, offset
        producer_snapshot.replay(self.segments, table, replay_from or Offset(0), self.without_producers)
        return table
