"""Pending fetches: a follower that waits for its leader's disk does not count as late (KIP-501, solution 1).

One hard idea: a follower that asked for what it lacks has done its part. As long as the leader owes it an answer,
it cannot prove anything; so the leader remembers what was asked (an *entry* per partition and request) and spares
the follower while a qualifying entry is unanswered, but for no longer than a cap.

An entry qualifies if it asks from where an earlier answer of this leader ended, or beyond: a follower that is
behind by its own fault is not saved. The request counts as a whole: until all of it is answered the follower
cannot ask again for any of its partitions, so entries whose own read has ended go on protecting.

A fetch that is served at once leaves no entry. A session covers thousands of idle partitions that a request does
not look at; for those no entry is made either. Their follower states know by whom they were asked last (`asker`),
and through it whether a request of that session is being served: see `covering`.

Protection adds nobody to the ISR, holds no watermark and moves none (I11).

Units: times in ms of one monotonic clock; `seq` counts requests of a process; offsets are exclusive ends.
Source: KIP-501 with the rules R1-R11 of its completion; scenarios D01-D25.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

from syncline.core.replication.follower_state import NEVER_MS, FetchStamp, FollowerState
from syncline.model.ids import BrokerEpoch, BrokerId, LeaderEpoch, Offset

if TYPE_CHECKING:
    from syncline.core.replication.effects import SkipReason
    from syncline.core.replication.leader import LeaderPartition

# Partitions that one run of the watchdog may give away.
RELINQUISHED_AT_ONCE_MAX: Final = 50


@dataclass(frozen=True, slots=True)
class SlowReadRules:
    """What a leader does about its own slow reads; no rules at all stand for the feature switched off.

    `cap_ms`: how long a waiting follower is spared, None for ever. `relinquishes`: whether leadership is given up
    when serving a member takes longer than `process_time_max_ms`, after a tenure of `tenure_min_ms`.
    """

    cap_ms: int | None = 180_000
    relinquishes: bool = False
    process_time_max_ms: int = 500
    tenure_min_ms: int = 30_000


class Cover(Protocol):
    """A fetch session, as far as its idle partitions are concerned."""

    in_flight: "PendingRequest | None"

    def served(self, now_ms: int) -> None:
        """Note that everything the session has was waited for until now, and answered."""

    def gave_up(self, request: "PendingRequest", now_ms: int | None) -> None:
        """Note that the request was lost; `now_ms` is None if it had been waited for beyond the cap."""


class PendingRequest:
    """One follower's fetch request that could not be served at once.

    `looked` are the partitions that were looked at, each with its entry; idle ones of its session are not. `lost_ms`
    is when its connection ended. Time spent in waiting for enough bytes is not processing time.
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
        cover: Cover | None = None,
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
        # None where nothing could be registered.
        self.looked: dict[FetchStamp, PendingEntry | None] = {}
        self._parked_at_ms: int | None = None

    def __repr__(self) -> str:
        return f"PendingRequest({self.seq} of {self.replica_id} since {self.arrival_ms})"

    @property
    def is_live(self) -> bool:
        """Whether somebody still waits for the answer."""
        return self.lost_ms is None and not self.is_answered

    def park(self, now_ms: int) -> None:
        """Note that the request waits for data from now on, and not for this leader."""
        self._parked_at_ms = now_ms

    def unpark(self, now_ms: int) -> None:
        """Note that the request is being served again."""
        if self._parked_at_ms is not None:
            self.parked_ms += now_ms - self._parked_at_ms
            self._parked_at_ms = None

    def processing_ms(self, now_ms: int) -> int:
        """Return how long this leader has kept the follower waiting."""
        until_ms = now_ms if self._parked_at_ms is None else self._parked_at_ms
        return until_ms - self.arrival_ms - self.parked_ms

    def excuse(self, paused_ms: int, now_ms: int) -> None:
        """Do not count time in which this process did not run at all."""
        self.parked_ms += max(0, min(paused_ms, self.processing_ms(now_ms)))


class PendingEntry:
    """One partition of such a request, as registered when it came.

    `is_void`: the leadership or the follower's incarnation that it was made under is over; its read is worthless.
    """

    __slots__ = (
        "follower",
        "is_read",
        "is_void",
        "leader",
        "leader_epoch",
        "offset",
        "qualifies",
        "request",
        "skip_told",
    )

    def __init__(
        self,
        request: PendingRequest,
        leader: "LeaderPartition",
        follower: FollowerState,
        offset: Offset,
        *,
        qualifies: bool,
    ) -> None:
        self.request = request
        self.leader = leader
        self.follower = follower
        self.leader_epoch: LeaderEpoch = leader.leader_epoch
        self.offset = offset
        self.qualifies = qualifies
        self.is_read = False
        self.is_void = False
        # Why the partition was not given away for the sake of this; each reason is told once.
        self.skip_told: SkipReason | None = None

    def __repr__(self) -> str:
        return f"PendingEntry({self.request!r} at {self.offset}{'' if self.qualifies else ', does not qualify'})"


