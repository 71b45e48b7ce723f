"""Append times: what the log knows of when a batch came, over stops, crashes, cuts and a disk that refuses."""

import errno
import random
import struct
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from syncline.model.ids import NONE, Offset
from syncline.records.batch import BatchHeader
from syncline.storage.arrivals.append_time_search import AppendTimeSearch
from syncline.storage.arrivals.append_times import ENTRY, HEADER, RECENT_MAX, STEP_MS, AppendTimes, Entry, Found
from syncline.storage.arrivals.kept_times import KeptTimes
from syncline.storage.errors import DiskFullError
from syncline.storage.log import PartitionLog
from syncline.storage.log_directory import LogDirectory
from syncline.storage.settings import LogSettings
from tests.storage.batches import KEY, TOPIC_ID, append, contents, open_directory, truncate_to
from tests.storage.conftest import SMALL
from tests.storage.crash_images import images
from tests.storage.crash_story import Story, check
from tests.storage.recording_disk import Image, RecordingDisk, RecordingFile
from tests.storage.recovery.test_crash_images import cuts

# The wall clock when the first batch comes.
BEGAN_MS = 1_700_000_000_000
FILE = "00000000000000000000.appendtimes"


def known(log: PartitionLog, offset: int) -> Found | None:
    """Return what is known of an offset, in memory or on the disk."""
    found = log.append_times.find(Offset(offset))
    return found.run() if isinstance(found, AppendTimeSearch) else found


def times(log: PartitionLog) -> dict[int, int]:
    """Return offset and time, since the first batch came, of every entry of a log that is no gap."""
    return {entry.offset: entry.append_ms - BEGAN_MS for entry in entries(log) if not entry.is_gap}


def gaps(log: PartitionLog) -> list[int]:
    """Return where entries are missing."""
    return [entry.offset for entry in entries(log) if entry.is_gap]


def entries(log: PartitionLog) -> list[Entry]:
    """Return the entries of a log."""
    found = (known(log, offset) for offset in range(log.log_start, log.log_end))
    return list({each.entry.offset: each.entry for each in found if each is not None}.values())


def start_again(disk: RecordingDisk, directory: LogDirectory, settings: LogSettings, *, is_clean: bool) -> PartitionLog:
    """Stop, or die, and return the log of the next start."""
    if is_clean:
        directory.close(1)
    else:
        directory.abandon()
    return open_directory(disk, settings).logs[KEY]


def test_one_batch_in_250_ms_gets_an_entry(log: PartitionLog) -> None:
    """A batch without one came less than that after the entry before it."""
    for append_ms in (0, 100, 249, 250, 499, 1000, 1001):
        append(log, append_ms=BEGAN_MS + append_ms)
    log.check_invariants()

    # A new segment begins at 4: its first batch has an entry always.
    assert times(log) == {0: 0, 3: 250, 4: 499, 5: 1000}
    between = known(log, 2)
    assert between is not None
    assert (between.entry.offset, between.next_ms - BEGAN_MS) == (0, 250)


def test_the_first_batch_of_a_segment_has_an_entry(log: PartitionLog) -> None:
    """So a segment needs no other to tell when its batches came."""
    for number in range(8):
        append(log, append_ms=BEGAN_MS + number)

    assert [each.base_offset for each in log.segments] == [0, 4]
    assert times(log) == {0: 0, 4: 4}


def test_nothing_is_known_of_batches_whose_leader_named_no_time(log: PartitionLog) -> None:
    """Batches of older versions, and those that a follower copies, have none; what comes later has."""
    append(log)
    append(log, append_ms=BEGAN_MS)

    assert known(log, 0) is None
    assert times(log) == {1: 0}


def test_l19_times_do_not_fall_when_the_clock_is_set_back(disk: RecordingDisk, log: PartitionLog) -> None:
    """Entries stop until it is as late again, and a new segment begins with the latest time so far."""
    append(log, append_ms=BEGAN_MS)
    append(log, append_ms=BEGAN_MS - 10_000)
    append(log, append_ms=BEGAN_MS - 9_000)
    log.roll()
    append(log, append_ms=BEGAN_MS - 8_000)
    append(log, append_ms=BEGAN_MS + 300)

    assert times(log) == {0: 0, 3: 0, 4: 300}


