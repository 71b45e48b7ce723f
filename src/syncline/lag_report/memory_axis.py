"""An axis of memory sizes, on the log scale: what doubles the memory is one step, wherever it stands.

It spans what one can buy or take away, around the memory of now, and reaches to the memory that is advised.
"""

from math import log2
from typing import Final, NamedTuple

from syncline.lag_report.advice import Advice
from syncline.lag_report.facts import CacheFacts

_BELOW: Final = 64
_ABOVE: Final = 8
# A memory that is so many times the present one is no advice; the axis ends before it.
_ABOVE_MAX: Final = 4_096
_STEPS: Final = ((1, 2, 5), (1, 3), (1,))


class MemoryAxis(NamedTuple):
    """Sizes between two ends, as shares from 0 to 1 of the way."""

    low_bytes: float
    high_bytes: float

    def share(self, memory_bytes: float) -> float:
        """Return where a size lies; sizes outside land on the nearer end."""
        inside_bytes = min(max(memory_bytes, self.low_bytes), self.high_bytes)
        return log2(inside_bytes / self.low_bytes) / log2(self.high_bytes / self.low_bytes)

    def at(self, share: float) -> float:
        """Return the size at a place."""
        return float(self.low_bytes * (self.high_bytes / self.low_bytes) ** share)

    def ticks(self, count: int) -> list[float]:
        """Return round sizes, at most about `count` of them."""
        for steps in _STEPS:
            found = [
                step * 10.0**power
                for power in range(64)
                for step in steps
                if self.low_bytes <= step * 10.0**power <= self.high_bytes
            ]
            if len(found) <= count:
                return found
        return found


def axis_of(facts: CacheFacts, advice: Advice) -> MemoryAxis:
    """Return the axis for a broker."""
    memory_bytes = float(facts.memory_bytes)
    wanted_bytes = advice.wanted_bytes or 0.0
    high_bytes = max(_ABOVE * memory_bytes, min(2 * wanted_bytes, _ABOVE_MAX * memory_bytes))
    return MemoryAxis(max(1.0, memory_bytes / _BELOW), high_bytes)
