"""Pending fetches: the slow fetch requests of one node, all partitions together, and the watchdog over them.

One hard idea: a request counts as a whole. It is opened when its first look cannot be completed at once, and its
end is reported once to every partition that waits in it.

Units: times in ms of one monotonic clock; `seq` counts requests of a process.
Invariants: requests are in the order of their arrival; an answered one is not kept; a lost one is kept while reads
for it run.
Source: KIP-501; scenarios D07-D10, D17, D24.
"""

from itertools import pairwise

from syncline.core.replication.slow_leader.rules import is_within
from syncline.core.replication.slow_leader.waits import PendingEntry, PendingRequest, SlowFetches
from syncline.model.ids import BrokerEpoch, BrokerId


class PendingFetches:
    """The requests that one node has not answered yet, oldest first."""

    __slots__ = ("_last_watch_ms", "_seq", "requests")

    def __init__(self) -> None:
        self._seq = 0
        self.requests: dict[int, PendingRequest] = {}
        self._last_watch_ms: int | None = None

    def __repr__(self) -> str:
        return f"PendingFetches({list(self.requests.values())})"

    def __len__(self) -> int:
        return len(self.requests)

    @property
    def entry_count(self) -> int:
        """The metric PendingFollowerFetches: partitions for which a follower waits."""
        return sum(len(request.entries) for request in self.requests.values() if request.is_live)

    def open(
        self,
        replica_id: BrokerId,
        broker_epoch: BrokerEpoch,
        arrival_ms: int,
        parked_ms: int = 0,
        cover: SlowFetches | None = None,
    ) -> PendingRequest:
        """Register a request that cannot be served at once; requests are opened in the order of their arrival."""
        self._seq += 1
        request = PendingRequest(self._seq, replica_id, broker_epoch, arrival_ms, parked_ms, cover)
        self.requests[request.seq] = request
        if cover is not None:
            cover.in_flight = request
        return request

    def _close(self, request: PendingRequest) -> None:
        """Remove a request of which nothing is left."""
        self.requests.pop(request.seq, None)
        cover = request.cover
        if cover is not None and cover.in_flight is request:
            cover.in_flight = None

    def answered(self, request: PendingRequest, now_ms: int) -> None:
        """Record that the follower got its whole answer."""
        entries, request.entries = request.entries, []
        for entry in entries:
            if not entry.is_void:
                entry.server.fetch_answered(entry, now_ms)
        request.is_answered = True
        if request.cover is not None and request.seq in self.requests:
            request.cover.served(now_ms)
        self._close(request)

    def lost(self, request: PendingRequest, now_ms: int, cap_ms: int | None = None) -> None:
        """Record that the follower waits no more; reads that still run keep their use."""
        is_pending = request.seq in self.requests
        if request.cover is not None and is_pending:
            request.cover.gave_up(request, now_ms if is_within(cap_ms, request.arrival_ms, now_ms) else None)
        for entry in request.entries:
            if not entry.is_void:
                entry.server.fetch_lost(entry, now_ms)
        request.lost_ms = now_ms
        ended = [entry for entry in request.entries if entry.is_read or entry.is_void]
        for entry in ended:
            self.read_ended(entry)
        if not request.entries:
            self._close(request)

    def read_ended(self, entry: PendingEntry) -> None:
        """Remove an entry whose read failed, or ended with no follower left to answer."""
        request = entry.request
        if request.lost_ms is None and not entry.is_void:
            entry.failed()
        entry.remove()
        if entry in request.entries:
            request.entries.remove(entry)
        if not request.entries and request.lost_ms is not None:
            self._close(request)

    def drop_older(self, replica_id: BrokerId, broker_epoch: BrokerEpoch) -> None:
        """Forget the requests of former processes of a follower."""
        older = [
            request
            for request in self.requests.values()
            if request.replica_id == replica_id and 0 <= request.broker_epoch < broker_epoch
        ]
        for request in older:
            for entry in request.entries:
                entry.waits.forget()
            self._close(request)

    def clear(self) -> None:
        """Forget everything, because the feature was switched off."""
        for request in list(self.requests.values()):
            for entry in request.entries:
                entry.waits.forget()
            self._close(request)

    # The watchdog of solution 2.

    def start_watch(self, now_ms: int) -> None:
        """Start the watchdog."""
        self._last_watch_ms = now_ms

    def excuse_pause(self, now_ms: int, period_ms: int) -> None:
        """Leave out time in which this whole process did not run, as the watchdog's own late turn shows.

        Call this before judging anything: after a pause a read may end before the watchdog's turn.
        """
        last_ms = self._last_watch_ms
        if last_ms is not None and now_ms - last_ms > 2 * period_ms:
            self._last_watch_ms = now_ms
            for request in self.requests.values():
                request.excuse(now_ms - last_ms - period_ms, now_ms)

    def watch(self, now_ms: int, period_ms: int) -> list[PendingEntry]:
        """Return the entries that are being read, oldest first, having excused a pause of this whole process."""
        self.excuse_pause(now_ms, period_ms)
        self._last_watch_ms = now_ms
        return [
            entry
            for request in self.requests.values()
            if request.is_live
            for entry in request.entries
            if not entry.is_read and not entry.is_void
        ]

    def check_invariants(self) -> None:
        """Assert what holds between any two calls."""
        for one, other in pairwise(self.requests):
            assert one < other, f"request {other} was opened before {one}"
        for seq, request in self.requests.items():
            request.check_invariants()
            assert seq == request.seq <= self._seq, f"{request!r} is kept under {seq}, the newest is {self._seq}"
            assert not request.is_answered, f"{request!r} is answered and kept"
            assert request.lost_ms is None or request.entries, f"{request!r} is lost and nothing is read for it"
            cover = request.cover
            assert cover is None or cover.in_flight is not None, f"the session of {request!r} has nothing in flight"