class FollowerWaits:
    """What one follower waits for in one partition; there only while there is something to remember.

    `since_ms` is the arrival of the oldest qualifying entry since the last answer; an end of the connection does
    not clear it, so that reconnecting does not start the cap anew. `served_seq`: older requests than this are
    overtaken, their late results say nothing. `broker_epoch` is the process of the follower that waits.
    """

    __slots__ = ("broker_epoch", "entries", "served_seq", "since_ms")

    def __init__(self, broker_epoch: BrokerEpoch) -> None:
        self.broker_epoch = broker_epoch
        self.entries: list[PendingEntry] = []
        self.served_seq = 0
        self.since_ms: int | None = None

    @property
    def is_over(self) -> bool:
        """Whether nothing is left to remember."""
        return not self.entries and self.since_ms is None

    def answered(self, seq: int) -> None:
        """Note that request `seq` was answered: only what was asked after it counts as waiting."""
        newer = [each.request.arrival_ms for each in self.entries if each.qualifies and each.request.seq > seq]
        self.since_ms = min(newer, default=None)

    def overtaken(self) -> None:
        """Note that a newer fetch than all of these was served."""
        if self.entries:
            self.served_seq = max(self.served_seq, self.entries[-1].request.seq + 1)
        self.since_ms = None


def base_offset(follower: FollowerState, epoch_start_offset: Offset) -> Offset:
    """Return from which offset on a fetch qualifies: where the answers of this leadership ended, or its start."""
    if follower.last_fetch_ms == NEVER_MS and follower.previous_log_end <= 0:
        return epoch_start_offset
    return follower.previous_log_end


def register(
    request: PendingRequest, leader: "LeaderPartition", follower: FollowerState, offset: Offset, *, qualifies: bool
) -> PendingEntry:
    """Remember that `follower` asked for one partition (R1); the caller has checked that it may."""
    entry = PendingEntry(request, leader, follower, offset, qualifies=qualifies)
    waits = follower.waits
    if waits is not None and waits.broker_epoch < request.broker_epoch:
        # Another process of the follower: what the one before it waited for is nobody's concern (R6).
        forget(follower)
        waits = None
    if waits is None:
        waits = follower.waits = FollowerWaits(request.broker_epoch)
    if qualifies and waits.since_ms is None:
        # It may have waited before, over a connection that broke and in a request that did not look here.
        earlier = covering(follower) or _lost_before(follower)
        is_same = earlier is not None and earlier.broker_epoch == request.broker_epoch
        waits.since_ms = earlier.arrival_ms if earlier is not None and is_same else request.arrival_ms
    waits.entries.append(entry)
    request.entries.append(entry)
    return entry


def is_overtaken(entry: PendingEntry, follower: FollowerState) -> bool:
    """Return whether the result of a slow read says nothing any more: something newer was served meanwhile."""
    waits = follower.waits
    if entry.is_void or entry.follower is not follower or waits is None:
        return True
    return entry.request.seq < waits.served_seq


def remove(entry: PendingEntry) -> None:
    """Drop an entry that protects no more."""
    waits = entry.follower.waits
    if waits is not None and entry in waits.entries:
        waits.entries.remove(entry)
        if waits.is_over:
            entry.follower.waits = None
    entry.is_void = True


def _failed(entry: PendingEntry) -> None:
    """End the wait of a follower that hears of a failure: that is an answer, too, though it proves nothing."""
    follower, waits = entry.follower, entry.follower.waits
    follower.asker = None
    if waits is not None:
        others = [each for each in waits.entries if each.qualifies and each is not entry]
        waiting = [each.request for each in others if each.request.is_live or each.request.seq > entry.request.seq]
        waits.since_ms = min((each.arrival_ms for each in waiting), default=None)


def forget(follower: FollowerState) -> None:
    """Drop all that a follower waits for, without saying that it got anything (R6, R8)."""
    waits, follower.waits = follower.waits, None
    follower.asker = None
    if waits is not None:
        for entry in waits.entries:
            entry.is_void = True


def covering(follower: FollowerState) -> PendingRequest | None:
    """Return the request that covers an idle partition without having looked at it, if one is being served."""
    asker = follower.asker
    request = None if asker is None else asker.in_flight
    return None if request is None or asker in request.looked else request


def _lost_before(follower: FollowerState) -> PendingRequest | None:
    """Return the request that covered an idle partition without having looked at it, and was lost."""
    asker = follower.asker
    request = None if asker is None else asker.lost
    return None if request is None or asker in request.looked else request


