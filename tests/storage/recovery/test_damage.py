"""Damaged files: refused loudly, never served, never cut off silently (R4)."""

import pytest

from syncline.model.ids import Offset
from syncline.records.batch import BatchHeader, stamp
from syncline.storage.errors import CorruptRecordsError, DamagedLogError
from syncline.storage.log import PartitionLog
from syncline.storage.log_directory import LogDirectory
from syncline.storage.recovery import recover
from tests.storage.batches import KEY, append, batch, contents, file_of, open_directory, truncate_to
from tests.storage.recording_disk import RecordingDisk


def restart(disk: RecordingDisk, log: PartitionLog, *, boot: str = "boot-1") -> LogDirectory:
    """Open what a dead process left; with another boot, what a power cut left of it (here: everything)."""
    return open_directory(RecordingDisk(disk.image.copy(), boot=boot), log.settings)


def damage(disk: RecordingDisk, log: PartitionLog, base_offset: int, position: int) -> None:
    """Flip a bit in the segment that begins at `base_offset`."""
    segment = next(each for each in log.segments if each.base_offset == base_offset)
    inode = disk.inode(segment.path())
    assert inode is not None
    disk.image.contents[inode][position] ^= 4


def test_torn_tail_is_cut_at_a_batch(disk: RecordingDisk, log: PartitionLog) -> None:
    """A write that never finished was never acknowledged."""
    append(log)
    append(log)
    file_of(log).append([bytes(batch(2))[:50]])

    again = restart(disk, log, boot="boot-2").logs[KEY]

    assert again.log_end == 2
    assert again.segments[-1].size_bytes == again.segments[-1].file.size_bytes == log.size_bytes


def test_g10_bad_batch_above_the_recovery_point_ends_the_log_after_a_power_cut(
    disk: RecordingDisk, directory: LogDirectory, log: PartitionLog
) -> None:
    """Later segments go: what lies behind a hole was never promised either."""
    for _ in range(4):
        append(log)
    log.flush()
    directory.checkpoint_recovery_points(later=False)
    for _ in range(8):
        append(log)
    damage(disk, log, 4, 2 * 76 + 70)

    again = restart(disk, log, boot="boot-2")

    assert again.damaged == {}
    assert again.logs[KEY].log_end == 6
    assert [each.base_offset for each in again.logs[KEY].segments] == [0, 4]
    assert again.logs[KEY].recovery_point == 4


def test_m55_damage_below_the_recovery_point_is_refused(
    disk: RecordingDisk, directory: LogDirectory, log: PartitionLog
) -> None:
    """It was flushed, so it is no torn tail: cutting it off would delete good records, and as leader spread that."""
    for _ in range(6):
        append(log)
    log.flush()
    directory.checkpoint_recovery_points(later=False)
    append(log)
    damage(disk, log, 4, 70)

    again = restart(disk, log, boot="boot-2")

    assert KEY not in again.logs
    assert "Offset 4 was flushed (recovery point 6) but is damaged" in again.damaged[KEY]
    with pytest.raises(DamagedLogError):
        again.create(KEY, log.topic_id, log.settings)  # type: ignore[arg-type]


def test_m55_damage_with_good_records_behind_it_is_refused_when_no_power_was_lost(
    disk: RecordingDisk, log: PartitionLog
) -> None:
    """A process that dies loses no write, so nothing whole can lie behind something torn."""
    for _ in range(3):
        append(log)
    damage(disk, log, 0, 76 + 70)

    again = restart(disk, log)

    assert "good records lie behind it" in again.damaged[KEY]


@pytest.mark.parametrize("position", [3, 10, 16, 20, 30, 70], ids=str)
def test_m55_any_field_of_a_batch_may_be_what_is_damaged(disk: RecordingDisk, log: PartitionLog, position: int) -> None:
    """Offset, size, magic, checksum, delta, record: the batches behind are found all the same."""
    for _ in range(3):
        append(log)
    damage(disk, log, 0, 76 + position)

    assert KEY in restart(disk, log).damaged


