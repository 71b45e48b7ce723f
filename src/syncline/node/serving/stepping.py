"""Stepping: requests that cost much are served in slices, so that no request holds the event loop for long.

One hard idea: a handler may be a generator. It yields between items, and a client that names a hundred thousand items
makes only itself wait: after some milliseconds the loop serves other work, and then continues the request. All such
requests of a broker share one slice per turn of the loop, in turns of their own.

    Dispatcher ──steps──> begin: the first slice, in the callback that received the request
                            └── not finished: the connection's later requests wait, until this one is answered
                            _turn, once per turn of the loop: a quantum for each unfinished request, round-robin

A request may begin another kind of steps when one ends, as a fetch does that reads, decides and answers; all of them
share the time of one slice. A slice ends by the clock, and by the number of steps: where no time passes within a
callback (simulated runs), long requests are sliced, too, at the same steps in every run. A request of fewer than
`STEPS_PER_SLICE` steps finishes in the callback that received it, unless its steps are slow.

What a long request named is freed in turns, too, once it was answered or dropped: a hundred thousand items that go at
once hold the loop for some fifty milliseconds.

Units: ms of the node's monotonic clock. Invariant: while requests are unfinished, or items to be freed, exactly one
turn is scheduled.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from typing import Any, Final

from syncline.node.loop.loop_holds import LoopHolds, Work
from syncline.node.serving.request import Request, Steps
from syncline.storage.errors import is_refusal
from syncline.wire.errors import DecodeError

log = logging.getLogger("syncline.node")

# How long one callback works in steps: half of what may hold the loop, since a clock of milliseconds adds one, and the
# last step of a slice may be slow.
SLICE_MS: Final = 4
STEPS_PER_SLICE: Final = 512
# The share of one request while others are unfinished.
QUANTUM_MS: Final = 1
STEPS_PER_QUANTUM: Final = 128
# Items with what is in them, which take a quarter to half a microsecond each.
FREED_PER_TURN: Final = 2_000

assert QUANTUM_MS < SLICE_MS, "several unfinished requests have their turn in one slice"
assert STEPS_PER_QUANTUM < STEPS_PER_SLICE, "several unfinished requests have their turn in one slice"


class Stepping:
    """The unfinished requests of one broker."""

    def __init__(self, loop: asyncio.AbstractEventLoop, holds: LoopHolds, settle: Callable[[], None]) -> None:
        self._loop = loop
        self._holds = holds
        # Answers the parked requests that a turn has made answerable.
        self._settle = settle
        self._unfinished: deque[tuple[Request, Steps]] = deque()
        # Until when the request that is worked on may work. What its last step begins gets no slice of its own.
        self._end_ms: int | None = None
        # What requests named that are over.
        self._freed: list[list[Any]] = []
        self._is_armed = False
        self._is_closed = False

    def __len__(self) -> int:
        return len(self._unfinished)

    def begin(self, request: Request, steps: Steps) -> None:
        """Do the first slice of a request now, and the others in the next turns of the loop."""
        if self._is_closed:
            steps.close()
            return
        is_alone = not self._unfinished
        limits = (SLICE_MS, STEPS_PER_SLICE) if is_alone else (QUANTUM_MS, STEPS_PER_QUANTUM)
        is_finished, _ = self._work(request, steps, *limits)
        if is_finished:
            self._let_go(request)
            return
        self.begin_later(request, steps)

    def begin_later(self, request: Request, steps: Steps) -> None:
        """Do the first slice in the next turn of the loop."""
        request.connection.wait_for(request)
        self.queue(request, steps)

    def queue(self, request: Request, steps: Steps) -> None:
        """Do the first slice of a request in the next turn of the loop; its connection waits for it already."""
        if self._is_closed:
            steps.close()
            return
        self._unfinished.append((request, steps))
        self._arm()

    def close(self) -> None:
        """Drop all unfinished requests: the broker is stopping."""
        self._is_closed = True
        for _, steps in self._unfinished:
            steps.close()
        self._unfinished.clear()
        self._freed.clear()

    def _arm(self) -> None:
        if not self._is_armed:
            self._is_armed = True
            self._loop.call_soon(self._turn)

    def _turn(self) -> None:
        self._is_armed = False
        began_ms = self._holds.now_ms()
        unfinished = self._unfinished
        steps_left = STEPS_PER_SLICE
        key: Work = "slices"
        while unfinished and steps_left > 0 and self._holds.look_ms() - began_ms < SLICE_MS:
            request, steps = unfinished[0]
            key = request.key
            if request.connection.transport is not None:
                is_finished, count = self._work(request, steps, QUANTUM_MS, STEPS_PER_QUANTUM)
                steps_left -= count
            else:
                steps.close()
                is_finished = True
            # Finishing a request may begin another one, at the end of the queue.
            if unfinished:
                unfinished.popleft()
            if not is_finished:
                unfinished.append((request, steps))
            else:
                self._let_go(request)
        if self._freed:
            items = self._freed[-1]
            del items[-FREED_PER_TURN:]
            if not items:
                self._freed.pop()
        if unfinished or self._freed:
            self._arm()
        self._settle()
        self._holds.ended(began_ms, key)

    def _let_go(self, request: Request) -> None:
        """Have the items of a request that is over freed in the next turns."""
        named = request.named
        if named and (request.is_done or request.connection.transport is None):
            request.named = None
            self._freed.append(named)
            self._arm()

    def _work(self, request: Request, steps: Steps, limit_ms: int, limit_steps: int) -> tuple[bool, int]:
        """Do steps until a limit; return whether that was the last one, and how many steps it were."""
        now_ms = self._holds.look_ms
        outer_ms = self._end_ms
        end_ms = now_ms() + limit_ms
        if outer_ms is not None:
            end_ms = min(outer_ms, end_ms)
        self._end_ms = end_ms
        count = 0
        try:
            for _ in steps:
                count += 1
                if count >= limit_steps or now_ms() >= end_ms:
                    return False, count
        except Exception as error:  # noqa: BLE001 - a failure concerns one request only
            failed(request, error)
        finally:
            self._end_ms = outer_ms
        return True, count


def failed(request: Request, error: Exception) -> None:
    """Close the connection of a request that could not be served; an unexpected exception is our bug."""
    if isinstance(error, DecodeError):
        request.connection.close(f"malformed request, API key {request.key} version {request.version}: {error}")
        return
    if is_refusal(error):
        log.warning("API key %s version %s cannot be served now: %s", request.key, request.version, error)
        request.connection.close("no disk space or no file descriptors")
        return
    log.error("request failed: API key %s version %s", request.key, request.version, exc_info=error)
    request.connection.close("internal error")
