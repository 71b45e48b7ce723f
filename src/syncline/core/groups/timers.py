"""Deadlines by key, cheap to push back.

Every heartbeat postpones its member's deadline, and almost no deadline is ever
reached. So postponing only overwrites a dict entry: the heap keeps the older,
earlier time, and when that is due the key is pushed again with its real one. A
member that heartbeats ten times per session timeout costs one
heap operation per session timeout, not ten.

Units: monotonic milliseconds. Invariant: for every key the heap holds an entry
at or before its deadline.
"""

import heapq
from collections.abc import Hashable
from typing import Generic, TypeVar

from syncline.model.tables import shrink

Key = TypeVar("Key", bound=Hashable)


class Timers(Generic[Key]):
    """The deadlines of one owner; ties fire in the order in which they were set."""

    def __init__(self) -> None:
        self._deadlines_ms: dict[Key, int] = {}
        # (time, sequence, key): the sequence keeps keys, which may not be ordered, out of comparisons.
        self._heap: list[tuple[int, int, Key]] = []
        self._queued_ms: dict[Key, int] = {}
        self._sequence = 0

    def __contains__(self, key: Key) -> bool:
        return key in self._deadlines_ms

    def set(self, key: Key, deadline_ms: int) -> None:
        """Make `key` due at `deadline_ms`; an earlier setting is replaced."""
        self._deadlines_ms[key] = deadline_ms
        queued_ms = self._queued_ms.get(key)
        if queued_ms is None or deadline_ms < queued_ms:
            self._push(key, deadline_ms)
        assert self._queued_ms[key] <= deadline_ms, f"{key} is due at {deadline_ms}, queued for {self._queued_ms[key]}"

    def cancel(self, key: Key) -> None:
        """Drop the deadline of `key`."""
        self._deadlines_ms.pop(key, None)
        shrink(self._deadlines_ms)

    def next_ms(self) -> int | None:
        """Return when to look next, no later than the earliest deadline; None when there is none."""
        while self._heap:
            queued_ms, _, key = self._heap[0]
            if key in self._deadlines_ms and self._queued_ms.get(key) == queued_ms:
                return queued_ms
            self._pop()
        return None

    def pop_due(self, now_ms: int) -> Key | None:
        """Take out and return the next key that is due; None when none is."""
        while self._heap and self._heap[0][0] <= now_ms:
            key, is_current = self._pop()
            deadline_ms = self._deadlines_ms.get(key)
            if deadline_ms is None or not is_current:
                continue
            if deadline_ms <= now_ms:
                del self._deadlines_ms[key]
                shrink(self._deadlines_ms)
                return key
            self._push(key, deadline_ms)
        return None

    @property
    def entry_count(self) -> int:
        """Return how many entries the heap holds: current and outdated deadlines."""
        return len(self._heap)

    def check_invariants(self) -> None:
        """Assert that no deadline can be missed, and that the heap has every queued entry."""
        entries = {(key, queued_ms) for queued_ms, _, key in self._heap}
        for key, deadline_ms in self._deadlines_ms.items():
            assert key in self._queued_ms, f"{key} has a deadline, and no entry in the heap"
            assert self._queued_ms[key] <= deadline_ms, f"{key} is queued later than its deadline {deadline_ms}"
        for key, queued_ms in self._queued_ms.items():
            assert (key, queued_ms) in entries, f"{key} is not in the heap at {queued_ms}"

    def _push(self, key: Key, queued_ms: int) -> None:
        self._queued_ms[key] = queued_ms
        self._sequence += 1
        heapq.heappush(self._heap, (queued_ms, self._sequence, key))

    def _pop(self) -> tuple[Key, bool]:
        queued_ms, _, key = heapq.heappop(self._heap)
        is_current = self._queued_ms.get(key) == queued_ms
        if is_current:
            del self._queued_ms[key]
            shrink(self._queued_ms)
        return key, is_current
