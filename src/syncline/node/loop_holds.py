"""Loop holds: how long single callbacks keep the event loop, and so every other request, waiting.

One event loop serves all requests of a broker, so nothing may hold it for long: 10 ms is the rule, 50 ms the bound
(`node.stepping` enforces it for requests that name many things). Measured are the callbacks that do a broker's work:
requests, answers of other brokers, slices of long requests, and periodic work.

A hold includes the time in which the operating system ran another process instead. It also is known by the work that
held longest: by API key for requests (the last one of the callback), by name for other work.

Units: ms of the node's monotonic clock, rounded down; most holds take less than 1 ms.
"""

import logging
from collections.abc import Callable
from typing import Any, Final, TypeAlias

from syncline.node.clock import Clock
from syncline.node.counters import DURATION_BOUNDS_MS, Histogram

log = logging.getLogger("syncline.node")

# Calls a function with arguments in the event loop: `loop.call_soon_threadsafe`.
CallSoon: TypeAlias = Callable[..., Any]
# An API key, or a name of other work.
Work: TypeAlias = int | str

# What may hold the loop by the rule, and at the utmost: above the first, the longest hold of each work is remembered,
# above the second it is logged, too.
RULE_MS: Final = 10
BOUND_MS: Final = 50


class LoopHolds:
    """The durations of one broker's callbacks."""

    __slots__ = ("held_ms", "longest_by_work", "longest_ms", "now_ms")

    def __init__(self, clock: Clock) -> None:
        # The time at which a callback begins, for `ended`.
        self.now_ms = clock.mono_ms
        self.held_ms = Histogram(DURATION_BOUNDS_MS)
        self.longest_ms = 0
        self.longest_by_work: dict[Work, int] = {}

    def ended(self, began_ms: int, work: Work) -> int:
        """Count the callback that began at `began_ms`, did `work` and ends now; return how long it took."""
        held_ms = self.now_ms() - began_ms
        assert held_ms >= 0, f"the monotonic clock went back by {-held_ms} ms"
        if not held_ms:
            self.held_ms.buckets[0] += 1
            return 0
        self.held_ms.note(held_ms)
        self.longest_ms = max(self.longest_ms, held_ms)
        if held_ms > RULE_MS:
            self._note(held_ms, work)
        return held_ms

    def _note(self, held_ms: int, work: Work) -> None:
        """Remember a hold that breaks the rule, if it is the longest of its kind of work."""
        if held_ms <= self.longest_by_work.get(work, 0):
            return
        self.longest_by_work[work] = held_ms
        if held_ms > BOUND_MS:
            kind = work if isinstance(work, str) else f"API key {work}"
            log.info("the event loop was held for %s ms, longer than ever by this kind of work: %s", held_ms, kind)

    def counted(self, call_soon: CallSoon) -> CallSoon:
        """Return a `call_soon` whose callbacks are counted: the results of threads."""

        def run(callback: Callable[..., object], *args: Any) -> None:
            began_ms = self.now_ms()
            try:
                callback(*args)
            finally:
                self.ended(began_ms, "results of threads")

        def call(callback: Callable[..., object], *args: Any) -> Any:
            return call_soon(run, callback, *args)

        return call