def test_m55_damage_in_the_last_batch_is_a_torn_tail_after_a_power_cut(disk: RecordingDisk, log: PartitionLog) -> None:
    """Nothing good lies behind it, and the power may have gone before its bytes arrived."""
    for _ in range(3):
        append(log)
    damage(disk, log, 0, 2 * 76 + 70)

    assert restart(disk, log, boot="boot-2").logs[KEY].log_end == 2


@pytest.mark.parametrize("position", [8, 11, 16, 20, 24, 70], ids=str)
def test_m55_whole_batch_at_the_end_that_is_damaged_is_refused_when_no_power_was_lost(
    disk: RecordingDisk, log: PartitionLog, position: int
) -> None:
    """An interrupted write leaves a batch cut short. This one was there, and may have been acknowledged."""
    for _ in range(3):
        append(log)
    damage(disk, log, 0, 2 * 76 + position)

    assert "its write had ended" in restart(disk, log).damaged[KEY]


@pytest.mark.parametrize("size", [1, 11, 17, 60, 61, 75])
def test_batch_cut_short_at_the_end_is_a_torn_tail(disk: RecordingDisk, log: PartitionLog, size: int) -> None:
    """The process died in the middle of a write."""
    for _ in range(2):
        append(log)
    file_of(log).append([bytes(batch(2))[:size]])

    assert restart(disk, log).logs[KEY].log_end == 2


