"""Data directories: who owns them, what a start finds, what the checkpoints say."""

import sys
from collections import deque
from types import FrameType
from uuid import UUID

import pytest

from syncline.model.ids import Offset, TopicPartition
from syncline.storage.checkpoints.formats import CheckpointError, decode_offsets
from syncline.storage.checkpoints.offset_checkpoint import OffsetCheckpoint
from syncline.storage.errors import DamagedLogError, StorageError
from syncline.storage.log import PartitionLog
from syncline.storage.log_directory import LogDirectory
from syncline.storage.settings import LogSettings
from tests.storage.batches import KEY, TOPIC_ID, append, contents, open_directory, truncate_to
from tests.storage.recording_disk import RecordingDisk, Sync, SyncDirectory

OTHER = TopicPartition("with-dashes.and_dots", 12)


def reopened(disk: RecordingDisk, settings: LogSettings, *, boot: str = "boot-1") -> LogDirectory:
    """Open the directory as the next process would."""
    return open_directory(RecordingDisk(disk.image.copy(), boot=boot), settings)


@pytest.mark.parametrize(
    ("checkpoint", "log_start", "expected"),
    [
        pytest.param(4, 0, 4, id="4"),
        pytest.param(9, 0, 6, id="9, above the log end"),
        pytest.param(None, 0, 0, id="none"),
        pytest.param(None, 3, 3, id="none, log start 3"),
    ],
)
def test_c17_high_watermark_is_clamped_to_the_log(
    disk: RecordingDisk,
    directory: LogDirectory,
    log: PartitionLog,
    checkpoint: int | None,
    log_start: int,
    expected: int,
) -> None:
    """The log ends at 6."""
    append(log, count=6)
    log.high_watermark = log.log_end
    log.raise_log_start(Offset(log_start))
    directory.checkpoint_log_starts(later=False)
    if checkpoint is not None:
        disk.replace_file("/data/replication-offset-checkpoint", f"0\n1\ntopic 0 {checkpoint}\n".encode())

    again = reopened(disk, log.settings).logs[KEY]

    assert (again.log_start, again.log_end, again.high_watermark) == (log_start, 6, expected)


def test_g11_log_that_ends_before_it_begins_is_empty_at_its_start(disk: RecordingDisk, log: PartitionLog) -> None:
    """Log start 50 by the checkpoint, 40 records found: all go."""
    append(log, count=40)
    disk.replace_file("/data/log-start-offset-checkpoint", b"0\n1\ntopic 0 50\n")

    again = reopened(disk, log.settings).logs[KEY]

    assert (again.log_start, again.log_end, again.size_bytes) == (50, 50, 0)
    append(again)
    assert [offset for offset, _ in contents(again)] == [50]


def test_clean_stop_says_so_and_the_next_start_believes_it_once(
    disk: RecordingDisk, directory: LogDirectory, log: PartitionLog
) -> None:
    """M53: the mark is gone before anything is loaded."""
    append(log)
    directory.close(3925)
    assert disk.read_file("/data/.kafka_cleanshutdown") == b'{"version":0,"brokerEpoch":3925}'
    assert f"{1:020d}.snapshot" in disk.list(log.directory)

    first = open_directory(disk, log.settings)
    first.abandon()
    second = open_directory(disk, log.settings)

    assert (first.was_clean, first.previous_broker_epoch) == (True, 3925)
    assert (second.was_clean, second.previous_broker_epoch) == (False, -1)
    assert second.logs[KEY].log_end == 1


def test_clean_stop_moves_every_recovery_point_to_its_log_end(
    disk: RecordingDisk, directory: LogDirectory, log: PartitionLog
) -> None:
    """As Kafka writes it."""
    append(log, count=5)
    directory.close(1)

    assert disk.read_file("/data/recovery-point-offset-checkpoint") == b"0\n1\ntopic 0 5\n"


