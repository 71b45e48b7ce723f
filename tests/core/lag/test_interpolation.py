"""kafka-lag-exporter's table against its own tests, and against what is wrong with it."""

from math import inf, isnan, nan

import pytest

from syncline.core.lag.append_time import staleness_ms
from syncline.core.lag.interpolation import Added, LookupTable, Unanswered, lag_seconds, worst
from syncline.model.ids import Offset

ZERO, TOO_FEW = Unanswered.LAG_IS_ZERO, Unanswered.TOO_FEW_POINTS
INSERTED, UPDATED = Added.INSERTED, Added.UPDATED


def table(*points: tuple[int, int], size: int = 60) -> LookupTable:
    """Return a table with these polls, of which some may be dropped."""
    made = LookupTable(size)
    for point in points:
        made.add(*point)
        made.check_invariants()
    return made


FLAT_STRETCHES = ((100, 30), (200, 60), (200, 120), (200, 700), (300, 730), (300, 9_000), (400, 9_030))
ROWS = {
    "no points": ((), {0: TOO_FEW}),
    "one point": (((100, 100),), {0: TOO_FEW}),
    "two points": (
        ((100, 100), (200, 200)),
        {150: 150, 190: 190, 110: 110, 10: 10, 0: 0, -100: -100, 300: 300, 100: 100},
    ),
    "flat stretches": (
        FLAT_STRETCHES,
        {199: 59.7, 200: 700, 201: 700.3, 250: 715, 299: 729.7, 300: 9_000, 301: 9_000.3},
    ),
    "no lag on an empty log": (((0, 0), (0, 100)), {0: ZERO}),
    "no lag with one point": (((0, 100),), {0: ZERO}),
    "flat": (((100, 100), (100, 200), (100, 300), (100, 400)), {99: -inf, 101: inf, 100: ZERO}),
    "steep": (
        ((0, 0), (10, 1), (200, 2), (3_000, 3), (40_000, 4)),
        {
            1_600: 2.5,
            0: 0,
            1: 0.1,
            9: 0.9,
            10: 1,
            200: 2,
            2_999: 3 - 1 / 2_800,
            3_000: 3,
            3_001: 3 + 1 / 37_000,
            40_000: ZERO,
            -10_000: -1,
            50_000: 5,
        },
    ),
}


@pytest.mark.parametrize(("name", "offset"), [(name, offset) for name, (_, rows) in ROWS.items() for offset in rows])
def test_l33_golden_vector(name: str, offset: int) -> None:
    """Every row of the table of its tests."""
    points, rows = ROWS[name]
    expected = rows[offset]

    found = table(*points).lookup(offset)

    assert found == (expected if isinstance(expected, Unanswered) else pytest.approx(expected, abs=1e-9))


def test_l33_points_that_contradict_the_last_one_are_dropped() -> None:
    """Later in the table means later in time, and not below."""
    made = table((100, 100))

    verdicts = {point: made.add(*point) for point in ((110, 90), (90, 110), (0, 0), (110, -1), (-1, 110), (-1, -1))}

    assert [verdict.value for verdict in verdicts.values()] == [
        "out-of-order",
        "non-monotonic",
        "out-of-order",
        "out-of-order",
        "non-monotonic",
        "out-of-order",
    ]
    assert len(made) == 1
    assert made.lookup(0) is TOO_FEW


def test_l33_flat_stretch_keeps_its_first_and_its_last_point() -> None:
    """The fourth poll replaces the third."""
    made = LookupTable()
    verdicts = [(made.add(*point), len(made)) for point in FLAT_STRETCHES]

    assert verdicts == [
        (INSERTED, 1),
        (INSERTED, 2),
        (INSERTED, 3),
        (UPDATED, 3),
        (INSERTED, 4),
        (INSERTED, 5),
        (INSERTED, 6),
    ]
    assert len(table((100, 100), (100, 200), (100, 300), (100, 400))) == 2


def test_l34_full_table_forgets_its_oldest_point_and_extends_the_line() -> None:
    """61 polls of a log that gets faster: below the second the line from the second to the last is extended."""
    points = [(index * index, index * 30_000) for index in range(61)]
    made = table(*points)
    (left, left_ms), (right, right_ms) = points[1], points[-1]

    assert len(made) == 60
    assert made.lookup(0) == pytest.approx(right_ms - right * (right_ms - left_ms) / (right - left))
    assert made.lookup(0) != pytest.approx(0)


def test_l35_idle_log_makes_a_group_infinitely_late() -> None:
    """One record behind on a flat table: +Inf. Its record has waited for 30 s, and that is finite."""
    idle = table((100, 0), (100, 30_000))

    assert lag_seconds(idle, 99, 30_000) == inf
    assert lag_seconds(idle, 101, 30_000) == -inf
    assert lag_seconds(idle, 100, 30_000) == 0.0
    assert staleness_ms(Offset(99), Offset(100), append_ms=0, now_ms=30_000) == 30_000, "what is true of it"


def test_seconds_are_not_a_number_where_nothing_is_known() -> None:
    """Without a commit, and without a line."""
    assert isnan(lag_seconds(table((0, 0), (10, 10)), None, 10))
    assert isnan(lag_seconds(table((10, 10)), 5, 10))


def test_worst_partition_is_that_of_those_which_are_known() -> None:
    """Wherever the unknown one stands."""
    assert worst([nan, 3.0, inf]) == worst([3.0, inf, nan]) == inf
    assert worst([nan, -3.0]) == -3.0
    assert isnan(worst([nan]))
    assert isnan(worst([]))


def test_l16_interpolation_takes_a_burst_for_a_stream() -> None:
    """All records at 1 s, polls at 0 and 30 s, half of them read at 30 s: 15 s by the line, 29 s in truth."""
    assert lag_seconds(table((0, 0), (1_000, 30_000)), 500, 30_000) == 15.0
