"""The table of the three lag modes side by side."""

import re
from pathlib import Path

import pytest

from syncline.lab import lag_modes

PAGE = (Path(__file__).parents[2] / "docs" / "lag-modes.md").read_text()

# Situation by situation: first eviction and whether it came back, by messages, lag-begin and time.
TABLE = {
    "a tick within the 300 ms": ((15_000, 15_200), None, None),
    "between two ticks": (None, None, None),
    "that never reach the end": (None, (15_000, None), None),
    "a dead follower": ((15_000, None), (15_000, None), None),
    "3,000 behind but fetching": (None, (15_000, None), (15_000, None)),
    "copies 1,000": ((5_000, None), (15_000, None), (15_000, None)),
    "25 s to read": ((15_000, 27_500), (15_000, 27_500), (15_000, 27_500)),
    "(KIP-501)": (None, None, None),
}


@pytest.mark.parametrize("situation", TABLE)
def test_lag_modes_judge_as_the_table_says(situation: str) -> None:
    """Each rule evicts at the expected tick, and readmits the expected followers."""
    (row,) = (row for row in lag_modes.rows() if row.situation.endswith(situation) or situation in row.situation)
    found = tuple(
        None if outcome.evicted_ms is None else (outcome.evicted_ms, outcome.returned_ms)
        for outcome in (row.outcomes[mode] for mode in lag_modes.MODES)
    )

    assert found == TABLE[situation]


def test_lag_modes_table_is_complete() -> None:
    """Every row of the command's table has a test."""
    assert len(lag_modes.rows()) == len(TABLE)


def test_page_shows_the_table_that_the_rules_give() -> None:
    """docs/lag-modes.md has the modes' verdicts in the order of the command's table, cell by cell."""
    table = PAGE.partition("## Side by side")[2].partition("\n- ")[0]
    heads = re.search(r"^\| Situation \|(.*)\|$", table, re.MULTILINE)
    cells = re.findall(r"^\| [^|]+ \| ((?:in|out)\b[^|]*) \| ([^|]+) \| ([^|]+) \|$", table, re.MULTILINE)
    assert heads is not None
    modes = re.findall(r"`(\S+)`", heads[1])

    assert cells == [tuple(str(row.outcomes[mode]) for mode in modes) for row in lag_modes.rows()]
