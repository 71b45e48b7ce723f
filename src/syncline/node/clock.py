"""The Clock port: the two times a broker may ask for.

`mono_ms` orders and measures (deadlines, lag windows); `wall_ms` stamps records
and events. They are separate because a wall clock may jump and a lag must not.
Units: integer milliseconds.
"""

import time
from collections.abc import Callable
from typing import Protocol, TypeAlias

# Returns for how much of the time between two `mono_ms` (ms), the second just now, the whole process did not run.
StoppedMs: TypeAlias = Callable[[int, int], int]


class Clock(Protocol):
    """Where a node reads the time; `virtual` has its own implementation."""

    def mono_ms(self) -> int:
        """Return milliseconds of a clock that never goes backwards."""

    def wall_ms(self) -> int:
        """Return milliseconds since the Unix epoch."""


class SystemClock:
    """The operating system's clocks; its wall clock may be set wrong on purpose."""

    def __init__(self, offset_ms: int = 0) -> None:
        self._offset_ms = offset_ms

    def mono_ms(self) -> int:
        """Return milliseconds of the monotonic clock."""
        return time.monotonic_ns() // 1_000_000

    def wall_ms(self) -> int:
        """Return milliseconds since the Unix epoch."""
        return time.time_ns() // 1_000_000 + self._offset_ms