@pytest.mark.parametrize("is_clean", [True, False])
def test_l15_times_are_there_again_after_a_stop_and_after_a_crash(
    disk: RecordingDisk, directory: LogDirectory, settings: LogSettings, log: PartitionLog, is_clean: bool
) -> None:
    """A clean stop keeps all; a crash loses what was not saved in the last seconds, and nothing else."""
    for number in range(10):
        append(log, append_ms=BEGAN_MS + 300 * number)
        disk.pump()
        if number == 8:
            assert log.append_times.save()
    # The last entry is in memory alone.
    before = {number: 300 * number for number in range(10 if is_clean else 9)}

    again = start_again(disk, directory, settings, is_clean=is_clean)
    again.check_invariants()

    assert times(again) == before
    append(again, append_ms=BEGAN_MS + 5_000)
    assert times(again) == before | {10: 5_000}


def test_saving_writes_only_what_is_new(disk: RecordingDisk, log: PartitionLog, settings: LogSettings) -> None:
    """Every few seconds, unsynced: an entry is 26 bytes."""
    path = f"{log.directory}/{FILE}"
    assert not log.append_times.save()
    append(log, append_ms=BEGAN_MS)
    assert log.append_times.save()
    first = disk.read_file(path)
    append(log, append_ms=BEGAN_MS + 1)
    assert not log.append_times.save()
    append(log, append_ms=BEGAN_MS + 2_000)
    assert log.append_times.save()
    size_bytes = log.size_bytes // 3
    crcs = [BatchHeader.parse(data).crc & 0xFFFF for _, data in contents(log)]

    assert first == HEADER.pack(b"SLAT", 1, 250, 0) + struct.pack(">IIqqH", 0, 0, BEGAN_MS, 0, crcs[0])
    second = struct.pack(">IIqqH", 2, 2 * size_bytes, BEGAN_MS + 2_000, 2 * size_bytes, crcs[2])
    assert disk.read_file(path) == first + second


def test_a_cut_forgets_the_times_of_what_is_cut_off(
    disk: RecordingDisk, directory: LogDirectory, settings: LogSettings, log: PartitionLog
) -> None:
    """Other records get the same offsets: their times are their own, in memory and after a crash."""
    for number in range(4):
        append(log, append_ms=BEGAN_MS + 1_000 * number)
    log.append_times.save()
    truncate_to(log, Offset(2))
    assert times(log) == {0: 0, 1: 1_000}
    assert disk.open(f"{log.directory}/{FILE}").size_bytes == HEADER.size + 2 * ENTRY.size

    append(log, leader_epoch=1, append_ms=BEGAN_MS + 9_000, value=b"other")
    after = {0: 0, 1: 1_000, 2: 9_000}
    assert times(log) == after
    log.append_times.save()

    assert times(start_again(disk, directory, settings, is_clean=False)) == after


@pytest.mark.parametrize("is_rolled", [False, True])
def test_l15_what_comes_after_a_cut_may_be_older_than_what_was_cut(log: PartitionLog, *, is_rolled: bool) -> None:
    """A leader that was paused appends, has to cut it, and copies what another leader had appended before that."""
    append(log, append_ms=BEGAN_MS)
    if is_rolled:
        log.roll()
    else:
        # Nothing is left of the only segment.
        truncate_to(log, Offset(0))
    start = log.log_end
    append(log, append_ms=BEGAN_MS + 9_000)
    append(log, append_ms=BEGAN_MS + 10_000)

    truncate_to(log, start)
    append(log, leader_epoch=1, append_ms=BEGAN_MS + 1_000)
    append(log, leader_epoch=1, append_ms=BEGAN_MS + 2_000)
    log.check_invariants()

    before = {0: 0} if is_rolled else {}
    assert times(log) == before | {start: 1_000, start + 1: 2_000}


def test_l19_no_time_falls_below_that_of_the_segment_before_although_a_cut_leaves_nothing(log: PartitionLog) -> None:
    """What a cut goes back to is what was known when the segment began."""
    append(log, append_ms=BEGAN_MS + 5_000)
    log.roll()
    append(log, append_ms=BEGAN_MS + 9_000)
    truncate_to(log, Offset(1))

    append(log, leader_epoch=1, append_ms=BEGAN_MS + 1_000)
    assert times(log) == {0: 5_000, 1: 5_000}


