"""The table of the three lag modes side by side."""

import pytest

from syncline.lab import lag_modes

# Situation by situation: first eviction and whether it came back, by messages, lag-begin and time.
TABLE = {
    "a tick within the 300 ms": ((15_000, 15_200), None, None),
    "between two ticks": (None, None, None),
    "that never reach the end": (None, (15_000, None), None),
    "the follower dead": ((15_000, None), (15_000, None), None),
    "3,000 behind but fetching": (None, (15_000, None), (15_000, None)),
    "takes 1,000": ((5_000, None), (15_000, None), (15_000, None)),
    "25 s to read": ((15_000, 27_500), (15_000, 27_500), (15_000, 27_500)),
    "(KIP-501)": (None, None, None),
}


@pytest.mark.parametrize("situation", TABLE)
def test_lag_modes_judge_as_the_table_says(situation: str) -> None:
    """Each rule evicts where it should, at the tick at which it should, and lets back whom it should."""
    (row,) = (row for row in lag_modes.rows() if row.situation.endswith(situation) or situation in row.situation)
    found = tuple(
        None if outcome.evicted_ms is None else (outcome.evicted_ms, outcome.returned_ms)
        for outcome in (row.outcomes[mode] for mode in lag_modes.MODES)
    )

    assert found == TABLE[situation]


def test_lag_modes_table_is_complete() -> None:
    """Nothing in the command's table is without a test."""
    assert len(lag_modes.rows()) == len(TABLE)


def test_lag_modes_are_told_in_a_word() -> None:
    """A cell is short enough for a terminal."""
    cells = [str(outcome) for row in lag_modes.rows() for outcome in row.outcomes.values()]

    assert {"in", "out at 15 s", "out at 15 s, back after 200 ms"} <= set(cells)
