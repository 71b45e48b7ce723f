"""How much memory a broker's page cache needs: from how far behind the tail consumers read.

One hard idea: a page that was appended stays in memory until as many other bytes were appended, by all logs together,
as the cache holds. So what decides about a read is its *stack distance*: the bytes that the broker has appended since
it appended what is read. The share of read bytes within a distance is the hit ratio of a cache of that size; all sizes
are answered by one histogram. A lag in bytes of one partition is no such distance: in a slow partition a small lag is
old, and its pages are gone.

What is read from the disk takes room in the cache, too. With R bytes read per second, of which a share misses, pages go
at the rate W + R x misses instead of W, so a cache of M holds what was appended within M / (W + R x misses) seconds:
misses depend on themselves, and the smallest solution is the one that a cache reaches from no misses on.

Two things are left out. A repeated read soon after a miss is a hit in truth, so there are fewer misses than counted
where groups read the same old data together. And a page that is read from memory stays there anew, though no other
reader may want it: a reader that is a seconds behind at a rate of r takes r x a bytes besides, which matters where
readers far behind are nearly as fast as all that is written.
Units: bytes, bytes per second, seconds; shares from 0 to 1.
Source: KIP-489 (its purpose); Mattson's stack distances.
"""

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from math import ceil, inf, log2
from typing import Final, NamedTuple, Protocol

from syncline.core.lag.buckets import Weighted

# Far more than any machine has; what is not within it is out of reach of memory.
_MEMORY_BYTES_MAX: Final = 1 << 60
_STEPS_MAX: Final = 10_000
_PRECISION: Final = 1e-9


class Distances(Protocol):
    """Which share of all bytes read lies within a stack distance."""

    def share_within(self, distance_bytes: float) -> float:
        """Return a share, which rises with the distance."""
        ...


class Measured:
    """Distances as a broker has counted them, weighted by bytes."""

    __slots__ = ("_counted",)

    def __init__(self, counted: Weighted) -> None:
        self._counted = counted

    def share_within(self, distance_bytes: float) -> float:
        """Return the share of bytes; those whose pages were dropped are within no distance."""
        return self._counted.share_within(distance_bytes, by_bytes=True)


class Drawn:
    """Distances between given points, with straight lines between them: for what is known of a workload in advance."""

    __slots__ = ("_distances", "_shares")

    def __init__(self, points: Sequence[tuple[float, float]]) -> None:
        """Take pairs of distance and share, of which neither falls; two shares of one distance make a step there."""
        self._distances = [0.0, *(distance for distance, _ in points)]
        self._shares = [0.0, *(share for _, share in points)]
        assert self._distances == sorted(self._distances), f"distances fall: {points}"
        assert self._shares == sorted(self._shares), f"shares fall: {points}"
        assert self._shares[-1] <= 1, f"more than everything is within a distance: {points}"

    @classmethod
    def of_ages(cls, ages: Sequence[tuple[float, float]], written_bytes_per_s: float) -> "Drawn":
        """Take pairs of age in seconds and share: at a steady rate, what is so old has that much written behind it."""
        return cls([(age_s * written_bytes_per_s, share) for age_s, share in ages])

    def share_within(self, distance_bytes: float) -> float:
        """Return the share, in a line between two points."""
        assert distance_bytes >= 0, f"a distance of {distance_bytes} bytes"
        above = bisect_right(self._distances, distance_bytes)
        if above == len(self._distances):
            return self._shares[-1]
        low, high = self._distances[above - 1], self._distances[above]
        part = (distance_bytes - low) / (high - low)
        return self._shares[above - 1] + part * (self._shares[above] - self._shares[above - 1])


class Demand(NamedTuple):
    """What a broker writes and what is read of it."""

    written_bytes_per_s: float
    read_bytes_per_s: float
    distances: Distances


class CurvePoint(NamedTuple):
    """A cache of one size."""

    memory_bytes: float
    hit_ratio: float
    disk_bytes_per_s: float
    """What is read from the disk."""
    residence_s: float
    """For how long a page stays; infinite if nothing is written or read from the disk."""


class ReaderMisses(NamedTuple):
    """One reader's part in what is read from the disk."""

    reader: str
    share: float
    """Of all misses; 0 if there are none."""
    hit_ratio: float
    disk_bytes_per_s: float


def stack_distance(lag_bytes: float, partition_bytes_per_s: float, written_bytes_per_s: float) -> float:
    """Return how much a broker wrote while one partition, at its steady rate, wrote `lag_bytes`; infinite if it rests.

    For forecasts: what is measured has its distance from the broker's own counter.
    """
    assert lag_bytes >= 0, f"a lag of {lag_bytes} bytes"
    assert partition_bytes_per_s <= written_bytes_per_s, "a partition writes more than its broker"
    if not lag_bytes:
        return 0.0
    return lag_bytes * written_bytes_per_s / partition_bytes_per_s if partition_bytes_per_s else inf


def hit_ratio(demand: Demand, memory_bytes: float, *, with_pollution: bool) -> CurvePoint:
    """Return what a cache of `memory_bytes` does with a demand; with pollution, misses take room in it."""
    return _point({"": demand}, memory_bytes, with_pollution=with_pollution)


