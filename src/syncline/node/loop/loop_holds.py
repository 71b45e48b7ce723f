"""Loop holds: how long single callbacks keep the event loop, and so every other request, waiting.

One event loop serves all requests of a broker, so nothing may hold it for long: 10 ms is the rule, 50 ms the bound
(`node.serving.stepping` enforces it for requests that name many things). Measured are the callbacks that do a broker's
work: requests, answers of other brokers, slices of long requests, periodic work, and what a task does between two
waits.

A hold includes the time in which the operating system ran another process instead. Of holds that break the rule it is
also known how much of them was the broker's own work: the processor time of its process, where the clock tells it. The
longest ones are known by the work that held: by API key for requests (the last one of the callback), by name for other
work.

Units: ms of the node's monotonic clock, rounded down; most holds take less than 1 ms.
"""

import logging
from collections.abc import Callable, Coroutine, Generator
from typing import Any, Final, TypeAlias, TypeVar

from syncline.node.clock import Clock, StoppedMs
from syncline.node.counting.counters import DURATION_BOUNDS_MS, Histogram

log = logging.getLogger("syncline.node")

_T = TypeVar("_T")

# Calls a function with arguments in the event loop: `loop.call_soon_threadsafe`.
CallSoon: TypeAlias = Callable[..., Any]
# Returns how much processor time the process has used since a look at the clock (whole ms), None if that is not known.
WorkedMs: TypeAlias = Callable[[int], int | None]
# An API key, or a name of other work.
Work: TypeAlias = int | str

# What may hold the loop by the rule, and at the utmost: above the first, the longest hold of each work is remembered,
# above the second it is logged, too.
RULE_MS: Final = 10
BOUND_MS: Final = 50


class LoopHolds:
    """The durations of one broker's callbacks."""

    __slots__ = (
        "_worked_ms",
        "held_ms",
        "longest_by_work",
        "longest_ms",
        "longest_own_by_work",
        "look_ms",
        "now_ms",
        "own_ms",
        "stopped_ms",
    )

    def __init__(
        self,
        clock: Clock,
        worked_ms: WorkedMs = lambda _since_ms: None,
        look_ms: Callable[[], int] | None = None,
        stopped_ms: StoppedMs = lambda _since_ms, _until_ms: 0,
    ) -> None:
        # The time at which a callback begins, for `ended`, and the time within one.
        self.now_ms = clock.mono_ms
        self.look_ms = look_ms or clock.mono_ms
        self._worked_ms = worked_ms
        self.stopped_ms = stopped_ms
        self.held_ms = Histogram(DURATION_BOUNDS_MS)
        self.longest_ms = 0
        self.longest_by_work: dict[Work, int] = {}
        # Of holds that break the rule: how much of them was work.
        self.own_ms = Histogram(DURATION_BOUNDS_MS)
        self.longest_own_by_work: dict[Work, int] = {}

    def ended(self, began_ms: int, work: Work) -> int:
        """Count the callback that began at `began_ms`, did `work` and ends now; return how long it took."""
        held_ms = self.look_ms() - began_ms
        assert held_ms >= 0, f"the monotonic clock went back by {-held_ms} ms"
        if not held_ms:
            self.held_ms.buckets[0] += 1
            return 0
        self.held_ms.note(held_ms)
        self.longest_ms = max(self.longest_ms, held_ms)
        if held_ms > RULE_MS:
            worked_ms = self._worked_ms(began_ms)
            self._note(held_ms, held_ms if worked_ms is None else min(worked_ms, held_ms), work)
        return held_ms

    def _note(self, held_ms: int, own_ms: int, work: Work) -> None:
        """Count a hold that breaks the rule, and remember it if it is the longest of its kind of work."""
        self.own_ms.note(own_ms)
        if own_ms > max(RULE_MS, self.longest_own_by_work.get(work, 0)):
            self.longest_own_by_work[work] = own_ms
        if held_ms <= self.longest_by_work.get(work, 0):
            return
        self.longest_by_work[work] = held_ms
        if held_ms > BOUND_MS:
            kind = work if isinstance(work, str) else f"API key {work}"
            log.info(
                "the event loop was held for %s ms, longer than ever before by this kind of work: %s; the "
                "broker worked for %s ms of that time",
                held_ms,
                kind,
                own_ms,
            )

    def in_turns(self, coroutine: Coroutine[Any, Any, _T], work: Work) -> Coroutine[Any, Any, _T]:
        """Return the same coroutine, each of whose turns is counted: what it does between two waits."""
        return _Turns(coroutine, self, work)

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


class _Turns(Coroutine[Any, Any, _T]):
    """A coroutine of which each turn is counted; an object, so that it ends with the other one, begun or not."""

    __slots__ = ("_coroutine", "_holds", "_work")

    def __init__(self, coroutine: Coroutine[Any, Any, _T], holds: LoopHolds, work: Work) -> None:
        self._coroutine = coroutine
        self._holds = holds
        self._work = work

    def send(self, value: Any, /) -> Any:
        """Do the next turn."""
        began_ms = self._holds.now_ms()
        try:
            return self._coroutine.send(value)
        finally:
            self._holds.ended(began_ms, self._work)

    def throw(self, *raised: Any) -> Any:
        """Do the next turn with what was raised meanwhile."""
        began_ms = self._holds.now_ms()
        try:
            return self._coroutine.throw(*raised)
        finally:
            # An exception refers to the frames that it passed: a circle, if this frame refers to it.
            del raised
            self._holds.ended(began_ms, self._work)

    def close(self) -> None:
        """Stop taking turns."""
        self._coroutine.close()

    def __await__(self) -> Generator[Any, Any, _T]:
        """Do all turns within those of another coroutine."""
        raise TypeError("a task of its own does these turns")