def test_a_cut_into_a_segment_that_is_not_in_memory_forgets_its_times(disk: RecordingDisk, log: PartitionLog) -> None:
    """The loop does not read: what stays is not known any more, and says so."""
    for number in range(40):
        append(log, append_ms=BEGAN_MS + 1_000 * number)
        disk.pump()
    assert times(log) == {number: 1_000 * number for number in range(40)}
    assert log.segments[0].append_times.recent is None

    truncate_to(log, Offset(2))
    log.check_invariants()

    assert times(log) == {}
    append(log, leader_epoch=1, append_ms=BEGAN_MS + 99_000)
    assert times(log) == {2: 99_000}


def old_file_comes_back() -> None:
    """Cut a log, append other batches of the same size, and have a power cut bring the file of before."""
    disk = RecordingDisk()
    directory = open_directory(disk, SMALL)
    log = directory.create(KEY, TOPIC_ID, SMALL)
    for number in range(3):
        append(log, append_ms=BEGAN_MS + 1_000 * number)
    log.append_times.save()
    old = disk.read_file(f"{log.directory}/{FILE}")
    truncate_to(log, Offset(1))
    for number in range(2):
        append(log, leader_epoch=1, append_ms=BEGAN_MS + 7_000 + 1_000 * number, value=b"VALUE")
    disk.replace_file(f"{log.directory}/{FILE}", old)

    again = start_again(disk, directory, SMALL, is_clean=False)

    assert times(again) == {0: 0}


def test_an_entry_whose_batch_is_not_there_does_not_count_after_a_crash() -> None:
    """The checksums of the batches that it names are not those in the log."""
    old_file_comes_back()


@pytest.mark.parametrize("data", [b"", b"SL", b"SLAT" + bytes(12), HEADER.pack(b"SLAT", 2, 250, 0), bytes(100)])
def test_a_strange_file_is_as_if_it_were_not_there(
    disk: RecordingDisk, directory: LogDirectory, settings: LogSettings, log: PartitionLog, data: bytes
) -> None:
    """Hints are never a reason to refuse a log; the next save replaces it."""
    append(log, append_ms=BEGAN_MS)
    directory.close(1)
    disk.replace_file(f"{log.directory}/{FILE}", data)
    directory = open_directory(disk, settings)
    log = directory.logs[KEY]
    assert times(log) == {}

    append(log, append_ms=BEGAN_MS + 1_000)
    log.append_times.save()

    assert times(start_again(disk, directory, settings, is_clean=False)) == {1: 1_000}


