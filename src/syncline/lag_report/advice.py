"""What follows from the facts of one broker: how much memory would do, and which reader to look at.

A histogram in powers of two knows a distance to a factor of two, so the memory is one to that factor, too.
"""

from typing import Final, NamedTuple

from syncline.core.lag.miss_ratio import CurvePoint, ReaderMisses, hit_ratio, memory_for, misses_by_reader
from syncline.lag_report.facts import OTHERS, CacheFacts

WANTED: Final = 0.99
# Other shares that are worth a row, since the last percent is often the dearest.
SHARES: Final = (0.90, 0.95, WANTED)
# A reader with fewer of all misses is not named as the one to look at.
_BLAMED_MIN: Final = 0.25


class Advice(NamedTuple):
    """What a broker's page cache does now, and what it would need."""

    now: CurvePoint
    without_pollution: CurvePoint
    """The same if what is read from the disk took no room."""
    needed: tuple[tuple[float, float | None], ...]
    """Per share of `SHARES` the memory that serves it, None if no memory does."""
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
    return Advice(
        now=now,
        without_pollution=hit_ratio(facts.demand, facts.memory_bytes, with_pollution=False),
        needed=tuple((share, memory_for(facts.demand, share)) for share in SHARES),
        misses=misses,
        worst=worst,
        needed_without_worst=None if worst is None else memory_for(facts.without(worst).demand, WANTED),
    )
