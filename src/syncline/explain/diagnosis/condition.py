"""A condition: something that was wrong with a broker, or with the connection between two, from one time to another.

Units: Unix milliseconds by the writers' clocks, which are taken to agree within `CLOCKS_MS`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from syncline.model.events import Json

# Timestamps of two reports of one moment may differ by this much.
CLOCKS_MS: Final = 500
# Reports of one condition that lie this close belong together.
JOIN_MS: Final = 2_000
# One condition explains another if it covers at least this share of it.
EXPLAINED_SHARE: Final = 0.4


class Kind(StrEnum):
    """What was wrong; the values appear in the JSON of `syncline why`."""

    FAILED = "disk failed"
    DAMAGED = "log damaged"
    FULL = "disk full"
    DESCRIPTORS = "no descriptors"
    GONE = "process gone"
    STOPPED = "stopped in good order"
    STALL = "process stood still"
    DISK = "disk slow"
    CUT = "line cut"
    SILENT = "silent"
    UNREACHABLE = "controller unreachable"
    LATE = "metadata late"
    FRESH = "filling an empty log"
    BURST = "burst of writes"
    THROTTLED = "held back by a throttle"


# From the root of a chain of causes to its end: a root is named before its effects.
DEPTH: Final = (
    Kind.FAILED,
    Kind.DAMAGED,
    Kind.FULL,
    Kind.DESCRIPTORS,
    Kind.GONE,
    Kind.STALL,
    Kind.DISK,
    Kind.CUT,
    Kind.UNREACHABLE,
    Kind.LATE,
    Kind.FRESH,
    Kind.THROTTLED,
    Kind.BURST,
    Kind.SILENT,
    Kind.STOPPED,
)
assert set(DEPTH) == set(Kind), "every kind has a place in the order"


@dataclass(slots=True)
class Condition:
    """One condition of `broker`, or of its connection to `other`; while it lasts, `end_ms` is the last report's."""

    kind: Kind
    broker: int
    begin_ms: int
    end_ms: int
    other: int = -1
    is_over: bool = True
    # Of a cut: the directions (from, to) in which nothing arrives; empty if neither is known.
    lost: tuple[tuple[int, int], ...] = ()
    # Of a slow disk: the longest time in ms by (operation, partition, follower that waited).
    operations: dict[tuple[str, str, int], int] = field(default_factory=dict)
    blocked_ms: int = 0
    numbers: dict[str, Json] = field(default_factory=dict)

    def overlap_ms(self, begin_ms: int, end_ms: int) -> int:
        """Return how much of the time between two moments this covers."""
        return max(0, min(self.end_ms, end_ms) - max(self.begin_ms, begin_ms))

    def touches(self, begin_ms: int, end_ms: int) -> bool:
        """Return whether this covers any moment between two times."""
        return self.begin_ms <= end_ms and self.end_ms >= begin_ms

    def explains(self, other: "Condition") -> bool:
        """Return whether this covers so much of another condition that the other adds nothing."""
        length_ms = max(1, other.end_ms - other.begin_ms)
        covered_ms = self.overlap_ms(other.begin_ms - CLOCKS_MS, other.end_ms + CLOCKS_MS)
        return covered_ms >= EXPLAINED_SHARE * length_ms

    @property
    def length_ms(self) -> int:
        """How long it lasted, up to the last report."""
        return self.end_ms - self.begin_ms

    def check_invariants(self) -> None:
        """Raise `AssertionError` when the fields contradict each other."""
        assert self.begin_ms <= self.end_ms, f"{self.kind} ends {self.end_ms} before it begins {self.begin_ms}"
        ends = {self.broker, self.other}
        is_pair = self.kind in {Kind.CUT, Kind.SILENT}
        assert not is_pair or (len(ends) == 2 and -1 not in ends), f"{self.kind} between {self.broker} and {self.other}"
        assert all({*direction} == ends for direction in self.lost), f"{self.lost} is no direction between {ends}"
        assert not self.lost or self.kind is Kind.CUT, f"only a cut loses a direction, not {self.kind}"


def number(numbers: Mapping[str, Json], name: str) -> int:
    """Return an integer of some event's evidence, -1 if it is missing or something else."""
    value = numbers.get(name)
    return value if isinstance(value, int) else -1
