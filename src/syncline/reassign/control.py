"""The rate of a move that has a deadline or a bound on what clients feel: computed anew from each measurement.

A deadline: rate = keep-up + remaining / time left, for the part that needs most. What is measured anew each time is
what remains, so a copy that went slower than its rate raises the next one; if all goes as computed, the rate stays.

A bound on clients: how much slower they get as the rate rises is unknown, differs by machine and load, and is noisy;
all that is certain is that more copying never makes them faster. So this is a search, as congestion control is:
- up by factors, as a rate may be 100 kB/s or 1 GB/s: fast while clients feel little, slowly when they feel half of
  what they may;
- a band in which it stays, below the bound by more than the noise, or it would cross the bound half of the time;
- down at once, by more than it goes up: it leaves in one step what it entered in several;
- the lowest rate that was too much is remembered, and approached by halves, then only slowly; after a while it is
  forgotten, as clients may have left.
If a move has both, the lower rate counts: clients come first, and the new end is announced.

Units: bytes per second, ms. `impact` is how much longer clients wait than before the move, in percent of that.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final, NamedTuple

from syncline.reassign.formulas import Load, Part

# The last seconds before a deadline are for the last replica to join, and a rate is held for at least this time.
HOLD_MS: Final = 1_000
# From here on the rate no longer falls: a copy that always gets less than its rate would never end.
LANDING_MS: Final = 5_000
# What partitions grow by varies, and a rate of exactly that would leave a replica behind for ever.
KEEP_UP_MARGIN: Final = 1.1
# Parts of the allowed impact: below the first clients feel little, between the others the rate stays.
LITTLE: Final = 0.3
STAY_FROM: Final = 0.55
STAY_TO: Final = 0.8
# One measurement that is this far above the bound counts, others are smoothed.
ALARM: Final = 2.0
SMOOTHING: Final = 0.5
FORGET_AFTER: Final = 30
FADING: Final = 1.1


class Pace(StrEnum):
    """What became of a rate."""

    STEADY = "steady"
    RAISED = "raised"
    LOWERED = "lowered"
    # The wished rate is beyond what is allowed.
    AT_HIGHEST = "at-highest"


class Chosen(NamedTuple):
    """A rate, and why."""

    rate_bytes_per_s: int
    pace: Pace
    # The rate that the deadline needs; above `rate_bytes_per_s` if it cannot be kept.
    needed_bytes_per_s: float


class Range(NamedTuple):
    """The rates that are allowed at all."""

    min_bytes_per_s: int
    max_bytes_per_s: int


def for_deadline(
    parts: Mapping[Part, Load], *, now_ms: int, deadline_ms: int, allowed: Range, rate_bytes_per_s: int = 0
) -> Chosen:
    """Return the rate that ends all parts at the deadline, within what is allowed.

    `parts` have what remains now, of replicas that are not in sync: one that has everything still has to keep up until
    it is. After the deadline it is the rate that ends them within `HOLD_MS`.
    """
    left_ms = max(deadline_ms - HOLD_MS - now_ms, HOLD_MS)
    left_s = left_ms / 1000
    needed = max((_needed(load, left_s) for load in parts.values()), default=0.0)
    lowest = max(allowed.min_bytes_per_s, rate_bytes_per_s if left_ms <= LANDING_MS else 0)
    rate = round(min(max(needed, lowest), allowed.max_bytes_per_s))
    if needed > allowed.max_bytes_per_s:
        return Chosen(rate, Pace.AT_HIGHEST, needed)
    pace = Pace.RAISED if rate > rate_bytes_per_s else Pace.LOWERED if rate < rate_bytes_per_s else Pace.STEADY
    return Chosen(rate, pace, needed)


def _needed(load: Load, left_s: float) -> float:
    return load.copy_bytes / left_s + KEEP_UP_MARGIN * load.keep_up_bytes_per_s


def impact_percent(p99_ms: float, p99_before_ms: float) -> float:
    """Return by how much clients wait longer than before the move, at least 0."""
    assert p99_before_ms > 0, "an answer takes time"
    return max(p99_ms / p99_before_ms - 1, 0.0) * 100


class Impact(NamedTuple):
    """The search for the highest rate that clients bear: after each measurement another one of these."""

    bound_percent: float
    allowed: Range
    rate_bytes_per_s: int
    smoothed_percent: float | None = None
    # The lowest rate that was too much, and how many measurements ago.
    too_much_bytes_per_s: int | None = None
    since: int = 0

    def measured(self, percent: float) -> "Impact":
        """Return the search after clients felt this during the present rate."""
        assert self.bound_percent > 0, "no impact at all is no move at all"
        before = percent if self.smoothed_percent is None else self.smoothed_percent
        smoothed = before + SMOOTHING * (percent - before)
        used = smoothed / self.bound_percent
        alarming = percent / self.bound_percent
        known, since = self.too_much_bytes_per_s, self.since + 1
        if known is not None and since > FORGET_AFTER:
            known = None
        rate = self.rate_bytes_per_s
        if used > 1 or alarming > ALARM:
            known, since = rate if known is None else min(known, rate), 0
            factor = 0.5 if max(used, alarming) > ALARM else 0.7
            # What was measured belongs to a rate that no longer is.
            smoothed = STAY_FROM * self.bound_percent
        elif used > STAY_TO:
            factor = 0.93
        elif used > STAY_FROM:
            factor = 1.0
        else:
            if known is not None and used < LITTLE / 2:
                # It was noise, or clients left: far from the bound, the memory fades faster.
                known = round(known * FADING)
            factor = _growth(used, rate, known)
        return self._replace(
            rate_bytes_per_s=self._clamped(rate * factor),
            smoothed_percent=smoothed,
            too_much_bytes_per_s=known,
            since=since,
        )

    def _clamped(self, rate: float) -> int:
        return round(min(max(rate, self.allowed.min_bytes_per_s), self.allowed.max_bytes_per_s))


def _growth(used: float, rate: int, too_much: int | None) -> float:
    """Return the factor by which a rate may rise that clients bear."""
    factor = 1.5 if used < LITTLE else 1.15
    if too_much is None:
        return factor
    halfway = (rate + 0.9 * too_much) / 2
    return max(min(factor, halfway / max(rate, 1)), 1.02)
