"""What a leader knows of one follower.

One hard idea: a fetch at offset `o` proves that the follower's log is equal to
the leader's below `o`, and nothing more. Times are when that was proved, not
how many seconds of data are missing.

A fetch session covers partitions that a request does not name. Touching them
all on every request would cost more than replicating the busy ones, so an idle
follower carries a `stamp`: the time of the session's last fetch, shared by all
its partitions. While follower and leader are at the same log end, each fetch
of the session proves that they are, and the stamp has the time; as soon as
either moves, the state records the time and drops the stamp.

Units: offsets are exclusive log ends, -1 when unknown; times in ms of one
monotonic clock, `NEVER_MS` below every time, so that a test clock may start at 0.
Source: KIP-16 and KAFKA-4485 (caught up as of the previous fetch), KIP-227 (sessions).
"""

from typing import Final, Protocol

from syncline.core.replication.evidence import FollowerView
from syncline.core.replication.known_brokers import KnownBrokers
from syncline.model.ids import NONE, BrokerEpoch, BrokerId, Offset

NEVER_MS: Final = -(1 << 62)
_AWAY_MS: Final = 1 << 62
UNKNOWN_OFFSET: Final = Offset(NONE)


class FetchStamp(Protocol):
    """The times of the last two fetches of a session."""

    @property
    def last_fetch_ms(self) -> int:
        """The time of the latest accepted fetch."""

    @property
    def previous_fetch_ms(self) -> int:
        """The time of the accepted fetch before the latest."""

    @property
    def served_ms(self) -> int:
        """The time at which the latest slow fetch was answered, `NEVER_MS` if there was none."""


