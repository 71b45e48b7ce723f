"""How a broker kept its throttle: what it copied while the throttle did not change, and the worst ten seconds.

Times are exact, not those of bins: a throttle changes at any moment, and a copy ends at any moment.

Units: bytes per second; Unix milliseconds.
"""

from typing import Final

from syncline.move_report.facts import Level, PartFacts

# Over so long a time a throttle is judged.
JUDGED_MS: Final = 10_000


def copied_s(part: PartFacts) -> float:
    """Return how long a part copied."""
    return sum(level.length_ms for level in part.levels) / 1_000


def mean_rate(part: PartFacts) -> float:
    """Return what the part copied per second while it did."""
    length_s = copied_s(part)
    return sum(level.copied_bytes for level in part.levels) / length_s if length_s else 0.0


def used_share(part: PartFacts) -> float | None:
    """Return how much of its throttle a part used; None if it had none."""
    return share_of([level for level in part.levels if level.bound is not None])


def share_of(levels: list[Level]) -> float | None:
    """Return how much of their throttles was used; None if that was nothing."""
    allowed = sum((level.bound or 0.0) * level.length_ms / 1_000 for level in levels)
    return sum(level.copied_bytes for level in levels) / allowed if allowed else None


def worst_share(part: PartFacts, start_ms: int, bin_ms: int) -> float | None:
    """Return the highest mean over ten seconds under one throttle, as a share of it; None if none lasted that long."""
    width = -(-JUDGED_MS // bin_ms)
    shares = []
    for level in part.levels:
        first = -(-(level.start_ms - start_ms) // bin_ms)
        end = (level.end_ms - start_ms) // bin_ms
        if level.bound:
            shares += [
                sum(part.rates[begin : begin + width]) / width / level.bound for begin in range(first, end - width + 1)
            ]
    return max(shares, default=None)
