"""The rate of a move with a deadline, in a simulated copy."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from syncline.reassign.control import Pace, Passing, Range, for_deadline
from syncline.reassign.formulas import Load, Part, Role

MB = 1_000_000
PART = Part(3, Role.RECEIVING)
ANY = Range(1, 10**12)


def run_to_deadline(
    total: int,
    time_s: int,
    keep_up: float,
    efficiency: float,
    *,
    highest: int = 10**12,
    noise: float = 0.0,
    seed: int = 0,
) -> tuple[float, list[int]]:
    """Copy at the controlled rate, of which only a part passes; return when it ended, and the rates of each second.

    Each tenth of a second passes; the rate is computed anew each second; a replica joins 0.5 s after its last byte.
    """
    rng = random.Random(seed)
    remaining = float(total)
    rates: list[int] = []
    rate = 0
    passing = Passing()
    for tick in range(time_s * 30):
        if tick % 10 == 0:
            parts = {PART: Load(round(remaining), keep_up)}
            passing = passing.seen(tick * 100, parts, rate)
            chosen = for_deadline(
                parts,
                now_ms=tick * 100,
                deadline_ms=time_s * 1000,
                allowed=ANY,
                rate_bytes_per_s=rate,
                passing=passing,
            )
            rate = chosen.rate_bytes_per_s
            rates.append(rate)
        passed = rate * efficiency * (1 + noise * rng.uniform(-1, 1)) - keep_up
        remaining -= passed / 10
        if remaining <= 0:
            return (tick + 1) / 10 + 0.5, rates
    return float("inf"), rates


@given(
    st.integers(100 * MB, 10**12),
    st.integers(30, 200),
    st.floats(0, 2),
    st.floats(0.6, 1.1),
    st.floats(0, 0.3),
    st.integers(0, 1 << 30),
)
@settings(max_examples=40)
def test_move_ends_at_its_deadline_though_the_rate_is_not_what_passes(
    total: int, time_s: int, keep_up: float, efficiency: float, noise: float, seed: int
) -> None:
    """Within a tenth, with 60 to 110 % of the rate passing, in bursts, and up to twice as much written as is copied."""
    ended_s, _ = run_to_deadline(total, time_s, keep_up * total / time_s, efficiency, noise=noise, seed=seed)

    assert 0.9 * time_s <= ended_s <= 1.1 * time_s


def test_rate_stays_if_all_goes_as_computed() -> None:
    """95 MB in 11 s, of which 1.5 are for joining: 10 MB/s from the first second to the last but one."""
    _, rates = run_to_deadline(95 * MB, 11, 0.0, 1.0)

    assert all(rate == pytest.approx(10 * MB, rel=0.01) for rate in rates[:8])


def test_deadline_that_cannot_be_kept_is_said_at_once() -> None:
    """The highest rate is used, and the one that would be needed is named."""
    chosen = for_deadline(
        {PART: Load(100 * MB, 2e6)}, now_ms=0, deadline_ms=11_500, allowed=Range(1, 5 * MB), rate_bytes_per_s=5 * MB
    )

    assert (chosen.rate_bytes_per_s, chosen.pace) == (5 * MB, Pace.AT_HIGHEST)
    assert chosen.needed_bytes_per_s == pytest.approx(12.2e6)


def test_part_that_needs_most_decides() -> None:
    """Broker 3 copies less than broker 1 sends, and keeps up with more."""
    parts = {Part(1, Role.SENDING): Load(40 * MB, 1e6), PART: Load(30 * MB, 4e6)}

    chosen = for_deadline(parts, now_ms=0, deadline_ms=11_500, allowed=ANY)

    assert chosen.rate_bytes_per_s == 7_400_000
    assert chosen.pace is Pace.RAISED


def test_replica_that_has_everything_still_keeps_up_until_it_is_in_sync() -> None:
    """A rate below what is written would leave it behind at the last moment."""
    chosen = for_deadline({PART: Load(0, 3e6)}, now_ms=0, deadline_ms=60_000, allowed=ANY, rate_bytes_per_s=9 * MB)

    assert chosen.rate_bytes_per_s == pytest.approx(3.3e6)


def test_after_the_deadline_the_rest_goes_within_a_second() -> None:
    """It is not divided by nothing."""
    late = for_deadline({PART: Load(MB, 0.0)}, now_ms=99_000, deadline_ms=11_000, allowed=ANY)
    done = for_deadline({}, now_ms=99_000, deadline_ms=11_000, allowed=Range(5, 10), rate_bytes_per_s=5)

    assert late.rate_bytes_per_s == MB
    assert (done.rate_bytes_per_s, done.pace) == (5, Pace.STEADY)


def test_rate_is_raised_by_what_does_not_pass_of_the_part_that_needs_most() -> None:
    """Of 8 MB/s the sender gets half; the receiver waits for it, and gets a quarter, which raises nothing."""
    passing = Passing()
    for second in range(20):
        parts = {Part(1, Role.SENDING): Load((200 - 3 * second) * MB, 1e6), PART: Load((60 - second) * MB, 1e6)}
        passing = passing.seen(second * 1000, parts, 8 * MB)
    left = Load(143 * MB, 1e6)
    chosen = for_deadline(
        {Part(1, Role.SENDING): left, PART: Load(41 * MB, 1e6)},
        now_ms=20_000,
        deadline_ms=20_000 + 14_300 + 1_500,
        allowed=ANY,
        passing=passing,
    )

    assert passing.of(Part(1, Role.SENDING)) == pytest.approx(0.5, abs=0.01)
    assert chosen.rate_bytes_per_s == pytest.approx(11.1e6 / 0.5, rel=0.01)


def test_copy_that_is_held_up_by_its_disk_does_not_raise_the_rate_without_bound() -> None:
    """Nothing passes at all: twice what is needed is asked for, no more."""
    passing = Passing()
    for second in range(30):
        passing = passing.seen(second * 1000, {PART: Load(MB, 0)}, MB)

    assert passing.of(PART) == 0.5
    assert passing.of(Part(9, Role.SENDING)) == 1.0
