"""Follower of one partition: what to fetch next, and what an answer does to the log.

One hard idea: an answer speaks of the log as it was when the request was sent.
Elections and truncations overtake answers; one that no longer fits (other
epoch, other offset) is dropped without a word, and the next fetch tells the
truth again.

    FETCHING    ask for records at the log end, naming the epoch of the last record
    TRUNCATING  a cut was ordered; nothing is asked until the log reports it done
    ASKING      out of range: the leader's log end, then its start, is being asked
    FAILED      broken here or fenced; only a newer leader epoch revives it

Units: offsets are exclusive ends; `lag_records` counts records, -1 when unknown; times in ms.
Invariants: `fetch_offset` equals the own log end while FETCHING; at most one request in flight.
Source: KIP-101, KIP-279, KIP-595 (truncation on fetch); scenarios E03-E24.
"""

from dataclasses import dataclass
from enum import Enum
from typing import Final, NamedTuple

from syncline.core import truncation
from syncline.core.evidence import Evidence
from syncline.core.leader_epochs import EpochCache, EpochEnd
from syncline.model.errors import ErrorCode
from syncline.model.ids import NONE, LeaderEpoch, Offset

UNKNOWN_LAG: Final = -1
_READY_AT_ONCE: Final = -(1 << 62)


class FollowerPhase(Enum):
    """What the follower waits for."""

    FETCHING = "fetching"
    TRUNCATING = "truncating"
    ASKING = "asking"
    FAILED = "failed"


class FetchAsk(NamedTuple):
    """What the follower tells its leader about one partition."""

    fetch_offset: Offset
    last_fetched_epoch: LeaderEpoch
    leader_epoch: LeaderEpoch
    log_start: Offset


@dataclass(frozen=True, slots=True)
class TruncateLog:
    """Cut the log at `offset`, then report with `truncated`."""

    offset: Offset
    evidence: Evidence


@dataclass(frozen=True, slots=True)
class RestartLog:
    """Drop the whole log and go on, empty, at `start_offset`; then report with `truncated`."""

    start_offset: Offset
    evidence: Evidence


@dataclass(frozen=True, slots=True)
class AskLeaderEnd:
    """Ask the leader for its log end (ListOffsets LATEST), then report with `leader_end_known`."""


@dataclass(frozen=True, slots=True)
class AskLeaderStart:
    """Ask the leader for its log start (ListOffsets EARLIEST), then report with `leader_start_known`."""


@dataclass(frozen=True, slots=True)
class FollowerFailed:
    """Nothing is fetched any more until a newer leader epoch comes."""

    reason: str


FollowerEffect = TruncateLog | RestartLog | AskLeaderEnd | AskLeaderStart | FollowerFailed
FollowerEffects = tuple[FollowerEffect, ...]
NOTHING: Final[FollowerEffects] = ()


