"""The clock of a broker's event loop, which also tells how much of a time its process has worked.

A callback that takes 30 ms may have worked for 2 ms: for the rest other processes had the processors, or the loop
waited for a thread of its own broker that had none. Nothing that the broker does differently would have made it
shorter. What it can answer for is the processor time of its process, all threads included, since a thread that computes
may keep the loop waiting. Waiting for the disk is not in it either; slow writes are observed by themselves
(`node.disk_watch`).

To read that takes a microsecond at best, and fifty where processors are busy. So it is read when a callback begins, at
most once per millisecond: the work of a callback includes what was done in the same millisecond, but before it. Looks
within a callback are without it.

Units: ms, rounded down.
"""

import time
from array import array
from typing import Final

from syncline.node.clock import SystemClock

# For how many milliseconds back the work is known; a power of two.
REMEMBERED: Final = 1 << 10
_NS: Final = 1_000_000
_MASK: Final = REMEMBERED - 1


class LoopClock(SystemClock):
    """The operating system's clocks, for the loop's thread alone."""

    def __init__(self) -> None:
        super().__init__()
        # By the lowest bits of a time: the last such time of a first look, and the processor time used until then.
        self._looked_ms = array("q", [-1]) * REMEMBERED
        self._used_ns = array("q", [0]) * REMEMBERED
        self._last_ms = -1

    def look_ms(self) -> int:
        """Return milliseconds of the monotonic clock within a callback, of which nobody asks for the work since."""
        return time.monotonic_ns() // _NS

    def mono_ms(self) -> int:
        """Return milliseconds of the monotonic clock, as a callback begins."""
        # As that of `SystemClock`, in line: each request asks.
        now_ms = time.monotonic_ns() // _NS
        if now_ms != self._last_ms:
            self._last_ms = self._looked_ms[now_ms & _MASK] = now_ms
            self._used_ns[now_ms & _MASK] = time.process_time_ns()
        return now_ms

    def worked_ms(self, since_ms: int) -> int | None:
        """Return how much processor time this process has used since a look at the clock; None for old looks."""
        if self._looked_ms[since_ms & _MASK] != since_ms:
            return None
        used_ns = time.process_time_ns() - self._used_ns[since_ms & _MASK]
        assert used_ns >= 0, f"the processor time went back by {-used_ns} ns"
        return used_ns // _NS
