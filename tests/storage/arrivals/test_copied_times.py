"""Append times that a follower copies: those of its leader, whatever the follower's clock and segments are."""

import random
from collections.abc import Iterable, Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from syncline.model.ids import Offset
from syncline.storage.arrivals.append_time_search import AppendTimesBetween
from syncline.storage.arrivals.append_times import ALL_UNKNOWN, RECENT_MAX, STEP_MS, AppendTimes, CopiedTime
from syncline.storage.log import PartitionLog
from syncline.storage.segments.reading import Slice
from syncline.storage.settings import LogSettings
from tests.storage.arrivals.test_append_times import BEGAN_MS, gaps, known, start_again, times
from tests.storage.batches import KEY, TOPIC_ID, append, open_directory, truncate_to
from tests.storage.recording_disk import RecordingDisk

LARGE = LogSettings(segment_bytes=1 << 30)
SMALL = replace(LARGE, segment_bytes=760, index_interval_bytes=200)


def new_log(log_settings: LogSettings) -> PartitionLog:
    """Return an empty log on a disk of its own."""
    return open_directory(RecordingDisk(), log_settings).create(KEY, TOPIC_ID, log_settings)


def led(append_times_ms: Iterable[int], log_settings: LogSettings = LARGE) -> PartitionLog:
    """Return a leader's log with one batch at each of these times since it began."""
    log = new_log(log_settings)
    for number, append_ms in enumerate(append_times_ms):
        append(log, append_ms=BEGAN_MS + append_ms)
        if number % 7 == 0:
            log.append_times.save()
    return log


def sent(leader: PartitionLog, follower: PartitionLog, max_bytes: int) -> tuple[bytes, Sequence[CopiedTime]]:
    """Return what a leader answers: records and append times."""
    offset = follower.log_end
    plan, report = leader.read_plan(offset, max_bytes, leader.log_end), leader.read_report(offset, with_time=False)
    data = plan.read() if isinstance(plan, Slice) else plan.read(report)
    position = plan.position_bytes if isinstance(plan, Slice) else report.position_bytes
    begins = follower.log_end == follower.log_start
    copied = leader.append_times.between(offset, position, len(data), with_floor=begins)
    return bytes(data), copied.run() if isinstance(copied, AppendTimesBetween) else copied


def catch_up(follower: PartitionLog, leader: PartitionLog, max_bytes: int = 1 << 20) -> None:
    """Fetch until the follower has everything."""
    while follower.log_end < leader.log_end:
        data, copied = sent(leader, follower, max_bytes)
        follower.append_as_follower(data, copied)
        follower.check_invariants()


def test_a_follower_has_its_leaders_entries_hours_later() -> None:
    """Guards: the clock of a follower that catches up says when it caught up, not when the records came."""
    leader = led([0, 100, 300, 301, 900, 100_000])
    follower = new_log(LARGE)
    catch_up(follower, leader)

    assert times(follower) == times(leader) == {0: 0, 2: 300, 4: 900, 5: 100_000}
    assert gaps(follower) == []


def test_only_entries_of_the_records_are_sent() -> None:
    """Most fetches at the end of the log have none."""
    leader = led([0, 100, 300, 301])
    follower = new_log(LARGE)
    size_bytes = leader.size_bytes // 4

    assert sent(leader, follower, size_bytes)[1] == [(0, BEGAN_MS)]
    follower.append_as_follower(*sent(leader, follower, size_bytes))
    assert list(sent(leader, follower, size_bytes)[1]) == []
    assert sent(leader, follower, 2 * size_bytes)[1] == [(2, BEGAN_MS + 300)]
    catch_up(follower, leader)
    append(leader, append_ms=BEGAN_MS + 302)
    assert list(sent(leader, follower, size_bytes)[1]) == []


