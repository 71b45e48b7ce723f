"""When a move ends, in simulated moves."""

import math

import pytest

from syncline.reassign.eta import Ends, Eta
from syncline.reassign.formulas import Load, Part, Role

MB = 1_000_000
SENDING, TO_2, TO_3 = Part(1, Role.SENDING), Part(2, Role.RECEIVING), Part(3, Role.RECEIVING)


def test_speed_is_the_decrease_of_what_remains() -> None:
    """From 122.4 to 120 GB in a minute: 40 MB/s, 3,000 s left."""
    eta = Eta().seen(0, 122_400_000_000).seen(60_000, 120_000_000_000)

    assert eta.left_s == pytest.approx(3_000)


def test_answer_is_unknown_for_two_windows() -> None:
    """A throttle lets the first response through at once, so the first seconds prove nothing."""
    eta = Eta().seen(0, 100).seen(21_999, 90)

    assert not eta.is_known
    assert eta.left_s is None
    assert eta.seen(22_000, 90).is_known


def test_move_that_does_not_progress_is_stalled() -> None:
    """It is not said to end, and what is done is not stalled."""
    eta = Eta().seen(0, 100).seen(30_000, 110)

    assert eta.is_stalled
    assert eta.left_s is None
    assert not Eta().seen(0, 0).is_stalled
    assert Eta().seen(0, 0).left_s == 0


@pytest.mark.parametrize("burst_s", [0.5, 3.5], ids=["smooth", "in-bursts"])
def test_t58_answer_is_near_the_truth_at_every_quarter(burst_s: float) -> None:
    """60 MB at 3 MB/s from one broker to two, as T-26, also in the bursts of Kafka's throttle.

    At 25, 50 and 75 % the answer is within a fifth of the truth; a doubled throttle shows within 15 s.
    """
    quota = 3e6
    total = 60_000_000
    load = Load(total, 0.0)
    eta = Eta().predicted(quota).seen(0, total)
    shown = {}
    now_ms = 0
    while eta.remaining_bytes > 0:
        now_ms += 500
        # What passes comes in bursts, each of what the throttle allows until the next.
        passed = math.floor(now_ms / 1000 / burst_s) * burst_s * quota
        eta = eta.seen(now_ms, max(total - int(passed), 0))
        shown[now_ms] = eta.left_s
    assert load.time_s(quota) * 1000 == pytest.approx(now_ms, abs=burst_s * 1000)
    for quarter in (0.25, 0.5, 0.75):
        at_ms = round(now_ms * quarter / 500) * 500
        assert shown[at_ms] == pytest.approx((now_ms - at_ms) / 1000, rel=0.2, abs=burst_s)


def test_t58_doubled_throttle_shows_at_once() -> None:
    """The speed is computed anew, and measured from there on."""
    eta = Eta().predicted(3e6).seen(0, 600_000_000)
    for second in range(1, 51):
        eta = eta.seen(second * 1000, 600_000_000 - second * 3_000_000)
    eta = eta.predicted(6e6)
    for second in range(1, 16):
        eta = eta.seen(50_000 + second * 1000, 450_000_000 - second * 6_000_000)

        assert eta.left_s == pytest.approx((450 - second * 6) / 6, rel=0.2)


def test_speed_that_was_computed_wrong_gives_way_to_the_measured_one() -> None:
    """A disk that carries only a third of the throttle is noticed within two half-lives."""
    eta = Eta().predicted(30e6).seen(0, 10**10)
    for second in range(1, 91):
        eta = eta.seen(second * 1000, 10**10 - second * 10_000_000)

    assert eta.left_s == pytest.approx(eta.remaining_bytes / 1e7, rel=0.25)


def test_changed_throttle_keeps_what_is_known_of_the_copy() -> None:
    """A disk that carries half of the throttle; after ten changes by a tenth the answer is still the measured one."""
    eta = Eta(half_life_ms=5_000).predicted(20e6).seen(0, 10**10)
    left = 10**10
    for second in range(1, 61):
        left -= 10 * MB
        eta = eta.seen(second * 1000, left)
        if second % 6 == 0:
            eta = eta.predicted(20e6 * (1.1 if second % 12 else 1.0))

    assert eta.left_s == pytest.approx(left / 1e7, rel=0.15)


def test_throttle_that_bound_nothing_promises_no_more_than_it_allows() -> None:
    """Faster than computed was a burst: half of the throttle is half of what was computed at most."""
    eta = Eta(half_life_ms=100).predicted(10e6).seen(0, 10**9).seen(1_000, 10**9 - 30 * MB)

    assert eta.predicted(5e6).left_s == pytest.approx((10**9 - 30 * MB) / 5e6)
    assert eta.predicted(0.0).left_s is None


def test_move_ends_with_its_last_part_and_parts_that_are_over_hold_up_nothing() -> None:
    """Broker 2 gets 10 MB and 3 gets 50; when broker 2 has everything, only the others count."""
    quotas = {SENDING: 3e6, TO_2: 3e6, TO_3: 3e6}
    ends = Ends().seen(0, {SENDING: Load(60 * MB, 0), TO_2: Load(10 * MB, 0), TO_3: Load(50 * MB, 0)}, quotas)
    assert ends.left_s == pytest.approx(20)
    ends = ends.seen(7_000, {SENDING: Load(40 * MB, 0), TO_3: Load(40 * MB, 0)}, quotas)

    assert ends.left_s == pytest.approx(40 / 3, rel=0.1)
    assert ends.left_of((SENDING, TO_2))[TO_2] is None
    assert Ends().left_s is None


def test_keep_up_traffic_that_is_measured_late_is_taken_off_at_once() -> None:
    """The first look knows no growth; with the second the speed is computed anew, not awaited."""
    ends = Ends().seen(0, {TO_2: Load(30 * MB, 0)}, {TO_2: 3e6})
    assert ends.left_s == pytest.approx(10)
    ends = ends.seen(1_000, {TO_2: Load(28_500_000, 1.5e6)}, {TO_2: 3e6})

    assert ends.left_s == pytest.approx(19, rel=0.05)
