"""Histograms in powers of two, weighted by fetches and by bytes, that can be added.

Kafka's histograms export percentiles of a decaying sample: those of two brokers cannot be merged, and those of fetches
say nothing of bytes. Buckets with fixed bounds can be added over brokers and over time. A quantile is then known to one
bucket, so to a factor of two, and interpolated within it on the log scale.

Units: a value is in bytes or in milliseconds, as its scale says. Bucket i holds values up to `2 ** (first + i)`, the
bound included; the last one holds all that is larger.
Source: KIP-489 (what is measured), which exports percentiles.
"""

from math import ceil, log2
from typing import Final, NamedTuple


class Scale(NamedTuple):
    """The bounds of a histogram: `bound_count` powers of two, from 2 to the `first_exponent` on."""

    first_exponent: int
    bound_count: int

    def bound(self, index: int) -> int:
        """Return the largest value of a bucket; the bucket behind the last bound has none."""
        assert 0 <= index < self.bound_count, f"bucket {index} of {self.bound_count} has no bound"
        return 1 << (self.first_exponent + index)


# From 4 KiB, a page, to 16 TiB.
BYTES: Final = Scale(first_exponent=12, bound_count=33)
# From 1 ms to 2^31 ms, 24 days.
TIMES_MS: Final = Scale(first_exponent=0, bound_count=32)


def bucket_of(scale: Scale, value: int) -> int:
    """Return the bucket of a value, 0 for a negative one; `scale.bound_count` is that of values above all bounds."""
    return min((max(0, value - 1) >> scale.first_exponent).bit_length(), scale.bound_count)


class Weighted:
    """A histogram of fetches, each counted once and by the bytes that it returned."""

    __slots__ = ("_first_exponent", "_last", "bytes", "fetches", "scale", "sum_by_bytes", "sum_by_fetches")

    def __init__(self, scale: Scale) -> None:
        self.scale = scale
        self._first_exponent, self._last = scale
        # No arrays, which make a new number of an item each time it is read.
        self.fetches = [0] * (scale.bound_count + 1)
        self.bytes = [0] * (scale.bound_count + 1)
        # Of values, and of values times bytes: what Prometheus wants beside buckets.
        self.sum_by_fetches = 0
        self.sum_by_bytes = 0

    def __repr__(self) -> str:
        return f"Weighted({sum(self.fetches)} fetches of {sum(self.bytes)} bytes)"

    def note(self, value: int, size_bytes: int) -> None:
        """Count one fetch that returned `size_bytes`; a negative value counts as 0."""
        # As `bucket_of`, in line: each fetch comes here four times, and a call of `min` would be a sixth of it.
        index = 0
        if value > 0:
            index = ((value - 1) >> self._first_exponent).bit_length()
            if index > self._last:  # noqa: PLR1730
                index = self._last
            self.sum_by_fetches += value
            self.sum_by_bytes += value * size_bytes
        self.fetches[index] += 1
        self.bytes[index] += size_bytes

    def note_beyond(self, size_bytes: int) -> None:
        """Count one fetch whose value is larger than anything that is measured; the sums leave it out."""
        self.fetches[self._last] += 1
        self.bytes[self._last] += size_bytes

    def add(self, other: "Weighted") -> None:
        """Add what another histogram of the same scale has counted."""
        assert self.scale == other.scale, f"{other.scale} cannot be added to {self.scale}"
        for index, count in enumerate(other.fetches):
            # Most buckets are empty, and cells of many readers are added.
            if count:
                self.fetches[index] += count
                self.bytes[index] += other.bytes[index]
        self.sum_by_fetches += other.sum_by_fetches
        self.sum_by_bytes += other.sum_by_bytes

    def quantile(self, share: float, *, by_bytes: bool) -> float | None:
        """Return the value that `share` of the weight does not exceed; None without any weight.

        What lies above all bounds counts as the last bound, so such a quantile is too small.
        """
        assert 0 <= share <= 1, f"a quantile of {share}"
        cells = self.bytes if by_bytes else self.fetches
        wanted = share * sum(cells)
        if not any(cells):
            return None
        below = 0
        for index, weight in enumerate(cells):
            if weight and below + weight >= wanted:
                return self._inside(index, (wanted - below) / weight)
            below += weight
        return float(self.scale.bound(self.scale.bound_count - 1))

    def share_within(self, value: float, *, by_bytes: bool) -> float:
        """Return which share of the weight has at most this value: the inverse of `quantile`. 1 without any weight.

        What lies above all bounds is never within: how large it is was not counted.
        """
        cells = self.bytes if by_bytes else self.fetches
        total = sum(cells)
        if not total:
            return 1.0
        last = self.scale.bound_count
        if value > self.scale.bound(last - 1):
            return sum(cells[:last]) / total
        index = bucket_of(self.scale, ceil(value))
        return (sum(cells[:index]) + cells[index] * self._part(index, value)) / total

    def check_invariants(self) -> None:
        """Assert that bytes and sums come from fetches."""
        for index, count in enumerate(self.fetches):
            assert count or not self.bytes[index], f"bucket {index} has {self.bytes[index]} bytes of no fetch"
        assert any(self.fetches) or not self.sum_by_fetches, f"a sum of {self.sum_by_fetches} of no fetch"

    def _inside(self, index: int, part: float) -> float:
        """Return the value at `part`, 0 to 1, of a bucket: on the log scale, in the first one, from 0 on, in a line."""
        if index == self.scale.bound_count:
            return float(self.scale.bound(index - 1))
        bound = self.scale.bound(index)
        return bound * part if index == 0 else bound * 2.0 ** (part - 1)

    def _part(self, index: int, value: float) -> float:
        """Return which part of a bucket lies at or below `value`: the inverse of `_inside`."""
        ratio = max(0.0, value) / self.scale.bound(index)
        return ratio if index == 0 else log2(2 * ratio)
