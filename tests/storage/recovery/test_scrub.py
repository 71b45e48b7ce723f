"""The scrub: which log is next, how fast, and that each kind of damage in a finished segment is found."""

import errno

import pytest
from hypothesis import given
from hypothesis import strategies as st

from syncline.model.ids import Offset, TopicPartition
from syncline.records.batch import stamp
from syncline.storage.log import PartitionLog
from syncline.storage.recovery.scrub import Checked, Pace, ScrubQueue, SegmentCheck, check_some
from syncline.storage.segments.segment import Segment
from tests.storage.batches import append
from tests.storage.recording_disk import RecordingDisk, RecordingFile

BATCH_BYTES = 76
KEYS = [TopicPartition("t", number) for number in range(5)]


def check_of(segment: Segment) -> SegmentCheck:
    """Return the check of a segment from its begin on."""
    return SegmentCheck(segment.path(), segment.size_bytes, segment.end_offset, 0, segment.base_offset)


def contents_of(disk: RecordingDisk, segment: Segment) -> bytearray:
    """Return the bytes of a segment's file, to be damaged."""
    inode = disk.inode(segment.path())
    assert inode is not None
    return disk.image.contents[inode]


# Pace.


@given(
    rate=st.integers(1, 10_000_000),
    waits_ms=st.lists(st.tuples(st.integers(0, 5_000), st.integers(1, 2_000_000)), min_size=1, max_size=30),
)
def test_no_more_is_read_than_the_rate_allows(rate: int, waits_ms: list[tuple[int, int]]) -> None:
    """Over any time: the rate, what a second saves up, and one batch."""
    pace, now_ms, read_bytes = Pace(), 0, 0
    largest = max(size for _, size in waits_ms)
    for wait_ms, size in waits_ms:
        now_ms += wait_ms
        if pace.allowance(now_ms, rate) > 0:
            pace.spend(size)
            read_bytes += size
        assert read_bytes <= rate * (now_ms / 1_000 + 1) + largest


def test_pace_follows_a_lower_rate_at_once() -> None:
    """What was saved at the old rate is capped by the new one."""
    pace = Pace()
    pace.allowance(0, 1_000_000)

    assert pace.allowance(10_000, 1_000_000) == 1_000_000
    assert pace.allowance(10_000, 10) == 10


# Queue.


@given(steps=st.lists(st.tuples(st.integers(1, 50), st.sets(st.sampled_from(KEYS), min_size=1)), max_size=40))
def test_log_checked_longest_ago_is_next(steps: list[tuple[int, set[TopicPartition]]]) -> None:
    """Whatever logs come and go: none is read again within the interval, and none waits while a newer one is read."""
    queue, now_ms, checked = ScrubQueue(), 0, dict[TopicPartition, int]()
    for wait_ms, hosted in steps:
        now_ms += wait_ms
        keys = dict.fromkeys(key for key in KEYS if key in hosted)
        queue.keep(keys)
        checked = {key: at_ms for key, at_ms in checked.items() if key in keys}

        found = queue.next(keys, now_ms, 20)

        due = [key for key in keys if checked.get(key, now_ms - 20) <= now_ms - 20]
        assert (found is None) == (not due)
        if found is not None:
            assert found in due
            assert checked.get(found, -1) == min(checked.get(key, -1) for key in keys)
            checked[found] = now_ms
            queue.checked(found, now_ms)
        assert [queue.checked_ms(key) for key in keys] == [checked.get(key) for key in keys]


# Checks.


def test_sound_segment_is_checked_in_slices(disk: RecordingDisk, log: PartitionLog) -> None:
    """Each slice goes on where the one before ended, and the last one ends at the end."""
    for _ in range(5):
        append(log)
    segment = log.segments[0]
    checked = Checked(check_of(segment), 0)
    positions = []

    while checked.rest is not None:
        checked = check_some(disk, checked.rest, 100)
        assert checked.damage is None
        positions.append(checked.read_bytes)

    assert positions == [2 * BATCH_BYTES, 2 * BATCH_BYTES]