def test_a_refused_save_is_made_up_for(disk: RecordingDisk, log: PartitionLog, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without room nothing is lost but time."""

    def no_room(_file: RecordingFile, _parts: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    append(log, append_ms=BEGAN_MS)
    with monkeypatch.context() as patch:
        patch.setattr(RecordingFile, "append", no_room)
        with pytest.raises(DiskFullError, match="save append times of topic-0"):
            log.append_times.save()
    assert not log.is_offline
    assert times(log) == {0: 0}

    assert log.append_times.save()
    assert disk.open(f"{log.directory}/{FILE}").size_bytes == HEADER.size + ENTRY.size


def test_a_file_that_cannot_be_written_costs_the_times_and_not_the_log(
    disk: RecordingDisk, log: PartitionLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The log goes on; its next segment has append times again."""

    def broken(file: RecordingFile, _parts: object) -> None:
        if file.path.endswith(".appendtimes"):
            raise OSError(errno.EIO, "Input/output error")

    append(log, append_ms=BEGAN_MS)
    with monkeypatch.context() as patch:
        patch.setattr(RecordingFile, "append", broken)
        assert not log.append_times.save()
    append(log, append_ms=BEGAN_MS + 1_000)

    assert not log.is_offline
    assert times(log) == {}
    assert not disk.exists(f"{log.directory}/{FILE}")
    log.roll()
    append(log, append_ms=BEGAN_MS + 2_000)
    assert times(log) == {2: 2_000}


def test_a_finished_segment_whose_times_cannot_be_written_is_safe_all_the_same(
    disk: RecordingDisk, log: PartitionLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The worker that syncs it goes on, and the recovery point passes it."""
    for number in range(4):
        append(log, append_ms=BEGAN_MS + 1_000 * number)
    log.roll()
    sync = RecordingFile.sync

    def broken(file: RecordingFile) -> None:
        if file.path.endswith(".appendtimes"):
            raise OSError(errno.EIO, "Input/output error")
        sync(file)

    monkeypatch.setattr(RecordingFile, "sync", broken)
    disk.pump()

    assert not log.is_offline
    assert log.recovery_point == 4
    assert times(log) == {}


def test_a_segment_that_is_cut_and_finished_again_while_a_worker_saves_its_times_has_the_right_ones(
    disk: RecordingDisk, directory: LogDirectory, settings: LogSettings, log: PartitionLog
) -> None:
    """Two workers never write one file; what the first one wrote is corrected later."""
    for number in range(4):
        append(log, append_ms=BEGAN_MS + 1_000 * number)
    log.roll()
    truncate_to(log, Offset(1))
    for number in range(3):
        append(log, leader_epoch=1, append_ms=BEGAN_MS + 10_000 + 1_000 * number, value=b"VALUE")
    log.roll()
    disk.pump()
    after = {0: 0, 1: 10_000, 2: 11_000, 3: 12_000}
    assert times(log) == after
    append(log, leader_epoch=1, append_ms=BEGAN_MS + 20_000)
    log.roll()
    disk.pump()

    assert times(log) == after | {4: 20_000}
    assert times(start_again(disk, directory, settings, is_clean=False)) == after | {4: 20_000}


@pytest.mark.parametrize("is_clean", [True, False])
def test_a_file_that_cannot_be_read_damages_no_log(
    disk: RecordingDisk,
    directory: LogDirectory,
    settings: LogSettings,
    log: PartitionLog,
    is_clean: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A log whose own batches cannot be read is damaged; this is only a hint."""
    append(log, append_ms=BEGAN_MS)
    log.append_times.save()
    read = RecordingFile.read

    def broken(file: RecordingFile, position: int, size: int) -> bytes:
        if file.path.endswith(".appendtimes"):
            raise OSError(errno.EIO, "Input/output error")
        return read(file, position, size)

    monkeypatch.setattr(RecordingFile, "read", broken)
    again = start_again(disk, directory, settings, is_clean=is_clean)

    assert times(again) == {}
    append(again, append_ms=BEGAN_MS + 1_000)
    assert times(again) == {1: 1_000}


def test_written_bytes_go_on_where_they_were(
    disk: RecordingDisk, directory: LogDirectory, settings: LogSettings, log: PartitionLog
) -> None:
    """They are counted over all logs and lives of a broker, and never fall."""
    for number in range(2):
        append(log, append_ms=BEGAN_MS + 1_000 * number)
    before = known(log, 1)
    log = start_again(disk, directory, settings, is_clean=True)
    append(log, append_ms=BEGAN_MS + 9_000)
    after = known(log, 2)

    assert before is not None
    assert after is not None
    assert 0 < before.entry.written_bytes <= after.entry.written_bytes


def test_retention_removes_the_file_with_its_segment(disk: RecordingDisk, log: PartitionLog) -> None:
    """Nothing of a deleted segment stays."""
    for number in range(8):
        append(log, append_ms=BEGAN_MS + 1_000 * number)
        disk.pump()
    log.roll()
    disk.pump()
    assert FILE in disk.list(log.directory)
    log.high_watermark = log.log_end
    log.raise_log_start(Offset(4))
    log.retention(0)
    log.sweep(10_000)

    assert [name for name in disk.list(log.directory) if name.startswith("0" * 20)] == []
    assert times(log) == {number: 1_000 * number for number in range(4, 8)}


def test_memory_keeps_the_newest_entries_and_the_disk_the_others(disk: RecordingDisk) -> None:
    """Some minutes of entries at most, however long a segment grows; older ones are found by a worker."""
    large = LogSettings(segment_bytes=1 << 30)
    directory = open_directory(disk, large)
    log = directory.create(KEY, TOPIC_ID, large)
    count = 3 * RECENT_MAX
    for number in range(count):
        append(log, append_ms=BEGAN_MS + STEP_MS * number)
        if number % 20 == 0:
            log.append_times.save()
    recent = log.segments[0].append_times.recent
    assert recent is not None
    assert len(recent) <= RECENT_MAX
    assert isinstance(log.append_times.find(Offset(5)), AppendTimeSearch)

    def right(offset: int) -> Found:
        found = known(log, offset)
        assert found is not None
        assert (found.entry.offset, found.entry.append_ms) == (offset, BEGAN_MS + STEP_MS * offset)
        return found

    for offset in [*range(0, count - 1, 97), 314, 315, 316, count - RECENT_MAX, count - 2]:
        assert right(offset).next_ms == BEGAN_MS + STEP_MS * (offset + 1)
    assert right(count - 1).next_ms == NONE

    log = start_again(disk, directory, large, is_clean=False)
    last_saved = (count - 1) // 20 * 20
    assert right(last_saved).next_ms == NONE
    assert right(3).next_ms == BEGAN_MS + 4 * STEP_MS


def test_entries_that_the_disk_refuses_for_long_are_given_up(disk: RecordingDisk) -> None:
    """A bound on memory: after a quarter of an hour the segment has no append times."""
    recent = AppendTimes(0)
    for number in range(2 * RECENT_MAX + 1):
        recent.add(number, number, STEP_MS * number, 0, 0)

    assert len(recent) == 0
    assert recent.due_ms > 10**15


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.integers(1, 900), min_size=1, max_size=60),
    st.integers(0, 59),
    st.integers(1, 5),
    st.randoms(use_true_random=False),
)
def test_each_batch_came_at_its_entry_or_less_than_a_step_after_the_one_before(
    pauses: list[int], cut_at: int, every: int, rng: random.Random
) -> None:
    """Brute force over appends at random times, saves, a cut and a clean start."""
    disk = RecordingDisk()
    small = replace(LogSettings(), segment_bytes=760, index_interval_bytes=200)
    directory = open_directory(disk, small)
    log = directory.create(KEY, TOPIC_ID, small)
    came: list[int] = []
    now_ms = BEGAN_MS
    for number, pause_ms in enumerate(pauses):
        now_ms += pause_ms
        came.append(now_ms)
        append(log, append_ms=now_ms)
        if number % every == 0:
            log.append_times.save()
        if rng.random() < 0.3:
            disk.pump()
    if cut_at < len(came):
        is_warm = all(each.append_times.recent is not None for each in log.segments if each.end_offset > cut_at)
        truncate_to(log, Offset(cut_at))
        del came[cut_at:]
    else:
        is_warm = True
    disk.pump()
    for each in (log, None):
        here = each or start_again(disk, directory, small, is_clean=True)
        here.check_invariants()
        entries = times(here)
        offsets = list(entries)
        assert all(BEGAN_MS + entries[offset] == came[offset] for offset in offsets)
        for offset, came_ms in enumerate(came):
            at = bisect_right(offsets, offset) - 1
            if at < 0 or offsets[at] < here.segments[0].base_offset:
                assert not is_warm
            elif is_warm:
                assert came[offsets[at]] <= came_ms < came[offsets[at]] + STEP_MS or offset == offsets[at]


