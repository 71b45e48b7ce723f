"""Waits: a follower's requests that this leader has not answered yet (KIP-501, solution 1).

One hard idea: a follower that requested what it lacks has done its part. While its leader reads from the disk the
follower cannot prove anything; so the leader remembers each partition of the request as an *entry*, and an entry
that qualifies protects the follower until the whole request is answered.

An entry qualifies if it starts where an earlier answer of this leader ended, or beyond: a follower that is behind
through its own fault is not protected. The request counts as a whole: until all of it is answered the follower
cannot send the next one, so an entry whose own read has ended still protects.

A fetch session covers thousands of idle partitions that a request does not look at; those get no entry. Each
follower's record names the session entry that fetched last (`stamp`), and through it finds the session's request in
flight: see `FollowerWaits.covering`.

Units: times in ms of one monotonic clock; `seq` counts requests of a process; offsets are exclusive ends.
Invariants: an entry is void exactly if its follower's record no longer holds it; entries are in the order of their
requests; a record without entries and without `since_ms` remembers nothing.
Source: KIP-501 with the rules R1-R11 of docs/slow-leaders.md, KIP-227 (sessions), KIP-903 (broker epochs);
scenarios D01-D25.
"""

from itertools import pairwise
from typing import Protocol, TypeGuard

from syncline.core.replication.effects import Effects, SkipReason
from syncline.core.replication.follower_state import NEVER_MS, FetchStamp, FollowerState
from syncline.model.ids import NONE, BrokerEpoch, BrokerId, LeaderEpoch, Offset


class SlowFetches:
    """The slow fetches of one session; created with the first one.

    `served_ms`: when the latest was answered, or given up within the cap: the reader could not fetch before that.
    `lost`: the first one lost since the last answer.
    """

    __slots__ = ("in_flight", "lost", "served_ms")

    def __init__(self) -> None:
        self.in_flight: PendingRequest | None = None
        self.lost: PendingRequest | None = None
        self.served_ms = NEVER_MS

    def served(self, now_ms: int) -> None:
        """Record that a slow fetch was answered."""
        self.served_ms = now_ms
        self.lost = None

    def gave_up(self, request: "PendingRequest", now_ms: int | None) -> None:
        """Record that the reader lost `request`; `now_ms` is None if it had waited for longer than the cap."""
        if now_ms is not None:
            self.served_ms = now_ms
        if self.lost is None:
            self.lost = request

    def new_incarnation(self) -> None:
        """Forget proofs of the reader's former process; the owner of a request in flight closes it."""
        self.served_ms = NEVER_MS
        self.lost = None

    def outlived(self) -> "SlowFetches":
        """Return what to keep for a partition that leaves the session."""
        copy = SlowFetches()
        copy.served_ms, copy.lost = self.served_ms, self.lost
        return copy


class SessionStamp(FetchStamp, Protocol):
    """A stamp that knows the slow fetches of its session."""

    @property
    def slow_fetches(self) -> SlowFetches | None:
        """The slow fetches of the session, None before the first."""


def is_of_session(stamp: FetchStamp | None) -> TypeGuard[SessionStamp]:
    """Return whether a stamp knows the slow fetches of its session."""
    return hasattr(stamp, "slow_fetches")


class PendingRequest:
    """One follower's fetch request that could not be served at once.

    `looked` are the partitions that the leader looked at, each with its entry (None: not registered), without idle
    ones of the session. `lost_ms` is when its connection ended. Waiting for enough bytes is not processing time.
    """

    __slots__ = (
        "_parked_at_ms",
        "arrival_ms",
        "broker_epoch",
        "cover",
        "entries",
        "is_answered",
        "looked",
        "lost_ms",
        "parked_ms",
        "replica_id",
        "seq",
    )

    def __init__(
        self,
        seq: int,
        replica_id: BrokerId,
        broker_epoch: BrokerEpoch,
        arrival_ms: int,
        parked_ms: int = 0,
        cover: SlowFetches | None = None,
    ) -> None:
        self.seq = seq
        self.cover = cover
        self.replica_id = replica_id
        self.broker_epoch = broker_epoch
        self.arrival_ms = arrival_ms
        self.parked_ms = parked_ms
        self.lost_ms: int | None = None
        self.is_answered = False
        self.entries: list[PendingEntry] = []
        self.looked: dict[SessionStamp, PendingEntry | None] = {}
        self._parked_at_ms: int | None = None

    def __repr__(self) -> str:
        return f"PendingRequest({self.seq} of {self.replica_id} since {self.arrival_ms})"

    @property
    def is_live(self) -> bool:
        """Whether the follower still waits for the answer."""
        return self.lost_ms is None and not self.is_answered

    def park(self, now_ms: int) -> None:
        """Record that the request now waits for data, not for this leader."""
        self._parked_at_ms = now_ms

    def unpark(self, now_ms: int) -> None:
        """Record that this leader is serving the request again."""
        if self._parked_at_ms is not None:
            assert now_ms >= self._parked_at_ms, f"{self!r} parked at {self._parked_at_ms}, after {now_ms}"
            self.parked_ms += now_ms - self._parked_at_ms
            self._parked_at_ms = None

    def processing_ms(self, now_ms: int) -> int:
        """Return how long this leader has kept the follower waiting."""
        until_ms = now_ms if self._parked_at_ms is None else self._parked_at_ms
        return until_ms - self.arrival_ms - self.parked_ms

    def excuse(self, paused_ms: int, now_ms: int) -> None:
        """Leave out time in which this process did not run."""
        self.parked_ms += max(0, min(paused_ms, self.processing_ms(now_ms)))

    def check_invariants(self) -> None:
        """Assert that all entries belong to this request, and that an answered request has none."""
        for entry in self.entries:
            assert entry.request is self, f"{entry!r} is listed by {self!r}"
        assert not (self.is_answered and self.entries), f"{self!r} is answered and keeps {self.entries}"
        assert self.parked_ms >= 0, f"{self!r} was parked for {self.parked_ms} ms"


