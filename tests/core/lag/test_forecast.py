"""The race of a group against retention: when it has caught up, and what is deleted before."""

from math import inf, isinf

import pytest

from syncline.core.lag.commit_slab import CommitSlab
from syncline.core.lag.forecast import (
    USUAL_MS,
    Rate,
    catch_up_s,
    loses_data,
    rate_to_save,
    reading_s,
    retention_margin_s,
    smoothed,
)
from tests.core.lag.positions import BEGAN_MS, ends, place

GB = 10**9


def test_l17_group_catches_up_by_as_much_as_it_is_faster() -> None:
    """1,200,000 behind, 5,000 against 3,000 per second: 10 min. At 2,900 never."""
    assert catch_up_s(1_200_000, 5_000, 3_000) == 600
    assert catch_up_s(1_200_000, 2_900, 3_000) == inf
    assert catch_up_s(1_200_000, 3_000, 3_000) == inf
    assert catch_up_s(0, 0, 3_000) == 0
    assert catch_up_s(1_200_000, None, 3_000) is None


def test_l17_speeds_measured_at_ticks_give_the_same_within_a_tenth() -> None:
    """Commits come each 5 s and ticks each 30 s, so a tick sees one commit more or less."""
    slab, produced = CommitSlab(), Rate()
    slot = slab.slot("t", 0)
    for second in range(0, 600, 5):
        slab.add(slot, 5_000 * second, second * 1_000, 10**9)
        if second % 30 == 10:
            slab.tick(slot, 30_000)
            produced.seen(2_000_000 + 3_000 * second, second * 1_000)
    lag = 1_200_000

    assert catch_up_s(lag, slab.rate_per_s(slot), produced.per_s) == pytest.approx(600, rel=0.1)


def test_rate_follows_a_change_within_minutes_and_forgets_over_a_silence() -> None:
    """From 100 to 1,000 per second; five minutes without a tick begin anew."""
    rate = Rate()
    for tick in range(5):
        rate.seen(3_000 * tick, 30_000 * tick)
    steady = rate.per_s
    for tick in range(1, 5):
        rate.seen(12_000 + 30_000 * tick, 120_000 + 30_000 * tick)
    faster = rate.per_s
    rate.seen(132_000 + 3_000, 540_000)

    assert steady == pytest.approx(100)
    assert faster == pytest.approx(1_000, rel=0.05)
    assert rate.per_s == pytest.approx(10)


def test_rate_comes_nearer_by_the_part_that_its_time_constant_says() -> None:
    """After 30 s, all but 1/e of the way; a group that stands still has a rate that goes to 0, and is not unknown."""
    assert smoothed(100.0, 30_000, 30_000) == pytest.approx(1_000 - 900 / 2.71828, rel=1e-5)
    assert smoothed(100.0, 0, 30_000) == pytest.approx(100 / 2.71828, rel=1e-5)
    assert smoothed(None, 0, 30_000) == 0
    assert catch_up_s(10, smoothed(None, 0, 30_000), 0.0) == inf


def test_tick_that_is_not_later_changes_nothing() -> None:
    """Two refreshes within a millisecond."""
    rate = Rate()
    rate.seen(100, 1_000)
    rate.seen(900, 1_000)
    rate.seen(500, 900)
    rate.seen(300, 2_000)

    assert rate.per_s == 200


def test_usual_rate_is_not_moved_by_a_burst() -> None:
    """Ten minutes at 100 per second, then one at 1,000: three times the usual rate and more."""
    now, usual = Rate(), Rate(USUAL_MS)
    for rate in (now, usual):
        for tick in range(21):
            rate.seen(3_000 * tick, 30_000 * tick)
        for tick in (1, 2):
            rate.seen(60_000 + 30_000 * tick, 600_000 + 30_000 * tick)
    assert now.per_s is not None
    assert usual.per_s is not None

    assert now.per_s > 850
    assert usual.per_s < 200


def test_step_back_is_no_speed() -> None:
    """A group that starts over has no speed until the next tick but one; the same holds for a log that was cut."""
    slab, rate = CommitSlab(), Rate()
    slot, speeds = slab.slot("t", 0), []
    for tick, offset in enumerate((1_000, 4_000, 7_000, 0, 3_000)):
        slab.add(slot, offset, 30_000 * tick, 10_000)
        slab.tick(slot, 30_000)
        rate.seen(offset, 30_000 * tick)
        speeds.append((slab.rate_per_s(slot), rate.per_s))

    assert speeds == [(None, None), (100, 100), (100, 100), (None, None), (100, 100)]
    assert smoothed(50.0, 10, 0) == 50.0


def test_slab_measures_offsets_beyond_32_bits() -> None:
    """Of the offset at the last tick only the low half is kept."""
    slab = CommitSlab()
    slot = slab.slot("t", 0)
    for tick, offset in enumerate((2**33 - 500, 2**33 + 2_500)):
        slab.add(slot, offset, 30_000 * tick, 2**34)
        slab.tick(slot, 30_000)

    assert slab.rate_per_s(slot) == 100