def curve(demand: Demand, memories_bytes: Sequence[float], *, with_pollution: bool = True) -> tuple[CurvePoint, ...]:
    """Return a point for each size."""
    return tuple(hit_ratio(demand, memory_bytes, with_pollution=with_pollution) for memory_bytes in memories_bytes)


def memory_for(demand: Demand, wanted_hit_ratio: float) -> float | None:
    """Return the least memory that serves a share of all bytes, pollution included; None if none suffices.

    The distance within which that share lies, made larger by what misses add to what is written. Where much more is
    read than written, misses may add so much that less memory serves an even larger share: bounds of buckets further
    away are looked at, too, between which nothing takes less than both of them.
    """
    assert 0 <= wanted_hit_ratio <= 1, f"a hit ratio of {wanted_hit_ratio}"
    within = demand.distances.share_within
    if within(_MEMORY_BYTES_MAX) < wanted_hit_ratio:
        return None
    low, high = 0.0, float(_MEMORY_BYTES_MAX)
    while high - low > max(1.0, high * _PRECISION):
        middle = (low + high) / 2
        low, high = (low, middle) if within(middle) >= wanted_hit_ratio else (middle, high)
    if not demand.written_bytes_per_s:
        return high
    least_bytes = high * (1 + demand.read_bytes_per_s * (1 - wanted_hit_ratio) / demand.written_bytes_per_s)
    further_bytes = 2.0 ** ceil(log2(high))
    while further_bytes < least_bytes:
        misses = 1 - within(further_bytes)
        least_bytes = min(
            least_bytes, further_bytes * (1 + demand.read_bytes_per_s * misses / demand.written_bytes_per_s)
        )
        further_bytes *= 2
    return least_bytes


def misses_by_reader(
    demands: Mapping[str, Demand], memory_bytes: float, *, with_pollution: bool = True
) -> list[ReaderMisses]:
    """Return who causes which part of the misses, the worst first.

    All readers share one cache and one broker, so every demand has the same written rate.
    """
    if not demands:
        return []
    point = _point(demands, memory_bytes, with_pollution=with_pollution)
    reach_bytes = _reach_bytes(demands, memory_bytes, point.disk_bytes_per_s if with_pollution else 0.0)
    rows = []
    for reader, demand in demands.items():
        hits = demand.distances.share_within(reach_bytes)
        missed_bytes_per_s = demand.read_bytes_per_s * (1 - hits)
        share = missed_bytes_per_s / point.disk_bytes_per_s if point.disk_bytes_per_s else 0.0
        rows.append(ReaderMisses(reader, min(1.0, share), hits, missed_bytes_per_s))
    return sorted(rows, key=lambda row: (-row.disk_bytes_per_s, row.reader))


def _point(demands: Mapping[str, Demand], memory_bytes: float, *, with_pollution: bool) -> CurvePoint:
    """Return the point at which misses are those that they cause, reached from no misses on."""
    assert memory_bytes > 0, f"a cache of {memory_bytes} bytes"
    assert len({demand.written_bytes_per_s for demand in demands.values()}) == 1, "one broker writes at one rate"
    (written_bytes_per_s, *_) = (demand.written_bytes_per_s for demand in demands.values())
    read_bytes_per_s = sum(demand.read_bytes_per_s for demand in demands.values())
    missed_bytes_per_s = 0.0
    for _step in range(_STEPS_MAX):
        polluting_bytes_per_s = missed_bytes_per_s if with_pollution else 0.0
        reach_bytes = _reach_bytes(demands, memory_bytes, polluting_bytes_per_s)
        missed_before, missed_bytes_per_s = missed_bytes_per_s, _missed(demands, reach_bytes)
        more_bytes_per_s, rounding = missed_bytes_per_s - missed_before, _PRECISION * read_bytes_per_s
        assert more_bytes_per_s >= -rounding, "fewer misses in less room"
        if more_bytes_per_s <= rounding or not with_pollution:
            break
    turnover_bytes_per_s = written_bytes_per_s + (missed_bytes_per_s if with_pollution else 0.0)
    return CurvePoint(
        memory_bytes=memory_bytes,
        hit_ratio=1 - missed_bytes_per_s / read_bytes_per_s if read_bytes_per_s else 1.0,
        disk_bytes_per_s=missed_bytes_per_s,
        residence_s=memory_bytes / turnover_bytes_per_s if turnover_bytes_per_s else inf,
    )


def _reach_bytes(demands: Mapping[str, Demand], memory_bytes: float, polluting_bytes_per_s: float) -> float:
    """Return within which distance pages are still there: the part of the memory that holds what was written."""
    (written_bytes_per_s, *_) = (demand.written_bytes_per_s for demand in demands.values())
    if not written_bytes_per_s:
        # Nothing drives the pages out that were written; what misses bring in is not known to be read again.
        return memory_bytes
    return memory_bytes * written_bytes_per_s / (written_bytes_per_s + polluting_bytes_per_s)


def _missed(demands: Mapping[str, Demand], reach_bytes: float) -> float:
    return sum(
        demand.read_bytes_per_s * (1 - demand.distances.share_within(reach_bytes)) for demand in demands.values()
    )
