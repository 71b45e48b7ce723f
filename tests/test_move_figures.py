"""The figures of `make bench-moves`, and what it says of a promise that is not kept."""

from dataclasses import replace

import pytest

from benchmarks.moves import PARTS
from benchmarks.moves_outcome import Bounded, Plan, Said, Timed, p99_ms, unkept
from benchmarks.pages import PAGE

PLAN = Plan(4, (1,), (2, 3), 40, load_kb_s=500, deadline_s=30)
IMPOSSIBLE = Plan(4, (1,), (2,), 40, deadline_s=30, reason="needs 1.4")
QUIET = [1.0] * 2_000


@pytest.mark.parametrize(
    ("outcome", "sentence"),
    [
        (Timed(PLAN, 27.1), ""),
        (Timed(PLAN, 32.9), ""),
        (Timed(PLAN, 33.4), "it took 33.4 s"),
        (Timed(PLAN, 26.0), "it took 26.0 s"),
        (Timed(PLAN, 30.0, is_complete=False), "the move did not complete"),
        (Timed(PLAN, 1.0, "no rate suits"), "refused: no rate suits"),
        (Timed(IMPOSSIBLE, 1.0, "sending on broker 1 needs 1.43 MB/s, and"), ""),
        (Timed(IMPOSSIBLE, 1.0, "no broker answers"), "the reason is 'needs 1.4'"),
        (Timed(IMPOSSIBLE, 30.0), "the reason is 'needs 1.4'"),
    ],
)
def test_deadline_is_kept_within_a_tenth_or_refused_for_the_true_reason(outcome: Timed, sentence: str) -> None:
    """Early is as wrong as late, and a move that should have been refused is wrong even if it was in time."""
    said = list(outcome.unmet())

    assert len(said) == bool(sentence)
    assert all(sentence in each for each in said)
    assert outcome.row().count("|") == Timed.HEADINGS.splitlines()[0].count("|")


def test_percentile_is_the_median_of_windows() -> None:
    """One window of three with a pause does not count; two do."""
    window, paused = [1.0] * 989 + [2.0] * 11, [1.0] * 900 + [50.0] * 100

    assert p99_ms(window) == 2.0
    assert p99_ms([*window, *paused, *window]) == 2.0
    assert p99_ms([*window, *paused, *paused]) == 50.0


def test_nine_moves_of_ten_keep_the_bound() -> None:
    """Nine per cent is kept, eleven is not."""
    kept, broken = (Bounded(PLAN, QUIET, [wait] * 2_000, QUIET, 20, 40) for wait in (1.09, 1.11))

    assert list(unkept([kept] * 9 + [broken])) == []
    assert list(unkept([kept] * 8 + [broken] * 2)) == ["8 of 10 moves kept clients within 10 %, fewer than nine of ten"]
    assert broken.row().count("|") == Bounded.HEADINGS.splitlines()[0].count("|")


def test_move_is_compared_with_what_was_before_and_after_it() -> None:
    """What clients wait drifts: during the move it is between the two, which is no impact."""
    drifted = Bounded(PLAN, [1.0] * 2_000, [1.2] * 4_000, [1.4] * 2_000, 20, 40)

    assert drifted.is_kept
    assert not replace(drifted, after_ms=[1.0] * 2_000).is_kept


def test_what_was_said_of_the_end_is_compared_with_it() -> None:
    """At the quarters, or from 15 s after the doubling; the last three seconds are as good as over."""
    true = [(float(at), 40.0 - at) for at in range(40)]
    wrong = [(at, left * (1.3 if 9 <= at <= 11 else 1.0)) for at, left in true]

    assert list(Said(true, 40.0).unmet()) == []
    assert list(Said(wrong, 40.0).unmet()) == ["the end that `reassign status` announced was off by 30 % at 25 %"]
    assert list(Said(wrong, 40.0, doubled_s=8.0).unmet()) == []
    assert len(list(Said([], 40.0, doubled_s=8.0).unmet())) == 1


def test_page_has_a_place_for_the_tables() -> None:
    """Each once."""
    text = PAGE.read_text(encoding="utf-8")

    counts = [text.count(f"<!-- {begin}moves: {name} -->") for name in PARTS for begin in ("", "end of ")]
    assert counts == [1] * 2 * len(PARTS)
