"""Received: requests that their connections have read and not handled yet share one slice per turn of the loop.

One read may bring thousands of short requests. A connection handles what it has just read at once, if the slice lasts;
what is left waits in line with the other connections', and no more is read from these meanwhile.

    buffer_updated ──limit_ms──> handle, at least two ──spent──> a turn is due, which begins a new slice
                                      └── out of time: `wait`, in line
    _turn, once per turn of the loop: a quantum for each connection in line, round-robin

Other brokers' connections have a slice of their own: what brokers owe each other must not wait for clients.

Units: ms of the node's monotonic clock, rounded down. What takes less than 1 ms is spent as 0 or 1, on average rightly;
where no time passes within a callback (simulated runs), no connection ever waits.
Invariant: while connections are in line, or some of the slice is spent, exactly one turn is scheduled.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Protocol

from syncline.node.loop.loop_holds import LoopHolds
from syncline.node.serving.stepping import QUANTUM_MS, SLICE_MS


class Continues(Protocol):
    """A connection with received requests."""

    def go_on(self, limit_ms: int, /) -> None:
        """Handle received requests for so long; if there are more then, wait in line."""


class Received:
    """The connections of one broker that have more requests than one slice handles."""

    def __init__(self, loop: asyncio.AbstractEventLoop, holds: LoopHolds, settle: Callable[[], None]) -> None:
        self._loop = loop
        self._holds = holds
        # Answers the parked requests that a turn has made answerable.
        self._settle = settle
        self._line: deque[Continues] = deque()
        # Of this turn's slice.
        self._spent_ms = 0
        self._is_scheduled = False

    def __len__(self) -> int:
        return len(self._line)

    def limit_ms(self, listener: str) -> int:
        """Return how long a connection handles what it has just read; with 0 or less, no more than two."""
        return SLICE_MS - self._spent_ms if listener == "client" else SLICE_MS

    def spent(self, listener: str, duration_ms: int) -> None:
        """Count how long a connection has handled what it had just read."""
        assert duration_ms >= 0, f"handled for {duration_ms} ms"
        if duration_ms and listener == "client":
            self._spent_ms += duration_ms
            self._schedule()

    def wait(self, connection: Continues) -> None:
        """Let a connection go on in one of the next turns."""
        self._line.append(connection)
        self._schedule()

    def _schedule(self) -> None:
        if not self._is_scheduled:
            self._is_scheduled = True
            self._loop.call_soon(self._turn)

    def _turn(self) -> None:
        line = self._line
        self._is_scheduled = False
        self._spent_ms = 0
        if not line:
            return
        began_ms = self._holds.now_ms()
        try:
            while line and self._spent_ms < SLICE_MS:
                line.popleft().go_on(QUANTUM_MS)
                self._spent_ms = self._holds.look_ms() - began_ms
        finally:
            if line or self._spent_ms:
                self._schedule()
        self._settle()
        self._holds.ended(began_ms, "requests in line")
