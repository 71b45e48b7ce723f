"""Appending to a log, cutting it at both ends, and what retention removes."""

from dataclasses import replace

import pytest

from syncline.model.errors import ErrorCode, RequestError
from syncline.model.ids import Offset
from syncline.records.batch import BatchHeader
from syncline.storage.errors import CorruptRecordsError, UnexpectedOffsetError
from syncline.storage.log import PartitionLog
from syncline.storage.log_directory import LogDirectory
from syncline.storage.settings import LogSettings
from tests.storage.batches import KEY, TOPIC_ID, append, batch, contents, open_directory, read, truncate_to
from tests.storage.recording_disk import RecordingDisk, Write


def bases(log: PartitionLog) -> list[int]:
    """Return the base offsets of the segments."""
    return [segment.base_offset for segment in log.segments]


def test_append_stores_the_stamped_bytes_as_they_are(log: PartitionLog) -> None:
    """Nothing is added or changed between the producer's batch and the file."""
    first = append(log, leader_epoch=7, count=3)
    second = append(log, leader_epoch=7)

    assert log.log_end == 4
    assert read(log, 0) == first + second
    assert log.size_bytes == len(first) + len(second)
    assert [tuple(entry) for entry in log.epochs.entries] == [(7, 0)]


def test_append_is_one_write_and_no_sync(disk: RecordingDisk, log: PartitionLog) -> None:
    """Replication is the durability."""
    append(log)
    before = len(disk.ops)

    append(log)

    assert [type(op) for op in disk.ops[before:]] == [Write]


def test_append_stops_the_node_when_the_stamp_is_not_the_log_end(log: PartitionLog) -> None:
    """That would be a bug of ours, and it must not reach the file."""
    data = batch(5)

    with pytest.raises(AssertionError, match="stamped with 5"):
        log.append_as_leader(data, BatchHeader.parse(data))

    assert log.size_bytes == 0


def test_new_log_costs_nothing_until_somebody_writes(
    disk: RecordingDisk, directory: LogDirectory, settings: LogSettings
) -> None:
    """Thousands of partitions are created at once; the directory, with the topic id, comes with the first record."""
    before = len(disk.ops)
    log = directory.create(KEY, TOPIC_ID, settings)
    log.assign_leader_epoch(4)
    assert read(log, 0) == b""
    truncate_to(log, Offset(0))
    log.flush()
    log.retention(10**12)
    assert len(disk.ops) == before

    append(log)

    assert disk.list(log.directory) == ["00000000000000000000.log", "partition.metadata"]


def test_log_without_a_record_can_be_deleted_and_closed(
    directory: LogDirectory, settings: LogSettings, disk: RecordingDisk
) -> None:
    """There is nothing to rename, nothing to write."""
    directory.create(KEY, TOPIC_ID, settings)
    directory.delete(KEY, 0)
    directory.create(KEY, TOPIC_ID, settings)
    directory.close(1)

    assert [name for name in disk.list("/data") if name.startswith("topic")] == []


def test_follower_stores_several_batches_in_one_write(disk: RecordingDisk, log: PartitionLog) -> None:
    """One answer of the leader, one write; each batch brings its epoch into the history."""
    append(log)
    data = batch(1, count=2, leader_epoch=1) + batch(3, leader_epoch=3, timestamp_ms=5000)
    before = len(disk.ops)

    result = log.append_as_follower(data)

    assert [type(op) for op in disk.ops[before:]] == [Write]
    assert (result.first_offset, result.log_end, result.batch_count) == (1, 4, 2)
    assert (result.size_bytes, result.max_timestamp_ms) == (len(data), 5000)
    assert read(log, 1) == bytes(data)
    assert [tuple(entry) for entry in log.epochs.entries] == [(0, 0), (1, 1), (3, 3)]


def test_follower_drops_a_partial_batch_at_the_end(log: PartitionLog) -> None:
    """It comes again, whole, with the next fetch."""
    whole, partial = batch(0), batch(1)[:-1]

    result = log.append_as_follower(whole + partial)

    assert result.log_end == 1
    assert log.append_as_follower(partial).size_bytes == 0


