"""Lag in seconds as kafka-lag-exporter estimates it: for its dashboards, which expect its numbers.

One hard idea: it knows when a log had which end, from polls each half minute, and asks when the log ended where the
group is now. Between two polls it draws a line; before the first and behind the last it extends the line from the first
to the last. So a burst between two polls looks like a steady stream, and on a flat stretch the line has no slope: the
group is infinitely late, or infinitely early. Nothing is corrected here; `append_time` is the true measure.

Units: offsets; ms; lags in seconds, as floats.
Invariants: times rise, offsets do not fall, and never more than two points in a row have one offset.
Source: kafka-lag-exporter 0.8.2, in-memory table.
"""

from collections import deque
from collections.abc import Iterable
from enum import Enum
from itertools import pairwise
from math import inf, isnan, nan
from typing import Final, NamedTuple

POINTS: Final = 60


class Added(Enum):
    """What became of a point."""

    OUT_OF_ORDER = "out-of-order"
    NON_MONOTONIC = "non-monotonic"
    UPDATED = "updated"
    INSERTED = "inserted"


class Unanswered(Enum):
    """Why there is no estimate."""

    LAG_IS_ZERO = "lag-is-zero"
    TOO_FEW_POINTS = "too-few-points"


class Point(NamedTuple):
    """Where a log ended at one time."""

    offset: int
    at_ms: int


class LookupTable:
    """When a partition ended where, as far as the last polls tell."""

    __slots__ = ("_points",)

    def __init__(self, size: int = POINTS) -> None:
        assert size >= 2, f"a table of {size} points has no line"
        self._points: deque[Point] = deque(maxlen=size)

    def __len__(self) -> int:
        return len(self._points)

    def add(self, offset: int, at_ms: int) -> Added:
        """Add what a poll found; of a flat stretch only the first and the last point are kept."""
        points = self._points
        if points:
            last = points[-1]
            if at_ms <= last.at_ms:
                return Added.OUT_OF_ORDER
            if offset < last.offset:
                return Added.NON_MONOTONIC
            if len(points) > 1 and last.offset == points[-2].offset == offset:
                points[-1] = Point(offset, at_ms)
                return Added.UPDATED
        points.append(Point(offset, at_ms))
        return Added.INSERTED

    def lookup(self, offset: int) -> float | Unanswered:
        """Return when the log ended at `offset`, in ms: maybe in the past, in the future, or infinitely far away."""
        points = self._points
        if points and points[-1].offset == offset:
            return Unanswered.LAG_IS_ZERO
        if len(points) < 2:
            return Unanswered.TOO_FEW_POINTS
        newest_first = pairwise(reversed(points))
        within = ((left, right) for right, left in newest_first if left.offset <= offset <= right.offset)
        return _predicted(offset, *next(within, (points[0], points[-1])))

    def check_invariants(self) -> None:
        """Assert the order of points."""
        for before, after in pairwise(self._points):
            assert before.at_ms < after.at_ms, f"{after} behind {before}"
            assert before.offset <= after.offset, f"{after} behind {before}"


def lag_seconds(table: LookupTable, committed: int | None, polled_ms: int) -> float:
    """Return the lag of a group as of a poll: not clamped, NaN where there is no commit or no line yet."""
    if committed is None:
        return nan
    found = table.lookup(committed)
    match found:
        case Unanswered.LAG_IS_ZERO:
            return 0.0
        case Unanswered.TOO_FEW_POINTS:
            return nan
        case _:
            return (polled_ms - found) / 1_000


def worst(lags: Iterable[float]) -> float:
    """Return the largest lag of a group's partitions; NaN if none is known.

    The original keeps the one that it meets first unless another is larger, and nothing is larger than NaN: so an
    unknown partition makes the maximum unknown if the order of a hash table puts it first. Here it never does.
    """
    return max((lag for lag in lags if not isnan(lag)), default=nan)


def _predicted(offset: int, left: Point, right: Point) -> float:
    # In the order of the original, so that the last digits are the same.
    width_ms, height = float(right.at_ms - left.at_ms), float(right.offset - left.offset)
    missing = float(right.offset - offset)
    if not height:
        assert missing, "the offset of a flat stretch is found in a newer pair, or is the last one"
        return -inf if missing > 0 else inf
    return right.at_ms - missing * width_ms / height
