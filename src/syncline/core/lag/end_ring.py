"""The last ends of a partition, as Burrow samples them: every half minute, and shared by all groups.

Two rules rest on them: the lag of a commit is the distance to the newest end, and a group that had no lag at one of
the ends is not called stopped yet.

Units: offsets; times in ms.
"""

from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

from syncline.core.lag.commit_ring import INTERVALS


class End(NamedTuple):
    """Where a partition ended at one time."""

    offset: int
    at_ms: int


class EndRing:
    """The last `intervals` ends of one partition."""

    __slots__ = ("_ends",)

    def __init__(self, intervals: int = INTERVALS) -> None:
        assert intervals >= 1, f"a window of {intervals} ends"
        self._ends: deque[End] = deque(maxlen=intervals)

    def add(self, offset: int, at_ms: int) -> None:
        """Add a sample. An end may be below the one before it: a log can be cut, and Burrow takes what it gets."""
        assert offset >= 0, f"a log ends at {offset}"
        self._ends.append(End(offset, at_ms))

    @property
    def newest(self) -> End | None:
        """The last sample, None before the first."""
        return self._ends[-1] if self._ends else None

    def offsets(self) -> Sequence[int]:
        """Return all ends, oldest first."""
        return [end.offset for end in self._ends]