def test_follower_refuses_a_damaged_batch_and_stores_nothing(log: PartitionLog) -> None:
    """M49: what is damaged here would be spread from here. Good batches before it wait for the next fetch."""
    damaged = batch(1)
    damaged[-1] ^= 1

    with pytest.raises(CorruptRecordsError) as raised:
        log.append_as_follower(batch(0) + damaged)

    assert raised.value.code == ErrorCode.CORRUPT_MESSAGE
    assert log.log_end == 0
    assert log.size_bytes == 0


def test_g06_follower_accepts_a_batch_of_any_size(log: PartitionLog) -> None:
    """Size limits are for clients; even a batch larger than a segment is stored, in one of its own."""
    append(log)

    log.append_as_follower(batch(1, value=bytes(1000)))
    append(log)

    assert bases(log) == [0, 1, 2]


def test_g09_follower_accepts_a_gap_but_no_step_back(log: PartitionLog) -> None:
    """Offset 12 after log end 10 comes from compaction; 9 does not continue this log."""
    log.append_as_follower(batch(0, count=10))
    log.append_as_follower(batch(12))
    assert log.log_end == 13
    assert BatchHeader.parse(read(log, 10)).base_offset == 12

    with pytest.raises(UnexpectedOffsetError):
        log.append_as_follower(batch(9))

    assert log.log_end == 13


def test_follower_log_begins_where_its_leader_does_now_when_it_is_empty(log: PartitionLog) -> None:
    """The first batch that ever comes may have any offset."""
    log.append_as_follower(batch(40, count=2))

    assert (log.log_start, log.log_end) == (40, 42)
    assert bases(log) == [40]


def test_log_rolls_when_the_segment_has_no_room(log: PartitionLog) -> None:
    """A batch that does not fit opens the next segment; a follower splits an answer likewise."""
    for _ in range(5):
        append(log)
    assert bases(log) == [0, 4]

    log.append_as_follower(b"".join(bytes(batch(offset)) for offset in range(5, 14)))

    assert bases(log) == [0, 4, 8, 12]
    assert [offset for offset, _ in contents(log)] == list(range(14))


def test_log_rolls_by_record_time(directory: LogDirectory) -> None:
    """The age of a segment is the new batch's time minus the first batch's; the limit itself is not enough."""
    log = directory.create(KEY, TOPIC_ID, LogSettings(segment_ms=60_000))
    for timestamp_ms in (0, 59_000, 60_000, 60_001, 62_000):
        append(log, timestamp_ms=timestamp_ms)

    assert bases(log) == [0, 3]


def test_log_rolls_when_the_index_is_full(directory: LogDirectory) -> None:
    """Two entries of eight bytes fit."""
    log = directory.create(KEY, TOPIC_ID, LogSettings(segment_index_bytes=16, index_interval_bytes=0))
    for _ in range(6):
        append(log)

    assert bases(log) == [0, 3]


def test_roll_does_nothing_when_the_segment_is_empty(log: PartitionLog) -> None:
    """M56: two segments with one base offset must not exist."""
    log.roll()
    append(log)
    log.roll()
    log.roll()

    assert bases(log) == [0, 1]


def test_segments_are_synced_in_the_background_after_a_roll(disk: RecordingDisk, log: PartitionLog) -> None:
    """The recovery point follows, and the indexes are on the disk."""
    for _ in range(9):
        append(log)
    assert log.recovery_point == 0

    disk.pump()

    assert log.recovery_point == 8
    assert "00000000000000000004.timeindex" in disk.list(log.directory)


def test_flush_moves_the_recovery_point_to_the_end(disk: RecordingDisk, log: PartitionLog) -> None:
    """Once is enough: a second flush has nothing to do."""
    for _ in range(6):
        append(log)
    log.flush()
    assert log.recovery_point == 6
    before = len(disk.ops)

    log.flush()

    assert len(disk.ops) == before


def test_flush_starts_by_itself_after_so_many_records(directory: LogDirectory, disk: RecordingDisk) -> None:
    """`flush.messages` starts a flush in a worker."""
    log = directory.create(KEY, TOPIC_ID, LogSettings(flush_messages=2))
    append(log)
    append(log)
    assert log.recovery_point == 0

    disk.pump()

    assert log.recovery_point == 2


