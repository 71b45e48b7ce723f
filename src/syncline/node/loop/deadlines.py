"""Deadlines of parked operations: thousands wait, few expire.

A timer per request costs a microsecond to arm and as much to cancel. Instead,
deadlines are kept in buckets of 10 ms: a dict per bucket, where adding or
removing an operation takes a tenth of a microsecond. Only the earliest bucket
has a timer of the loop, and an idle broker has none.

A bucket stays until its time, although its operations were answered long ago.
Those of thousands of requests with timeouts of half a minute would be thousands
of small objects that come and go all over the heap, and keep what a burst took
from being given back. So longer waits share wider buckets, and emptied ones one dict.

Units: monotonic milliseconds. An operation expires at its deadline or up to
one bucket later, never earlier: 10 ms, or a fiftieth of its wait.
"""

import asyncio
import heapq
import logging
from collections.abc import Iterator
from typing import Final, Protocol

from syncline.node.clock import Clock

log = logging.getLogger("syncline.node")

BUCKET_MS: Final = 10
# Waits of at least so long have buckets of 20 ms; each time that they double, the buckets do.
LONG_WAIT_MS: Final = 1_024
_LONG_BITS: Final = LONG_WAIT_MS.bit_length() - 1
# In the place of every bucket whose operations were all answered; it stays empty.
_EMPTIED: Final[dict["Expiring", None]] = {}


class Expiring(Protocol):
    """What can be parked with a deadline."""

    def expired(self, now_ms: int) -> None:
        """Answer what is undecided: the deadline has passed."""


class Deadlines:
    """All deadlines of one broker."""

    def __init__(self, loop: asyncio.AbstractEventLoop, clock: Clock) -> None:
        self._loop = loop
        self._clock = clock
        self._buckets: dict[int, dict[Expiring, None]] = {}
        self._order: list[int] = []
        self._timer: asyncio.TimerHandle | None = None
        self._timer_bucket = -1

    def __len__(self) -> int:
        return sum(len(bucket) for bucket in self._buckets.values())

    def __repr__(self) -> str:
        return f"<{len(self)} operations wait{', with a timer' if self.is_armed else ''}>"

    def __iter__(self) -> Iterator[Expiring]:
        """Iterate over all parked operations; none may be parked or forgotten meanwhile."""
        for bucket in self._buckets.values():
            yield from bucket

    @property
    def is_armed(self) -> bool:
        """Whether a timer of the loop is set."""
        return self._timer is not None

    def park(self, operation: Expiring, deadline_ms: int, wait_ms: int = 0) -> int:
        """Add `operation`; return its bucket, the argument of `forget`.

        `wait_ms` is how long it waits in all, if it may expire a fiftieth of that late.
        """
        bucket = deadline_ms // BUCKET_MS + 1
        if wait_ms >= LONG_WAIT_MS:
            doublings = (wait_ms >> _LONG_BITS).bit_length()
            bucket = -(-bucket >> doublings) << doublings
        waiting = self._buckets.get(bucket)
        if waiting is None:
            self._buckets[bucket] = {operation: None}
            heapq.heappush(self._order, bucket)
            if self._timer is None or bucket < self._timer_bucket:
                self._arm(bucket)
        elif waiting is _EMPTIED:
            self._buckets[bucket] = {operation: None}
        else:
            waiting[operation] = None
        return bucket

    def forget(self, operation: Expiring, bucket: int) -> None:
        """Remove `operation`: it was answered in time."""
        waiting = self._buckets.get(bucket)
        if waiting is not None:
            waiting.pop(operation, None)
            if not waiting:
                self._buckets[bucket] = _EMPTIED

    def close(self) -> None:
        """Cancel the timer and drop all operations, unanswered: the broker is stopping."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._buckets.clear()
        self._order.clear()

    def check_invariants(self) -> None:
        """Assert that each bucket has its place in the order, and that the timer fires no later than the first one."""
        assert sorted(self._order) == sorted(self._buckets), f"buckets {sorted(self._buckets)}, order {self._order}"
        if self._order and self._timer is not None:
            assert self._timer_bucket <= self._order[0] or not self._buckets[self._order[0]], (
                f"the timer is for bucket {self._timer_bucket}, the first one is {self._order[0]}"
            )
        assert self._timer is not None or not len(self), f"{len(self)} operations wait, and no timer is set"

    def _arm(self, bucket: int) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer_bucket = bucket
        delay_ms = max(1, bucket * BUCKET_MS - self._clock.mono_ms())
        self._timer = self._loop.call_later(delay_ms / 1000, self._fire)

    def _fire(self) -> None:
        self._timer = None
        now_ms = self._clock.mono_ms()
        due = now_ms // BUCKET_MS
        while self._order and self._order[0] <= due:
            for operation in self._buckets.pop(heapq.heappop(self._order)):
                try:
                    operation.expired(now_ms)
                except Exception:
                    # The other operations have expired, too, and nothing else would answer them.
                    log.exception("an operation failed when its deadline passed")
        # Buckets that emptied before their deadline need no timer.
        while self._order and not self._buckets[self._order[0]]:
            del self._buckets[heapq.heappop(self._order)]
        # An operation that parked again meanwhile has armed the timer for itself, perhaps for a later bucket.
        if self._order and (self._timer is None or self._order[0] < self._timer_bucket):
            self._arm(self._order[0])
