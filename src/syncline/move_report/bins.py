"""Bins of time: amounts that were measured from one moment to another, and what of them falls into each bin.

Units: milliseconds.
"""

from collections.abc import Iterable
from typing import NamedTuple


class Grid(NamedTuple):
    """Bins of one length, from `start_ms` on."""

    start_ms: int
    bin_ms: int
    bin_count: int

    @property
    def ends_ms(self) -> list[int]:
        """Return the end of each bin."""
        return [self.start_ms + (index + 1) * self.bin_ms for index in range(self.bin_count)]

    def index_of(self, at_ms: int) -> int | None:
        """Return the bin of a moment, None if it is outside; a bin contains its end, and not its beginning."""
        index = (at_ms - 1 - self.start_ms) // self.bin_ms
        return index if 0 <= index < self.bin_count else None

    def spread(self, measured: Iterable[tuple[int, int, float]]) -> list[float]:
        """Return per bin what falls into it of (from, to, amount), each amount spread evenly over its time."""
        found = [0.0] * self.bin_count
        for begin_ms, end_ms, amount in measured:
            assert begin_ms < end_ms, f"{amount} was measured from {begin_ms} to {end_ms}"
            first, last = (begin_ms - self.start_ms) // self.bin_ms, (end_ms - 1 - self.start_ms) // self.bin_ms
            for index in range(max(first, 0), min(last, self.bin_count - 1) + 1):
                low = self.start_ms + index * self.bin_ms
                part_ms = min(low + self.bin_ms, end_ms) - max(low, begin_ms)
                found[index] += amount * part_ms / (end_ms - begin_ms)
        return found