def test_flush_later_does_not_count_when_the_log_was_cut_meanwhile(disk: RecordingDisk, log: PartitionLog) -> None:
    """Steps: 1. a flush begins. 2. The log is cut and grows again. 3. The flush of the old bytes ends."""
    append(log, count=4)
    log.flush_later(lambda _: None)
    truncate_to(log, Offset(0))
    append(log, count=4)

    disk.pump()

    assert log.recovery_point == 0


def test_truncate_cuts_at_the_batch_that_holds_the_offset(log: PartitionLog) -> None:
    """Offset 5 lies in the batch 4..6, which goes as a whole."""
    append(log, count=4)
    append(log, count=3)
    append(log, leader_epoch=2)
    log.high_watermark = Offset(8)

    assert truncate_to(log, Offset(5)) == 4

    assert (log.log_end, log.high_watermark) == (4, 4)
    assert [tuple(entry) for entry in log.epochs.entries] == [(0, 0)]
    assert [offset for offset, _ in contents(log)] == [0]


def test_truncate_at_or_above_the_end_only_forgets_an_empty_epoch(log: PartitionLog) -> None:
    """M08: a leader epoch without records must not stay behind."""
    append(log)
    log.assign_leader_epoch(3)
    assert log.epochs.latest_epoch == 3

    assert truncate_to(log, Offset(1)) == 1

    assert log.epochs.latest_epoch == 0


def test_truncate_removes_later_segments_and_the_log_goes_on(disk: RecordingDisk, log: PartitionLog) -> None:
    """The older segment grows again, its stale index files are gone."""
    for _ in range(14):
        append(log)
    disk.pump()
    log.flush()

    truncate_to(log, Offset(6))
    append(log, leader_epoch=1)
    log.check_invariants()

    assert bases(log) == [0, 4]
    assert [offset for offset, _ in contents(log)] == list(range(7))
    assert "00000000000000000004.index" not in disk.list(log.directory)
    assert log.recovery_point == 6


def test_truncate_ignores_the_index_that_a_worker_writes_too_late(disk: RecordingDisk, log: PartitionLog) -> None:
    """Steps: 1. a roll hands the index to a worker. 2. The segment is cut. 3. The worker writes the old index."""
    for _ in range(6):
        append(log)

    truncate_to(log, Offset(2))
    disk.pump()

    assert [name for name in disk.list(log.directory) if name.endswith("index")] == []
    append(log)
    assert [offset for offset, _ in contents(log)] == [0, 1, 2]


def test_truncate_below_the_first_segment_restarts_the_log_there(log: PartitionLog) -> None:
    """Nothing that is left is older."""
    log.restart_at(Offset(20))
    append(log)

    assert truncate_to(log, Offset(10)) == 10

    assert (log.log_start, log.log_end, log.high_watermark) == (10, 10, 10)


def test_truncate_takes_producers_back(log: PartitionLog) -> None:
    """M46, S16: the state is that of the log that is left, also across the snapshot of a roll."""
    for sequence in range(7):
        append(log, producer=(9, 0, sequence))
    append(log)

    truncate_to(log, Offset(6))

    assert [each.last_sequence for each in log.producers.entries[9].batches] == [1, 2, 3, 4, 5]

    truncate_to(log, Offset(0))

    assert log.producers.entries == {}


def test_restart_empties_the_log_and_goes_on_elsewhere(disk: RecordingDisk, log: PartitionLog) -> None:
    """The new end survives a restart of the broker although the log is empty."""
    for sequence in range(6):
        append(log, producer=(9, 0, sequence))

    log.restart_at(Offset(100))

    assert (log.log_start, log.log_end, log.size_bytes, len(log.producers), len(log.epochs)) == (100, 100, 0, 0, 0)
    again = open_directory(RecordingDisk(disk.image.copy(), boot="boot-2"), log.settings).logs[KEY]
    assert (again.log_start, again.log_end) == (100, 100)


def test_g12_retention_stops_at_the_high_watermark(log: PartitionLog) -> None:
    """Segments 0, 4, 8: all too old, but only the first lies wholly below the mark."""
    for _ in range(12):
        append(log, timestamp_ms=1)
    log.high_watermark = Offset(6)

    deleted = log.retention(10**12)

    assert [each.base_offset for each in deleted] == [0]
    assert (log.log_start, bases(log)) == (4, [4, 8])
    assert [tuple(entry) for entry in log.epochs.entries] == [(0, 4)]


