"""Clockwork: the periodic work of a broker, each kind with a timer of its own.

Work that looks at every partition is a generator: it yields after each item, and is done in slices, so that no request
waits for ten thousand partitions. Work that is still under way when its next time comes is not begun again.

A slice ends by the clock, and by the number of steps: where no time passes within a callback (simulated runs), long
work is sliced, too, at the same steps in every run.
"""

import asyncio
import logging
from collections.abc import Callable, Generator
from typing import Final, Protocol

from syncline.node.loop.loop_holds import LoopHolds

log = logging.getLogger("syncline.node")

# How long one callback works in steps, and how many it does at most.
SLICE_MS: Final = 3
STEPS_PER_SLICE: Final = 500

# Returns the steps of work that takes long; anything else is done when it returns.
Work = Callable[[], object]


class Every(Protocol):
    """What repeats work."""

    def __call__(self, name: str, interval_ms: int, work: Work, *, is_once: bool = False) -> None:
        """Do `work` once per interval, or only once."""


class Clockwork:
    """The timers of one broker."""

    def __init__(self, loop: asyncio.AbstractEventLoop, holds: LoopHolds) -> None:
        self._loop = loop
        self._holds = holds
        self._timers: dict[str, asyncio.TimerHandle] = {}
        # What is done in slices, by name.
        self._under_way: dict[str, Generator[None, None, None]] = {}
        self._is_closed = False

    def every(self, name: str, interval_ms: int, work: Work, *, is_once: bool = False) -> None:
        """Do `work` once per interval, or only once."""

        def fire() -> None:
            if not is_once:
                self._timers[name] = self._loop.call_later(interval_ms / 1000, fire)
            if name not in self._under_way:
                self._begin(name, work)

        assert name not in self._timers, f"two timers are named {name}"
        self._timers[name] = self._loop.call_later(interval_ms / 1000, fire)

    def close(self) -> None:
        """Stop all timers, and finish nothing that is under way."""
        self._is_closed = True
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        for steps in self._under_way.values():
            steps.close()
        self._under_way.clear()

    def _begin(self, name: str, work: Work) -> None:
        began_ms = self._holds.now_ms()
        try:
            steps = work()
        except Exception:
            log.exception("the %s timer failed", name)
            steps = None
        if isinstance(steps, Generator):
            self._under_way[name] = steps
            self._work(name, began_ms)
        self._holds.ended(began_ms, name)

    def _go_on(self, name: str) -> None:
        if not self._is_closed:
            began_ms = self._holds.now_ms()
            self._work(name, began_ms)
            self._holds.ended(began_ms, name)

    def _work(self, name: str, began_ms: int) -> None:
        """Do steps until the slice ends; then the others come in the next turn of the loop."""
        count = 0
        try:
            for _ in self._under_way[name]:
                count += 1
                if count >= STEPS_PER_SLICE or self._holds.look_ms() - began_ms >= SLICE_MS:
                    self._loop.call_soon(self._go_on, name)
                    return
        except Exception:
            log.exception("the %s timer failed", name)
        del self._under_way[name]