def test_l18_retention_by_size_reaches_a_group_before_it_has_caught_up() -> None:
    """10 GB are kept, 8.2 GB lie behind the segment of the commit, 2 MB/s are written: 900 s."""
    log = ends(end_bytes=20 * GB, watermark_bytes=20 * GB, retention_bytes=10 * GB, written_bytes_per_s=2e6)
    at = place(500, segment_end_bytes=20 * GB - 8_200_000_000)

    margin_s = retention_margin_s(at, log, log.at_ms)

    assert margin_s == 900
    assert loses_data(margin_s, 1_200, 480)
    assert loses_data(margin_s, inf, inf)
    assert not loses_data(margin_s, 600, 240)
    assert rate_to_save(1_200_000, margin_s, 3_000) == pytest.approx(4_333, abs=1)


@pytest.mark.parametrize(
    ("log", "at", "margin_s"),
    [
        pytest.param({}, {}, inf, id="no limits"),
        pytest.param({"retention_ms": 1}, {"kept_until_ms": BEGAN_MS + 1_060_000}, 61.0, id="by time"),
        pytest.param({"retention_ms": 1}, {"kept_until_ms": BEGAN_MS}, -999.0, id="time is over"),
        pytest.param({"retention_ms": -1}, {"kept_until_ms": BEGAN_MS}, inf, id="a limit that was lifted since"),
        pytest.param({"retention_bytes": 70_000}, {}, 201.0, id="by size"),
        pytest.param({"retention_bytes": 40_000}, {}, 0.0, id="newer segments fill the limit"),
        pytest.param({"retention_bytes": 0, "written_bytes_per_s": 0.0}, {}, 0.0, id="nothing is kept, by size"),
        pytest.param({"retention_ms": 0}, {"kept_until_ms": BEGAN_MS + 1_000_000}, 1.0, id="nothing is kept, by time"),
        pytest.param(
            {"retention_bytes": 49_900, "written_bytes_per_s": 0.0}, {}, 0.0, id="exactly full, and nobody writes"
        ),
        pytest.param({"retention_bytes": 70_000, "written_bytes_per_s": 0.0}, {}, inf, id="nobody writes"),
        pytest.param(
            {"retention_ms": 1, "retention_bytes": 70_000},
            {"kept_until_ms": BEGAN_MS + 1_060_000},
            61.0,
            id="the smaller of both",
        ),
    ],
)
def test_margin_is_that_of_the_rule_which_deletes_first(log: dict, at: dict, margin_s: float) -> None:
    """A record in the middle of a log of 100 kB that grows by 100 bytes per second."""
    found = retention_margin_s(place(500, **at), ends(**log), BEGAN_MS + 999_000)

    assert found == margin_s or (isinf(found) and isinf(margin_s))


@pytest.mark.parametrize(
    ("lag", "consumed_per_s", "produced_per_s", "margin_s", "is_lost"),
    [
        pytest.param(5_000, 990, 1_000, 604_800, False, id="momentarily-slower-and-retention-is-a-week-away"),
        pytest.param(5_000, 0, 1_000, 604_800, False, id="stands-still-and-retention-is-a-week-away"),
        pytest.param(5_000, 0, 1_000, 1_800, True, id="stands-still-and-retention-is-half-an-hour-away"),
        pytest.param(5_000, 0, 0, 1_800, True, id="stands-still-like-producers"),
        pytest.param(5_000, 990, 1_000, 600, False, id="a-little-slower-and-five-seconds-behind"),
        pytest.param(5_000, 1_010, 1_000, 400, False, id="a-little-faster-and-five-seconds-behind"),
        pytest.param(300_000, 999, 1_000, 400, False, id="as-fast-as-producers-and-reads-what-is-there-in-time"),
        pytest.param(300_000, 1_001, 1_000, 400, False, id="hardly-faster-and-reads-what-is-there-in-time"),
        pytest.param(300_000, 500, 1_000, 400, True, id="half-as-fast-and-too-late-for-what-is-there"),
        pytest.param(20_000, 1_000, 1_000, 10, True, id="retention-is-even-nearer"),
        pytest.param(2_400_000, 5_000, 3_000, 900, True, id="faster-and-catches-up-too-late"),
    ],
)
def test_alarm_is_about_what_the_speed_of_the_last_minutes_can_say(
    lag: int, consumed_per_s: float, produced_per_s: float, margin_s: float, is_lost: bool
) -> None:
    """Guards: each group that was slower than producers for a moment was said to lose data, whenever that might be."""
    needed_s = catch_up_s(lag, consumed_per_s, produced_per_s)

    assert loses_data(margin_s, needed_s, reading_s(lag, consumed_per_s)) is is_lost


def test_without_a_margin_there_is_no_alarm_and_without_a_speed_only_when_it_is_too_late() -> None:
    """A group that starts has no speed yet."""
    assert not loses_data(None, 600, 240)
    assert not loses_data(inf, inf, inf)
    assert not loses_data(900, None, None)
    assert loses_data(0.0, None, None)
    assert isinf(rate_to_save(10, 0.0, 100))
