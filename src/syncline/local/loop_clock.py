"""The clock of a broker's event loop, which also tells how much of a time its process has worked.

A callback that takes 30 ms may have worked for 2 ms: for the rest other processes had the processors, or the loop
waited for a thread of its own broker that had none. Nothing that the broker does differently would have made it
shorter. What it can answer for is the processor time of its process, all threads included, since a thread that computes
may keep the loop waiting. Waiting for the disk is not in it either; slow writes are observed by themselves
(`node.disk_watch`).

To read that takes a microsecond at best, and fifty where processors are busy: once per millisecond would be a
twentieth of what a busy broker computes. So it is read when a callback begins, at most once in four milliseconds: the
work of a callback may include up to three milliseconds of what was done before it. Looks within one are without it.

Units: ms, rounded down.
"""

import time
from array import array
from typing import Final

from syncline.node.clock import SystemClock

# The processor time is read once in so many milliseconds, and known for so many milliseconds back; powers of two.
EVERY_MS: Final = 4
REMEMBERED_MS: Final = 1 << 10
_NS: Final = 1_000_000
_SHIFT: Final = EVERY_MS.bit_length() - 1
_ROWS: Final = REMEMBERED_MS // EVERY_MS
_MASK: Final = _ROWS - 1


class LoopClock(SystemClock):
    """The operating system's clocks, for the loop's thread alone."""

    def __init__(self) -> None:
        super().__init__()
        # By the lowest bits of a time in units of four milliseconds: the last such time of a first look, and the
        # processor time used until then.
        self._looked = array("q", [-1]) * _ROWS
        self._used_ns = array("q", [0]) * _ROWS
        self._last = -1

    def look_ms(self) -> int:
        """Return milliseconds of the monotonic clock within a callback, of which nobody asks for the work since."""
        return time.monotonic_ns() // _NS

    def mono_ms(self) -> int:
        """Return milliseconds of the monotonic clock, as a callback begins."""
        # As that of `SystemClock`, in line: each request asks.
        now_ms = time.monotonic_ns() // _NS
        now = now_ms >> _SHIFT
        if now != self._last:
            self._last = self._looked[now & _MASK] = now
            self._used_ns[now & _MASK] = time.process_time_ns()
        return now_ms

    def worked_ms(self, since_ms: int) -> int | None:
        """Return how much processor time this process has used since a look at the clock; None for old looks.

        It may include what was used in the 3 ms before the look.
        """
        since = since_ms >> _SHIFT
        if self._looked[since & _MASK] != since:
            return None
        used_ns = time.process_time_ns() - self._used_ns[since & _MASK]
        assert used_ns >= 0, f"the processor time went back by {-used_ns} ns"
        return used_ns // _NS
