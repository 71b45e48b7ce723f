"""A broker's data directory: all its logs, and the checkpoints that concern all of them.

    meta.properties                      whose directory this is
    .lock                                held while a broker uses it
    .kafka_cleanshutdown                 written last by a clean stop, removed first by a start (M53)
    boot                                 the machine's boot in which the logs were last known good
    replication-offset-checkpoint        high watermarks
    recovery-point-offset-checkpoint     everything below was flushed
    log-start-offset-checkpoint          log starts that no file name shows
    <topic>-<partition>/                 a log; with the suffix `-delete` one that is going

One hard idea: a checkpoint must never promise more than is true of the
directory it names. So a recovery point is lowered on the disk before anything
is cut, and a new partition under an old name first gets the old one's entries
out of the files.

Offsets as in `log.py`; times are milliseconds. Source: 8.6 and 8.7 of the
replication rules, KAFKA-10471, KAFKA-16541.
"""

import contextlib
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final
from uuid import UUID

from syncline.core.producer_state import ProducerTable
from syncline.core.replication.leader_epochs import EpochCache
from syncline.model.ids import Offset, TopicPartition
from syncline.storage.checkpoints import (
    CheckpointError,
    CheckpointFile,
    decode_clean_mark,
    decode_offsets,
    decode_partition_metadata,
    decode_properties,
    encode_clean_mark,
    encode_offsets,
    encode_partition_metadata,
    encode_properties,
)
from syncline.storage.disk import Disk, Lock
from syncline.storage.errors import DamagedLogError, StorageError, is_full
from syncline.storage.graveyard import Graveyard
from syncline.storage.log import PartitionLog
from syncline.storage.recovery import ADVICE, Circumstances, Recovered, recover
from syncline.storage.settings import LogSettings

PROPERTIES_FILE: Final = "meta.properties"
LOCK_FILE: Final = ".lock"
CLEAN_MARK_FILE: Final = ".kafka_cleanshutdown"
BOOT_FILE: Final = "boot"
EPOCH_FILE: Final = "registered"
HIGH_WATERMARKS_FILE: Final = "replication-offset-checkpoint"
RECOVERY_POINTS_FILE: Final = "recovery-point-offset-checkpoint"
LOG_STARTS_FILE: Final = "log-start-offset-checkpoint"
METADATA_FILE: Final = "partition.metadata"
DELETE_SUFFIX: Final = "-delete"
DIRECTORY_NAME_CHARACTERS_MAX: Final = 255
# What to do about a checkpoint that cannot be read.
CHECKPOINT_ADVICE: Final = (
    "Put a good copy of it there; or move the broker's directory away, and what other replicas have is fetched again."
)


