"""Write-out keeps pace with all logs of a disk, and pages go in the order in which they were written, unless wanted."""

import pytest

from syncline.model.ids import Offset, TopicPartition
from syncline.storage.log import PartitionLog
from syncline.storage.log_directory import LogDirectory
from syncline.storage.pages.cached_pages import ALL, WANTED
from syncline.storage.pages.write_behind import NEW_BYTES_MAX, SPARE_BYTES_MIN, STEP_BYTES
from syncline.storage.settings import LogSettings
from tests.storage.batches import TOPIC_ID, append, file_of, open_directory, read
from tests.storage.recording_disk import RecordingDisk

MEGABYTE = bytes(1_000_000)
BATCHES_PER_STEP = -(-STEP_BYTES // len(MEGABYTE))


@pytest.fixture
def disk() -> RecordingDisk:
    """Return a disk of a machine whose 32nd is less than the least that stays."""
    disk = RecordingDisk()
    disk.memory_bytes = 256 << 20
    return disk


@pytest.fixture
def directory(disk: RecordingDisk) -> LogDirectory:
    """Return its data directory."""
    return open_directory(disk, LogSettings())


def log_of(directory: LogDirectory, number: int = 0, keep_bytes: int = WANTED) -> PartitionLog:
    """Return a log of its own, in the role that keeps so much."""
    log = directory.create(TopicPartition("t", number), TOPIC_ID, LogSettings())
    log.keep_cached_bytes = keep_bytes
    return log


def put(log: PartitionLog, count: int = 1) -> None:
    """Write so many batches of a megabyte; workers finish their work meanwhile."""
    for _ in range(count):
        append(log, value=MEGABYTE)
        log._disk.pump()  # type: ignore[attr-defined]


def grow(log: PartitionLog, steps: int = 1) -> None:
    """Write a few bytes more than so many steps, and read nothing."""
    put(log, steps * BATCHES_PER_STEP)


def dropped(log: PartitionLog) -> int:
    """Return up to where pages of the active segment were given back."""
    return max(file_of(log).dropped_before, default=0)


@pytest.mark.parametrize("keep_bytes", [ALL, WANTED, 16])
def test_write_out_starts_whenever_a_log_has_grown_by_a_step(directory: LogDirectory, keep_bytes: int) -> None:
    """In each role: otherwise the kernel writes out in a hurry, at the expense of the loop."""
    log = log_of(directory, keep_bytes=keep_bytes)
    grow(log)
    once = list(file_of(log).written_out)
    grow(log)

    assert once == [file_of(log).size_bytes // 2]
    assert file_of(log).written_out == [*once, file_of(log).size_bytes]


def test_follower_gives_back_all_but_its_newest_bytes(directory: LogDirectory) -> None:
    """A log whose every page is kept gives back none, however long it is."""
    follower, kept = log_of(directory, keep_bytes=1000), log_of(directory, 1, keep_bytes=ALL)
    grow(follower)
    grow(kept, steps=9)

    assert dropped(follower) == follower.size_bytes - 1000 == follower.segments[0].dropped_to
    assert dropped(kept) == 0


def test_logs_that_grow_slowly_are_written_out_when_together_they_have_much(directory: LogDirectory) -> None:
    """Thousands of partitions would have gigabytes that are new before one of them has grown by a step."""
    logs = [log_of(directory, number) for number in range(16)]
    rounds = NEW_BYTES_MAX // (len(logs) * len(MEGABYTE))
    for _ in range(rounds):
        for log in logs:
            put(log)
    before = [file_of(log).written_out for log in logs]
    assert not any(before)
    for log in logs:
        put(log)

    assert all(file_of(log).written_out for log in logs)


def test_pages_that_are_not_read_go_in_the_order_in_which_logs_were_written(directory: LogDirectory) -> None:
    """An idle log keeps nothing that a busy one could use."""
    idle, busy = log_of(directory), log_of(directory, 1)
    grow(idle)
    grow(busy, steps=SPARE_BYTES_MIN // STEP_BYTES - 2)
    assert (dropped(idle), dropped(busy)) == (0, 0)
    grow(busy, steps=2)

    assert dropped(idle) == idle.size_bytes
    kept_bytes = busy.size_bytes - dropped(busy)
    assert SPARE_BYTES_MIN - 2 * STEP_BYTES < kept_bytes <= SPARE_BYTES_MIN


def test_tail_reader_keeps_no_more_than_none(directory: LogDirectory) -> None:
    """What it has read may go."""
    log = log_of(directory)
    for _ in range(3 * SPARE_BYTES_MIN // len(MEGABYTE)):
        put(log)
        read(log, log.log_end - 1, max_bytes=1)

    assert log.size_bytes - dropped(log) <= SPARE_BYTES_MIN + STEP_BYTES + len(MEGABYTE)


def test_reader_that_is_behind_finds_what_lies_before_it(directory: LogDirectory) -> None:
    """Until it has read that, or has stopped for as long as it takes to write a good part of what stays anyway."""
    log = log_of(directory)
    grow(log)
    position = 0
    for _ in range(SPARE_BYTES_MIN // STEP_BYTES + 2):
        for _ in range(BATCHES_PER_STEP):
            put(log)
            if position < 10:
                read(log, position, max_bytes=1)
                position += 1
            else:
                read(log, 10, max_bytes=1)
    assert dropped(log) <= 10 * (len(MEGABYTE) + 100)
    grow(log, steps=SPARE_BYTES_MIN // STEP_BYTES)

    assert log.size_bytes - dropped(log) <= SPARE_BYTES_MIN + STEP_BYTES


def test_reader_that_is_too_far_behind_holds_an_eighth_of_the_memory_at_most(
    disk: RecordingDisk, directory: LogDirectory
) -> None:
    """Otherwise one that never arrives would take all of it."""
    log = log_of(directory)
    grow(log)
    for _ in range((disk.memory_bytes // 8 + SPARE_BYTES_MIN) // len(MEGABYTE) + 20):
        put(log)
        read(log, 0, max_bytes=1)

    kept_bytes = log.size_bytes - dropped(log)
    assert disk.memory_bytes // 8 <= kept_bytes <= disk.memory_bytes // 8 + SPARE_BYTES_MIN + 2 * STEP_BYTES


def test_of_what_is_held_the_oldest_goes_first(disk: RecordingDisk, directory: LogDirectory) -> None:
    """A reader that is too far behind loses what is furthest behind it, a window at a time, and nothing besides."""
    disk.memory_bytes = 640 << 20
    log = log_of(directory)
    grow(log)
    begun = 0
    for _ in range((disk.memory_bytes // 8 + SPARE_BYTES_MIN) // len(MEGABYTE) + 60):
        put(log)
        read(log, 0, max_bytes=1)
        assert dropped(log) - begun <= STEP_BYTES + len(MEGABYTE) + 100
        begun = dropped(log)

    assert begun > 0
    behind = directory.written.behind
    assert behind._held_bytes == sum(window.size_bytes for window in behind._held)
    assert min(window.end_position for window in behind._held) > begun


def test_nothing_is_given_back_where_the_memory_is_unknown(disk: RecordingDisk, directory: LogDirectory) -> None:
    """The kernel decides then."""
    disk.memory_bytes = -1
    log = log_of(directory)
    grow(log, steps=SPARE_BYTES_MIN // STEP_BYTES + 4)

    assert dropped(log) == 0
    assert not directory.written.behind._windows, "no window waits for its turn for ever"


def test_one_append_starts_write_out_of_few_of_many_logs(directory: LogDirectory) -> None:
    """Those that have waited longest: thousands at once would hold the loop."""
    logs = [log_of(directory, number) for number in range(100)]
    for log in logs:
        put(log)

    begun = [number for number, log in enumerate(logs) if file_of(log).written_out]
    assert begun == list(range(len(begun)))
    assert 36 <= len(begun) < 70


def test_bytes_that_are_too_few_for_a_window_wait_for_more(directory: LogDirectory) -> None:
    """Or for the end of their segment; thousands of logs would have too many windows."""
    log = log_of(directory)
    append(log)
    grow(log_of(directory, 1), steps=NEW_BYTES_MAX // STEP_BYTES)
    waiting = [window.log for window in directory.written.behind._windows].count(log._writer.pages)
    log.roll()
    in_turn = [window.log for window in directory.written.behind._windows].count(log._writer.pages)

    assert (waiting, in_turn) == (0, 1)


def test_rolled_segment_is_written_out_and_goes_in_its_turn(directory: LogDirectory) -> None:
    """What was new in it when it was full would stay unwritten, and in memory, otherwise."""
    log = log_of(directory)
    put(log)
    old = file_of(log)
    log.roll()
    grow(log, steps=SPARE_BYTES_MIN // STEP_BYTES + 1)

    assert old.written_out == [old.size_bytes]
    assert old.dropped_before == [old.size_bytes]
    # Blocks are reserved ahead of the one that grows alone.
    assert (old.is_complete, file_of(log).is_complete) == (True, False)
    assert file_of(log).written_out


def test_truncated_log_is_given_back_no_further_than_it_reaches(directory: LogDirectory) -> None:
    """The windows of what was cut off are still in the queue."""
    log = log_of(directory)
    grow(log, steps=2)
    plan = log.plan_cut(Offset(5))
    assert log.cut(plan)  # type: ignore[arg-type]
    grow(log_of(directory, 1), steps=SPARE_BYTES_MIN // STEP_BYTES + 1)

    assert dropped(log) == log.size_bytes == log.segments[0].dropped_to


def test_log_that_is_deleted_leaves_nothing_to_write_out(directory: LogDirectory) -> None:
    """Small topics that come and go would be kept, with their segments, until others had written much."""
    for number in range(3):
        log = log_of(directory, number)
        put(log)
        directory.delete(log.topic_partition, now_ms=0)
    behind = directory.written.behind

    assert (behind._growing, behind._new_bytes) == ({}, 0)
    grow(log_of(directory, 3))


def test_rolled_logs_that_are_deleted_are_forgotten(directory: LogDirectory) -> None:
    """Each window would keep a segment with its indexes; small ones never have the bytes that must go."""
    lasting = log_of(directory)
    for number in range(1, 300):
        log = log_of(directory, number)
        for each in (log, lasting) if number % 10 == 0 else (log,):
            append(each)
            each.roll()
        directory.delete(log.topic_partition, now_ms=0)

    assert len(lasting.segments) - 1 <= len(directory.written.behind) < 100
