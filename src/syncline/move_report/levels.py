"""How a broker kept its throttle: means over the times in which the throttle did not change, and the worst ten seconds.

Units: bytes per second; milliseconds.
"""

from typing import Final, NamedTuple

from syncline.move_report.facts import PartFacts

# Over so long a time a throttle is judged.
JUDGED_MS: Final = 10_000


class Level(NamedTuple):
    """A part's time under one throttle (None: without one): what it copied, and what keeping up took, per second."""

    first: int
    last: int
    bound: float | None
    rate: float
    keep_up: float

    @property
    def bins(self) -> int:
        """Return how long it was."""
        return self.last - self.first + 1

    @property
    def is_too_low(self) -> bool:
        """Whether keeping up took all of it, so that the copy could not end."""
        return self.bound is not None and self.keep_up >= self.bound


def levels_of(part: PartFacts) -> list[Level]:
    """Return the stretches in which a part copied under one throttle, in order of time."""
    spans: list[tuple[int, int, float | None]] = []
    for index, (bound, is_copying) in enumerate(zip(part.quotas, part.is_copying, strict=True)):
        if not is_copying:
            continue
        if spans and spans[-1][1] == index - 1 and spans[-1][2] == bound:
            spans[-1] = (spans[-1][0], index, bound)
        else:
            spans.append((index, index, bound))
    return [
        Level(first, last, bound, _mean(part.rates[first : last + 1]), _mean(part.keep_up[first : last + 1]))
        for first, last, bound in spans
    ]


def mean_rate(part: PartFacts) -> float:
    """Return what the part copied per second, in the bins in which it copied."""
    return _mean([rate for rate, is_copying in zip(part.rates, part.is_copying, strict=True) if is_copying])


def used_share(part: PartFacts) -> float | None:
    """Return how much of its throttle a part used; None if it had none."""
    allowed = sum(bound for level in levels_of(part) if (bound := level.bound) is not None for _ in range(level.bins))
    used = sum(level.rate * level.bins for level in levels_of(part) if level.bound is not None)
    return used / allowed if allowed else None


def worst_share(part: PartFacts, bin_ms: int) -> float | None:
    """Return the highest mean over ten seconds, as a share of the throttle; None if none lasted that long."""
    width = -(-JUDGED_MS // bin_ms)
    shares = [
        _mean(part.rates[begin : begin + width]) / level.bound
        for level in levels_of(part)
        if level.bound
        for begin in range(level.first, level.last + 2 - width)
    ]
    return max(shares, default=None)


def _mean(values: tuple[float, ...] | list[float]) -> float:
    return sum(values) / len(values) if values else 0.0
