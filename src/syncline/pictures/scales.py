"""Scales: from numbers to places on a drawing, and the round numbers on an axis.

Units: a scale maps data (any unit) to pixels. Instants of a time axis are milliseconds since its start.
"""

import math
from dataclasses import dataclass
from typing import Final

_NICE: Final = (1, 2, 5, 10)
_TIME_STEPS_S: Final = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600)


@dataclass(frozen=True, slots=True)
class Linear:
    """Maps `low`..`high` to `start`..`end`."""

    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        """Return the place of a value; values outside land on the nearer end."""
        span = self.high - self.low
        share = (min(max(value, self.low), self.high) - self.low) / span if span else 0.0
        return self.start + share * (self.end - self.start)


@dataclass(frozen=True, slots=True)
class Logarithmic:
    """Maps 0..`high` to `start`..`end`, logarithmic but with a place for 0: lags are 0 most of the time."""

    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        """Return the place of a value; values outside land on the nearer end."""
        share = math.log10(1 + min(max(value, 0), self.high)) / math.log10(1 + self.high)
        return self.start + share * (self.end - self.start)

    def ticks(self) -> list[int]:
        """Return 0 and the powers of ten from 10 to the end; 1 would touch 0."""
        return [0, *(10**power for power in range(1, int(math.log10(max(self.high, 1))) + 1))]


def nice_ticks(high: float, count: int) -> list[float]:
    """Return about `count` round numbers from 0 to at least `high`."""
    if high <= 0:
        return [0.0, 1.0]
    raw = high / max(count - 1, 1)
    magnitude = 10.0 ** math.floor(math.log10(raw))
    step = next(factor * magnitude for factor in _NICE if factor * magnitude >= raw * (1 - 1e-9))
    return [step * index for index in range(math.ceil(high / step - 1e-9) + 1)]


def time_ticks_ms(span_ms: int, count: int) -> list[int]:
    """Return about `count` round instants from 0 to the span."""
    wanted_s = span_ms / 1000 / max(count, 1)
    step_s = next((step for step in _TIME_STEPS_S if step >= wanted_s), _TIME_STEPS_S[-1])
    return list(range(0, span_ms + 1, step_s * 1000))
