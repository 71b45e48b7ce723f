"""The rate of a move that has a deadline: computed anew from each measurement.

rate = keep-up + remaining / time left, for the part that needs most. What is measured anew each time is what remains,
so a copy that went slower than its rate raises the next one; if all goes as computed, the rate stays.

Units: bytes per second, ms.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final, NamedTuple

from syncline.reassign.formulas import Load, Part

# The last seconds before a deadline are for the last replica to join, and a rate is held for at least this time.
HOLD_MS: Final = 1_000
# From here on the rate no longer falls: a copy that always gets less than its rate would never end. No sooner, as
# partitions that join earlier take their keep-up along, and at the rate of before the others would be early.
LANDING_MS: Final = 2_000
# What partitions grow by varies, and a rate of exactly that would leave a replica behind for ever.
KEEP_UP_MARGIN: Final = 1.1


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