@pytest.mark.parametrize("position", [8, 16, 20, 30, 70], ids=["size", "magic", "checksum", "delta", "record"])
def test_flipped_bit_is_found_with_its_place(disk: RecordingDisk, log: PartitionLog, position: int) -> None:
    """In the second batch of a finished segment."""
    for _ in range(5):
        append(log)
    contents_of(disk, log.segments[0])[BATCH_BYTES + position] ^= 4

    checked = check_some(disk, check_of(log.segments[0]), 10_000)

    assert checked.rest is None
    assert checked.damage is not None
    assert (checked.damage.path, checked.damage.position, checked.damage.offset) == (
        log.segments[0].path(),
        BATCH_BYTES,
        1,
    )


@pytest.mark.parametrize(
    ("offset", "leader_epoch", "reason"),
    [(0, 3, "offset 0 where 1 or more"), (9, 3, "offset 9 where"), (1, 2, "leader epoch 2 after 3")],
)
def test_what_no_checksum_covers_is_compared(
    disk: RecordingDisk, log: PartitionLog, offset: int, leader_epoch: int, reason: str
) -> None:
    """The offset and the leader epoch of a batch."""
    for _ in range(5):
        append(log, leader_epoch=3)
    stamp(contents_of(disk, log.segments[0]), BATCH_BYTES, offset, leader_epoch)

    checked = check_some(disk, check_of(log.segments[0]), 10_000)

    assert checked.damage is not None
    assert reason in checked.damage.reason


def test_short_file_is_damage(disk: RecordingDisk, log: PartitionLog) -> None:
    """The end of a finished segment is missing."""
    for _ in range(5):
        append(log)
    del contents_of(disk, log.segments[0])[3 * BATCH_BYTES :]

    checked = check_some(disk, check_of(log.segments[0]), 10_000)

    assert checked.damage is not None
    assert (checked.damage.position, checked.damage.offset) == (3 * BATCH_BYTES, 3)


def test_bad_read_that_is_not_repeated_is_no_damage(
    disk: RecordingDisk, log: PartitionLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Memory was at fault, not the disk: the check goes on behind the place."""
    for _ in range(5):
        append(log)
    sound = RecordingFile.read

    def read_badly(file: RecordingFile, position: int, size: int) -> bytes:
        data = bytearray(sound(file, position, size))
        if not disk.dropped[1:]:
            data[BATCH_BYTES + 70] ^= 4
        return bytes(data)

    monkeypatch.setattr(RecordingFile, "read_resident", lambda *_: None)
    monkeypatch.setattr(RecordingFile, "read", read_badly)
    checked = check_some(disk, check_of(log.segments[0]), 10_000)

    assert checked.damage is None
    assert checked.rest is not None
    assert (checked.rest.position, checked.rest.next_offset) == (2 * BATCH_BYTES, 2)


def test_unreadable_segment_is_damage_and_a_missing_one_is_not(
    disk: RecordingDisk, log: PartitionLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A disk that fails a read has lost what was there; retention removes segments, and that is no news."""
    for _ in range(5):
        append(log)
    check = check_of(log.segments[0])

    def fail(*_: object) -> bytes:
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(RecordingFile, "read_resident", lambda *_: None)
        patch.setattr(RecordingFile, "read", fail)
        damage = check_some(disk, check, 10_000).damage
    disk.remove(check.path)
    with pytest.raises(FileNotFoundError):
        check_some(disk, check, 10_000)

    assert damage is not None
    assert damage.offset == Offset(0)
    assert "Input/output error" in damage.reason


@pytest.mark.parametrize("is_resident", [True, False])
def test_only_what_the_check_brought_into_memory_is_dropped(
    disk: RecordingDisk, log: PartitionLog, monkeypatch: pytest.MonkeyPatch, is_resident: bool
) -> None:
    """Others may want what is in the page cache already."""
    for _ in range(5):
        append(log)
    if not is_resident:
        monkeypatch.setattr(RecordingFile, "read_resident", lambda *_: None)

    check_some(disk, check_of(log.segments[0]), 10_000)

    assert disk.dropped == ([] if is_resident else [(0, 4 * BATCH_BYTES)])
