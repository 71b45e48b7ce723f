"""The clock of a broker's event loop, which also tells how much of a time its process has worked.

A callback that takes 30 ms may have worked for 2 ms: for the rest other processes had the processors, or the loop
waited for a thread of its own broker that had none. Nothing that the broker does differently would have made it
shorter. What it can answer for is the processor time of its process, all threads included, since a thread that computes
may keep the loop waiting. Waiting for the disk is not in it either; slow writes are observed by themselves
(`node.counting.disk_watch`).

The time of one thread is quickly read; that of the process is not, since the kernel asks each thread. So the loop's
thread is asked when a callback begins, at most once per millisecond, and the others every few milliseconds: the work of
a callback includes what the loop did in the same millisecond, but before it, and what the other threads did since they
were asked. It never lacks what the loop did. Looks within a callback are without all this.

Units: ms, rounded down.
"""

import time
from array import array
from typing import Final

from syncline.node.clock import SystemClock

# For how many milliseconds back the work is known; a power of two.
REMEMBERED: Final = 1 << 10
# How long the time that the other threads have used is taken as unchanged.
OTHERS_MS: Final = 4
_NS: Final = 1_000_000
_MASK: Final = REMEMBERED - 1


class LoopClock(SystemClock):
    """The operating system's clocks, for the loop's thread alone."""

    def __init__(self) -> None:
        super().__init__()
        # By the lowest bits of a time: the last such time of a first look, and the processor time used until then, by
        # the loop's thread and by the others.
        self._looked_ms = array("q", [-1]) * REMEMBERED
        self._used_ns = array("q", [0]) * REMEMBERED
        self._others_used_ns = array("q", [0]) * REMEMBERED
        self._last_ms = -1
        self._others_ns = 0
        self._others_asked_ms = -OTHERS_MS

    def look_ms(self) -> int:
        """Return milliseconds of the monotonic clock within a callback, of which nobody asks for the work since."""
        return time.monotonic_ns() // _NS

    def mono_ms(self) -> int:
        """Return milliseconds of the monotonic clock, as a callback begins."""
        # As that of `SystemClock`, in line: each request asks.
        now_ms = time.monotonic_ns() // _NS
        if now_ms != self._last_ms:
            at = now_ms & _MASK
            self._last_ms = self._looked_ms[at] = now_ms
            if now_ms - self._others_asked_ms >= OTHERS_MS:
                self._others_asked_ms = now_ms
                # The process first: what the loop uses in between must not be missing from the others' time.
                self._others_ns = time.process_time_ns() - time.thread_time_ns()
            self._used_ns[at] = time.thread_time_ns()
            self._others_used_ns[at] = self._others_ns
        return now_ms

    def worked_ms(self, since_ms: int) -> int | None:
        """Return how much processor time this process has used since a look at the clock; None for old looks."""
        at = since_ms & _MASK
        if self._looked_ms[at] != since_ms:
            return None
        used_ns = time.process_time_ns() - self._used_ns[at] - self._others_used_ns[at]
        assert used_ns >= 0, f"the processor time went back by {-used_ns} ns"
        return used_ns // _NS
