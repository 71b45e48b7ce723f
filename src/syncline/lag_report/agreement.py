"""How far the model's hits are from the measured ones, per interval.

The model says which share of the bytes that were read in an interval a cache of a given size should have had; brokers
measure which share it had. Where they differ, the memory at which the model would have said what was measured tells
more than the difference: a cache that behaves like half its size shares its memory with something.
Units: shares from 0 to 1, differences in points (hundredths), bytes.
"""

from collections.abc import Sequence
from enum import Enum
from typing import Final, NamedTuple

from syncline.core.lag.miss_ratio import hit_ratio, memory_for
from syncline.lag_report.facts import CacheFacts

# Within so many points the curve may be trusted.
AGREED_POINTS: Final = 5.0


class Outcome(Enum):
    """What a comparison says."""

    AGREES = "agrees"
    MORE_HITS = "more hits than predicted"
    FEWER_HITS = "fewer hits than predicted"


class Agreement(NamedTuple):
    """One interval of one broker."""

    name: str
    read_bytes: int
    predicted: float
    measured: float
    behaves_like_bytes: float | None
    """The memory for which the model would have been right; None if it never says so many hits."""

    @property
    def points(self) -> float:
        """Return by how much more was in memory than predicted."""
        return 100 * (self.measured - self.predicted)

    @property
    def outcome(self) -> Outcome:
        """Return which of both was higher, if it matters."""
        if abs(self.points) <= AGREED_POINTS:
            return Outcome.AGREES
        return Outcome.MORE_HITS if self.points > 0 else Outcome.FEWER_HITS


def agreements(intervals: Sequence[tuple[str, CacheFacts]]) -> tuple[Agreement, ...]:
    """Return a comparison for each named interval in which something was read and measured."""
    found = []
    for name, facts in intervals:
        measured = facts.measured_hit_ratio
        if measured is None or not facts.read_bytes:
            continue
        predicted = hit_ratio(facts.demand, facts.measured_at_bytes, with_pollution=True).hit_ratio
        like_bytes = memory_for(facts.demand, measured)
        found.append(Agreement(name, facts.read_bytes, predicted, measured, like_bytes))
    return tuple(found)


def mean_points(compared: Sequence[Agreement]) -> float | None:
    """Return the mean difference without its sign, each interval by what was read in it; None without any."""
    read_bytes = sum(each.read_bytes for each in compared)
    if not read_bytes:
        return None
    return sum(abs(each.points) * each.read_bytes for each in compared) / read_bytes
