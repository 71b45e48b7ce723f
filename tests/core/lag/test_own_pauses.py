"""A coordinator that was stopped itself: what it hears afterwards says little about when it was sent."""

import pytest

from syncline.core.lag.burrow_status import partition_status
from syncline.core.lag.commit_ring import Commit
from syncline.core.lag.own_pauses import BEAT_MS, OwnPauses, Pause
from syncline.model.lag import GroupStatus

# Of a group that commits every 700 ms and is 4,000 records behind, all the time.
ENDS = [4_100 + 35 * number for number in range(10)]
# Stopped from 100 to 107 s, by its own clock.
PAUSE = Pause(100_000, 107_000)


def commits(*at_ms: int) -> list[Commit]:
    """Return a full window of commits, heard at these times."""
    return [Commit(35 * number, number, ms, ms, 4_000) for number, ms in enumerate(at_ms)]


def status(window: list[Commit], now_ms: int) -> GroupStatus:
    """Return what a coordinator says that has had this pause."""
    return partition_status(window, ENDS, now_ms, pauses=[PAUSE]).status


def test_beat_that_is_much_too_late_came_after_a_pause() -> None:
    """A little lateness is that of a busy machine."""
    pauses = OwnPauses()
    for mono_ms in (0, BEAT_MS, 2 * BEAT_MS + 900, 10_000, 11_000):
        pauses.beat(mono_ms, 100_000 + mono_ms)

    assert list(pauses.last) == [Pause(102_900, 110_000)]


def test_commits_that_waited_for_the_coordinator_are_no_burst() -> None:
    """Guards: ten commits of seven seconds were heard within two milliseconds; twelve later the group had stopped."""
    window = commits(*[107_001] * 5, *[107_003] * 5)

    assert status(window, 107_015) is not GroupStatus.STOP
    assert partition_status(window, ENDS, 107_015).status is GroupStatus.STOP


def test_time_of_the_pause_is_no_silence() -> None:
    """What was sent meanwhile is not heard yet."""
    window = commits(*range(93_000, 100_000, 700))

    assert status(window, 107_010) is not GroupStatus.STOP


@pytest.mark.parametrize("now_ms", [114_100, 900_000])
def test_group_that_has_stopped_is_found_out(now_ms: int) -> None:
    """The coordinator only waits as much longer as it was stopped."""
    window = commits(*[107_001] * 5, *[107_003] * 5)

    assert status(window, now_ms) is GroupStatus.STOP


def test_pause_is_forgotten_when_a_window_began_well_after_it() -> None:
    """It is as patient as any coordinator again."""
    window = commits(*range(110_000, 117_000, 700))

    assert status(window, 123_000) is GroupStatus.STOP