def waiting_since(follower: FollowerState) -> int | None:
    """Return since when the follower waits for a qualifying answer, None if it does not."""
    waits = follower.waits
    since_ms = None if waits is None else waits.since_ms
    request = covering(follower)
    if request is not None and request.is_live:
        since_ms = request.arrival_ms if since_ms is None else min(since_ms, request.arrival_ms)
    return since_ms


def protecting(follower: FollowerState) -> PendingRequest | None:
    """Return the oldest request for whose sake the follower is to be spared, whatever the cap says (R2)."""
    waits = follower.waits
    if waits is not None:
        for entry in waits.entries:
            if entry.qualifies and entry.request.is_live and entry.request.seq >= waits.served_seq:
                return entry.request
    request = covering(follower)
    return request if request is not None and request.is_live else None


def is_within(cap_ms: int | None, since_ms: int | None, now_ms: int) -> bool:
    """Return whether a wait since `since_ms` still protects."""
    return cap_ms is None or since_ms is None or now_ms - since_ms <= cap_ms


class PendingFetches:
    """The requests that one node owes an answer, oldest first."""

    __slots__ = ("_last_watch_ms", "_seq", "requests")

    def __init__(self) -> None:
        self._seq = 0
        self.requests: dict[int, PendingRequest] = {}
        self._last_watch_ms: int | None = None

    def __len__(self) -> int:
        return len(self.requests)

    @property
    def entry_count(self) -> int:
        """The metric PendingFollowerFetches: partitions for which somebody waits."""
        return sum(len(request.entries) for request in self.requests.values() if request.is_live)

    def open(
        self,
        replica_id: BrokerId,
        broker_epoch: BrokerEpoch,
        arrival_ms: int,
        parked_ms: int = 0,
        cover: Cover | None = None,
    ) -> PendingRequest:
        """Note a request that cannot be served at once; requests are opened in the order in which they came."""
        self._seq += 1
        request = PendingRequest(self._seq, replica_id, broker_epoch, arrival_ms, parked_ms, cover)
        self.requests[request.seq] = request
        if cover is not None:
            cover.in_flight = request
        return request

    def _close(self, request: PendingRequest) -> None:
        """Let go of a request of which nothing is left."""
        self.requests.pop(request.seq, None)
        cover = request.cover
        if cover is not None and cover.in_flight is request:
            cover.in_flight = None

    def answered(self, request: PendingRequest, now_ms: int) -> None:
        """Note that the follower got its whole answer."""
        entries, request.entries = request.entries, []
        for entry in entries:
            if not entry.is_void:
                entry.leader.fetch_answered(entry, now_ms)
        request.is_answered = True
        if request.cover is not None and request.seq in self.requests:
            request.cover.served(now_ms)
        self._close(request)

    def lost(self, request: PendingRequest, now_ms: int, cap_ms: int | None = None) -> None:
        """Note that nobody waits for the answer any more; reads that still run are of use when they end (R5)."""
        is_owed = request.seq in self.requests
        if request.cover is not None and is_owed:
            request.cover.gave_up(request, now_ms if is_within(cap_ms, request.arrival_ms, now_ms) else None)
        for entry in request.entries:
            if not entry.is_void:
                entry.leader.fetch_lost(entry, now_ms)
        request.lost_ms = now_ms
        ended = [entry for entry in request.entries if entry.is_read or entry.is_void]
        for entry in ended:
            self.read_ended(entry)
        if not request.entries:
            self._close(request)

    def read_ended(self, entry: PendingEntry) -> None:
        """Let go of an entry that failed (R4), or whose read has ended with nobody to answer (R5)."""
        request = entry.request
        if request.lost_ms is None and not entry.is_void:
            _failed(entry)
        remove(entry)
        if entry in request.entries:
            request.entries.remove(entry)
        if not request.entries and request.lost_ms is not None:
            self._close(request)

    def drop_older(self, replica_id: BrokerId, broker_epoch: BrokerEpoch) -> None:
        """Forget what former incarnations of a follower asked for (R6)."""
        older = [
            request
            for request in self.requests.values()
            if request.replica_id == replica_id and 0 <= request.broker_epoch < broker_epoch
        ]
        for request in older:
            for entry in request.entries:
                forget(entry.follower)
            self._close(request)

    def clear(self) -> None:
        """Forget everything: the feature was switched off."""
        for request in list(self.requests.values()):
            for entry in request.entries:
                forget(entry.follower)
            self._close(request)

    # The watchdog of solution 2.

    def start_watch(self, now_ms: int) -> None:
        """Begin to look regularly."""
        self._last_watch_ms = now_ms

    def excuse_pause(self, now_ms: int, period_ms: int) -> None:
        """Count no time in which this whole process did not run: then the watchdog did not either.

        To be asked before anything is judged: after a pause a read may end before the watchdog's turn comes.
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


def watch_period_ms(process_time_max_ms: int) -> int:
    """Return how often the watchdog looks."""
    return max(50, min(250, process_time_max_ms // 2))
