"""A broker's data directory: its logs, and the checkpoints that cover all of them.

    meta.properties                      which node and cluster it belongs to
    .lock                                held while a broker uses it
    .kafka_cleanshutdown                 written last by a clean stop, removed first by a start (M53)
    boot                                 the machine's boot in which the logs were last known good
    replication-offset-checkpoint        high watermarks
    recovery-point-offset-checkpoint     everything below was flushed
    log-start-offset-checkpoint          log starts that no file name shows
    <topic>-<partition>/                 a log; with the suffix `-delete` a deleted one, with `-aside` a damaged one

One hard idea: a checkpoint must never promise more than the logs hold. So a recovery point is lowered on the disk
before the log is cut, a new partition under an old name first removes the old one's entries from the files, and so does
the removal of a deleted log: an entry without a directory stands for a lost one.

Offsets as in `log.py`; times are milliseconds. Source: KAFKA-10471, KAFKA-16541.
"""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Final
from uuid import UUID

from syncline.core.producer_state import ProducerTable
from syncline.core.replication.leader_epochs import EpochCache
from syncline.model.ids import Offset, TopicPartition
from syncline.model.tables import shrink
from syncline.storage.checkpoints import directory_owner
from syncline.storage.checkpoints.formats import (
    METADATA_FILE,
    CheckpointError,
    decode_partition_metadata,
    encode_partition_metadata,
)
from syncline.storage.checkpoints.last_life import LastLife
from syncline.storage.checkpoints.offset_checkpoint import OffsetCheckpoint
from syncline.storage.disk import Disk, Lock, parent_of
from syncline.storage.errors import DamagedLogError, StorageError, is_refusal, storage_error
from syncline.storage.log import PartitionLog
from syncline.storage.pages.written import Written
from syncline.storage.recovery.aside import AsideLog, AsideLogs
from syncline.storage.recovery.damage import ADVICE, Circumstances
from syncline.storage.recovery.damage_note import NOTE_FILE, DamageNote, read_note, write_note
from syncline.storage.recovery.recover import Recovered, recover
from syncline.storage.removal.graveyard import DELETE_SUFFIX, Graveyard, name_for_deletion
from syncline.storage.settings import LogSettings

LOCK_FILE: Final = ".lock"
HIGH_WATERMARKS_FILE: Final = "replication-offset-checkpoint"
RECOVERY_POINTS_FILE: Final = "recovery-point-offset-checkpoint"
LOG_STARTS_FILE: Final = "log-start-offset-checkpoint"
# What an operator can do about a checkpoint that cannot be read.
CHECKPOINT_ADVICE: Final = (
    "Replace it with a good copy; or move the broker's directory away: the broker then fetches all logs from "
    "other replicas."
)


