"""Proposal queue: the ISR proposals of one broker that the controller has not answered.

One hard idea: only its answer removes a proposal from the queue. After a lost
request, a controller that is no longer one, or a stale broker epoch, the queue
keeps every item and sends it again, because a partition with a pending proposal
can make no other.

A request has a bounded number of items: each of them changes a record that every broker then applies, in one go with
the others of its request. A broker that returns joins thousands of in-sync sets at once.

Units: times in ms of the node's monotonic clock.
Invariants: one request in flight; at most one unsent item per partition; a partition
missing from an answer is sent again.
Source: KIP-497 (AlterPartitionManager); scenarios B09, B23, B24.
"""

from collections.abc import Hashable, Iterable
from itertools import islice
from typing import Final, Generic, TypeVar

# Kafka's pause before the same items are sent again.
RESEND_BACKOFF_MS: Final = 50
# The items of one request: the controller works on them without a break, and so does each broker whose roles change.
ITEMS_PER_REQUEST_MAX: Final = 20

Key = TypeVar("Key", bound=Hashable)
Item = TypeVar("Item")


class ProposalQueue(Generic[Key, Item]):
    """The unsent and the unanswered proposals of one broker."""

    __slots__ = ("_in_flight", "_unsent", "retry_at_ms")

    def __init__(self) -> None:
        self._unsent: dict[Key, Item] = {}
        self._in_flight: dict[Key, Item] = {}
        self.retry_at_ms = -(1 << 62)

    def __len__(self) -> int:
        return len(self._unsent) + len(self._in_flight)

    @property
    def is_in_flight(self) -> bool:
        """Return whether a request waits for its answer."""
        return bool(self._in_flight)

    def submit(self, key: Key, proposal: Item) -> bool:
        """Queue `proposal`; return False if an unsent one is queued already (answer OPERATION_NOT_ATTEMPTED)."""
        if key in self._unsent:
            return False
        self._unsent[key] = proposal
        return True

    def next_batch(self, now_ms: int) -> list[tuple[Key, Item]]:
        """Return the next request's proposals; empty if there are none, one is in flight or it is too early."""
        if self._in_flight or now_ms < self.retry_at_ms:
            return []
        if len(self._unsent) <= ITEMS_PER_REQUEST_MAX:
            self._in_flight, self._unsent = self._unsent, {}
        else:
            queued = iter(list(self._unsent.items()))
            self._in_flight = dict(islice(queued, ITEMS_PER_REQUEST_MAX))
            self._unsent = dict(queued)
        assert len(self._in_flight) <= ITEMS_PER_REQUEST_MAX, f"a request of {len(self._in_flight)} proposals"
        return list(self._in_flight.items())

    def answered(self, keys: Iterable[Key]) -> None:
        """Remove the proposals for `keys`, which were answered; the rest of the request in flight is sent again."""
        for key in keys:
            answered = self._in_flight.pop(key, None)
            assert answered is not None, f"{key} was answered, but is not in the request in flight"
        self._requeue()

    def failed(self, now_ms: int) -> None:
        """The request in flight failed as a whole: send all of it again after a pause."""
        assert self._in_flight, "no request is in flight that could fail"
        self._requeue()
        self.pause(now_ms)

    def pause(self, now_ms: int) -> None:
        """Send nothing for a while: the controller would refuse again at once."""
        self.retry_at_ms = now_ms + RESEND_BACKOFF_MS

    def _requeue(self) -> None:
        """Put unanswered proposals first in the queue; a newer one for the same partition replaces an older one."""
        self._unsent = {**self._in_flight, **self._unsent}
        self._in_flight = {}
