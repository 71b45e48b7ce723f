"""Clocks of simulated hosts: the monotonic one is exact, the wall clock drifts and is off.

Units: integer milliseconds, from the loop's integer nanoseconds.
"""

from typing import Final

from syncline.virtual.loop import VirtualLoop

# 2023-11-14 22:13:20 UTC: when every simulation begins.
EPOCH_MS: Final = 1_700_000_000_000
MILLION: Final = 1_000_000


def world_wall_ns(loop: VirtualLoop) -> int:
    """Return the true wall time, which no host quite has."""
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
        """Return what this host believes to be Unix time."""
        now_ns = self._loop.now_ns
        return EPOCH_MS + self.offset_ms + (now_ns + now_ns * self._drift_ppm // MILLION) // MILLION
