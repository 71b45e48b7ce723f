"""The work that callbacks do, counted in calls, because no virtual time passes while code runs.

A callback that would hold a real loop for seconds holds a simulated one for no time
at all. What stays countable is work: a call, with the work between two calls, takes
about half a microsecond. A broker that serves a long request in slices looks at the
clock between two steps, and gives others their turn when the slice is over. The
clock of a simulated broker does not advance meanwhile, so its slices are longer
than those of a real one; but each look is a place where a real one could stop.
Hence what counts is the work between two looks, or from begin to end of a callback
that never looks.

The meter changes nothing that happens in a run.
"""

import sys
from collections.abc import Callable
from types import FrameType
from typing import Protocol

from syncline.node.clock import Clock
from syncline.virtual.time.process import Process


class CallMeter:
    """Counts the calls of callbacks that belong to brokers."""

    def __init__(self, brokers: frozenset[str]) -> None:
        self._brokers = brokers
        self._calls = 0
        # The most calls between two looks at the clock.
        self.calls_max = 0
        self.callbacks = 0

    def run(self, process: Process | None, run: Callable[..., object], *args: object) -> None:
        """Run a callback of `process`, and count its calls if it is a broker's."""
        if process is None or process.host not in self._brokers:
            run(*args)
            return
        self._calls = 0
        sys.setprofile(self._count)
        try:
            run(*args)
        finally:
            sys.setprofile(None)
            self.callbacks += 1
            self.looked()

    def looked(self) -> None:
        """Begin to count anew: the broker has looked at the clock, or its callback is over."""
        self.calls_max = max(self.calls_max, self._calls)
        self._calls = 0

    def _count(self, _frame: FrameType, event: str, _arg: object) -> None:
        if event in {"call", "c_call"}:
            self._calls += 1


class MeteredLoop(Protocol):
    """What the clock uses of a loop."""

    meter: CallMeter | None


class MeteredClock:
    """The clock by which a broker measures and divides its work; it reports each look to the meter of the moment."""

    def __init__(self, clock: Clock, loop: MeteredLoop) -> None:
        self._clock = clock
        self._loop = loop

    def mono_ms(self) -> int:
        """Return the milliseconds of the host's monotonic clock."""
        meter = self._loop.meter
        if meter is not None:
            meter.looked()
        return self._clock.mono_ms()

    def wall_ms(self) -> int:
        """Return Unix time according to the host."""
        return self._clock.wall_ms()
