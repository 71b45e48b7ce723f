"""Bugs planted in storage: each trips an assertion before its effect can reach an answer or a checkpoint.

The crash images (`test_crash_images.py`) show what such bugs do to a disk; here
the point is that a broker stops at the step that breaks the rule.
"""

from collections.abc import Callable

import pytest

from syncline.core.replication.leader_epochs import EpochCache
from syncline.model.ids import Offset
from syncline.records.batch import BatchHeader
from syncline.storage.log import PartitionLog
from syncline.storage.log_directory import LogDirectory
from syncline.storage.segments.segment import Segment
from syncline.storage.segments.segment_list import SegmentList
from syncline.storage.writing.flusher import Flusher
from tests.storage.batches import append, batch, truncate_to
from tests.storage.recording_disk import RecordingDisk

Plant = Callable[[pytest.MonkeyPatch], None]
Act = Callable[[PartitionLog], None]


def roll_loses_its_base(patch: pytest.MonkeyPatch) -> None:
    """A new segment is named after the last record instead of the next one."""
    add = SegmentList.add
    patch.setattr(SegmentList, "add", lambda self, base, interval: add(self, Offset(base - 1), interval))


def roll_forgets_the_bytes_before(patch: pytest.MonkeyPatch) -> None:
    """A new segment begins at the byte coordinate of the first one, so byte lags are too small by all that is older."""
    add = SegmentList.add

    def forgetful(self: SegmentList, base: Offset, interval: int) -> Segment:
        segment = add(self, base, interval)
        segment.bytes_before = 0
        return segment

    patch.setattr(SegmentList, "add", forgetful)


def flush_vouches_for_the_newest_segment_only(patch: pytest.MonkeyPatch) -> None:
    """M51: the recovery point moves past older segments that were not synced."""
    unsynced = Flusher.unsynced
    patch.setattr(Flusher, "unsynced", lambda self: unsynced(self)[-1:])


def flush_forgets_the_epochs(patch: pytest.MonkeyPatch) -> None:
    """The recovery point passes batches whose epochs are in no file."""
    patch.setattr(Flusher, "save_epochs", lambda _: None)


def cut_keeps_the_epochs(patch: pytest.MonkeyPatch) -> None:
    """Epochs of batches that were cut off stay in the history."""
    patch.setattr(EpochCache, "truncate_from_end", lambda *_: False)


def cut_keeps_the_recovery_point(patch: pytest.MonkeyPatch) -> None:
    """What was cut off still counts as flushed."""
    patch.setattr(Flusher, "lower", lambda *_: None)


def grow(log: PartitionLog) -> None:
    """Append batches of two records, in two epochs and over several segments."""
    for number in range(12):
        append(log, leader_epoch=number // 6, count=2)


def grow_and_check(log: PartitionLog) -> None:
    """Look at all segments afterwards."""
    grow(log)
    log.check_invariants()


def grow_and_flush(log: PartitionLog) -> None:
    """Let a flush follow, before any background sync."""
    grow(log)
    log.flush()


def grow_and_cut(log: PartitionLog) -> None:
    """Cut a flushed log in its first epoch."""
    grow_and_flush(log)
    truncate_to(log, Offset(7))
    log.check_newest()


@pytest.mark.parametrize(
    ("plant", "act", "message"),
    [
        pytest.param(roll_loses_its_base, grow, "is not followed by a segment at", id="roll"),
        pytest.param(roll_forgets_the_bytes_before, grow_and_check, "are not the 0 before", id="bytes-before"),
        pytest.param(flush_vouches_for_the_newest_segment_only, grow_and_flush, "is synced up to", id="M51"),
        pytest.param(flush_forgets_the_epochs, grow_and_flush, "its epochs are not safe", id="epochs-unsaved"),
        pytest.param(cut_keeps_the_epochs, grow_and_cut, "EpochCache", id="epochs-behind-the-end"),
        pytest.param(cut_keeps_the_recovery_point, grow_and_cut, "recovery point", id="M54"),
    ],
)
@pytest.mark.interpreted
def test_planted_bug_trips_an_assertion(
    plant: Plant, act: Act, message: str, log: PartitionLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same story without the bug passes; with it, the step that breaks the rule raises."""
    act(log)
    log.check_invariants()
    log.restart_at(Offset(0))
    plant(monkeypatch)

    with pytest.raises(AssertionError, match=message):
        act(log)


@pytest.mark.parametrize(
    ("base_offset", "leader_epoch", "message"),
    [
        pytest.param(2, 3, "stamped with", id="offset-behind-the-end"),
        pytest.param(0, 3, "stamped with", id="offset-of-the-batch-before"),
        pytest.param(1, 2, "of epoch 2 is stamped with 2, behind", id="epoch-of-an-older-term"),
    ],
)
def test_wrong_stamp_is_not_written(
    disk: RecordingDisk, log: PartitionLog, base_offset: int, leader_epoch: int, message: str
) -> None:
    """The assertion comes before the write: nothing of the batch is in the file."""
    append(log, leader_epoch=3)
    data = batch(base_offset, leader_epoch=leader_epoch)
    written = len(disk.ops)

    with pytest.raises(AssertionError, match=message):
        log.append_as_leader(data, BatchHeader.parse(data))

    assert len(disk.ops) == written
    assert log.log_end == 1


def test_bytes_that_differ_from_their_header_are_not_written(disk: RecordingDisk, log: PartitionLog) -> None:
    """The header in memory is right, but the stamp in the buffer was left out."""
    data = batch(0, leader_epoch=0)
    written = len(disk.ops)

    with pytest.raises(AssertionError, match="of epoch 4 is stamped with 0"):
        log.append_as_leader(data, BatchHeader.parse(data)._replace(leader_epoch=4))

    assert len(disk.ops) == written


@pytest.mark.interpreted
def test_checkpoint_that_promises_more_than_its_log_is_found(directory: LogDirectory, log: PartitionLog) -> None:
    """The file still has the recovery point of before the cut."""
    grow_and_flush(log)
    directory.checkpoint_recovery_points(later=False)
    directory.check_invariants()
    directory.checkpoint_recovery_points = lambda **_: None  # type: ignore[method-assign]

    truncate_to(log, Offset(7))

    with pytest.raises(AssertionError, match="promises offset 24"):
        directory.check_invariants()
