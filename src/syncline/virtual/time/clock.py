"""Clocks of simulated hosts: the monotonic clock is exact, the wall clock has an offset and drifts.

Units: integer milliseconds, from the loop's integer nanoseconds.
"""

from typing import Final

from syncline.virtual.time.loop import VirtualLoop

# 2023-11-14 22:13:20 UTC: when every simulation begins.
EPOCH_MS: Final = 1_700_000_000_000
MILLION: Final = 1_000_000


def world_wall_ns(loop: VirtualLoop) -> int:
    """Return the true wall time; the clocks of hosts differ from it."""
    return EPOCH_MS * MILLION + loop.now_ns


class VirtualClock:
    """The Clock port on one host."""

    def __init__(self, loop: VirtualLoop, *, offset_ms: int = 0, drift_ppm: int = 0) -> None:
        self._loop = loop
        self.offset_ms = offset_ms
        self._drift_ppm = drift_ppm

    def mono_ms(self) -> int:
        """Return milliseconds since the simulation began."""
        return self._loop.now_ns // MILLION

    def wall_ms(self) -> int:
        """Return Unix time according to this host."""
        now_ns = self._loop.now_ns
        return EPOCH_MS + self.offset_ms + (now_ns + now_ns * self._drift_ppm // MILLION) // MILLION