class LogDirectory:
    """The logs of one broker."""

    def __init__(self, disk: Disk, path: str, lock: Lock, directory_id: str) -> None:
        self.path = path
        self.directory_id = directory_id
        self.logs: dict[TopicPartition, PartitionLog] = {}
        # Partitions whose log was refused, and why; their directories are left as they are.
        self.damaged: dict[TopicPartition, str] = {}
        # Those among them that have no directory.
        self.missing: dict[TopicPartition, None] = {}
        self.was_clean = False
        self.previous_broker_epoch = -1
        self._disk = disk
        self._lock = lock
        self._high_watermarks = _OffsetCheckpoint(disk, f"{path}/{HIGH_WATERMARKS_FILE}")
        self._recovery_points = _OffsetCheckpoint(disk, f"{path}/{RECOVERY_POINTS_FILE}")
        self._log_starts = _OffsetCheckpoint(disk, f"{path}/{LOG_STARTS_FILE}")
        # Directories of deleted partitions.
        self._graveyard = Graveyard()

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
        """Take the directory, and load or recover every log in it; waits for the disk.

        `settings` gives a topic's settings by its name. Raises StorageError when
        the directory is in use, belongs to another node, or has damaged
        checkpoints. A damaged log is no error of the directory: see `damaged`.
        """
        if not disk.exists(path):
            disk.make_directory(path)
            disk.sync_directory(parent_of(path))
        try:
            lock = disk.lock(f"{path}/{LOCK_FILE}")
        except BlockingIOError:
            raise StorageError(f"The data directory {path} is in use by another broker") from None
        try:
            owner = _claim(disk, path, node_id, cluster_id, directory_id)
            directory = cls(disk, path, lock, owner)
            directory._load(settings)
        except BaseException:
            lock.release()
            raise
        return directory

    @property
    def cluster_id(self) -> str:
        """The cluster whose records are here, "" before a broker has joined one with this directory."""
        return decode_properties(self._disk.read_file(f"{self.path}/{PROPERTIES_FILE}")).get("cluster.id", "")

    def free_bytes(self) -> int:
        """Return how much room the disk has for more."""
        return self._disk.free_bytes(self.path)

    def belong_to(self, cluster_id: str) -> None:
        """Note which cluster the records are of: under another one they would be taken for strays, and deleted."""
        path = f"{self.path}/{PROPERTIES_FILE}"
        properties = decode_properties(self._disk.read_file(path))
        if properties.get("cluster.id") != cluster_id:
            self._disk.replace_file(path, encode_properties({**properties, "cluster.id": cluster_id}))

    def _load(self, settings: Callable[[str], LogSettings]) -> None:
        self._take_clean_mark()
        for checkpoint in (self._high_watermarks, self._recovery_points, self._log_starts):
            try:
                checkpoint.load()
            except CheckpointError as error:
                raise CheckpointError(f"{error}. {CHECKPOINT_ADVICE}") from None
        boot_id = self._disk.boot_id()
        may_lack_writes = not boot_id or boot_id != self._read_text(BOOT_FILE)
        if self.previous_broker_epoch == -1 and not may_lack_writes:
            # Killed, but the machine went on: whatever the dead process had written is here, as after a clean stop.
            self.previous_broker_epoch = self._registered_on(boot_id)
        names = self._disk.list(self.path)
        for name in names:
            directory = f"{self.path}/{name}"
            if name.endswith(DELETE_SUFFIX):
                self._disk.remove_tree(directory)
            elif name.endswith(".tmp"):
                self._disk.remove(directory)
            elif (key := _partition_of(name)) is not None:
                self._load_log(key, directory, settings(key.topic), may_lack_writes=may_lack_writes)
        self._note_missing(names)
        if boot_id and may_lack_writes:
            # Only now: a crash of this very start must not make the torn logs look like whole ones.
            self._disk.replace_file(f"{self.path}/{BOOT_FILE}", boot_id.encode())

    def _note_missing(self, names: Sequence[str]) -> None:
        """Take for damaged what was flushed and is not there: empty, and leading, it would empty the other replicas.

        What was being deleted is not missing.
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

    def _take_clean_mark(self) -> None:
        """Read and remove the mark, before anything that a crash could interrupt (M53)."""
        mark = f"{self.path}/{CLEAN_MARK_FILE}"
        if self._disk.exists(mark):
            self.was_clean = True
            self.previous_broker_epoch = decode_clean_mark(self._disk.read_file(mark))
            self._disk.remove(mark)
            self._disk.sync_directory(self.path)

    def note_broker_epoch(self, broker_epoch: int) -> None:
        """Remember this process's registration, for a successor on the same boot; a power cut makes it worthless.

        So does copying it: what was a directory's copy, made while it was in use, lacks what was written since.
        """
        text = f"{self._disk.boot_id()} {broker_epoch} {self._lock.identity()}"
        self._disk.replace_file(f"{self.path}/{EPOCH_FILE}", text.encode(), sync=False)

    def forget_registration(self) -> None:
        """Let the next start claim nothing: after a disk error, the same boot may have lost what was written."""
        with contextlib.suppress(OSError):
            self._disk.remove(f"{self.path}/{EPOCH_FILE}")

    def _registered_on(self, boot_id: str) -> int:
        """Return the last registration of this boot, -1 if there was none.

        One of a former boot says nothing: what was written after it may be lost, even if this broker never
        registered again. The file is not synced, so after a power cut it may hold anything.
        """
        boot, _, rest = self._read_text(EPOCH_FILE).partition(" ")
        epoch, _, identity = rest.partition(" ")
        is_ours = boot == boot_id and identity == self._lock.identity()
        return int(epoch) if is_ours and epoch.isdigit() else -1

    def _read_text(self, name: str) -> str:
        try:
            return self._disk.read_file(f"{self.path}/{name}").decode(errors="replace")
        except FileNotFoundError:
            return ""

    def _load_log(self, key: TopicPartition, directory: str, settings: LogSettings, *, may_lack_writes: bool) -> None:
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
            if isinstance(error, OSError) and is_full(error):
                # Nothing is wrong with the log: it only has to wait for room.
                raise StorageError(f"Cannot load {key} in {self.path}: {error.strerror}") from error
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
        )

    def create(self, key: TopicPartition, topic_id: UUID, settings: LogSettings) -> PartitionLog:
        """Return an empty log. Nothing is on the disk until somebody writes to it: it has nothing to protect."""
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
        """Make sure that no checkpoint on the disk says of a new log what was true of a deleted one."""
        if self._recovery_points.is_on_disk(key):
            self.checkpoint_recovery_points(later=False)
        if self._log_starts.is_on_disk(key):
            self.checkpoint_log_starts(later=False)

    def delete(self, key: TopicPartition, now_ms: int) -> None:
        """Close a log and rename its directory; the files go when `sweep` finds them due."""
        log = self.logs.pop(key)
        log.close()
        if self._disk.exists(log.directory):
            self._rename_to_delete(key, log.directory, now_ms + log.settings.file_delete_delay_ms)

    def topic_of_damaged(self, key: TopicPartition) -> UUID | None:
        """Return which topic a damaged log is of, None if nothing tells."""
        try:
            return decode_partition_metadata(self._disk.read_file(f"{self.path}/{key}/{METADATA_FILE}"))
        except OSError:
            return None

    def discard_damaged(self, key: TopicPartition, now_ms: int) -> None:
        """Give a damaged log up: its records are elsewhere, or its topic is gone. A new one may take its place."""
        if key not in self.missing:
            self._rename_to_delete(key, f"{self.path}/{key}", now_ms)
        self.missing.pop(key, None)
        del self.damaged[key]

    def _rename_to_delete(self, key: TopicPartition, directory: str, due_ms: int) -> None:
        number = 0
        while True:
            tail = f".{number}{DELETE_SUFFIX}"
            target = f"{self.path}/{str(key)[: DIRECTORY_NAME_CHARACTERS_MAX - len(tail)]}{tail}"
            if not self._disk.exists(target):
                break
            number += 1
        try:
            self._disk.rename(directory, target)
            self._disk.sync_directory(self.path)
        except OSError as error:
            raise StorageError(f"Cannot delete {key} in {self.path}: {error.strerror}") from error
        self._graveyard.add(target, due_ms)

    def sweep(self, now_ms: int) -> None:
        """Remove the files of deleted partitions whose time has come, off the loop: gigabytes take their time."""
        for path in self._graveyard.take_due(now_ms):
            self._disk.run_later(partial(self._disk.remove_tree, path), partial(self._swept, path, now_ms))

    def _swept(self, path: str, now_ms: int, outcome: object) -> None:
        if isinstance(outcome, Exception):
            # The next sweep tries it again, and so does the next start.
            self._graveyard.add(path, now_ms)

    def checkpoint_high_watermarks(self, *, later: bool = True) -> None:
        """Write all high watermarks."""
        self._high_watermarks.write({key: log.high_watermark for key, log in self._kept()}, self.damaged, later=later)

    def checkpoint_recovery_points(self, *, later: bool = True) -> None:
        """Write all recovery points."""
        self._recovery_points.write({key: log.recovery_point for key, log in self._kept()}, self.damaged, later=later)

    def checkpoint_log_starts(self, *, later: bool = True) -> None:
        """Write the log starts that lie inside a segment; the others are in file names."""
        starts = {key: log.log_start for key, log in self._kept() if log.log_start > log.first_base_offset}
        self._log_starts.write(starts, self.damaged, later=later)

    def _kept(self) -> list[tuple[TopicPartition, PartitionLog]]:
        """Return the logs that have something to remember: an empty new one has not."""
        return [(key, log) for key, log in self.logs.items() if log.log_end > 0]

    def close(self, broker_epoch: int) -> None:
        """Stop cleanly: logs, checkpoints, then the mark that says so. A log that fails leaves no mark."""
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
                mark = encode_clean_mark(broker_epoch)
                self._disk.replace_file(f"{self.path}/{CLEAN_MARK_FILE}", mark)
        except OSError as error:
            failures.append(StorageError(f"Cannot write the checkpoints of {self.path}: {error}"))
        self.abandon()
        if failures:
            raise failures[0]

    def abandon(self) -> None:
        """Give everything back as a crash would, without a word to the next start."""
        for log in self.logs.values():
            log.close()
        self._lock.release()


def _claim(disk: Disk, path: str, node_id: int, cluster_id: str, directory_id: str) -> str:
    """Return the directory's id, after making sure that it belongs to this node (or to nobody yet)."""
    properties_path = f"{path}/{PROPERTIES_FILE}"
    mine = {"version": "1", "node.id": str(node_id), "directory.id": directory_id, "cluster.id": cluster_id}
    try:
        found = decode_properties(disk.read_file(properties_path))
    except FileNotFoundError:
        if any(_partition_of(name) is not None for name in disk.list(path)):
            raise StorageError(
                f"The data directory {path} holds logs, but {PROPERTIES_FILE} is missing, which says whose they are. "
                "Put it back, or use another directory."
            ) from None
        disk.replace_file(properties_path, encode_properties(mine))
        return directory_id
    if not found.get("node.id") or "cluster.id" not in found:
        raise StorageError(
            f"{properties_path} is damaged: it does not say whose data is here. Put a good copy of it there, "
            "or use another directory."
        )
    for name in ("cluster.id", "node.id"):
        # A broker learns its cluster's id only when it joins.
        if mine[name] and found.get(name) and found[name] != mine[name]:
            raise StorageError(
                f"The data directory {path} belongs to {name} {found.get(name)}, this is {mine[name]}. "
                "Use another directory, or remove this one if its data may go."
            )
    return found.get("directory.id", directory_id)