class LogDirectory:
    """The logs of one broker."""

    def __init__(self, disk: Disk, path: str, lock: Lock, directory_id: str) -> None:
        self.path = path
        self.directory_id = directory_id
        self.logs: dict[TopicPartition, PartitionLog] = {}
        # Partitions whose log was refused or found damaged, and why; their directories stay as they are.
        self.damaged: dict[TopicPartition, str] = {}
        # Those of them that have no directory.
        self.missing: dict[TopicPartition, None] = {}
        # Damaged logs that a new copy replaces.
        self.aside = AsideLogs(disk, path, _partition_of)
        self._last_life = LastLife(disk, path, lock)
        self._disk = disk
        self._lock = lock
        self._high_watermarks = OffsetCheckpoint(disk, f"{path}/{HIGH_WATERMARKS_FILE}")
        self._recovery_points = OffsetCheckpoint(disk, f"{path}/{RECOVERY_POINTS_FILE}")
        self._log_starts = OffsetCheckpoint(disk, f"{path}/{LOG_STARTS_FILE}")
        # What all logs have written, for their append times and for the page cache.
        self.written = Written(partial(disk.run_later, disk.cache_memory_bytes))
        # Directories of deleted partitions.
        self._graveyard = Graveyard()
        # Whether a power cut could still give a deleted directory its name back.
        self._has_unsafe_names = False

    @classmethod
    def open(
        cls,
        disk: Disk,
        path: str,
        *,
        node_id: int,
        cluster_id: str,
        directory_id: str,
        settings: Callable[[str], LogSettings],
    ) -> "LogDirectory":
        """Lock the directory, and load or recover every log in it; waits for the disk.

        `settings` returns a topic's settings by its name. Raises StorageError if the
        directory is in use, belongs to another node or has damaged checkpoints. A
        damaged log does not make the directory unusable: see `damaged`.
        """
        if not disk.exists(path):
            disk.make_directory(path)
            disk.sync_directory(parent_of(path))
        try:
            lock = disk.lock(f"{path}/{LOCK_FILE}")
        except BlockingIOError:
            raise StorageError(f"The data directory {path} is in use by another broker") from None
        try:
            owner = directory_owner.claim(
                disk,
                path,
                node_id,
                cluster_id,
                directory_id,
                holds_logs=lambda: any(_partition_of(name) is not None for name in disk.list(path)),
            )
            directory = cls(disk, path, lock, owner)
            directory._load(settings)
        except BaseException:
            lock.release()
            raise
        return directory

    @property
    def was_clean(self) -> bool:
        """Whether the last broker stopped cleanly."""
        return self._last_life.was_clean

    @property
    def previous_broker_epoch(self) -> int:
        """Epoch of the last registration whose writes are all here, -1 if there is none."""
        return self._last_life.previous_broker_epoch

    @property
    def cluster_id(self) -> str:
        """The id of the cluster whose records are here, "" if no broker has joined a cluster with them yet."""
        return directory_owner.cluster_of(self._disk, self.path)

    def free_bytes(self) -> int:
        """Return how much room is left on the disk."""
        return self._disk.free_bytes(self.path)

    def belong_to(self, cluster_id: str) -> None:
        """Record which cluster the records belong to."""
        directory_owner.belong_to(self._disk, self.path, cluster_id)

    def _load(self, settings: Callable[[str], LogSettings]) -> None:
        life = self._last_life
        life.take_clean_mark()
        for checkpoint in (self._high_watermarks, self._recovery_points, self._log_starts):
            try:
                checkpoint.load()
            except CheckpointError as error:
                raise CheckpointError(f"{error}. {CHECKPOINT_ADVICE}") from None
        life.compare_boots()
        names = self.aside.load(self._disk.list(self.path))
        for name in names:
            directory = f"{self.path}/{name}"
            if name.endswith(DELETE_SUFFIX):
                self._disk.remove_tree(directory)
            elif name.endswith(".tmp"):
                self._disk.remove(directory)
            elif (key := _partition_of(name)) is not None:
                self._load_log(key, directory, settings(key.topic), may_lack_writes=life.may_lack_writes)
        self._find_missing(names)
        if any(name.endswith(DELETE_SUFFIX) for name in names):
            with contextlib.suppress(OSError):
                self._forget_gone_logs(later=False)
        life.logs_are_loaded()

    def _find_missing(self, names: Sequence[str]) -> None:
        """Count a flushed log without a directory as damaged: as an empty leader it would empty the other replicas.

        A log whose deletion had begun does not count as missing.
        """
        deleted = {
            name.removesuffix(DELETE_SUFFIX).rpartition(".")[0] for name in names if name.endswith(DELETE_SUFFIX)
        }
        for key, offset in self._recovery_points.on_disk():
            if offset > 0 and key not in self.logs and key not in self.damaged and str(key) not in deleted:
                self.damaged[key] = (
                    f"{self.path}/{key} is missing, though it was flushed up to offset {offset}. {ADVICE}"
                )
                self.missing[key] = None

    def note_broker_epoch(self, broker_epoch: int) -> None:
        """Record this process's registration, for the next start on the same boot."""
        self._last_life.record_registration(broker_epoch)

    def forget_registration(self) -> None:
        """Make sure that the next start claims no broker epoch: a disk error may have lost writes on this boot."""
        self._last_life.forget_registration()

    def _load_log(self, key: TopicPartition, directory: str, settings: LogSettings, *, may_lack_writes: bool) -> None:
        if (note := read_note(self._disk, directory, key)) is not None:
            self.damaged[key] = note.reason
            return
        try:
            metadata = self._disk.read_file(f"{directory}/{METADATA_FILE}")
        except FileNotFoundError:
            metadata = b""
        circumstances = Circumstances(
            is_clean=self.was_clean,
            may_lack_writes=may_lack_writes,
            recovery_point=self._recovery_points.of(key),
            log_start=self._log_starts.of(key),
        )
        try:
            recovered = recover(self._disk, directory, circumstances, settings.index_interval_bytes)
        except (DamagedLogError, OSError) as error:
            if isinstance(error, OSError) and is_refusal(error):
                # Nothing is wrong with the log; recovery needs room on the disk, and descriptors.
                raise storage_error(error, f"Cannot load {key} in {self.path}") from error
            self.damaged[key] = str(error)
            return
        topic_id = decode_partition_metadata(metadata)
        self.logs[key] = self._log(key, directory, topic_id, settings, recovered, make_directory=None)

    def _log(
        self,
        key: TopicPartition,
        directory: str,
        topic_id: UUID | None,
        settings: LogSettings,
        recovered: Recovered,
        *,
        make_directory: Callable[[], None] | None,
    ) -> PartitionLog:
        if recovered.segments and (newest := recovered.segments[-1].append_times.recent) is not None:
            self.written.reached(newest.written_up_to(recovered.segments[-1].size_bytes))
        return PartitionLog(
            self._disk,
            directory,
            topic_partition=key,
            topic_id=topic_id,
            settings=settings,
            recovered=recovered,
            high_watermark=self._high_watermarks.of(key),
            make_directory=make_directory,
            on_recovery_point_lowered=lambda: self.checkpoint_recovery_points(later=False),
            written=self.written,
        )

    def create(self, key: TopicPartition, topic_id: UUID, settings: LogSettings) -> PartitionLog:
        """Return an empty log. Its files are created with its first batch: before that it has nothing to protect."""
        if key in self.logs:
            raise AssertionError(f"{key} exists already in {self.path}")
        if key in self.damaged:
            raise DamagedLogError(self.damaged[key])
        self._forget_predecessor(key)
        directory = f"{self.path}/{key}"

        def make_directory() -> None:
            self._disk.make_directory(directory)
            self._disk.replace_file(f"{directory}/{METADATA_FILE}", encode_partition_metadata(topic_id), sync=False)

        nothing = Recovered(
            segments=[],
            epochs=EpochCache(),
            producers=ProducerTable(),
            log_start=Offset(0),
            log_end=Offset(0),
            recovery_point=Offset(0),
        )
        log = self._log(key, directory, topic_id, settings, nothing, make_directory=make_directory)
        self.logs[key] = log
        return log

    def _forget_predecessor(self, key: TopicPartition) -> None:
        """Remove the entries of a deleted log of the same name from the checkpoints on the disk."""
        if self._recovery_points.is_on_disk(key):
            self.checkpoint_recovery_points(later=False)
        if self._log_starts.is_on_disk(key):
            self.checkpoint_log_starts(later=False)

    def delete(self, key: TopicPartition, now_ms: int, *, sync: bool = True) -> None:
        """Close a log and rename its directory; `sweep` removes the files when they are due.

        Who deletes many at once does so without `sync`, and then calls `sync_deletions`. Raises StorageError; the log
        then stays, in use, until its name is used again or the broker starts.
        """
        log = self.logs[key]
        if self._disk.exists(log.directory):
            self._rename_to_delete(log.directory, now_ms + log.settings.file_delete_delay_ms, sync=sync)
        del self.logs[key]
        shrink(self.logs)
        log.close()

    def sync_deletions(self) -> None:
        """Make deletions safe that were not synced. Raises OSError; a power cut may then bring the logs back."""
        self._save_names()

    def topic_of_damaged(self, key: TopicPartition) -> UUID | None:
        """Return the topic id of a damaged log, None if no readable file contains it. Raises OSError if refused."""
        try:
            return decode_partition_metadata(self._disk.read_file(f"{self.path}/{key}/{METADATA_FILE}"))
        except OSError as error:
            if is_refusal(error):
                raise
            return None

    def found_damaged(self, key: TopicPartition, reason: str, uncommitted_from: Offset) -> None:
        """Close a log that was found damaged while it was served; it is served no more, by no later start either.

        No record from `uncommitted_from` on was acknowledged with acks=all; -1 if that is unknown. Raises OSError if
        the next start will not know.
        """
        log = self.logs[key]
        log.close()
        del self.logs[key]
        self.damaged[key] = reason
        note = DamageNote(key, reason, log.recovery_point, log.log_start, uncommitted_from)
        write_note(self._disk, log.directory, note)

    def note_of(self, key: TopicPartition) -> DamageNote:
        """Return what is known of a damaged log."""
        return read_note(self._disk, f"{self.path}/{key}", key) or DamageNote(
            key, self.damaged[key], self._recovery_points.of(key), self._log_starts.of(key)
        )

    def copies_of(self, key: TopicPartition, topic_id: UUID) -> list[str]:
        """Return the directories that hold records of a partition: the log, damaged or not, and what was set aside."""
        log = self.logs.get(key)
        paths = [] if log is None or log.topic_id not in (None, topic_id) else [log.directory]
        if key in self.damaged and key not in self.missing and self.topic_of_damaged(key) in (None, topic_id):
            paths.append(f"{self.path}/{key}")
        return paths + [each.path for each in self.aside if each.key == key and each.topic_id in (None, topic_id)]

    def recovery_of(self, key: TopicPartition, settings: LogSettings) -> Callable[[], Recovered]:
        """Return what a worker does to recover a damaged log that was mended; raises DamagedLogError if it is not."""
        note = self.note_of(key)
        circumstances = Circumstances(
            is_clean=False,
            may_lack_writes=self._last_life.may_lack_writes,
            recovery_point=note.recovery_point,
            log_start=note.log_start,
        )
        return partial(recover, self._disk, f"{self.path}/{key}", circumstances, settings.index_interval_bytes)

    def mended(self, key: TopicPartition, settings: LogSettings, recovered: Recovered) -> None:
        """Serve a log again that was damaged. Raises OSError; it is damaged then as before."""
        directory = f"{self.path}/{key}"
        topic_id = self.topic_of_damaged(key)
        with contextlib.suppress(FileNotFoundError):
            self._disk.remove(f"{directory}/{NOTE_FILE}")
        self._disk.sync_directory(directory)
        self._forget_damaged(key)
        self.logs[key] = self._log(key, directory, topic_id, settings, recovered, make_directory=None)

    def set_aside(self, key: TopicPartition) -> AsideLog | None:
        """Set a damaged log aside, so that a new copy may take its place; return it, None if its directory is missing.

        Raises StorageError or OSError; the log is then as it was.
        """
        aside = None
        if key not in self.missing:
            directory = f"{self.path}/{key}"
            aside = self.aside.put(directory, self.note_of(key))
        self._forget_damaged(key)
        return aside

    def discard_damaged(self, key: TopicPartition, now_ms: int) -> None:
        """Delete a damaged log whose topic is gone, or which is no longer assigned to this broker."""
        if key not in self.missing:
            self._rename_to_delete(f"{self.path}/{key}", now_ms)
        self._forget_damaged(key)

    def _forget_damaged(self, key: TopicPartition) -> None:
        self.missing.pop(key, None)
        del self.damaged[key]

    def discard_aside(self, log: AsideLog, now_ms: int) -> None:
        """Delete a log that was set aside."""
        self._rename_to_delete(log.path, now_ms)
        self.aside.forget(log)

    def _rename_to_delete(self, directory: str, due_ms: int, *, sync: bool = True) -> None:
        target = name_for_deletion(self._disk, directory)
        try:
            self._disk.rename(directory, target)
            self._graveyard.add(target, due_ms)
            self._has_unsafe_names = True
            if sync:
                self._save_names()
        except OSError as error:
            raise storage_error(error, f"Cannot delete {directory}") from error

    def _save_names(self) -> bool:
        """Make names of deleted directories safe; return False if that was refused for now. Raises OSError."""
        if self._has_unsafe_names:
            try:
                self._disk.sync_directory(self.path)
            except OSError as error:
                if not is_refusal(error):
                    raise
                return False
            self._has_unsafe_names = False
        return True

    def sweep(self, now_ms: int) -> Iterator[None]:
        """Have workers remove the files of deleted partitions that are due, one by one: gigabytes take long.

        Not before the names are safe: a power cut must not leave half of a log under its old name. Not before the next
        sweep if recovery points have to be forgotten: the next start would miss their logs.
        """
        if not self._save_names():
            return
        for path in self._graveyard.take_due(now_ms, self._forget_gone_logs):
            self._disk.run_later(partial(self._disk.remove_tree, path), partial(self._swept, path, now_ms))
            yield

    def _forget_gone_logs(self, *, later: bool = True) -> bool:
        """Remove recovery points of deleted logs from the disk; return whether there are any. Raises OSError."""
        if has_any := self._recovery_points.has_others(self.logs, self.damaged):
            self.checkpoint_recovery_points(later=later)
        return has_any

    def _swept(self, path: str, now_ms: int, outcome: object) -> None:
        if isinstance(outcome, Exception):
            # The next sweep tries again, and so does the next start.
            self._graveyard.add(path, now_ms)

    def checkpoint_high_watermarks(self, *, later: bool = True) -> None:
        """Write all high watermarks."""
        marks = {key: log.high_watermark for key, log in self.logs.items() if log.log_end > 0}
        self._high_watermarks.write(marks, self.damaged, later=later)

    def checkpoint_recovery_points(self, *, later: bool = True) -> None:
        """Write all recovery points."""
        points = {key: log.recovery_point for key, log in self.logs.items() if log.log_end > 0}
        self._recovery_points.write(points, self.damaged, later=later)

    def checkpoint_log_starts(self, *, later: bool = True) -> None:
        """Write the log starts that lie inside a segment; the others are in file names."""
        inside = ((key, log) for key, log in self.logs.items() if log.log_start > log.first_base_offset)
        starts = {key: log.log_start for key, log in inside if log.log_end > 0}
        self._log_starts.write(starts, self.damaged, later=later)

    def save_append_times(self) -> Iterator[TopicPartition]:
        """Save, log by log, the append times of the last few seconds; yield whose they were."""
        for key in self.written.take_unsaved():
            log = self.logs.get(key)
            if log is not None and not log.is_offline:
                try:
                    log.append_times.save()
                except StorageError:
                    # What the disk refuses waits for the next time; after any other error they are lost.
                    self.written.has_times(key)
            yield key

    def close(self, broker_epoch: int) -> None:
        """Stop cleanly: close the logs, write the checkpoints, then the mark; no mark if a log failed."""
        failures: list[StorageError] = []
        for log in self.logs.values():
            try:
                log.close_cleanly()
            except StorageError as error:
                failures.append(error)
        try:
            self.checkpoint_high_watermarks(later=False)
            self.checkpoint_recovery_points(later=False)
            self.checkpoint_log_starts(later=False)
            if not failures:
                self._last_life.mark_clean(broker_epoch)
        except OSError as error:
            failures.append(StorageError(f"Cannot write the checkpoints of {self.path}: {error}"))
        self.abandon()
        if failures:
            raise failures[0]

    def check_invariants(self) -> None:
        """Assert that each partition is loaded or damaged, and that no checkpoint promises more than its log."""
        for key, log in self.logs.items():
            assert log.topic_partition == key, f"{log!r} is filed under {key}"
            assert key not in self.damaged, f"{log!r} is in use, though {self.damaged[key]}"
            log.check_invariants()
        assert self.missing.keys() <= self.damaged.keys(), f"missing but not damaged: {list(self.missing)}"
        self.aside.check_invariants()
        self._recovery_points.check_at_most(
            (key, log.recovery_point) for key, log in self.logs.items() if not log.is_offline
        )

    def abandon(self) -> None:
        """Release everything as a crash would; write nothing for the next start."""
        for log in self.logs.values():
            log.close()
        self._lock.release()


def _partition_of(name: str) -> TopicPartition | None:
    """Return the partition that a directory name stands for, None if it stands for none."""
    topic, dash, number = name.rpartition("-")
    if not dash or not topic or not number.isdecimal() or number != str(int(number)):
        return None
    return TopicPartition(topic, int(number))