def test_a_log_that_begins_in_the_middle_knows_when() -> None:
    """Guards: an empty replica begins with a batch that has no entry, and knew nothing of the records up to the next.

    It gets the entry before; its first batch came less than a step later.
    """
    leader = led([0, 300, 400, 450, 800])
    follower = new_log(LARGE)
    follower.restart_at(Offset(3))
    catch_up(follower, leader)

    assert times(follower) == {3: 300, 4: 800}


def test_segments_of_a_follower_that_begin_elsewhere_have_entries() -> None:
    """Guards: a segment whose first batch has no entry said nothing of its batches up to the next one."""
    leader = led(range(0, 2_000, 50))
    follower = new_log(SMALL)
    catch_up(follower, leader)
    found = times(follower)

    assert [each.base_offset for each in follower.segments] == [0, 10, 20, 30]
    assert found.items() >= times(leader).items()
    for offset in range(40):
        entry = known(follower, offset)
        assert entry is not None
        assert 0 <= BEGAN_MS + 50 * offset - entry.entry.append_ms < STEP_MS


def test_entries_that_are_only_in_files_are_sent_too() -> None:
    """A new replica of an old log gets its times from finished segments, and from the early part of a long one."""
    for log_settings, count in ((SMALL, 60), (LARGE, 3 * RECENT_MAX)):
        disk = RecordingDisk()
        leader = open_directory(disk, log_settings).create(KEY, TOPIC_ID, log_settings)
        for number in range(count):
            append(leader, append_ms=BEGAN_MS + STEP_MS * number)
            if number % 20 == 0:
                leader.append_times.save()
                disk.pump()
        assert isinstance(leader.append_times.between(0, 0, 100, with_floor=False), AppendTimesBetween)
        follower = new_log(LARGE)
        catch_up(follower, leader, 30_000)

        recent = follower.segments[0].append_times.recent
        assert recent is not None
        assert len(recent) <= 2 * RECENT_MAX
        for offset in {0, 1, 59, count // 2, count - 1}:
            found = known(follower, offset)
            assert found is not None
            assert (found.entry.offset, found.entry.append_ms) == (offset, BEGAN_MS + STEP_MS * offset)


def test_a_stretch_of_a_file_has_the_entries_of_its_batches() -> None:
    """From its first batch up to the end, and the entry before if that is wanted."""
    disk = RecordingDisk()
    leader = open_directory(disk, LARGE).create(KEY, TOPIC_ID, LARGE)
    for number in range(1_000):
        append(leader, append_ms=BEGAN_MS + (STEP_MS // 2) * number)
    leader.append_times.save()
    leader.roll()
    disk.pump()
    size_bytes = leader.size_bytes // 1_000
    kept = leader.segments[0].append_times
    for start, end in ((0, 1), (0, 2), (1, 2), (1, 3), (629, 632), (630, 631), (10, 1_000), (998, 1_000), (0, 1_000)):
        for with_floor in (False, True):
            here = kept.between(start * size_bytes, end * size_bytes, with_floor=with_floor)
            entries = [each for each in range(start, end) if each % 2 == 0]
            if with_floor and start % 2:
                entries.insert(0, start - 1)
            assert here == [(each, BEGAN_MS + (STEP_MS // 2) * each) for each in entries]
            search = AppendTimesBetween(
                disk,
                leader.segments[0].path(".appendtimes"),
                leader.segments[0].path(),
                0,
                start * size_bytes,
                end * size_bytes,
                with_floor=with_floor,
            )
            # Without an entry in the stretch, nothing is sent even of a floor that was wanted for it.
            assert search.run() == here


def test_a_file_of_another_log_is_not_believed() -> None:
    """Its entries name batches that are not there."""
    disk = RecordingDisk()
    leader = open_directory(disk, LARGE).create(KEY, TOPIC_ID, LARGE)
    other = led([0, 1_000, 2_000])
    for number in range(3):
        append(leader, append_ms=BEGAN_MS + 7_000 * number, value=b"other")
    leader.append_times.save()
    other.append_times.save()
    path = leader.segments[0].path(".appendtimes")
    search = AppendTimesBetween(disk, path, leader.segments[0].path(), 0, 0, leader.size_bytes, with_floor=False)
    assert len(search.run()) == 3
    disk.replace_file(path, other._disk.read_file(other.segments[0].path(".appendtimes")))

    assert search.run() == [(0, ALL_UNKNOWN)]


@pytest.mark.parametrize("is_in_memory", [True, False])
def test_a_segment_that_lost_its_first_entries_makes_a_gap_at_a_follower(is_in_memory: bool) -> None:
    """Guards: a leader that crashed after a roll sent nothing, and a follower took its batches for quick successors.

    It was at the roll, so its next segment would have begun less than 250 ms after its last entry.
    """
    leader = led([0, 300])
    leader.roll()
    follower = new_log(LARGE)
    catch_up(follower, leader)
    follower.roll()
    append(leader, append_ms=BEGAN_MS + 5_000)
    append(leader, append_ms=BEGAN_MS + 9_000)
    kept = leader.segments[1].append_times
    if is_in_memory:
        kept.recent = AppendTimes(2)
    else:
        leader.roll()
        kept.recent = None
    catch_up(follower, leader)

    assert follower.log_end == 4
    assert times(follower) == {0: 0, 1: 300}
    assert known(follower, 2) is None
    assert known(follower, 3) is None


def test_a_reader_in_the_middle_of_a_gap_is_told() -> None:
    """Guards: a gap was sent with its first batch alone, which a follower may have from another leader."""
    leader, follower = led([0]), led([0])
    for number in range(1, 5):
        append(leader, append_ms=BEGAN_MS + 4_000 * number)
    size_bytes = leader.size_bytes // 5
    follower.append_as_follower(*sent(leader, follower, size_bytes))
    recent = leader.segments[0].append_times.recent
    assert recent is not None
    recent.cut(1)
    recent.add_gap(1, size_bytes, 0, 0)
    catch_up(follower, leader, size_bytes)

    assert times(follower) == {0: 0, 1: 4_000}
    assert gaps(follower) == [2]


def test_what_an_answer_names_without_having_it_is_ignored() -> None:
    """A peer may err: entries of records that are not in the answer, or that go back, change nothing."""
    leader = led([0, 1_000, 2_000])
    follower = new_log(LARGE)
    data, copied = sent(leader, follower, 1 << 20)
    strange = [(-1, BEGAN_MS), *copied[:2], (1, BEGAN_MS + 1), (2, BEGAN_MS - 5), (7, BEGAN_MS), (2**40, 0)]
    follower.append_as_follower(data, strange)
    follower.check_invariants()

    # Times never fall.
    assert times(follower) == {0: 0, 1: 1_000, 2: 1_000}


@pytest.mark.parametrize("is_clean", [True, False])
def test_a_leader_whose_times_are_lost_makes_a_gap_at_its_follower(is_clean: bool) -> None:
    """Guards: without it, records behind the last entry would count as less than 250 ms later."""
    disk = RecordingDisk()
    directory = open_directory(disk, LARGE)
    follower = directory.create(KEY, TOPIC_ID, LARGE)
    leader = led([0, 1_000])
    catch_up(follower, leader)
    recent = leader.segments[0].append_times.recent
    assert recent is not None
    recent.lose()
    for number in range(3):
        append(leader, append_ms=BEGAN_MS + 60_000 * number)
        catch_up(follower, leader)
    follower.append_times.save()
    follower = start_again(disk, directory, LARGE, is_clean=is_clean)

    assert times(follower) == {0: 0, 1: 1_000}
    assert gaps(follower) == [2]
    found = known(follower, 4)
    assert found is not None
    assert (found.entry.floor_ms, found.next_ms) == (BEGAN_MS + 1_000, -1)


def test_a_segment_that_begins_where_its_leader_has_lost_the_times_has_none() -> None:
    """Guards: its first batch counted as less than a step after the segment before."""
    leader, follower = led([0, 1_000]), new_log(LARGE)
    catch_up(follower, leader)
    recent = leader.segments[0].append_times.recent
    assert recent is not None
    recent.lose()
    follower.roll()
    append(leader, append_ms=BEGAN_MS + 60_000)
    catch_up(follower, leader)

    assert follower.segment_count == 2
    assert known(follower, 2) is None


def test_entries_that_were_not_saved_in_a_crash_leave_a_gap() -> None:
    """Guards: after a crash, the records of the last seconds counted as less than 250 ms after the last saved entry.

    The gap lasts over further starts, and ends with the next batch.
    """
    disk = RecordingDisk()
    directory = open_directory(disk, LARGE)
    log = directory.create(KEY, TOPIC_ID, LARGE)
    for append_ms in (0, 1_000, 2_000, 3_000, 3_001):
        append(log, append_ms=BEGAN_MS + append_ms)
        if append_ms == 1_000:
            log.append_times.save()
    directory.abandon()
    directory = open_directory(disk, LARGE)
    log = directory.logs[KEY]
    append(log, append_ms=BEGAN_MS + 9_000)
    append(log, append_ms=BEGAN_MS + 9_001)
    log.check_invariants()
    log.append_times.save()
    for is_clean in (False, True):
        found = known(log, 4)
        assert found is not None
        assert found.entry.is_gap
        assert (found.entry.offset, found.entry.floor_ms, found.next_ms) == (2, BEGAN_MS + 1_000, BEGAN_MS + 9_000)
        assert times(log) == {0: 0, 1: 1_000, 5: 9_000}
        directory.close(1) if is_clean else directory.abandon()
        directory = open_directory(disk, LARGE)
        log = directory.logs[KEY]


def test_a_gap_is_sent_to_followers() -> None:
    """They know no more than their leader."""
    disk = RecordingDisk()
    directory = open_directory(disk, LARGE)
    leader = directory.create(KEY, TOPIC_ID, LARGE)
    for append_ms in (0, 1_000, 2_000):
        append(leader, append_ms=BEGAN_MS + append_ms)
        if append_ms == 1_000:
            leader.append_times.save()
    leader = start_again(disk, directory, LARGE, is_clean=False)
    append(leader, append_ms=BEGAN_MS + 9_000)
    follower = new_log(LARGE)
    catch_up(follower, leader)

    assert gaps(follower) == gaps(leader) == [2]
    assert times(follower) == times(leader) == {0: 0, 1: 1_000, 3: 9_000}


def test_an_unknown_beginning_is_no_gap() -> None:
    """Before the first entry of a log nothing is known anyway."""
    leader = led([0])
    follower = new_log(LARGE)
    data, _ = sent(leader, follower, 1 << 20)
    follower.append_as_follower(data, [(0, ALL_UNKNOWN)])

    assert times(follower) == {}
    assert gaps(follower) == []


def test_times_after_a_cut_are_those_of_the_new_leader() -> None:
    """Guards: with the latest time of what was cut off, the entries of a leader whose clock is behind were changed."""
    old = led([0, 1_000, 90_000])
    follower = new_log(LARGE)
    catch_up(follower, old)
    truncate_to(follower, Offset(2))
    leader = led([0, 1_000])
    append(leader, leader_epoch=1, append_ms=BEGAN_MS + 50_000)
    catch_up(follower, leader)

    assert times(follower) == times(leader) == {0: 0, 1: 1_000, 2: 50_000}


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.integers(1, 900), min_size=1, max_size=60),
    st.integers(80, 2_000),
    st.sampled_from([SMALL, LARGE]),
    st.sampled_from([SMALL, LARGE, replace(SMALL, segment_bytes=500)]),
    st.integers(0, 40),
    st.randoms(use_true_random=False),
)
def test_followers_know_what_their_leader_knows(
    pauses: list[int], max_bytes: int, leads: LogSettings, follows: LogSettings, begins_at: int, rng: random.Random
) -> None:
    """However appends, fetches and segments fall: every entry of the leader, and each batch less than a step away."""
    leader, follower = new_log(leads), new_log(follows)
    came: list[int] = []
    now_ms = BEGAN_MS
    if begins_at < len(pauses):
        follower.restart_at(Offset(begins_at))
    for pause_ms in pauses:
        now_ms += pause_ms
        came.append(now_ms)
        append(leader, append_ms=now_ms)
        if rng.random() < 0.5 and leader.log_end > follower.log_end:
            follower.append_as_follower(*sent(leader, follower, max_bytes))
            follower.check_invariants()
        if rng.random() < 0.3:
            leader.append_times.save()
    catch_up(follower, leader, max_bytes)

    first = follower.log_start
    theirs = {offset: append_ms for offset, append_ms in times(leader).items() if offset >= first}
    assert times(follower).items() >= theirs.items()
    assert gaps(follower) == []
    for offset in range(first, len(came)):
        found = known(follower, offset)
        assert found is not None
        assert found.entry.append_ms <= came[offset] < found.entry.append_ms + STEP_MS or offset == found.entry.offset


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.integers(1, 900), min_size=2, max_size=60),
    st.integers(0, 59),
    st.sampled_from([SMALL, LARGE]),
    st.integers(1, 7),
)
def test_what_a_crash_lost_is_put_back_from_the_leader(
    pauses: list[int], saved_at: int, leads: LogSettings, more: int
) -> None:
    """Whatever was saved, and whatever came since: then the follower has the leader's entries, and no gap."""
    leader, disk = new_log(leads), RecordingDisk()
    directory = open_directory(disk, LARGE)
    follower = directory.create(KEY, TOPIC_ID, LARGE)
    now_ms = BEGAN_MS
    for number, pause_ms in enumerate(pauses):
        now_ms += pause_ms
        append(leader, append_ms=now_ms)
        leader.append_times.save()
        catch_up(follower, leader)
        if number == saved_at:
            follower.append_times.save()
    follower = start_again(disk, directory, LARGE, is_clean=False)
    gap = follower.append_times.missing()
    for _ in range(more):
        now_ms += 100
        append(leader, append_ms=now_ms)
        catch_up(follower, leader)
    if gap is not None:
        parts = leader.append_times.known_between(gap.start, gap.end)
        copied = [each for part in parts for each in (part if isinstance(part, list) else part.run())]
        located = follower.append_times.locate([each for each in copied if each[0] >= gap.start])
        assert located is not None
        assert copied[0][0] <= gap.start
        assert follower.append_times.fill(gap, located)
        assert follower.append_times.missing() is None
        follower.append_times.save()
    follower.check_invariants()
    there = times(follower)

    assert there == {offset: ms for offset, ms in times(leader).items() if gap is not None or offset in there}
    assert gap is None or gaps(follower) == []


def test_a_gap_stays_if_the_log_was_cut_meanwhile() -> None:
    """The places of its batches were those of before."""
    disk = RecordingDisk()
    directory = open_directory(disk, LARGE)
    log = directory.create(KEY, TOPIC_ID, LARGE)
    for number in range(6):
        append(log, append_ms=BEGAN_MS + 1_000 * number)
        if number == 1:
            log.append_times.save()
    log = start_again(disk, directory, LARGE, is_clean=False)
    gap = log.append_times.missing()
    assert gap is not None
    assert (gap.start, gap.end) == (2, 6)
    located = log.append_times.locate([(2, BEGAN_MS + 2_000), (5, BEGAN_MS + 5_000)])
    assert located is not None
    truncate_to(log, Offset(4))

    assert not log.append_times.fill(gap, located)
    assert gaps(log) == [2]