class FollowerPartition:
    """One partition that this broker follows."""

    __slots__ = (
        "_backoff_ms",
        "_backoff_ms_max",
        "_first_backoff_ms",
        "_ready_at_ms",
        "fetch_offset",
        "lag_records",
        "last_fetched_epoch",
        "leader_epoch",
        "log_start",
        "phase",
    )

    def __init__(self, backoff_ms: int, first_backoff_ms: int | None = None) -> None:
        """Follow nobody yet. Each pause is twice the one before, from `first_backoff_ms` up to `backoff_ms`.

        A leader that has not yet heard of its appointment refuses for some milliseconds, and nobody should
        wait a second for that. Without `first_backoff_ms` all pauses are equal.
        """
        self._backoff_ms_max = backoff_ms
        self._first_backoff_ms = backoff_ms if first_backoff_ms is None else min(first_backoff_ms, backoff_ms)
        self._backoff_ms = self._first_backoff_ms
        self._ready_at_ms = _READY_AT_ONCE
        self.leader_epoch = LeaderEpoch(NONE)
        self.fetch_offset = Offset(0)
        self.last_fetched_epoch = LeaderEpoch(NONE)
        self.log_start = Offset(0)
        self.lag_records = UNKNOWN_LAG
        self.phase = FollowerPhase.FETCHING

    def __repr__(self) -> str:
        return (
            f"FollowerPartition({self.phase.value} epoch {self.leader_epoch}"
            f" at {self.fetch_offset} after epoch {self.last_fetched_epoch})"
        )

    @property
    def ready_at_ms(self) -> int:
        """When the back-off ends; meaningless unless FETCHING."""
        return self._ready_at_ms

    def is_ready(self, now_ms: int) -> bool:
        """Return whether the next request should ask for this partition."""
        return self.phase is FollowerPhase.FETCHING and now_ms >= self._ready_at_ms

    def ask(self) -> FetchAsk:
        """Return what to tell the leader."""
        return FetchAsk(self.fetch_offset, self.last_fetched_epoch, self.leader_epoch, self.log_start)

    def accepts(self, sent: FetchAsk) -> bool:
        """Return whether an answer to `sent` still speaks of this log; otherwise it is dropped."""
        return (
            self.phase is FollowerPhase.FETCHING
            and sent.fetch_offset == self.fetch_offset
            and sent.leader_epoch == self.leader_epoch
        )

    def follow(
        self,
        leader_epoch: LeaderEpoch,
        *,
        log_start: Offset,
        log_end: Offset,
        high_watermark: Offset,
        latest_epoch: LeaderEpoch,
    ) -> FollowerEffects:
        """Begin to follow under `leader_epoch`; the same epoch again, or an older one, changes nothing.

        A log that knows no epochs cannot be compared: all above its watermark is cut.
        """
        if leader_epoch <= self.leader_epoch:
            return NOTHING
        self.leader_epoch = leader_epoch
        self.log_start = log_start
        self.lag_records = UNKNOWN_LAG
        self._ready_at_ms = _READY_AT_ONCE
        self._backoff_ms = self._first_backoff_ms
        self._fetch_from(log_end, latest_epoch)
        if latest_epoch == NONE and high_watermark < log_end:
            numbers = (("log_end", log_end), ("high_watermark", high_watermark), ("leader_epoch", leader_epoch))
            return self._truncate(high_watermark, Evidence("no-epochs", numbers))
        return NOTHING

    def appended(
        self, *, log_end: Offset, log_start: Offset, latest_epoch: LeaderEpoch, leader_high_watermark: Offset
    ) -> None:
        """Take note of an answer whose records, possibly none, are in the log."""
        self.log_start = log_start
        self.lag_records = max(0, leader_high_watermark - log_end)
        self._backoff_ms = self._first_backoff_ms
        self._fetch_from(log_end, latest_epoch)

    def diverged(
        self, answer: EpochEnd, epochs: EpochCache, log_end: Offset, high_watermark: Offset
    ) -> FollowerEffects:
        """Decide where to cut after the leader showed where the histories part.

        Neither watermark nor log start may be taken from such an answer: they belong to another log.
        """
        point = truncation.truncation_point(answer, epochs, log_end, high_watermark)
        numbers = (
            ("answer_epoch", answer.leader_epoch),
            ("answer_end_offset", answer.end_offset),
            ("last_fetched_epoch", self.last_fetched_epoch),
            ("leader_epoch", self.leader_epoch),
            ("log_end", log_end),
            ("high_watermark", high_watermark),
            ("is_below_high_watermark", point.offset < high_watermark),
            ("is_finished", point.is_finished),
        )
        return self._truncate(point.offset, Evidence(point.rule, numbers))

    def truncated(self, log_end: Offset, latest_epoch: LeaderEpoch, log_start: Offset) -> None:
        """Take note that the ordered cut is done; fetch on at the new end."""
        if self.phase is FollowerPhase.FAILED:
            return
        self.log_start = log_start
        self._fetch_from(log_end, latest_epoch)

    def refused(self, sent: FetchAsk, error: ErrorCode, now_ms: int) -> FollowerEffects:
        """Take an error of the leader, to a fetch or to a question for its offsets."""
        if error is ErrorCode.OFFSET_OUT_OF_RANGE:
            self.phase = FollowerPhase.ASKING
            return (AskLeaderEnd(),)
        if error is ErrorCode.FENCED_LEADER_EPOCH and sent.leader_epoch == self.leader_epoch:
            return self.fail("fenced by the leader, and no newer epoch is known here")
        self.back_off(now_ms)
        return NOTHING

    def leader_end_known(self, leader_end: Offset, *, log_end: Offset, high_watermark: Offset) -> FollowerEffects:
        """Go on after OFFSET_OUT_OF_RANGE: a leader that ends below the own log decides; else ask for its start."""
        if leader_end >= log_end:
            return (AskLeaderStart(),)
        numbers = (("leader_end", leader_end), ("log_end", log_end), ("high_watermark", high_watermark))
        return self._truncate(leader_end, Evidence("beyond-the-leaders-end", numbers))

    def leader_start_known(self, leader_start: Offset, *, log_end: Offset, now_ms: int) -> FollowerEffects:
        """Go on after OFFSET_OUT_OF_RANGE: a leader that starts above the own log leaves nothing to keep.

        Otherwise the offset lies within the leader's log, which refused it all the same: ask again, but not at once.
        """
        if leader_start > log_end:
            self.phase = FollowerPhase.TRUNCATING
            numbers = (("leader_start", leader_start), ("log_end", log_end))
            return (RestartLog(leader_start, Evidence("before-the-leaders-start", numbers)),)
        self._fetch_from(log_end, self.last_fetched_epoch)
        self.back_off(now_ms)
        return NOTHING

    def back_off(self, now_ms: int) -> None:
        """Ask again later, at the same offset: the connection broke, or the leader sent nonsense."""
        if self.phase is FollowerPhase.ASKING:
            self.phase = FollowerPhase.FETCHING
        self._ready_at_ms = now_ms + self._backoff_ms
        self._backoff_ms = min(2 * self._backoff_ms, self._backoff_ms_max)

    def fail(self, reason: str) -> FollowerEffects:
        """Stop until metadata brings a newer epoch."""
        self.phase = FollowerPhase.FAILED
        return (FollowerFailed(reason),)

    def _truncate(self, offset: Offset, evidence: Evidence) -> FollowerEffects:
        """Order a cut, and ask nothing until it is done."""
        self.phase = FollowerPhase.TRUNCATING
        return (TruncateLog(offset, evidence),)

    def _fetch_from(self, log_end: Offset, latest_epoch: LeaderEpoch) -> None:
        """Fetch at the log end."""
        self.fetch_offset = log_end
        self.last_fetched_epoch = latest_epoch
        self.phase = FollowerPhase.FETCHING