def test_retention_by_size_keeps_at_least_what_is_configured(directory: LogDirectory, settings: LogSettings) -> None:
    """Segments go while what remains is not below the limit; being exactly there is allowed."""
    log = directory.create(KEY, TOPIC_ID, settings)
    for _ in range(14):
        append(log)
    log.high_watermark = log.log_end
    segment_bytes = log.segments[0].size_bytes
    log.settings = replace(settings, retention_ms=-1, retention_bytes=log.size_bytes - 2 * segment_bytes)

    deleted = log.retention(0)

    assert [each.reason for each in deleted] == [f"retention size {log.settings.retention_bytes} breach"] * 2
    assert log.size_bytes == log.settings.retention_bytes


def test_retention_rolls_and_removes_the_active_segment_when_all_is_too_old(log: PartitionLog) -> None:
    """A wholly expired log, even of one record, becomes an empty one at its end."""
    append(log, timestamp_ms=1, producer=(9, 0, 0))
    log.high_watermark = Offset(1)

    assert len(log.retention(10**12)) == 1

    assert (log.log_start, log.log_end, bases(log), log.size_bytes) == (1, 1, [1], 0)
    assert 9 in log.producers.entries
    append(log)
    assert [offset for offset, _ in contents(log)] == [1]


def test_retention_removes_only_what_lies_below_the_log_start_when_the_topic_is_compacted(
    directory: LogDirectory, settings: LogSettings
) -> None:
    """Without "delete" in the policy, age and size do not matter."""
    log = directory.create(KEY, TOPIC_ID, replace(settings, is_delete_policy=False, retention_bytes=0))
    for _ in range(12):
        append(log, timestamp_ms=1)
    log.high_watermark = log.log_end
    assert log.retention(10**12) == ()

    log.raise_log_start(Offset(9))

    assert [each.reason for each in log.retention(10**12)] == ["log start offset 9 breach"] * 2
    assert (log.log_start, bases(log)) == (9, [8])


def test_deleted_files_stay_until_the_delay_is_over(disk: RecordingDisk, log: PartitionLog) -> None:
    """Renamed at once, removed later."""
    for _ in range(5):
        append(log, timestamp_ms=1)
    disk.pump()
    log.high_watermark = Offset(4)
    log.retention(10**12)
    buried = [name for name in disk.list(log.directory) if name.endswith(".deleted")]
    assert buried == [f"00000000000000000000{suffix}.deleted" for suffix in (".index", ".log", ".timeindex")]

    log.sweep(10**12 + 999)
    assert [name for name in disk.list(log.directory) if name.endswith(".deleted")] == buried
    log.sweep(10**12 + 1000)

    assert [name for name in disk.list(log.directory) if name.endswith(".deleted")] == []


def test_deleted_files_may_be_removed_by_somebody_else_first(disk: RecordingDisk, log: PartitionLog) -> None:
    """An operator who needs room may remove them; that is no disk error."""
    for _ in range(5):
        append(log, timestamp_ms=1)
    disk.pump()
    log.high_watermark = Offset(4)
    log.retention(10**12)
    for name in disk.list(log.directory):
        if name.endswith(".deleted"):
            disk.remove(f"{log.directory}/{name}")

    log.sweep(10**12 + 1000)

    assert not log.is_offline


def test_g13_log_start_rises_up_to_the_high_watermark_and_no_further(log: PartitionLog) -> None:
    """60 with HW 60 is fine, 61 is refused; the log start never falls."""
    append(log, count=70)
    log.high_watermark = Offset(60)

    assert log.raise_log_start(Offset(60))
    assert not log.raise_log_start(Offset(30))
    with pytest.raises(RequestError) as raised:
        log.raise_log_start(Offset(61))

    assert raised.value.code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert log.log_start == 60


def test_g15_log_start_of_the_leader_cuts_the_epoch_history(log: PartitionLog) -> None:
    """The epoch that reaches across the new start now begins there."""
    append(log, count=40, leader_epoch=1)
    append(log, count=30, leader_epoch=2)
    log.high_watermark = Offset(60)

    log.raise_log_start(Offset(60))

    assert [tuple(entry) for entry in log.epochs.entries] == [(2, 60)]
    with pytest.raises(RequestError):
        log.read_plan(Offset(59), 100, log.log_end)
    assert BatchHeader.parse(read(log, 60)).base_offset == 40
