"""Damaged logs set aside on the disk: no crash makes one whole again, and what is sound in them can be read."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from syncline.model.ids import LeaderEpoch, Offset, TopicPartition
from syncline.storage.log import PartitionLog
from syncline.storage.log_directory import LogDirectory
from syncline.storage.recovery.salvage import Tail, sound_batches, tail_of
from syncline.storage.settings import LogSettings
from tests.storage.batches import KEY, TOPIC_ID, append, open_directory
from tests.storage.conftest import SMALL
from tests.storage.recording_disk import Image, RecordingDisk

BATCH_BYTES = 76


def reopened(disk: RecordingDisk, settings: LogSettings = SMALL) -> LogDirectory:
    """Open the directory as the next process would."""
    return open_directory(RecordingDisk(disk.image.copy()), settings)


def damaged_directory(disk: RecordingDisk, directory: LogDirectory, log: PartitionLog) -> None:
    """Write six records, and find the log damaged."""
    for _ in range(6):
        append(log)
    directory.found_damaged(KEY, "a test says so", Offset(4))


def test_log_set_aside_loses_its_name_and_no_byte(
    disk: RecordingDisk, directory: LogDirectory, log: PartitionLog
) -> None:
    """A new log takes the name; the next process knows both."""
    damaged_directory(disk, directory, log)
    before = {name: disk.read_file(f"/data/{KEY}/{name}") for name in disk.list(f"/data/{KEY}")}

    aside = directory.set_aside(KEY)
    append(directory.create(KEY, TOPIC_ID, log.settings))
    again = reopened(disk)

    assert aside is not None
    assert aside.path == f"/data/{KEY}.0-aside"
    assert {name: disk.read_file(f"{aside.path}/{name}") for name in disk.list(aside.path)} == before
    assert [each.path for each in again.aside] == [aside.path]
    assert [each.note for each in again.aside] == [aside.note]
    assert again.aside.size_bytes == 6 * BATCH_BYTES
    assert (again.damaged, again.logs[KEY].log_end) == ({}, 1)


def test_second_log_set_aside_does_not_replace_the_first(
    disk: RecordingDisk, directory: LogDirectory, log: PartitionLog
) -> None:
    """The new copy was found damaged, too."""
    damaged_directory(disk, directory, log)
    directory.set_aside(KEY)
    append(directory.create(KEY, TOPIC_ID, log.settings))
    directory.found_damaged(KEY, "once more", Offset(-1))

    directory.set_aside(KEY)

    assert [each.path for each in directory.aside] == [f"/data/{KEY}.0-aside", f"/data/{KEY}.1-aside"]


def test_no_crash_makes_a_damaged_log_whole(disk: RecordingDisk, directory: LogDirectory, log: PartitionLog) -> None:
    """The power goes after each step of setting aside: the log is whole to the next start only before the first."""
    for _ in range(6):
        append(log)
    log.flush()
    directory.checkpoint_recovery_points(later=False)
    began = len(disk.ops)
    directory.found_damaged(KEY, "a test says so", Offset(4))
    noted = next(count for count in range(began, len(disk.ops) + 1) if has_note(image_after(disk, count)))
    directory.set_aside(KEY)
    directory.create(KEY, TOPIC_ID, log.settings)
    directory.checkpoint_recovery_points(later=False)

    for count in range(noted, len(disk.ops) + 1):
        again = open_directory(RecordingDisk(image_after(disk, count), boot="boot-2"), SMALL)

        assert KEY not in again.logs, f"after {count - noted} steps"
        assert again.damaged == {KEY: "a test says so"}, f"after {count - noted} steps"
        assert "00000000000000000004.log" in RecordingDisk(image_after(disk, count)).list(
            next(f"/data/{name}" for name in RecordingDisk(image_after(disk, count)).list("/data") if KEY.topic in name)
        )


def image_after(disk: RecordingDisk, count: int) -> Image:
    """Return what is on the disk after so many operations."""
    image = Image()
    for op in disk.ops[:count]:
        image.apply(op)
    return image


def has_note(image: Image) -> bool:
    """Return whether the note about the damage is there."""
    return RecordingDisk(image).exists(f"/data/{KEY}/damage")


def test_unreadable_note_still_says_that_the_log_is_damaged(
    disk: RecordingDisk, directory: LogDirectory, log: PartitionLog
) -> None:
    """What it said is lost, that it was there is not."""
    damaged_directory(disk, directory, log)
    disk.replace_file(f"/data/{KEY}/damage", b"\x00garbage")

    assert "cannot be read" in reopened(disk).damaged[KEY]


@pytest.mark.parametrize("length", [240, 249])
def test_long_name_is_shortened_and_known_again(disk: RecordingDisk, directory: LogDirectory, length: int) -> None:
    """File systems take 255 characters; the note has the whole name."""
    key = TopicPartition("t" * length, 12)
    log = directory.create(key, TOPIC_ID, SMALL)
    append(log)
    directory.found_damaged(key, "a test says so", Offset(-1))
    directory.set_aside(key)
    append(directory.create(key, TOPIC_ID, SMALL))

    again = reopened(disk)

    assert [each.key for each in again.aside] == [key]
    assert all(len(each.path.rpartition("/")[2]) <= 255 for each in again.aside)


def test_directory_that_somebody_else_named_so_is_left_alone(disk: RecordingDisk, directory: LogDirectory) -> None:
    """Without a note it is no log that a broker has set aside."""
    disk.make_directory("/data/mine-aside")

    again = reopened(disk)

    assert len(again.aside) == 0
    assert disk.exists("/data/mine-aside")


def test_discarded_log_is_no_sign_of_a_deleted_one(
    disk: RecordingDisk, directory: LogDirectory, log: PartitionLog
) -> None:
    """The directory of the new copy vanishes while the old one is being removed: that log counts as missing."""
    damaged_directory(disk, directory, log)
    directory.set_aside(KEY)
    copy = directory.create(KEY, TOPIC_ID, log.settings)
    append(copy)
    copy.flush()
    directory.checkpoint_recovery_points(later=False)
    (aside,) = directory.aside
    directory.discard_aside(aside, 0)
    disk.remove_tree(f"/data/{KEY}")

    assert "is missing" in reopened(disk).damaged[KEY]


# Salvage.


@given(
    flips=st.lists(st.tuples(st.integers(0, 6 * BATCH_BYTES - 1), st.integers(1, 255)), max_size=4),
    zeroed=st.tuples(st.integers(0, 5), st.integers(0, 2)),
)
def test_every_sound_batch_is_found(flips: list[tuple[int, int]], zeroed: tuple[int, int]) -> None:
    """Whatever bytes are damaged, each batch without any is found at its place."""
    disk = RecordingDisk()
    log = open_directory(disk, LogSettings()).create(KEY, TOPIC_ID, LogSettings())
    stored = [append(log) for _ in range(6)]
    inode = disk.inode(log.segments[0].path())
    assert inode is not None
    contents = disk.image.contents[inode]
    for position, bits in flips:
        contents[position] ^= bits
    first, count = zeroed
    contents[first * BATCH_BYTES : (first + count) * BATCH_BYTES] = bytes(
        len(contents[first * BATCH_BYTES : (first + count) * BATCH_BYTES])
    )

    found = {position for position, _ in sound_batches(disk.open(log.segments[0].path()), Offset(0))}

    sound = {
        number * BATCH_BYTES
        for number, data in enumerate(stored)
        if contents[number * BATCH_BYTES : (number + 1) * BATCH_BYTES] == data
    }
    assert sound <= found


@pytest.mark.parametrize(("below", "end"), [(None, 12), (9, 9), (8, 8), (0, None)])
def test_tail_is_the_last_sound_batch(
    disk: RecordingDisk, log: PartitionLog, below: int | None, end: int | None
) -> None:
    """Of three segments the last has damage in its first batch."""
    for number in range(12):
        append(log, leader_epoch=number // 3)
    inode = disk.inode(log.segments[2].path())
    assert inode is not None
    disk.image.contents[inode][70] ^= 4
    expected = {12: Tail(Offset(12), LeaderEpoch(3)), 8: Tail(Offset(8), LeaderEpoch(2)), None: None}
    expected[9] = expected[8]

    assert tail_of(disk, log.directory, None if below is None else Offset(below)) == expected[end]