class FollowerState:
    """One follower as its leader knows it; empty at first, as for a newly assigned replica.

    `counts` is true while the follower belongs to the maximal ISR: the watermark must respect it.
    `previous_log_end` is the highest leader log end captured at any accepted fetch.
    """

    __slots__ = (
        "broker_epoch",
        "broker_id",
        "counts",
        "has_failed",
        "lag_begin_ms",
        "last_caught_up_ms",
        "last_fetch_ms",
        "log_end",
        "log_end_update_ms",
        "log_start",
        "previous_log_end",
        "returned_ms",
        "stamp",
    )

    def __init__(self, broker_id: BrokerId, now_ms: int) -> None:
        self.broker_id = broker_id
        self.log_end = UNKNOWN_OFFSET
        self.log_start = UNKNOWN_OFFSET
        self.previous_log_end = Offset(0)
        self.last_fetch_ms = NEVER_MS
        self.last_caught_up_ms = NEVER_MS
        self.broker_epoch: BrokerEpoch | None = None
        self.counts = False
        # Its broker has reported that it cannot serve this replica.
        self.has_failed = False
        self.stamp: FetchStamp | None = None
        # When it first fetched after it had left the ISR; later than any time until it does.
        self.returned_ms = NEVER_MS
        # Only the historic lag modes read these two.
        self.log_end_update_ms = now_ms
        self.lag_begin_ms = NEVER_MS

    def __repr__(self) -> str:
        fetched, caught_up = (
            "never" if time_ms == NEVER_MS else time_ms for time_ms in (self.last_fetch_ms, self.last_caught_up_ms)
        )
        return f"FollowerState({self.broker_id}: {self.log_end}/{self.previous_log_end}/{fetched}/{caught_up})"

    @property
    def is_back(self) -> bool:
        """Whether it has been caught up since it left the ISR last; true if it never left."""
        return self.last_caught_up_ms >= self.returned_ms

    @property
    def spoke_ms(self) -> int:
        """When the follower fetched last, for the historic modes; the start of its grace period counts as a fetch."""
        stamp = self.stamp
        return self.log_end_update_ms if stamp is None else max(stamp.last_fetch_ms, self.log_end_update_ms)

    def is_eligible(self, brokers: KnownBrokers) -> bool:
        """Return whether the follower may join the ISR, as far as its broker is concerned."""
        return not self.has_failed and brokers.is_eligible(self.broker_id, self.broker_epoch)

    def left(self) -> None:
        """Record that it is no longer in the ISR: what it proved as a member says nothing about now."""
        self.returned_ms = _AWAY_MS

    def fetched(self, now_ms: int) -> None:
        """Record an accepted fetch."""
        if self.returned_ms == _AWAY_MS:
            self.returned_ms = now_ms
        self.last_fetch_ms = now_ms

    def record_stamp(self) -> None:
        """Record what the session's stamp has proved, and drop it."""
        stamp = self.stamp
        if stamp is not None:
            self.stamp = None
            self._seen_at_the_end(stamp.last_fetch_ms, stamp.served_ms)

    def record_stamp_before(self, fetch: FetchStamp | None) -> None:
        """Record what the stamp proved before `fetch`, which has already advanced it if it belongs to that session."""
        stamp = self.stamp
        if stamp is not None:
            self.stamp = None
            self._seen_at_the_end(stamp.previous_fetch_ms if stamp is fetch else stamp.last_fetch_ms, stamp.served_ms)

    def _seen_at_the_end(self, time_ms: int, served_ms: int) -> None:
        """Record a fetch at `time_ms` that found nothing new, and a slow one that was answered at `served_ms`."""
        if time_ms > self.last_fetch_ms:
            self.last_fetch_ms = time_ms
            self.log_end_update_ms = time_ms
            self.last_caught_up_ms = max(self.last_caught_up_ms, time_ms)
        self.last_caught_up_ms = max(self.last_caught_up_ms, served_ms)

    def start_first_term(self, now_ms: int, *, in_isr: bool) -> None:
        """Forget everything under a new leader; members of the ISR get a full lag window of grace."""
        self.stamp = None
        self.log_end = self.log_start = self.previous_log_end = UNKNOWN_OFFSET
        self.last_fetch_ms = NEVER_MS
        self._grant(now_ms, in_isr=in_isr)

    def start_next_term(self, leader_log_end: Offset, now_ms: int, *, in_isr: bool) -> None:
        """Keep the proven log end under a re-elected leader, whose log cannot have changed below it."""
        assert self.log_end <= leader_log_end, f"{self!r} proved more than the leader's {leader_log_end}"
        self.stamp = None
        self.previous_log_end = leader_log_end
        self.last_fetch_ms = now_ms if in_isr else NEVER_MS
        self._grant(now_ms, in_isr=in_isr)

    def start_mode(self, now_ms: int) -> None:
        """Switch to another lag rule; a member of the ISR gets a full lag window of grace under it.

        The stamp stays: no fetch of an idle partition would renew it.
        """
        stamp = self.stamp
        self.record_stamp()
        self.stamp = stamp
        self.log_end_update_ms = now_ms
        self.lag_begin_ms = NEVER_MS
        if self.counts:
            self.last_caught_up_ms = max(self.last_caught_up_ms, now_ms)

    def _grant(self, now_ms: int, *, in_isr: bool) -> None:
        """Start the lag window anew for a member of the ISR, and end it for others."""
        self.last_caught_up_ms = now_ms if in_isr else NEVER_MS
        self.returned_ms = NEVER_MS
        self.log_end_update_ms = now_ms
        self.lag_begin_ms = NEVER_MS

    def check_invariants(self) -> None:
        """Assert how the offsets and times relate."""
        assert self.log_end >= UNKNOWN_OFFSET <= self.log_start, f"{self!r} starts at {self.log_start}"
        assert self.log_start <= max(self.log_end, 0), f"{self!r} starts at {self.log_start}, above its end"
        stamp = self.stamp
        assert stamp is None or stamp.previous_fetch_ms <= stamp.last_fetch_ms, (
            f"fetches of {self!r} at {stamp.previous_fetch_ms} and {stamp.last_fetch_ms}"
        )

    def view(self) -> FollowerView:
        """Return this state as evidence for a decision about to be taken."""
        last_fetch_ms, last_caught_up_ms = self.last_fetch_ms, self.last_caught_up_ms
        if self.stamp is not None:
            last_fetch_ms = max(last_fetch_ms, self.stamp.last_fetch_ms)
            last_caught_up_ms = max(last_caught_up_ms, self.stamp.last_fetch_ms, self.stamp.served_ms)
        return FollowerView(
            broker_id=self.broker_id,
            broker_epoch=self.broker_epoch,
            log_end=self.log_end,
            previous_log_end=self.previous_log_end,
            last_fetch_ms=None if last_fetch_ms == NEVER_MS else last_fetch_ms,
            last_caught_up_ms=None if last_caught_up_ms == NEVER_MS else last_caught_up_ms,
            is_counted=self.counts,
        )