def without_comparing(patch: pytest.MonkeyPatch) -> None:
    """Recovery believes the file whatever the log holds."""
    patch.setattr("syncline.storage.arrivals.append_times.Entry.names", lambda *_: True)


def without_cutting(patch: pytest.MonkeyPatch) -> None:
    """A cut leaves the times of what is cut off."""
    patch.setattr(KeptTimes, "cut", lambda *_: None)


def cut_and_crash(story: Story) -> None:
    """Saved times, a cut, other records of the same size in the same place."""
    story.append(3)
    story.log.append_times.save()
    story.truncate(2)
    story.lead()
    story.append(2)
    story.log.append_times.save()


def run(share: float) -> None:
    """Tell the story, and check the images that a power cut may leave."""
    story = Story()
    cut_and_crash(story)
    rng, choice = random.Random(30), random.Random(31)
    for length, account in cuts(story):
        for image in images(Image(), story.disk.ops[:length], rng, wants=lambda: choice.random() < share):
            check(image, account)


def test_no_power_cut_makes_times_of_records_that_are_gone_count() -> None:
    """Every image of a cut between two saves is checked; without the bugs below there is nothing to find."""
    run(0.5)


def crash_at_any_moment() -> None:
    """Check the images of the story above."""
    run(0.3)


@pytest.mark.parametrize(
    ("plant", "act"),
    [
        pytest.param(without_comparing, old_file_comes_back, id="not-compared"),
        pytest.param(without_cutting, crash_at_any_moment, id="not-cut"),
    ],
)
@pytest.mark.interpreted
def test_a_planted_bug_is_found(
    plant: Callable[[pytest.MonkeyPatch], None], act: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The check, or an assertion on the way, sees times that belong to other records."""
    plant(monkeypatch)

    with pytest.raises(AssertionError):
        act()
