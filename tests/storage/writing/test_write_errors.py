"""Errors of the disk while a log is written: refused loudly; final, unless they leave everything as it was (R4)."""

import errno

import pytest

from syncline.model.ids import Offset
from syncline.storage.disk import BrokenFileError
from syncline.storage.errors import DiskFullError, LogOfflineError, StorageError
from syncline.storage.log import PartitionLog
from syncline.storage.log_directory import LogDirectory
from tests.storage.batches import append, contents, file_of
from tests.storage.recording_disk import RecordingDisk


def test_full_disk_refuses_and_the_log_works_again_when_there_is_room(log: PartitionLog) -> None:
    """What had got in is cut off, nothing is remembered of it (M46)."""
    append(log, producer=(9, 0, 0))
    file_of(log).append_fault = (20, OSError(errno.ENOSPC, "No space left on device"))

    with pytest.raises(DiskFullError, match=r"Cannot append to topic-0: No space left on device"):
        append(log, producer=(9, 0, 1))

    assert (log.log_end, log.is_offline) == (1, False)
    assert log.producers.entries[9].last_sequence == 0
    append(log, producer=(9, 0, 1))
    assert [offset for offset, _ in contents(log)] == [0, 1]


def test_m47_log_is_final_after_a_write_error(log: PartitionLog) -> None:
    """EIO: the file may hold anything. The log reports it to the node once and refuses every further call."""
    reported: list[tuple[PartitionLog, OSError]] = []
    log.on_offline = lambda *what: reported.append(what)
    append(log)
    file_of(log).append_fault = (0, OSError(errno.EIO, "Input/output error"))

    with pytest.raises(LogOfflineError):
        append(log)

    assert log.is_offline
    assert [each[0] for each in reported] == [log]
    for act in (lambda: append(log), lambda: log.read_plan(Offset(0), 1, Offset(1)), log.flush, log.roll):
        with pytest.raises(LogOfflineError, match="offline since"):
            act()


def test_m47_log_is_final_when_a_failed_append_cannot_be_cut_off(log: PartitionLog) -> None:
    """Even a full disk is no excuse then: the next append would land behind garbage."""
    append(log)
    file_of(log).append_fault = (20, BrokenFileError(errno.ENOSPC, "cannot cut off"))

    with pytest.raises(LogOfflineError):
        append(log)

    assert log.is_offline


def test_too_many_open_files_refuse_without_harm(log: PartitionLog, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is wrong with what is stored."""

    def no_descriptor(*_: object, **__: object) -> None:
        raise OSError(errno.EMFILE, "Too many open files")

    with monkeypatch.context() as patch:
        patch.setattr(RecordingDisk, "open", no_descriptor)
        with pytest.raises(StorageError, match="Too many open files"):
            append(log)

    append(log)
    assert log.log_end == 1


def test_m48_failed_flush_is_final(log: PartitionLog) -> None:
    """A second sync would succeed without the pages that the first one lost."""
    append(log)
    file_of(log).sync_fault = OSError(errno.EIO, "Input/output error")

    with pytest.raises(LogOfflineError):
        log.flush()

    assert log.recovery_point == 0
    with pytest.raises(LogOfflineError):
        log.flush()


def test_m48_failed_flush_in_the_background_is_final_too(disk: RecordingDisk, log: PartitionLog) -> None:
    """The caller that waits gets the error, and so does the node."""
    reported: list[PartitionLog] = []
    log.on_offline = lambda failed, _: reported.append(failed)
    outcomes: list[Exception | None] = []
    append(log)
    file_of(log).sync_fault = OSError(errno.EIO, "Input/output error")
    log.flush_later(outcomes.append)

    disk.pump()

    assert reported == [log]
    assert isinstance(outcomes[0], OSError)


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EMFILE])
def test_no_room_for_the_files_beside_a_log_breaks_nothing(
    disk: RecordingDisk, log: PartitionLog, monkeypatch: pytest.MonkeyPatch, error: int
) -> None:
    """Indexes and epochs of a finished segment are written when there is room: the recovery point waits for them."""

    def no_room(*_: object, **__: object) -> None:
        raise OSError(error, "No room")

    append(log)
    log.roll()
    with monkeypatch.context() as patch:
        patch.setattr(RecordingDisk, "replace_file", no_room)
        disk.pump()

    assert (log.is_offline, log.recovery_point) == (False, 0)

    append(log)
    log.roll()
    disk.pump()

    assert (log.is_offline, log.recovery_point) == (False, log.log_end)
    assert log.log_end == 2


def test_m48_sync_of_a_finished_segment_is_final_even_for_want_of_room(disk: RecordingDisk, log: PartitionLog) -> None:
    """Some file systems find out at the sync that they have no room: then the pages are lost."""
    append(log)
    file = file_of(log)
    log.roll()
    file.sync_fault = OSError(errno.ENOSPC, "No space left on device")

    disk.pump()

    assert log.is_offline


def test_failing_log_leaves_no_mark_of_a_clean_stop(
    disk: RecordingDisk, directory: LogDirectory, log: PartitionLog
) -> None:
    """The next start must look at everything."""
    append(log)
    file_of(log).sync_fault = OSError(errno.EIO, "Input/output error")

    with pytest.raises(StorageError):
        directory.close(1)

    assert ".kafka_cleanshutdown" not in disk.list("/data")
