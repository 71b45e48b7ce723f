"""Connections of clients over which nothing has moved for `connections.max.idle.ms` are closed.

A sweep compares each connection with what it was at the sweep before, so that no read or write has to note the time.
A connection whose request waits for its answer is not idle, however long that takes. Neither is one that this broker
does not read. Sweeps also free receive buffers that were kept for another large frame.
"""

import asyncio
from collections.abc import Callable, Collection
from typing import Final, NamedTuple, Protocol

from syncline.node.clients.memory import Holding

# Connections per turn of the event loop, far less than a millisecond's worth.
SLICE: Final = 500


class Activity(NamedTuple):
    """What changes if bytes move: the number of the last read, and how much the peer has left unread."""

    last_read: int
    unsent_bytes: int


class MayIdle(Protocol):
    """A connection, as far as it may be idle."""

    @property
    def listener(self) -> str:
        """Return the listener that accepted it: "client" or "internal"."""

    @property
    def activity(self) -> Activity | None:
        """Return what changes if bytes move; None while this broker is the one that has to do something."""

    @property
    def holding(self) -> Holding:
        """Return what it holds."""

    def close(self, reason: str, /) -> None:
        """Close."""


class Seen(NamedTuple):
    """What a connection was like, and since when."""

    activity: Activity
    since_ms: int


class IdleConnections:
    """The connections of clients of one broker, and since when each is idle."""

    def __init__(self, loop: asyncio.AbstractEventLoop, connections: Callable[[], Collection[MayIdle]]) -> None:
        self._loop = loop
        self._connections = connections
        self._seen: dict[MayIdle, Seen] = {}
        self.closed_count = 0

    def sweep(self, now_ms: int, idle_ms_max: int) -> None:
        """Close the connections that are idle for that long; a negative time closes none."""
        self._sweep_slice([each for each in self._connections() if each.listener == "client"], {}, now_ms, idle_ms_max)

    def _sweep_slice(self, left: list[MayIdle], seen: dict[MayIdle, Seen], now_ms: int, idle_ms_max: int) -> None:
        for _ in range(min(SLICE, len(left))):
            self._look(left.pop(), seen, now_ms, idle_ms_max)
        if left:
            self._loop.call_soon(self._sweep_slice, left, seen, now_ms, idle_ms_max)
        else:
            self._seen = seen

    def _look(self, connection: MayIdle, seen: dict[MayIdle, Seen], now_ms: int, idle_ms_max: int) -> None:
        activity = connection.activity
        before = self._seen.get(connection)
        if activity is None:
            return
        if before is None or before.activity != activity:
            seen[connection] = Seen(activity, now_ms)
            return
        seen[connection] = before
        connection.holding.free_unused()
        if 0 <= idle_ms_max <= now_ms - before.since_ms:
            self.closed_count += 1
            connection.close(f"idle for {now_ms - before.since_ms} ms (connections.max.idle.ms)")