class Server(Protocol):
    """The leader that an entry waits for."""

    @property
    def owner(self) -> object:
        """The shell's object that holds the leader's partition."""

    @property
    def leader_epoch(self) -> LeaderEpoch:
        """The current term."""

    def fetch_answered(self, entry: "PendingEntry", now_ms: int) -> None:
        """The whole request of `entry` was answered."""

    def fetch_lost(self, entry: "PendingEntry", now_ms: int) -> None:
        """The follower's connection ended."""

    def relinquish(self, entry: "PendingEntry", now_ms: int) -> Effects:
        """Hand the partition to another member if that may help."""


class PendingEntry:
    """One partition of a slow request, as registered when the request arrived.

    `is_void`: its term or the follower's incarnation is over; its read is worthless. `ended_ms`: when its slow read
    ended, None if it was read at once or is being read.
    """

    __slots__ = (
        "ended_ms",
        "is_read",
        "is_void",
        "leader_epoch",
        "offset",
        "qualifies",
        "request",
        "server",
        "skip_reported",
        "waits",
    )

    def __init__(
        self, request: PendingRequest, server: Server, waits: "FollowerWaits", offset: Offset, *, qualifies: bool
    ) -> None:
        self.request = request
        self.server = server
        self.waits = waits
        self.leader_epoch = server.leader_epoch
        self.offset = offset
        self.qualifies = qualifies
        self.is_read = False
        self.is_void = False
        self.ended_ms: int | None = None
        # Why the leader kept the partition despite this entry; it reports each reason once.
        self.skip_reported: SkipReason | None = None

    def __repr__(self) -> str:
        return f"PendingEntry({self.request!r} at {self.offset}{'' if self.qualifies else ', does not qualify'})"

    @property
    def follower(self) -> FollowerState:
        """The follower that waits."""
        return self.waits.follower

    def remove(self) -> None:
        """Stop protecting the follower."""
        self.waits.remove(self)
        self.is_void = True

    def failed(self) -> None:
        """End the wait of a follower that gets an error: that is an answer, too, but proves nothing."""
        self.waits.failed(self)


