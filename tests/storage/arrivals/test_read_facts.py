"""How far away what is read is: what was written since, to logs whose pages stay, with exact numbers."""

import pytest

from syncline.storage.arrivals.append_times import AppendTimes, Floor
from syncline.storage.arrivals.read_facts import DROPPED, ReadReport, facts_of

# The log ends at 1,000, all logs together have 10,000, and had 8,000 when this one got its last batch.
KEPT = (1_000, -1, 10_000, 8_000, True)
GIVEN_BACK = (1_000, -1, 10_000, 8_000, False)
# The newest entry, of a batch at 200 with 6,000 written before it; and one that another follows, at 600 and 7,000.
NEWEST: Floor = (50, -1, 200, 6_000, -1, -1)
FOLLOWED: Floor = (50, 300, 200, 6_000, 600, 7_000)


@pytest.mark.parametrize(
    ("state", "position", "floor", "distance"),
    [
        pytest.param(KEPT, 200, NEWEST, 4_000, id="batch-of-the-entry"),
        # A quarter of the 800 bytes to the log's end, so of the 2,000 that all logs got meanwhile.
        pytest.param(KEPT, 400, NEWEST, 3_500, id="between-the-entry-and-the-end"),
        pytest.param(KEPT, 400, FOLLOWED, 3_500, id="between-two-entries"),
        pytest.param((1_000, -1, 10_000, 0, True), 400, NEWEST, 3_800, id="last-batch-of-an-earlier-life"),
        # Its own bytes are in no sum.
        pytest.param(GIVEN_BACK, 200, NEWEST, 4_800, id="given-back"),
        pytest.param(GIVEN_BACK, 400, NEWEST, 4_100, id="given-back-between"),
        pytest.param((1_000, -1, 10_000, 0, False), 400, NEWEST, 4_600, id="given-back-earlier-life"),
        pytest.param((1_000, -1, 5_000, 0, True), 200, NEWEST, 0, id="a-crash-forgot-some"),
    ],
)
def test_distance_is_what_was_written_since(
    state: tuple[int, int, int, int, bool], position: int, floor: Floor, distance: int
) -> None:
    """Between two entries, this log and the others are taken to have been written in turn.

    Guards: what other logs got in the quarter of a second before a batch counted as written after it.
    """
    assert facts_of(state, 0, position, floor).distance_bytes == distance


def test_dropped_pages_are_beyond_every_distance() -> None:
    """Also if nobody knows when they came."""
    assert facts_of(KEPT, 0, 200, NEWEST, dropped_to=201).distance_bytes == DROPPED
    assert facts_of(KEPT, 0, 200, None, dropped_to=201).distance_bytes == DROPPED
    assert facts_of(KEPT, 0, 201, NEWEST, dropped_to=201).distance_bytes < DROPPED
    report = ReadReport(KEPT, None, dropped_to=500)
    report.located(0, 499)
    assert facts_of(*report.noted()).distance_bytes == DROPPED


def test_floor_of_a_position_has_the_entry_behind_it() -> None:
    """The newest has none."""
    times = AppendTimes(0)
    times.add(0, 0, 1_000, 5_000, 1)
    times.add(4, 700, 2_000, 9_000, 2)

    assert times.floor_at(300) == (1_000, 2_000, 0, 5_000, 700, 9_000)
    assert times.floor_at(700) == (2_000, -1, 700, 9_000, -1, -1)