def test_clean_start_scans_nothing(
    disk: RecordingDisk, directory: LogDirectory, log: PartitionLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not one checksum is computed; reads, producers and epochs are there all the same."""
    for sequence in range(10):
        append(log, leader_epoch=sequence // 4, producer=(9, 0, sequence))
    directory.close(1)
    monkeypatch.setattr("syncline.storage.recovery.scan.crc_matches", lambda *_: pytest.fail("a batch was checked"))

    again = reopened(disk, log.settings).logs[KEY]

    assert contents(again) == contents(reopened(disk, log.settings).logs[KEY])
    assert (again.producers, again.epochs.entries) == (log.producers, log.epochs.entries)
    assert again.recovery_point == 10
    again.check_invariants()


def test_directory_is_refused_when_another_broker_uses_it(
    disk: RecordingDisk, directory: LogDirectory, settings: LogSettings
) -> None:
    """Two writers would tear every log."""
    with pytest.raises(StorageError, match="/data is in use by another broker"):
        open_directory(disk, settings)

    directory.abandon()
    open_directory(disk, settings)


@pytest.mark.parametrize(("node_id", "cluster_id"), [(2, "cluster"), (1, "another")])
def test_directory_is_refused_when_it_belongs_to_somebody_else(
    disk: RecordingDisk, directory: LogDirectory, node_id: int, cluster_id: str
) -> None:
    """Serving another cluster's records would be worse than not starting."""
    directory.abandon()

    with pytest.raises(StorageError, match="belongs to"):
        LogDirectory.open(
            disk,
            "/data",
            node_id=node_id,
            cluster_id=cluster_id,
            directory_id="other",
            settings=lambda _: LogSettings(),
        )


def test_directory_keeps_its_id(disk: RecordingDisk, directory: LogDirectory, settings: LogSettings) -> None:
    """A new process offers a new id and gets the old one."""
    directory.abandon()
    again = LogDirectory.open(
        disk, "/data", node_id=1, cluster_id="cluster", directory_id="new", settings=lambda _: settings
    )

    assert again.directory_id == "directory"


def test_damaged_checkpoint_refuses_the_directory(disk: RecordingDisk, directory: LogDirectory) -> None:
    """Nothing else knows what it knew; guessing could truncate what is committed."""
    directory.abandon()
    disk.replace_file("/data/recovery-point-offset-checkpoint", b"0\n2\ntopic 0 5\n")

    with pytest.raises(CheckpointError, match="2 entries expected, 1 found\\. Replace it with a good copy"):
        open_directory(disk, LogSettings())


def test_logs_are_found_with_their_topic_ids(
    disk: RecordingDisk, directory: LogDirectory, log: PartitionLog, settings: LogSettings
) -> None:
    """The partition is behind the last dash."""
    append(log)
    append(directory.create(OTHER, UUID(int=7), settings))
    directory.close(1)

    again = reopened(disk, settings)

    assert {key: each.topic_id for key, each in again.logs.items()} == {KEY: TOPIC_ID, OTHER: UUID(int=7)}


def test_creating_many_partitions_syncs_nothing(
    disk: RecordingDisk, directory: LogDirectory, settings: LogSettings
) -> None:
    """An empty log has nothing to protect."""
    before = len(disk.ops)
    for partition in range(50):
        directory.create(TopicPartition("many", partition), TOPIC_ID, settings)

    assert not [op for op in disk.ops[before:] if isinstance(op, Sync | SyncDirectory)]


def test_deleted_partition_is_renamed_and_removed_when_its_time_has_come(
    disk: RecordingDisk, directory: LogDirectory, log: PartitionLog
) -> None:
    """The name is free at once."""
    append(log)
    directory.delete(KEY, now_ms=5000)
    assert "topic-0.0-delete" in disk.list("/data")
    assert "topic-0" not in disk.list("/data")

    again = directory.create(KEY, UUID(int=9), log.settings)
    append(again)
    directory.delete(KEY, now_ms=5500)
    deque(directory.sweep(6000), maxlen=0)
    disk.pump()
    assert [name for name in disk.list("/data") if name.endswith("-delete")] == ["topic-0.1-delete"]
    deque(directory.sweep(6500), maxlen=0)
    disk.pump()

    assert [name for name in disk.list("/data") if name.endswith("-delete")] == []


def test_start_finishes_the_deletions_of_the_process_before(
    disk: RecordingDisk, directory: LogDirectory, log: PartitionLog
) -> None:
    """A deleted partition never comes back."""
    append(log)
    directory.delete(KEY, now_ms=0)

    again_disk = RecordingDisk(disk.image.copy(), boot="boot-2")
    again = open_directory(again_disk, log.settings)

    assert again.logs == {}
    assert [name for name in again_disk.list("/data") if name.startswith("topic")] == []


def test_new_partition_inherits_nothing_from_a_deleted_one(
    disk: RecordingDisk, directory: LogDirectory, log: PartitionLog
) -> None:
    """Checkpoints of the old one would call the new one damaged, or truncated."""
    append(log, count=9)
    log.high_watermark = Offset(9)
    log.raise_log_start(Offset(5))
    log.flush()
    directory.checkpoint_recovery_points(later=False)
    directory.checkpoint_log_starts(later=False)
    directory.delete(KEY, now_ms=0)
    append(directory.create(KEY, UUID(int=9), log.settings))

    again = reopened(disk, log.settings, boot="boot-2")

    assert again.damaged == {}
    assert (again.logs[KEY].log_start, again.logs[KEY].log_end) == (0, 1)


def test_checkpoints_keep_what_they_said_of_damaged_logs(
    disk: RecordingDisk, directory: LogDirectory, log: PartitionLog
) -> None:
    """A repaired log must not look unflushed because it was absent for a while."""
    append(log, count=3)
    log.flush()
    directory.checkpoint_recovery_points(later=False)
    inode = disk.inode(log.segments[0].path())
    assert inode is not None
    disk.image.contents[inode][70] ^= 1
    directory.abandon()

    again = open_directory(disk, log.settings)
    append(again.create(OTHER, UUID(int=1), log.settings))
    again.logs[OTHER].flush()
    again.checkpoint_recovery_points(later=False)

    path = "/data/recovery-point-offset-checkpoint"
    assert decode_offsets(path, disk.read_file(path)) == {KEY: 3, OTHER: 1}


def test_deleted_partitions_are_removed_one_by_one(
    disk: RecordingDisk, directory: LogDirectory, log: PartitionLog
) -> None:
    """Thousands may be due at once, after a move; to hand them all over would hold the loop for ten milliseconds."""
    append(log)
    append(directory.create(OTHER, UUID(int=9), log.settings))
    for key in (KEY, OTHER):
        directory.delete(key, now_ms=5_000)

    def left() -> list[str]:
        disk.pump()
        return [name for name in disk.list("/data") if name.endswith("-delete")]

    steps = directory.sweep(6_000)
    counts = [len(left()), *(len(left()) for _ in steps)]

    assert counts == [2, 1, 0]


@pytest.mark.usefixtures("directory")
def test_checkpoint_of_thousands_is_made_in_the_background(disk: RecordingDisk) -> None:
    """The loop hands its offsets over; to make a text of them takes milliseconds."""
    checkpoint = OffsetCheckpoint(disk, "/data/recovery-point-offset-checkpoint")
    offsets = {TopicPartition("t", number): Offset(number) for number in range(3_000)}
    calls = 0

    def count(_frame: FrameType, event: str, _arg: object) -> None:
        nonlocal calls
        calls += event in {"call", "c_call"}

    sys.setprofile(count)
    try:
        checkpoint.write(dict(offsets), {}, later=True)
    finally:
        sys.setprofile(None)
    disk.pump()

    assert calls < 100
    assert dict(checkpoint.on_disk()) == offsets
    path = "/data/recovery-point-offset-checkpoint"
    assert decode_offsets(path, disk.read_file(path)) == offsets


def test_checkpoint_in_the_background_never_replaces_a_newer_one(
    disk: RecordingDisk, directory: LogDirectory, log: PartitionLog
) -> None:
    """Steps: 1. a worker is to write recovery point 4. 2. A truncation lowers it to 2 at once. 3. The worker comes."""
    append(log, count=2)
    append(log, count=2)
    log.flush()
    directory.checkpoint_recovery_points(later=True)
    truncate_to(log, Offset(2))

    disk.pump()

    path = "/data/recovery-point-offset-checkpoint"
    assert decode_offsets(path, disk.read_file(path)) == {KEY: 2}


def test_log_starts_are_written_only_where_no_file_name_shows_them(
    disk: RecordingDisk, directory: LogDirectory, log: PartitionLog
) -> None:
    """Segments begin at 0 and 4."""
    for _ in range(6):
        append(log)
    log.high_watermark = Offset(6)
    directory.checkpoint_log_starts(later=False)
    path = "/data/log-start-offset-checkpoint"
    assert not disk.exists(path)

    log.raise_log_start(Offset(2))
    directory.checkpoint_log_starts(later=False)

    assert decode_offsets(path, disk.read_file(path)) == {KEY: 2}


@pytest.mark.parametrize(
    "content", [b"", bytes(100), b"\xff\xfe", b"version=1\nnode.id=\n", b"version=1\nnode.id=1\ndirectory.id=direc"]
)
def test_directory_is_refused_when_nobody_can_tell_whose_it_is(
    disk: RecordingDisk, directory: LogDirectory, settings: LogSettings, content: bytes
) -> None:
    """Taken for a new directory, it could join another cluster, which would delete its logs as strays."""
    directory.abandon()
    disk.replace_file("/data/meta.properties", content)

    with pytest.raises(StorageError, match=r"/data/meta\.properties is damaged"):
        open_directory(disk, settings)


@pytest.mark.parametrize(
    ("version", "sentence"),
    [
        pytest.param("version=2\n", "is of version 2, and only version 1 is known here", id="2"),
        pytest.param("version=0\n", "is of version 0, .* ZooKeeper", id="0"),
        pytest.param("version=one\n", "is of version one", id="no number"),
        pytest.param("version=01\n", "is of version 01", id="another spelling"),
        pytest.param("version=\n", "is of version unknown", id="empty"),
        pytest.param("", "is of version unknown", id="missing"),
    ],
)
def test_directory_of_an_unknown_version_is_refused(
    disk: RecordingDisk, directory: LogDirectory, log: PartitionLog, version: str, sentence: str
) -> None:
    """As Kafka refuses it: the entries of another version may mean something else. Nothing is touched."""
    directory.abandon()
    content = disk.read_file("/data/meta.properties").decode()
    disk.replace_file("/data/meta.properties", content.replace("version=1\n", version).encode())
    before = {name: disk.read_file(f"/data/{name}") for name in disk.list("/data") if "." in name}

    with pytest.raises(StorageError, match=sentence):
        open_directory(disk, log.settings)
    assert {name: disk.read_file(f"/data/{name}") for name in before} == before


def test_directory_with_logs_is_refused_when_its_properties_are_missing(
    disk: RecordingDisk, directory: LogDirectory, log: PartitionLog, settings: LogSettings
) -> None:
    """Only an empty directory is new."""
    append(log)
    directory.abandon()
    disk.remove("/data/meta.properties")

    with pytest.raises(StorageError, match=r"meta\.properties is missing"):
        open_directory(disk, settings)


def test_files_that_are_not_the_logs_are_left_alone(
    disk: RecordingDisk, directory: LogDirectory, log: PartitionLog, settings: LogSettings
) -> None:
    """Files of an operator in a partition directory keep no broker from starting."""
    append(log)
    stored = contents(log)
    directory.abandon()
    for name in ("notes.log", "notes.index", "notes.timeindex", "notes.snapshot", "notes"):
        disk.replace_file(f"/data/{KEY}/{name}", b"hello")

    again = reopened(disk, settings)

    assert contents(again.logs[KEY]) == stored
    assert "notes.log" in disk.list(f"/data/{KEY}")


def test_log_that_was_flushed_and_is_missing_is_not_taken_for_a_new_one(
    disk: RecordingDisk, directory: LogDirectory, log: PartitionLog, settings: LogSettings
) -> None:
    """An empty log in its place would lead, and cut every other replica down to nothing."""
    append(log)
    directory.close(7)
    disk.remove_tree(f"/data/{KEY}")

    again = reopened(disk, settings)

    assert f"/data/{KEY} is missing, though it was flushed up to offset 1" in again.damaged[KEY]
    with pytest.raises(DamagedLogError):
        again.create(KEY, TOPIC_ID, settings)
    again.discard_damaged(KEY, 0)
    assert again.create(KEY, TOPIC_ID, settings).log_end == 0


def test_deleted_log_is_not_missing(
    disk: RecordingDisk, directory: LogDirectory, log: PartitionLog, settings: LogSettings
) -> None:
    """The process ended before its checkpoints forgot the log."""
    append(log)
    log.flush()
    directory.checkpoint_recovery_points(later=False)
    directory.delete(KEY, 0)

    assert reopened(disk, settings).damaged == {}


def test_log_whose_files_were_removed_is_not_missing(
    disk: RecordingDisk, directory: LogDirectory, log: PartitionLog, settings: LogSettings
) -> None:
    """The process ended soon after the sweep, long before the next checkpoint was due."""
    append(log)
    log.flush()
    directory.checkpoint_recovery_points(later=False)
    directory.delete(KEY, 0)
    for now_ms in (10_000, 20_000):
        deque(directory.sweep(now_ms), maxlen=0)
        disk.pump()
    names = [name for name in disk.list("/data") if str(KEY) in name]

    assert names == []
    assert reopened(disk, settings).damaged == {}


@pytest.mark.interpreted
def test_files_that_fill_the_disk_are_removed_although_no_checkpoint_can_be_written(
    disk: RecordingDisk, directory: LogDirectory, log: PartitionLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A checkpoint that waits for room must not keep what would make some."""
    append(log)
    log.flush()
    directory.checkpoint_recovery_points(later=False)
    directory.delete(KEY, 0)
    monkeypatch.setattr(directory, "checkpoint_recovery_points", lambda **_: None)
    for now_ms in (10_000, 20_000):
        deque(directory.sweep(now_ms), maxlen=0)
        disk.pump()

    assert [name for name in disk.list("/data") if str(KEY) in name] == []


def test_log_whose_deletion_was_finished_by_a_start_is_not_missing_at_the_next_one(
    disk: RecordingDisk, directory: LogDirectory, log: PartitionLog, settings: LogSettings
) -> None:
    """The process between the two wrote no checkpoint of its own accord."""
    append(log)
    log.flush()
    directory.checkpoint_recovery_points(later=False)
    directory.delete(KEY, 0)
    next_disk = RecordingDisk(disk.image.copy(), boot="boot-2")
    open_directory(next_disk, settings)

    assert reopened(next_disk, settings, boot="boot-3").damaged == {}


def test_directory_whose_name_only_resembles_a_partitions_is_left_alone(
    disk: RecordingDisk, directory: LogDirectory, log: PartitionLog, settings: LogSettings
) -> None:
    """`topic-00` is not `topic-0`, and must not take its place."""
    append(log)
    directory.close(7)
    disk.make_directory(f"/data/{KEY.topic}-00")

    assert reopened(disk, settings).logs[KEY].log_end == 1
