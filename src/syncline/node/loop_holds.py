"""Loop holds: how long single callbacks keep the event loop, and so every other request, waiting.

One event loop serves all requests of a broker, so nothing may hold it for long: 10 ms is the rule, 50 ms the bound
(`node.stepping` enforces it for requests that name many things). Measured are the callbacks that do a broker's work:
requests, answers of other brokers, slices of long requests, and periodic work.

A hold includes the time in which the operating system ran another process instead.

Units: ms of the node's monotonic clock, rounded down; most holds take less than 1 ms.
"""

from collections.abc import Callable
from typing import Any, TypeAlias

from syncline.node.clock import Clock
from syncline.node.counters import DURATION_BOUNDS_MS, Histogram

# Calls a function with arguments in the event loop: `loop.call_soon_threadsafe`.
CallSoon: TypeAlias = Callable[..., Any]


class LoopHolds:
    """The durations of one broker's callbacks."""

    __slots__ = ("held_ms", "longest_ms", "now_ms")

    def __init__(self, clock: Clock) -> None:
        # The time at which a callback begins, for `ended`.
        self.now_ms = clock.mono_ms
        self.held_ms = Histogram(DURATION_BOUNDS_MS)
        self.longest_ms = 0

    def ended(self, began_ms: int) -> int:
        """Count the callback that began at `began_ms` and ends now; return how long it took."""
        held_ms = self.now_ms() - began_ms
        assert held_ms >= 0, f"the monotonic clock went back by {-held_ms} ms"
        if not held_ms:
            self.held_ms.buckets[0] += 1
            return 0
        self.held_ms.note(held_ms)
        self.longest_ms = max(self.longest_ms, held_ms)
        return held_ms

    def counted(self, call_soon: CallSoon) -> CallSoon:
        """Return a `call_soon` whose callbacks are counted: the results of threads."""

        def run(callback: Callable[..., object], *args: Any) -> None:
            began_ms = self.now_ms()
            try:
                callback(*args)
            finally:
                self.ended(began_ms)

        def call(callback: Callable[..., object], *args: Any) -> Any:
            return call_soon(run, callback, *args)

        return call
