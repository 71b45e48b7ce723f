"""The rate of a move that has a deadline: computed anew from each measurement.

rate = (keep-up + remaining / time left) / passing, for the part that needs most. What is measured anew each time is
what remains, so a copy that went slower than its rate raises the next one; if all goes as computed, the rate stays.

That alone is late where only a part of a rate passes, as brokers on a busy machine notice late that they may go on:
keep-up comes first, and what is missing is asked for when hardly any time is left. So `passing`, which part of its rate
a copy really gets, is measured as well.

Units: bytes per second, ms.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final, NamedTuple

from syncline.reassign.formulas import Load, Part

# In the last of the time, the last replica joins, and the command sees that it did.
RESERVE_MS: Final = 1_500
# A rate is held for at least this time.
HOLD_MS: Final = 1_000
# From here on the rate no longer falls: a copy that always gets less than its rate would never end. No sooner, as
# partitions that join earlier take their keep-up along, and at the rate of before the others would be early.
LANDING_MS: Final = 2_000
# What partitions grow by varies, and a rate of exactly that would leave a replica behind for ever.
KEEP_UP_MARGIN: Final = 1.1
# Less than this is not for want of rate: a disk or a network is full.
PASSING_MIN: Final = 0.5
SMOOTHING: Final = 0.3


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


class Passing(NamedTuple):
    """Which part of its rate each part has got, from the looks so far."""

    at_ms: int = 0
    loads: Mapping[Part, Load] = {}
    shares: Mapping[Part, float] = {}

    def seen(self, now_ms: int, parts: Mapping[Part, Load], bytes_per_s: int) -> "Passing":
        """Return this after a look at the end of a time with this rate."""
        span_s = (now_ms - self.at_ms) / 1000
        shares = {}
        for part, load in parts.items():
            share, before = self.shares.get(part, 1.0), self.loads.get(part)
            if before is not None and span_s > 0 and bytes_per_s > 0:
                passed = (before.copy_bytes - load.copy_bytes) / span_s + load.keep_up_bytes_per_s
                measured = min(max(passed / bytes_per_s, 0.0), 1.0)
                share += SMOOTHING * (measured - share)
            shares[part] = share
        return Passing(now_ms, dict(parts), shares)

    def of(self, part: Part) -> float:
        """Return the share of a part; what was never seen is expected to get all."""
        return max(self.shares.get(part, 1.0), PASSING_MIN)


ALL_PASSES: Final = Passing()


def for_deadline(
    parts: Mapping[Part, Load],
    *,
    now_ms: int,
    deadline_ms: int,
    allowed: Range,
    rate_bytes_per_s: int = 0,
    passing: Passing = ALL_PASSES,
) -> Chosen:
    """Return the rate that ends all parts at the deadline, within what is allowed.

    `parts` have what remains now, of replicas that are not in sync: one that has everything still has to keep up until
    it is. After the deadline it is the rate that ends them within `HOLD_MS`.
    """
    left_ms = max(deadline_ms - RESERVE_MS - now_ms, HOLD_MS)
    left_s = left_ms / 1000
    # Others get less of the rate because they wait for this one, which is no reason to raise it.
    most = max(parts, key=lambda part: _needed(parts[part], left_s), default=None)
    needed = 0.0 if most is None else _needed(parts[most], left_s) / passing.of(most)
    lowest = max(allowed.min_bytes_per_s, rate_bytes_per_s if left_ms <= LANDING_MS else 0)
    rate = round(min(max(needed, lowest), allowed.max_bytes_per_s))
    if needed > allowed.max_bytes_per_s:
        return Chosen(rate, Pace.AT_HIGHEST, needed)
    pace = Pace.RAISED if rate > rate_bytes_per_s else Pace.LOWERED if rate < rate_bytes_per_s else Pace.STEADY
    return Chosen(rate, pace, needed)


def _needed(load: Load, left_s: float) -> float:
    return load.copy_bytes / left_s + KEEP_UP_MARGIN * load.keep_up_bytes_per_s