@pytest.mark.interpreted
def test_m55_is_found_when_damage_is_taken_for_a_torn_tail(
    disk: RecordingDisk, directory: LogDirectory, log: PartitionLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Planted: without the judgement, flushed records disappear unnoticed."""
    monkeypatch.setattr(recover, "judge", lambda *_, **__: None)
    monkeypatch.setattr(recover, "check_flushed", lambda *_: None)
    for _ in range(6):
        append(log)
    log.flush()
    directory.checkpoint_recovery_points(later=False)
    damage(disk, log, 4, 70)

    again = restart(disk, log, boot="boot-2")

    assert again.logs[KEY].log_end == 4 < log.recovery_point


def test_missing_end_of_a_flushed_log_is_refused(
    disk: RecordingDisk, directory: LogDirectory, log: PartitionLog
) -> None:
    """A file that lost what a flush had promised is damage, not a shorter log."""
    for _ in range(3):
        append(log)
    log.flush()
    directory.checkpoint_recovery_points(later=False)
    file_of(log).truncate(76)

    again = restart(disk, log, boot="boot-2")

    assert "flushed up to offset 3 but ends at 1" in again.damaged[KEY]


def test_missing_segment_is_refused(disk: RecordingDisk, directory: LogDirectory, log: PartitionLog) -> None:
    """A hole between two segments that were flushed is damage."""
    for _ in range(12):
        append(log)
    disk.pump()
    log.flush()
    directory.checkpoint_recovery_points(later=False)
    disk.remove(log.segments[1].path())

    assert "the next segment begins at 8" in restart(disk, log, boot="boot-2").damaged[KEY]


def test_damage_is_found_after_a_clean_stop_when_a_segment_ends_in_the_middle_of_a_batch(
    disk: RecordingDisk, directory: LogDirectory, log: PartitionLog
) -> None:
    """No scan is done then, but where each segment ends is looked at."""
    for _ in range(6):
        append(log)
    disk.pump()
    directory.close(1)
    inode = disk.inode(log.segments[0].path())
    assert inode is not None
    del disk.image.contents[inode][-10:]

    assert "below the recovery point" in restart(disk, log).damaged[KEY]


@pytest.mark.parametrize("name", ["leader-epoch-checkpoint", "00000000000000000006.snapshot", "partition.metadata"])
@pytest.mark.parametrize("contents_now", [None, b"", b"garbage"], ids=["missing", "empty", "garbage"])
def test_lost_side_file_is_rebuilt_from_the_batches(
    disk: RecordingDisk, directory: LogDirectory, log: PartitionLog, name: str, contents_now: bytes | None
) -> None:
    """The log is the truth; only the topic id cannot be learned from it and is then unknown."""
    for sequence in range(6):
        append(log, leader_epoch=sequence // 2, producer=(9, 0, sequence))
    disk.pump()
    directory.close(1)
    path = f"{log.directory}/{name}"
    if contents_now is None:
        disk.remove(path)
    else:
        disk.replace_file(path, contents_now)

    again = restart(disk, log).logs[KEY]

    assert again.epochs.entries == log.epochs.entries
    assert again.producers == log.producers
    assert again.topic_id == (None if name == "partition.metadata" else log.topic_id)


def test_snapshot_of_another_state_is_not_believed(
    disk: RecordingDisk, directory: LogDirectory, log: PartitionLog
) -> None:
    """Sound in itself, but under the name of an earlier state, as a copy by hand leaves it: the log is replayed."""
    for sequence in range(6):
        append(log, producer=(9, 0, sequence))
    disk.pump()
    directory.close(1)
    newest = disk.read_file(f"{log.directory}/00000000000000000006.snapshot")
    disk.replace_file(f"{log.directory}/00000000000000000004.snapshot", newest)
    disk.remove(f"{log.directory}/00000000000000000006.snapshot")

    again = restart(disk, log).logs[KEY]

    assert again.producers == log.producers
    append(again, producer=(9, 0, 6))


def test_cut_does_not_believe_the_snapshot_of_another_state(disk: RecordingDisk, log: PartitionLog) -> None:
    """The cut undoes what a producer wrote, from the log alone."""
    for sequence in range(6):
        append(log, producer=(9, 0, sequence))
    log.roll()
    disk.pump()
    newest = disk.read_file(f"{log.directory}/00000000000000000006.snapshot")
    disk.replace_file(f"{log.directory}/00000000000000000004.snapshot", newest)

    truncate_to(log, Offset(5))

    assert log.producers.entries[9].last_offset == 4
    append(log, producer=(9, 0, 5))


@pytest.mark.parametrize("offset", [0, 2**20], ids=["back", "too far"])
def test_offsets_out_of_order_are_found_when_producers_are_replayed(
    disk: RecordingDisk, directory: LogDirectory, log: PartitionLog, offset: int
) -> None:
    """The checksum does not cover the offset, and after a clean stop no scan is done."""
    for sequence in range(6):
        append(log, producer=(9, 0, sequence))
    disk.pump()
    directory.close(1)
    for name in ("00000000000000000004.snapshot", "00000000000000000006.snapshot"):
        disk.remove(f"{log.directory}/{name}")
    inode = disk.inode(log.segments[0].path())
    assert inode is not None
    stamp(disk.image.contents[inode], log.size_bytes // 6, offset, 0)

    assert f"offset {offset} where" in restart(disk, log).damaged[KEY]


@pytest.mark.parametrize("boot", ["boot-1", "boot-2"])
def test_offset_too_far_for_its_segment_is_damage(disk: RecordingDisk, log: PartitionLog, boot: str) -> None:
    """Its index could not name it. Only a power cut explains a last batch that is not what was written."""
    for _ in range(3):
        append(log)
    damage(disk, log, 0, 2 * 76)

    again = restart(disk, log, boot=boot)

    if boot == "boot-2":
        assert again.logs[KEY].log_end == 2
    else:
        assert "is too far for its segment" in again.damaged[KEY]


def test_offset_too_far_for_its_segment_is_damage_after_a_clean_stop(
    disk: RecordingDisk, directory: LogDirectory, log: PartitionLog
) -> None:
    """It is met on the way from the last index entry to the end."""
    for _ in range(3):
        append(log)
    directory.close(1)
    damage(disk, log, 0, 2 * 76)

    assert "is too far for its segment" in restart(disk, log).damaged[KEY]


def test_batch_without_an_epoch_adds_nothing_to_the_history(
    disk: RecordingDisk, directory: LogDirectory, log: PartitionLog
) -> None:
    """Kafka stores -1 where it knows none; the history is rebuilt from the others."""
    for leader_epoch in (-1, 2):
        log.append_as_follower(batch(log.log_end, leader_epoch=leader_epoch))
    disk.pump()
    directory.close(1)
    disk.remove(f"{log.directory}/leader-epoch-checkpoint")

    again = restart(disk, log).logs[KEY]

    assert again.epochs.entries == log.epochs.entries == ((2, 1),)


def test_offset_below_its_segment_is_found_when_the_history_is_rebuilt(
    disk: RecordingDisk, directory: LogDirectory, log: PartitionLog
) -> None:
    """The checkpoint of the epochs is lost, so every header is looked at."""
    for _ in range(6):
        append(log)
    disk.pump()
    directory.close(1)
    disk.remove(f"{log.directory}/leader-epoch-checkpoint")
    inode = disk.inode(log.segments[0].path())
    assert inode is not None
    stamp(disk.image.contents[inode], 0, -5, 0)

    assert "offset -5 in the segment at 0" in restart(disk, log).damaged[KEY]


def test_follower_refuses_a_batch_that_lost_its_epoch(log: PartitionLog) -> None:
    """The checksum does not cover the epoch, so a damaged leader sends it as it is."""
    log.append_as_follower(batch(0, leader_epoch=2))

    with pytest.raises(CorruptRecordsError, match="arrived with leader epoch -1, after 2"):
        log.append_as_follower(batch(1, leader_epoch=-1))

    assert log.log_end == 1


@pytest.mark.parametrize("position", range(0, 90, 7), ids=str)
def test_every_damaged_checkpoint_byte_is_noticed_or_harmless(
    disk: RecordingDisk, directory: LogDirectory, log: PartitionLog, position: int
) -> None:
    """One bit of the log file in turn: it is refused, or cut at its end; what is kept is what was written."""
    stored = [append(log) for _ in range(3)]
    log.flush()
    directory.checkpoint_recovery_points(later=False)
    damage(disk, log, 0, position)

    again = restart(disk, log, boot="boot-2")

    if KEY in again.logs:
        kept = [data for _, data in contents(again.logs[KEY])]
        # The leader epoch lies outside the checksum: it is the one field that nothing guards.
        assert [each[:12] + each[16:] for each in kept] == [each[:12] + each[16:] for each in stored]
    else:
        assert again.damaged[KEY]


def test_recovered_batches_are_the_stored_ones(disk: RecordingDisk, log: PartitionLog) -> None:
    """A dead process loses nothing that it had written."""
    stored = [append(log, leader_epoch=1) for _ in range(9)]

    again = restart(disk, log).logs[KEY]

    assert [data for _, data in contents(again)] == stored
    assert BatchHeader.parse(stored[0]).leader_epoch == again.epochs.latest_epoch


@pytest.mark.parametrize(
    ("boot", "content", "expected"),
    [
        ("boot-1", None, 77),
        ("boot-2", None, -1),
        ("boot-1", b"boot-0 77 original", -1),
        ("boot-1", b"boot-1 77 original", 77),
        ("boot-1", b"boot-1 77 copy", -1),
        ("boot-1", b"boot-1 77", -1),
        ("boot-1", bytes(9), -1),
        ("boot-1", b"boot-1 ", -1),
        ("boot-1", b"", -1),
    ],
    ids=["killed", "power-cut", "of-a-former-boot", "original", "copy", "cut", "zeros", "torn", "empty"],
)
def test_killed_broker_presents_its_registration_unless_a_power_cut_lay_between(
    disk: RecordingDisk, directory: LogDirectory, log: PartitionLog, boot: str, content: bytes | None, expected: int
) -> None:
    """Only on the same boot is everything there that the dead process wrote; a file of another one proves nothing."""
    append(log)
    directory.note_broker_epoch(77)
    if content is not None:
        disk.replace_file("/data/registered", content)

    assert restart(disk, log, boot=boot).previous_broker_epoch == expected


def test_killed_broker_presents_nothing_when_its_disk_had_failed(
    disk: RecordingDisk, directory: LogDirectory, log: PartitionLog
) -> None:
    """After a failed sync the kernel may have dropped pages that this process had written."""
    append(log)
    directory.note_broker_epoch(77)
    directory.forget_registration()
    directory.forget_registration()

    assert restart(disk, log).previous_broker_epoch == -1
