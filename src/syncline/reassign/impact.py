"""The rate of a move that may make clients wait longer by a bound: found while it runs, from what clients feel.

"The 99th percentile is at most B percent longer than before" is the same as "at most one answer of a hundred takes
longer than that limit". So answers above the limit are counted. A percentile of a few answers says little, but counts
of many looks add up, and it is known how far chance alone makes them wrong. Some answers are that slow without any
move, and only what comes on top of those is the move's: `used` is that part of what there is room for.

The law: how many answers a move makes slow is proportional to its rate, as each of its bursts holds up whatever comes
meanwhile. So what was used at the mean rate of late tells which rate would use everything; what chance may hide counts
as used, so that the rate rises no faster than there is evidence for it, and comes to rest below the bound. More copying
never makes clients faster: where that is not proportional but steeper, a rate that was too high is halved at once.

Clients may be slow for another reason. At the lowest rate a move does no harm that could be measured, so what they feel
there for a while is what they feel without it: the limit is set anew, for some time. Then the rate is lowered once more
to find out whether the first limit is right again, or else clients would be held to what they felt in their worst hour.
The other way round it is simpler: if they wait less during the move than before it, it was measured in a bad moment.

Units: ms, bytes per second; shares of answers, 0 to 1. Source: the standard deviation of a count is its square root.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple, Self

from syncline.reassign.control import Range

# The share of answers that is above the 99th percentile.
ABOVE: Final = 0.01
# Fewer than these prove nothing of one answer in a hundred.
BASELINE_ANSWERS_MIN: Final = 100
# Of how many answers late the count is: as many, then half as much of as many before, and so on.
HALF_LIFE_ANSWERS: Final = 3_000
# A pause of a client or its machine makes many answers slow at once, and is one event: more of a look do not count.
SLOW_SHARE_MAX: Final = 0.05
# By how many standard deviations chance may hide what is used. However little can be known, a rate that did no harm
# may become higher than those of late were in the mean.
SIGMAS: Final = 1.5
DOUBT_MAX: Final = 0.6
RISE_MAX: Final = 1.5
FALL_MAX: Final = 0.5
# So many answers are judged together; those at the lowest rate make a new limit, which is in force for so many.
JUDGED_ANSWERS: Final = 1_000
ANEW_FOR_ANSWERS: Final = 12_000
# A percentile that is below this part of the one without the move is no chance.
BETTER: Final = 0.8
# Room for less than this part of `ABOVE` could never be measured.
ROOM_MIN: Final = 0.2


class Baseline(NamedTuple):
    """What clients feel without the move, and what they may feel with it."""

    p99_ms: float
    limit_ms: float
    # The part of answers that is above the limit nevertheless.
    slow_share: float

    @classmethod
    def of(cls, waits_ms: Sequence[float], bound_percent: float) -> Self:
        """Return it from answers without the move, at least `BASELINE_ANSWERS_MIN`."""
        assert len(waits_ms) >= BASELINE_ANSWERS_MIN, f"{len(waits_ms)} answers have no 99th percentile"
        assert bound_percent > 0, "no impact at all is no move at all"
        p99_ms = percentile_99(waits_ms)
        limit_ms = p99_ms * (1 + bound_percent / 100)
        share = sum(wait > limit_ms for wait in waits_ms) / len(waits_ms)
        assert share <= ABOVE, "what is above the 99th percentile is one in a hundred"
        return cls(p99_ms, limit_ms, share)

    @property
    def room(self) -> float:
        """Return which share of answers a move may make slow."""
        return max(ABOVE - self.slow_share, ROOM_MIN * ABOVE)


@dataclass(frozen=True, slots=True)
class Impact:
    """The search for the highest rate that clients bear: after each look another one of these.

    The sums are of answers late: `exposure` is the sum of the rates under which each was given.
    """

    bound_percent: float
    allowed: Range
    rate_bytes_per_s: int
    first: Baseline
    # Another one while clients are slow for another reason, and since how many answers.
    anew: Baseline | None = None
    anew_for: int = 0
    answers: float = 0.0
    slow: float = 0.0
    exposure: float = 0.0
    # Answers that are not yet judged, and whether all of them were given at the lowest rate.
    late_ms: tuple[float, ...] = ()
    is_lowest: bool = True

    def answered(self, waits_ms: Sequence[float]) -> "Impact":
        """Return the search after these answers under the present rate; one that never came waited infinitely."""
        assert waits_ms, "nothing was asked"
        count = len(waits_ms)
        slow = sum(wait > self.baseline.limit_ms for wait in waits_ms)
        keep = 0.5 ** (count / HALF_LIFE_ANSWERS)
        is_lowest = self.rate_bytes_per_s <= self.allowed.min_bytes_per_s
        is_first = not self.late_ms or (is_lowest and not self.is_lowest)
        after = replace(
            self,
            anew_for=self.anew_for + count,
            answers=self.answers * keep + count,
            slow=self.slow * keep + min(slow, max(SLOW_SHARE_MAX * count, 1.0)),
            exposure=self.exposure * keep + count * self.rate_bytes_per_s,
            late_ms=() if math.inf in waits_ms else tuple(waits_ms) if is_first else (*self.late_ms, *waits_ms),
            is_lowest=is_lowest and (is_first or self.is_lowest),
        )
        if len(after.late_ms) >= JUDGED_ANSWERS:
            after = _judged(after)
        return replace(after, rate_bytes_per_s=_next_rate(after))

    @property
    def baseline(self) -> Baseline:
        """Return what clients feel without the move, as far as is known now."""
        return self.first if self.anew is None else self.anew

    @property
    def used(self) -> float:
        """Return which part of the room answers late have used: 0 is no impact, 1 the bound."""
        if not self.answers:
            return 0.0
        return max(self.slow / self.answers - self.baseline.slow_share, 0.0) / self.baseline.room

    @property
    def doubt(self) -> float:
        """Return by how much `used` may be too low by chance."""
        if not self.answers:
            return DOUBT_MAX
        expected = max(self.slow, self.baseline.slow_share * self.answers, 1.0)
        return min(SIGMAS * math.sqrt(expected) / self.answers / self.baseline.room, DOUBT_MAX)


def percentile_99(waits_ms: Sequence[float]) -> float:
    """Return the wait that one answer of a hundred is above."""
    assert waits_ms, "there are answers"
    ordered = sorted(waits_ms)
    return ordered[len(ordered) - 1 - len(ordered) // 100]


def _next_rate(search: Impact) -> int:
    rate, lowest = search.rate_bytes_per_s, search.allowed.min_bytes_per_s
    if search.anew is not None and search.anew_for >= ANEW_FOR_ANSWERS:
        return lowest
    wanted = search.exposure / search.answers / (search.used + search.doubt)
    wanted = min(max(wanted, FALL_MAX * rate), RISE_MAX * rate)
    return round(min(max(wanted, lowest), search.allowed.max_bytes_per_s))


def _judged(search: Impact) -> Impact:
    """Return the search after enough answers to tell whether its limit is right."""
    waits_ms, after = search.late_ms, replace(search, late_ms=())
    if search.is_lowest:
        slow = sum(wait > search.first.limit_ms for wait in waits_ms)
        if slow > ABOVE * len(waits_ms):
            return _begun_anew(replace(after, anew=Baseline.of(waits_ms, search.bound_percent)), waits_ms)
        return after if search.anew is None else _begun_anew(replace(after, anew=None), waits_ms)
    if percentile_99(waits_ms) < BETTER * search.baseline.p99_ms:
        better = Baseline.of(waits_ms, search.bound_percent)
        first = better if better.p99_ms < search.first.p99_ms else search.first
        return _begun_anew(replace(after, first=first, anew=None if first is better else better), waits_ms)
    return after


def _begun_anew(search: Impact, waits_ms: Sequence[float]) -> Impact:
    """Return the search under another limit: what is known are these answers, at the rates of late."""
    count, mean = len(waits_ms), search.exposure / search.answers
    return replace(
        search,
        anew_for=0,
        answers=float(count),
        slow=float(sum(wait > search.baseline.limit_ms for wait in waits_ms)),
        exposure=count * (search.allowed.min_bytes_per_s if search.is_lowest else mean),
    )