class FollowerWaits:
    """What one follower waits for in one partition.

    `since_ms` is the arrival of the oldest qualifying entry since the last answer; a lost connection does not clear
    it, so that reconnecting does not restart the cap. `served_seq`: requests older than this are overtaken, their
    late results prove nothing. `broker_epoch` is that of the follower's waiting process. `stamp`: the session entry
    that fetched last.
    """

    __slots__ = ("broker_epoch", "entries", "follower", "served_seq", "since_ms", "stamp")

    def __init__(self, follower: FollowerState) -> None:
        self.follower = follower
        self.stamp: SessionStamp | None = None
        self.broker_epoch = BrokerEpoch(NONE)
        self.entries: list[PendingEntry] = []
        self.served_seq = 0
        self.since_ms: int | None = None

    def __repr__(self) -> str:
        return f"FollowerWaits({self.follower.broker_id} since {self.since_ms}: {self.entries})"

    @property
    def is_over(self) -> bool:
        """Whether nothing is left to remember but the stamp."""
        return not self.entries and self.since_ms is None

    @property
    def covering(self) -> PendingRequest | None:
        """The request in flight that covers an idle partition without having looked at it."""
        stamp = self.stamp
        slow = None if stamp is None else stamp.slow_fetches
        request = None if slow is None else slow.in_flight
        return None if request is None or stamp in request.looked else request

    @property
    def _lost_before(self) -> PendingRequest | None:
        """The lost request that covered an idle partition without having looked at it."""
        stamp = self.stamp
        slow = None if stamp is None else stamp.slow_fetches
        request = None if slow is None else slow.lost
        return None if request is None or stamp in request.looked else request

    @property
    def waiting_since_ms(self) -> int | None:
        """Since when the follower waits for a qualifying answer, None if it does not."""
        since_ms, request = self.since_ms, self.covering
        if request is not None and request.is_live:
            since_ms = request.arrival_ms if since_ms is None else min(since_ms, request.arrival_ms)
        return since_ms

    @property
    def protecting(self) -> PendingRequest | None:
        """The oldest request that protects the follower, regardless of the cap."""
        for entry in self.entries:
            if entry.qualifies and entry.request.is_live and entry.request.seq >= self.served_seq:
                return entry.request
        request = self.covering
        return request if request is not None and request.is_live else None

    def register(self, request: PendingRequest, server: Server, offset: Offset, *, qualifies: bool) -> PendingEntry:
        """Register one partition of a request; the caller has checked that the follower may fetch it."""
        if not self.is_over and self.broker_epoch < request.broker_epoch:
            # A newer process of the follower: the waits of the former one no longer matter.
            self.forget()
        if self.is_over:
            self.broker_epoch = request.broker_epoch
        entry = PendingEntry(request, server, self, offset, qualifies=qualifies)
        if qualifies and self.since_ms is None:
            # It may have waited before, in a request that did not look here, over a connection that broke.
            earlier = self.covering or self._lost_before
            is_same = earlier is not None and earlier.broker_epoch == request.broker_epoch
            self.since_ms = earlier.arrival_ms if earlier is not None and is_same else request.arrival_ms
        self.entries.append(entry)
        request.entries.append(entry)
        return entry

    def is_overtaken(self, entry: PendingEntry) -> bool:
        """Return whether the result of a slow read proves nothing any more: a newer fetch was served meanwhile."""
        return entry.is_void or entry.waits is not self or entry.request.seq < self.served_seq

    def read(self, entry: PendingEntry) -> None:
        """Record that the read for `entry` has ended."""
        assert not entry.is_void, f"{entry!r} was overtaken"
        entry.is_read = True
        self.served_seq = entry.request.seq

    def served_at_once(self, broker_epoch: BrokerEpoch) -> None:
        """Record a fetch that needed no slow read: it overtakes and answers everything that waits."""
        if self.broker_epoch < broker_epoch:
            self.forget()
            return
        if self.entries:
            self.served_seq = max(self.served_seq, self.entries[-1].request.seq + 1)
        self.since_ms = None
        self._reset_if_over()

    def answered(self, entry: PendingEntry) -> None:
        """Record that the whole request of `entry` was answered: only later requests still wait."""
        seq = entry.request.seq
        newer = [each.request.arrival_ms for each in self.entries if each.qualifies and each.request.seq > seq]
        self.since_ms = min(newer, default=None)
        entry.remove()

    def failed(self, entry: PendingEntry) -> None:
        """Record that the follower got an error for `entry`."""
        self.stamp = None
        others = [each for each in self.entries if each.qualifies and each is not entry]
        waiting = [each.request for each in others if each.request.is_live or each.request.seq > entry.request.seq]
        self.since_ms = min((each.arrival_ms for each in waiting), default=None)

    def remove(self, entry: PendingEntry) -> None:
        """Remove an entry, if it is still held."""
        if entry in self.entries:
            self.entries.remove(entry)
            self._reset_if_over()

    def forget(self) -> None:
        """Drop all waits of the follower, without a proof that it got anything."""
        entries, self.entries = self.entries, []
        for entry in entries:
            entry.is_void = True
        self.stamp = None
        self.since_ms = None
        self._reset_if_over()

    def _reset_if_over(self) -> None:
        """Reset the record once nothing is left to remember."""
        if self.is_over:
            self.served_seq = 0

    def check_invariants(self) -> None:
        """Assert how the entries relate to their requests and to the record."""
        for entry in self.entries:
            assert not entry.is_void, f"a void entry is held: {self!r}"
            assert entry.waits is self, f"{entry!r} belongs to {entry.waits!r}, not to {self!r}"
            assert entry.request.broker_epoch <= self.broker_epoch, (
                f"{entry!r} is of process {entry.request.broker_epoch}, newer than {self.broker_epoch}"
            )
        for one, other in pairwise(self.entries):
            assert one.request.seq <= other.request.seq, f"entries out of order: {self!r}"
        assert self.entries or self.since_ms is not None or not self.served_seq, (
            f"nothing waits, yet requests before {self.served_seq} are overtaken: {self!r}"
        )