def parent_of(path: str) -> str:
    """Return the directory in which `path` has its name."""
    return path.rpartition("/")[0] or ("/" if path.startswith("/") else ".")


def _partition_of(name: str) -> TopicPartition | None:
    """Return which partition a directory name stands for, None if it is none."""
    topic, dash, number = name.rpartition("-")
    if not dash or not topic or not number.isdecimal() or number != str(int(number)):
        return None
    return TopicPartition(topic, int(number))


class _OffsetCheckpoint:
    """One offset per partition, in memory as it is on the disk."""

    def __init__(self, disk: Disk, path: str) -> None:
        self._file = CheckpointFile(disk, path)
        # What was last handed over to be written, and what has surely arrived.
        self._written: dict[TopicPartition, Offset] = {}
        self._arrived: dict[TopicPartition, Offset] = {}
        self._is_writing = False

    def load(self) -> None:
        """Read the file. Raises CheckpointError when it is damaged."""
        self._written = self._arrived = decode_offsets(self._file.path, self._file.read())

    def of(self, key: TopicPartition) -> Offset:
        """Return what was last written of a partition, 0 if nothing."""
        return self._written.get(key, Offset(0))

    def on_disk(self) -> list[tuple[TopicPartition, Offset]]:
        """Return every entry that has arrived."""
        return list(self._arrived.items())

    def is_on_disk(self, key: TopicPartition) -> bool:
        """Return whether the file may have an entry for the partition that says anything."""
        return self._arrived.get(key, 0) > 0 or self._written.get(key, 0) > 0

    def write(self, offsets: dict[TopicPartition, Offset], kept: Mapping[TopicPartition, str], *, later: bool) -> None:
        """Replace the entries; those of `kept` partitions stay what they were."""
        offsets.update((key, self._written[key]) for key in kept if key in self._written)
        if offsets == self._arrived == self._written or (later and self._is_writing):
            return
        self._written = offsets
        if not later:
            self._file.write(encode_offsets(offsets))
            self._arrived = offsets
            return
        self._is_writing = True
        self._file.write_later(encode_offsets(offsets), lambda error: self._finished(offsets, error))

    def _finished(self, offsets: dict[TopicPartition, Offset], error: Exception | None) -> None:
        """Note how a background writing went; one that failed is tried again at the next occasion."""
        self._is_writing = False
        if error is None and offsets is self._written:
            self._arrived = offsets
