"""What clients did and when, as an outside observer logged it: one machine, one clock, no word of a broker about lag.

A client cannot know when its record was appended, but it was between the sending and the answer. So everything here is
an interval, and whatever slows the observer makes intervals wider, never wrong.

Units: Unix ms, as floats; offsets.
"""

import threading
import time
from bisect import bisect_right
from collections import defaultdict
from dataclasses import dataclass, field
from math import inf
from typing import NamedTuple


def now_ms() -> float:
    """Return the time of this machine's clock, which is that of the brokers."""
    return time.time_ns() / 1e6


class Known(NamedTuple):
    """From this moment on, the committed offset is between two bounds; no commit counts as -1."""

    from_ms: float
    lowest: float
    highest: float


NOTHING = Known(0.0, -1.0, -1.0)


@dataclass
class Commits:
    """What is known of the committed offset of one group in one partition, at each time."""

    known: list[Known] = field(default_factory=lambda: [NOTHING])

    def may_be(self, from_ms: float, lowest: float, highest: float) -> None:
        """Note what is known from a moment on."""
        assert from_ms >= self.known[-1].from_ms, "one thread logs a group, in the order of time"
        self.known.append(Known(from_ms, lowest, highest))

    def setting(self, offset: int, from_ms: float) -> None:
        """Note that an offset is sent: it counts from some moment on, if ever."""
        last = self.known[-1]
        self.may_be(from_ms, min(last.lowest, offset), max(last.highest, offset))

    def advancing(self, from_ms: float) -> None:
        """Note that a member may commit from now on, forwards."""
        self.may_be(from_ms, self.known[-1].lowest, inf)

    def reached(self, offset: int, from_ms: float) -> None:
        """Note that a member has committed an offset, before this moment."""
        last = self.known[-1]
        if offset > last.lowest:
            self.may_be(from_ms, offset, max(last.highest, offset))

    def between(self, begin_ms: float, end_ms: float) -> tuple[float, float]:
        """Return the bounds of what could be read at some moment of this time."""
        first = bisect_right(self.known, begin_ms, key=lambda known: known.from_ms) - 1
        behind = bisect_right(self.known, end_ms, key=lambda known: known.from_ms)
        meanwhile = self.known[first:behind]
        return min(known.lowest for known in meanwhile), max(known.highest for known in meanwhile)


class History:
    """What all clients of a run did."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        # By the record's own text, which names it.
        self.sent_ms: dict[bytes, float] = {}
        # By partition and offset.
        self.acknowledged_ms: dict[tuple[int, int], float] = {}
        # The end of what is acknowledged, by partition.
        self.ends: dict[int, int] = defaultdict(int)
        self.commits: dict[tuple[str, int], Commits] = defaultdict(Commits)
        # What happened, for the report.
        self.counts: dict[str, int] = defaultdict(int)

    def sending(self, names: list[bytes]) -> None:
        """Note that records are about to be sent."""
        at_ms = now_ms()
        with self._lock:
            self.sent_ms.update(dict.fromkeys(names, at_ms))

    def acknowledged(self, places: list[list[int]]) -> None:
        """Note that records were acknowledged, by partition and offset."""
        at_ms = now_ms()
        with self._lock:
            for partition, offset in places:
                self.acknowledged_ms[partition, offset] = at_ms
                self.ends[partition] = max(self.ends[partition], offset + 1)

    def count(self, what: str) -> None:
        """Count that something happened."""
        with self._lock:
            self.counts[what] += 1
