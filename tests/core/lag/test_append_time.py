"""Append times from a sparse index: exact to half a step, whatever the rate."""

import random
from bisect import bisect_right

import pytest

from syncline.core.lag.append_time import STEP_MS, TimeFound, entry_time, staleness_ms, time_found
from syncline.model.ids import Offset


@pytest.mark.parametrize("rate_per_s", [0.1, 3, 40, 2_000])
def test_time_errs_by_half_a_step_at_most(rate_per_s: float) -> None:
    """A batch without an entry came less than a step after its floor entry, and before the next one."""
    draw, now_ms, appended = random.Random(3), 0.0, []
    entries: list[tuple[int, int]] = []
    for offset in range(2_000):
        now_ms += draw.expovariate(rate_per_s / 1_000)
        appended.append(int(now_ms))
        if not entries or int(now_ms) - entries[-1][1] >= STEP_MS:
            entries.append((offset, int(now_ms)))

    errors_ms = []
    for offset, true_ms in enumerate(appended):
        floor = bisect_right(entries, (offset, 1 << 60)) - 1
        behind = entries[floor + 1][1] if floor + 1 < len(entries) else None
        found = time_found(entries[floor][1], behind, is_entry=entries[floor][0] == offset)
        assert not found.is_estimated
        errors_ms.append(abs(found.append_ms - true_ms))

    assert max(errors_ms) <= STEP_MS // 2


def test_time_in_a_gap_is_bounded_by_its_neighbours_and_marked() -> None:
    """Entries were lost in a crash: the batch came at any time between the two that are left."""
    assert time_found(1_000, 9_000, is_entry=False, is_whole=False) == TimeFound(5_000, is_estimated=True)
    assert time_found(1_000, None, is_entry=False, is_whole=False) == TimeFound(1_000, is_estimated=True)
    assert time_found(1_000, 9_000, is_entry=True, is_whole=False) == TimeFound(1_000, is_estimated=False)


def test_l19_wall_clock_that_steps_back_stops_time_and_no_more() -> None:
    """Entries stay in order, and nothing waits for a negative time."""
    times_ms, last_ms = [], 0
    for now_ms in (50_000, 50_250, 40_500, 45_000, 50_500):
        last_ms = entry_time(last_ms, now_ms)
        times_ms.append(last_ms)

    assert times_ms == [50_000, 50_250, 50_250, 50_250, 50_500]
    assert staleness_ms(Offset(3), Offset(5), append_ms=50_250, now_ms=45_000) == 0


def test_l16_record_waits_since_it_was_appended() -> None:
    """All at 1 s, half of them read at 30 s: 29 s, without a single poll."""
    assert staleness_ms(Offset(500), Offset(1_000), append_ms=1_000, now_ms=30_000) == 29_000
    assert staleness_ms(Offset(1_000), Offset(1_000), append_ms=1_000, now_ms=30_000) == 0
