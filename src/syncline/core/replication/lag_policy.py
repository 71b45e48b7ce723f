"""Lag policies: when a member of the ISR counts as out of sync.

One hard idea: measure the age of the last proof, not the amount of missing
data. A fetch that reaches the log end captured when it arrived proves that
the follower was caught up *then*; one that reaches the log end of the previous
fetch proves it as of the previous fetch. Without that second rule a follower
under steady load, always one fetch behind, would never be caught up.

A policy judges members of the ISR only: which followers may join, how epochs
fence and what the watermark counts are the same under every policy.

While slow reads protect (KIP-501), the proof of a fetch has the time of its service, not of its arrival:
`note_served`.

Units: times in ms of one monotonic clock; a window of exactly `replica.lag.time.max.ms` is still in sync.
Source: KIP-16, KAFKA-4485 (`time`), KIP-501.
"""

from dataclasses import dataclass
from typing import Protocol

from syncline.core.replication.evidence import Scalar
from syncline.core.replication.follower_state import NEVER_MS, FollowerState
from syncline.model.ids import Offset
from syncline.model.immutable import Immutable


class LagPolicy(Protocol):
    """The rule named by `replica.lag.mode`."""

    @property
    def name(self) -> str:
        """The value of `replica.lag.mode` that selects the policy."""

    @property
    def holds_watermark(self) -> bool:
        """Whether a caught-up follower outside the ISR holds the watermark back, so that it can join."""

    @property
    def forgives_silence(self) -> bool:
        """Whether a follower that has everything is in sync however long it has been silent."""

    def note_fetch(self, follower: FollowerState, offset: Offset, captured_log_end: Offset, now_ms: int) -> None:
        """Move the follower's times for an accepted fetch, before its offsets are updated."""

    def note_served(
        self,
        follower: FollowerState,
        offset: Offset,
        captured_log_end: Offset,
        now_ms: int,
        *,
        served_ms: int,
        qualifies: bool,
    ) -> None:
        """Move the follower's times while slow reads protect: its fetch arrived at `now_ms`, its read ended later."""

    def note_answered(self, follower: FollowerState, now_ms: int) -> None:
        """Record that the leader answered the whole request of a qualifying fetch, or the follower gave it up."""

    def is_caught_up(self, follower: FollowerState, leader_log_end: Offset, now_ms: int) -> bool:
        """Return whether the follower is in sync by this policy."""

    def numbers(self, leader_log_end: Offset, now_ms: int) -> tuple[tuple[str, Scalar], ...]:
        """Return what the verdict compares, for the evidence."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class TimeLag(Immutable):
    """Kafka's rule since 0.10.2: out of sync when behind *and* not caught up for longer than the window."""

    replica_lag_time_max_ms: int

    @property
    def name(self) -> str:
        """The value of `replica.lag.mode` that selects the policy."""
        return "time"

    @property
    def holds_watermark(self) -> bool:
        """A caught-up follower outside the ISR holds the watermark: under load it could never reach it otherwise."""
        return True

    @property
    def forgives_silence(self) -> bool:
        """A follower at the leader's log end lacks nothing; its heartbeats show whether it died."""
        return True

    def note_fetch(self, follower: FollowerState, offset: Offset, captured_log_end: Offset, now_ms: int) -> None:
        """Move the time at which the follower provably had everything."""
        if offset >= captured_log_end:
            proved_ms = now_ms
        elif offset >= follower.previous_log_end:
            proved_ms = follower.last_fetch_ms
        else:
            return
        follower.last_caught_up_ms = max(follower.last_caught_up_ms, proved_ms)

    def note_served(
        self,
        follower: FollowerState,
        offset: Offset,
        captured_log_end: Offset,
        now_ms: int,
        *,
        served_ms: int,
        qualifies: bool,
    ) -> None:
        """Count the follower as caught up at its service, if it requested nothing that it had already received."""
        if offset >= captured_log_end or qualifies:
            follower.last_caught_up_ms = max(follower.last_caught_up_ms, served_ms)
        else:
            self.note_fetch(follower, offset, captured_log_end, now_ms)

    def note_answered(self, follower: FollowerState, now_ms: int) -> None:
        """Count the follower as caught up until now: it could not fetch again earlier."""
        follower.last_caught_up_ms = max(follower.last_caught_up_ms, now_ms)

    def is_caught_up(self, follower: FollowerState, leader_log_end: Offset, now_ms: int) -> bool:
        """Return whether the follower is at the leader's log end, or was within the window.

        Equal log ends are always in sync: on an idle partition a fetch proves nothing new.
        """
        if follower.log_end == leader_log_end:
            return True
        return now_ms - follower.last_caught_up_ms <= self.replica_lag_time_max_ms

    def numbers(self, leader_log_end: Offset, now_ms: int) -> tuple[tuple[str, Scalar], ...]:
        """Return what the verdict compares, for the evidence."""
        return (
            ("now_ms", now_ms),
            ("replica_lag_time_max_ms", self.replica_lag_time_max_ms),
            ("leader_log_end", leader_log_end),
        )


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class MessageLag(Immutable):
    """Rule of Kafka 0.8.2: out of sync when too many records behind, or silent for too long.

    Kept for comparison. It evicts every follower on one large burst, and none on a quiet topic.
    """

    replica_lag_time_max_ms: int
    replica_lag_max_messages: int

    @property
    def name(self) -> str:
        """The value of `replica.lag.mode` that selects the policy."""
        return "messages"

    @property
    def holds_watermark(self) -> bool:
        """The watermark waits for the ISR only."""
        return False

    @property
    def forgives_silence(self) -> bool:
        """A follower that does not fetch is out, even if it lacks nothing."""
        return False

    def note_fetch(self, follower: FollowerState, offset: Offset, captured_log_end: Offset, now_ms: int) -> None:
        """Record that the follower fetched, and whether it had everything (only the evidence shows that)."""
        follower.log_end_update_ms = now_ms
        if offset >= captured_log_end:
            follower.last_caught_up_ms = max(follower.last_caught_up_ms, now_ms)

    def note_served(
        self,
        follower: FollowerState,
        offset: Offset,
        captured_log_end: Offset,
        now_ms: int,
        *,
        served_ms: int,
        qualifies: bool,
    ) -> None:
        """Count the follower as present until the leader had served it."""
        self.note_fetch(follower, offset, captured_log_end, now_ms)
        follower.log_end_update_ms = served_ms

    def note_answered(self, follower: FollowerState, now_ms: int) -> None:
        """Do nothing: only the `time` rule uses the end of a request."""

    def is_caught_up(self, follower: FollowerState, leader_log_end: Offset, now_ms: int) -> bool:
        """Return whether the follower fetched within the window and is not too many records behind."""
        if now_ms - follower.spoke_ms > self.replica_lag_time_max_ms:
            return False
        return follower.log_end < 0 or leader_log_end - follower.log_end <= self.replica_lag_max_messages

    def numbers(self, leader_log_end: Offset, now_ms: int) -> tuple[tuple[str, Scalar], ...]:
        """Return what the verdict compares, for the evidence."""
        return (
            ("now_ms", now_ms),
            ("replica_lag_time_max_ms", self.replica_lag_time_max_ms),
            ("replica_lag_max_messages", self.replica_lag_max_messages),
            ("leader_log_end", leader_log_end),
        )


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class LagBegin(Immutable):
    """KIP-16's rule to the letter: out of sync after lagging, or being silent, for longer than the window.

    Kept for comparison. A follower whose every fetch finds newer data lags "since the first of them".
    """

    replica_lag_time_max_ms: int

    @property
    def name(self) -> str:
        """The value of `replica.lag.mode` that selects the policy."""
        return "lag-begin"

    @property
    def holds_watermark(self) -> bool:
        """The watermark waits for the ISR only."""
        return False

    @property
    def forgives_silence(self) -> bool:
        """A follower that does not fetch is out, even if it lacks nothing."""
        return False

    def note_fetch(self, follower: FollowerState, offset: Offset, captured_log_end: Offset, now_ms: int) -> None:
        """Start the lag at the first fetch that did not reach the end, and end it at one that does."""
        follower.log_end_update_ms = now_ms
        if offset >= captured_log_end:
            follower.lag_begin_ms = NEVER_MS
            follower.last_caught_up_ms = max(follower.last_caught_up_ms, now_ms)
        elif follower.lag_begin_ms == NEVER_MS:
            follower.lag_begin_ms = now_ms

    def note_served(
        self,
        follower: FollowerState,
        offset: Offset,
        captured_log_end: Offset,
        now_ms: int,
        *,
        served_ms: int,
        qualifies: bool,
    ) -> None:
        """Record the fetch as any other; this rule ignores when it was served."""
        self.note_fetch(follower, offset, captured_log_end, now_ms)

    def note_answered(self, follower: FollowerState, now_ms: int) -> None:
        """Do nothing: only the `time` rule uses the end of a request."""

    def is_caught_up(self, follower: FollowerState, leader_log_end: Offset, now_ms: int) -> bool:
        """Return whether the follower has neither lagged nor been silent for longer than the window."""
        if now_ms - follower.spoke_ms > self.replica_lag_time_max_ms:
            return False
        return follower.lag_begin_ms == NEVER_MS or now_ms - follower.lag_begin_ms <= self.replica_lag_time_max_ms

    def numbers(self, leader_log_end: Offset, now_ms: int) -> tuple[tuple[str, Scalar], ...]:
        """Return what the verdict compares, for the evidence."""
        return (
            ("now_ms", now_ms),
            ("replica_lag_time_max_ms", self.replica_lag_time_max_ms),
            ("leader_log_end", leader_log_end),
        )


def lag_policy(mode: str, replica_lag_time_max_ms: int, replica_lag_max_messages: int) -> LagPolicy:
    """Return the policy that `replica.lag.mode` names."""
    if mode == "messages":
        return MessageLag(replica_lag_time_max_ms, replica_lag_max_messages)
    if mode == "lag-begin":
        return LagBegin(replica_lag_time_max_ms)
    assert mode == "time", f"no lag mode {mode!r}"
    return TimeLag(replica_lag_time_max_ms)
