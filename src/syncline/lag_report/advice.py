"""What follows from the facts of one broker: how much memory would do, and which reader to look at.

A histogram in powers of two knows a distance to a factor of two, so the memory is one to that factor, too.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple, TypeAlias

from syncline.core.lag.miss_ratio import CurvePoint, Demand, ReaderMisses, hit_ratio, memory_for, misses_by_reader
from syncline.lag_report.facts import OTHERS, CacheFacts

WANTED: Final = 0.99
# Other shares that are worth a row, since the last percent is often the dearest.
SHARES: Final = (0.90, 0.95, WANTED)
# A reader with fewer of all misses is not named as the one to look at.
_BLAMED_MIN: Final = 0.25

# Per share of `SHARES` the memory that serves it, None if no memory does.
Needed: TypeAlias = tuple[tuple[float, float | None], ...]


class Advice(NamedTuple):
    """What a broker's page cache does now, and what it would need."""

    now: CurvePoint
    """With the memory of the facts, which may be supposed."""
    present: CurvePoint | None
    """If it is supposed: with the memory that the broker has, None if that is not known."""
    without_pollution: CurvePoint
    """The same if what is read from the disk took no room."""
    needed: Needed
    """For all reads together."""
    needed_by_reader: Mapping[str, Needed]
    """For the reads of one reader, while all of them read."""
    misses: tuple[ReaderMisses, ...]
    """The worst reader first."""
    worst: str | None
    """The reader that makes most of the misses, if it makes many."""
    needed_without_worst: float | None
    """Memory that serves `WANTED` of all other readers; None if no memory does, or there is no such reader."""

    @property
    def wanted_bytes(self) -> float | None:
        """Return the memory for `WANTED`."""
        return dict(self.needed)[WANTED]

    @property
    def has_enough(self) -> bool:
        """Whether the memory of now serves `WANTED` already."""
        return self.now.hit_ratio >= WANTED


def advise(facts: CacheFacts) -> Advice:
    """Return what the facts of a broker mean."""
    now = hit_ratio(facts.demand, facts.memory_bytes, with_pollution=True)
    misses = tuple(misses_by_reader(facts.demands, facts.memory_bytes))
    worst = misses[0].reader if len(misses) > 1 and misses[0].share >= _BLAMED_MIN else None
    if worst == OTHERS:
        worst = None
    present_bytes = facts.present_bytes
    return Advice(
        now=now,
        present=None if present_bytes is None else hit_ratio(facts.demand, present_bytes, with_pollution=True),
        without_pollution=hit_ratio(facts.demand, facts.memory_bytes, with_pollution=False),
        needed=tuple((share, memory_for(facts.demand, share)) for share in SHARES),
        needed_by_reader={
            name: tuple((share, _memory_for_reader(demand, facts.demand, share)) for share in SHARES)
            for name, demand in facts.demands.items()
        },
        misses=misses,
        worst=worst,
        needed_without_worst=None if worst is None else memory_for(facts.without(worst).demand, WANTED),
    )


def _memory_for_reader(reader: Demand, everyone: Demand, share: float) -> float | None:
    """Return the memory with which a share of one reader's bytes is served from it, while everyone's misses take room.

    The distance within which that share lies, made larger by what all misses at that distance add to what is written.
    """
    # Without reads there are no misses, so this memory is the distance.
    distance_bytes = memory_for(reader._replace(read_bytes_per_s=0.0), share)
    if distance_bytes is None or not everyone.written_bytes_per_s:
        return distance_bytes
    missed_bytes_per_s = everyone.read_bytes_per_s * (1 - everyone.distances.share_within(distance_bytes))
    return distance_bytes * (everyone.written_bytes_per_s + missed_bytes_per_s) / everyone.written_bytes_per_s
