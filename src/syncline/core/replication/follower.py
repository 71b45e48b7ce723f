"""Follower of one partition: what to fetch next, and what an answer does to the log.

One hard idea: an answer refers to the log as it was when the request was sent.
Elections and truncations overtake answers; the follower drops one that no longer
fits (other epoch, other offset), and its next fetch starts from the current state.

    FETCHING    request records at the log end, naming the epoch of the last record
    COMPARING   before the first fetch, ask where the own last epoch ends at the leader
    TRUNCATING  a cut was ordered; request nothing until the log reports that it is done
    ASKING      out of range: ask for the leader's log end, then for its start
    FAILED      failed on this broker, or fenced; only a newer leader epoch revives it

COMPARING exists in `epoch-request` mode only, where fetches name no epoch. In
`high-watermark` mode the follower compares nothing: under a new leader it cuts its
log at its own watermark, to show which records that rule loses.

Units: offsets are exclusive ends; `lag_records` counts records, -1 when unknown; times in ms.
Invariants: `fetch_offset` equals the own log end while FETCHING; at most one request in flight.
Source: KIP-101, KIP-279, KIP-595 (truncation on fetch); scenarios E03-E24, E28.
"""

from dataclasses import dataclass
from enum import Enum
from typing import Final, NamedTuple

from syncline.core.replication import truncation
from syncline.core.replication.evidence import Evidence
from syncline.core.replication.leader_epochs import EpochCache, EpochEnd
from syncline.core.replication.truncation import Truncation, TruncationMode
from syncline.model.errors import ErrorCode
from syncline.model.ids import NONE, LeaderEpoch, Offset
from syncline.model.immutable import Immutable

UNKNOWN_LAG: Final = -1
_READY_AT_ONCE: Final = -(1 << 62)


class FollowerPhase(Enum):
    """What the follower waits for."""

    FETCHING = "fetching"
    COMPARING = "comparing"
    TRUNCATING = "truncating"
    ASKING = "asking"
    FAILED = "failed"


# Looking up an enumeration member costs as much as a call.
_FETCHING: Final = FollowerPhase.FETCHING
# A named tuple's own constructor takes three times as long.
_make: Final = tuple.__new__


class FetchAsk(NamedTuple):
    """What a follower requests from its leader for one partition.

    `limit_bytes` is what a throttle leaves it; 0: as much as the broker's configuration says.
    """

    fetch_offset: Offset
    last_fetched_epoch: LeaderEpoch
    leader_epoch: LeaderEpoch
    log_start: Offset
    limit_bytes: int = 0


class EpochQuestion(NamedTuple):
    """Where does `epoch` end in the leader's log? A follower in `epoch-request` mode asks this before it fetches."""

    epoch: LeaderEpoch
    leader_epoch: LeaderEpoch


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class TruncateLog(Immutable):
    """Cut the log at `offset`, then report with `truncated`."""

    offset: Offset
    evidence: Evidence

    def __repr__(self) -> str:
        return f"TruncateLog({self.offset} by {self.evidence.rule})"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class RestartLog(Immutable):
    """Drop the whole log and continue, empty, at `start_offset`; then report with `truncated`."""

    start_offset: Offset
    evidence: Evidence

    def __repr__(self) -> str:
        return f"RestartLog({self.start_offset} by {self.evidence.rule})"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class AskLeaderEnd(Immutable):
    """Ask the leader for its log end (ListOffsets LATEST), then report with `leader_end_known`."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class AskLeaderStart(Immutable):
    """Ask the leader for its log start (ListOffsets EARLIEST), then report with `leader_start_known`."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class AwaitMetadata(Immutable):
    """The leader knows a newer epoch: fetch nothing until metadata brings it here, too."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class FollowerFailed(Immutable):
    """The follower fetches nothing until a newer leader epoch arrives."""

    reason: str


FollowerEffect = TruncateLog | RestartLog | AskLeaderEnd | AskLeaderStart | AwaitMetadata | FollowerFailed
FollowerEffects = tuple[FollowerEffect, ...]
NOTHING: Final[FollowerEffects] = ()


class FollowerPartition:
    """One partition that this broker follows."""

    __slots__ = (
        "_backoff_ms",
        "_backoff_ms_max",
        "_compares_in_fetch",
        "_first_backoff_ms",
        "_is_compared",
        "_mode",
        "_own_epoch",
        "_ready_at_ms",
        "fetch_offset",
        "lag_records",
        "last_fetched_epoch",
        "leader_epoch",
        "log_start",
        "phase",
    )

    def __init__(
        self,
        backoff_ms: int,
        first_backoff_ms: int | None = None,
        *,
        mode: TruncationMode = TruncationMode.EPOCH_FETCH,
    ) -> None:
        """Follow no leader yet. Pauses double from `first_backoff_ms` up to `backoff_ms`.

        A new leader refuses fetches for some milliseconds, until it learns of its election; a pause of a second
        would be far too long for that. Without `first_backoff_ms` all pauses are equal.
        """
        self._backoff_ms_max = backoff_ms
        self._first_backoff_ms = backoff_ms if first_backoff_ms is None else min(first_backoff_ms, backoff_ms)
        self._backoff_ms = self._first_backoff_ms
        self._ready_at_ms = _READY_AT_ONCE
        self._mode = mode
        self._compares_in_fetch = mode is TruncationMode.EPOCH_FETCH
        # For `epoch-request`: whether log and leader are known to agree, and the last epoch of the log.
        self._is_compared = False
        self._own_epoch = LeaderEpoch(NONE)
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
        """When the back-off ends; meaningless unless FETCHING or COMPARING."""
        return self._ready_at_ms

    def is_ready(self, now_ms: int) -> bool:
        """Return whether the next request should include this partition."""
        return self.phase is _FETCHING and now_ms >= self._ready_at_ms

    def has_question(self, now_ms: int) -> bool:
        """Return whether to ask the leader for the end of an epoch now."""
        return self.phase is FollowerPhase.COMPARING and now_ms >= self._ready_at_ms

    def question(self) -> EpochQuestion:
        """Return what to ask; the answer goes to `compared` if it `fits`."""
        return EpochQuestion(self._own_epoch, self.leader_epoch)

    def fits(self, question: EpochQuestion) -> bool:
        """Return whether an answer to `question` still fits this log; otherwise it is dropped."""
        return self.phase is FollowerPhase.COMPARING and question == self.question()

    def ask(self) -> FetchAsk:
        """Return what to request from the leader."""
        return _make(FetchAsk, (self.fetch_offset, self.last_fetched_epoch, self.leader_epoch, self.log_start, 0))

    def accepts(self, sent: FetchAsk) -> bool:
        """Return whether an answer to `sent` still fits this log; otherwise it is dropped."""
        return (
            self.phase is _FETCHING
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
        """Begin to follow under `leader_epoch`; an epoch that is not newer changes nothing.

        A log without epochs cannot be compared: the follower cuts it at its watermark. In `high-watermark` mode it
        does so with every log.
        """
        if leader_epoch <= self.leader_epoch:
            return NOTHING
        assert log_start <= log_end, f"the own log starts at {log_start} and ends at {log_end}"
        self.leader_epoch = leader_epoch
        self.log_start = log_start
        self.lag_records = UNKNOWN_LAG
        self._ready_at_ms = _READY_AT_ONCE
        self._backoff_ms = self._first_backoff_ms
        self._is_compared = False
        self._fetch_from(log_end, latest_epoch)
        is_blind = self._mode is TruncationMode.HIGH_WATERMARK
        if (is_blind or latest_epoch == NONE) and high_watermark < log_end:
            numbers = (("log_end", log_end), ("high_watermark", high_watermark), ("leader_epoch", leader_epoch))
            return self._truncate(high_watermark, Evidence("own-high-watermark" if is_blind else "no-epochs", numbers))
        return NOTHING

    def appended(
        self, *, log_end: Offset, log_start: Offset, latest_epoch: LeaderEpoch, leader_high_watermark: Offset
    ) -> None:
        """Take an answer into account whose records, possibly none, are in the log."""
        assert log_end >= self.fetch_offset, f"appending moved the log end from {self.fetch_offset} to {log_end}"
        self.log_start = log_start
        self.lag_records = max(0, leader_high_watermark - log_end)
        self._backoff_ms = self._first_backoff_ms
        self._fetch_from(log_end, latest_epoch)

    def diverged(
        self, answer: EpochEnd, epochs: EpochCache, log_end: Offset, high_watermark: Offset
    ) -> FollowerEffects:
        """Decide where to cut, given where the leader found that the histories part.

        Neither watermark nor log start may be taken from such an answer: they belong to another log.
        """
        point = truncation.truncation_point(answer, epochs, log_end, high_watermark)
        return self._truncate(point.offset, self._evidence(point, answer, log_end, high_watermark))

    def compared(
        self, answer: EpochEnd, epochs: EpochCache, log_end: Offset, high_watermark: Offset
    ) -> FollowerEffects:
        """Decide where to cut, given the answer to `question`; after an unfinished round, ask again after the cut."""
        point = truncation.truncation_point(answer, epochs, log_end, high_watermark)
        self._is_compared = point.is_finished
        self._backoff_ms = self._first_backoff_ms
        last = epochs.entries[-1] if len(epochs) else None
        if point.is_finished and point.offset >= log_end and (last is None or last.start_offset < log_end):
            # There is nothing to cut, not even a last epoch without records.
            self._fetch_from(log_end, self._own_epoch)
            return NOTHING
        return self._truncate(point.offset, self._evidence(point, answer, log_end, high_watermark))

    def truncated(self, log_end: Offset, latest_epoch: LeaderEpoch, log_start: Offset) -> None:
        """The ordered cut is done: fetch from the new end."""
        if self.phase is FollowerPhase.FAILED:
            return
        self.log_start = log_start
        self._fetch_from(log_end, latest_epoch)

    def refused(self, sent: FetchAsk | EpochQuestion, error: ErrorCode, now_ms: int) -> FollowerEffects:
        """Handle an error with which the leader answered a fetch or a question about its offsets or epochs."""
        if error is ErrorCode.OFFSET_OUT_OF_RANGE:
            # An earlier comparison was with another leader or another log.
            self._is_compared = False
            self.phase = FollowerPhase.ASKING
            return (AskLeaderEnd(),)
        if error is ErrorCode.FENCED_LEADER_EPOCH and sent.leader_epoch == self.leader_epoch:
            self.phase = FollowerPhase.FAILED
            return (AwaitMetadata(),)
        self.back_off(now_ms)
        return NOTHING

    def leader_end_known(self, leader_end: Offset, *, log_end: Offset, high_watermark: Offset) -> FollowerEffects:
        """Continue after OFFSET_OUT_OF_RANGE: cut to a leader that ends below the own log, or ask for its start."""
        if leader_end >= log_end:
            return (AskLeaderStart(),)
        numbers = (("leader_end", leader_end), ("log_end", log_end), ("high_watermark", high_watermark))
        return self._truncate(leader_end, Evidence("beyond-the-leaders-end", numbers))

    def leader_start_known(self, leader_start: Offset, *, log_end: Offset, now_ms: int) -> FollowerEffects:
        """Continue after OFFSET_OUT_OF_RANGE: drop a log that ends below the start of the leader's.

        Otherwise the leader refused an offset that lies within its log: fetch again, after a pause.
        """
        if leader_start > log_end:
            self.phase = FollowerPhase.TRUNCATING
            numbers = (("leader_start", leader_start), ("log_end", log_end))
            return (RestartLog(leader_start, Evidence("before-the-leaders-start", numbers)),)
        self._fetch_from(log_end, self._own_epoch)
        self.back_off(now_ms)
        return NOTHING

    def back_off(self, now_ms: int) -> None:
        """Fetch again later, at the same offset: the connection broke, or the leader sent nonsense."""
        if self.phase is FollowerPhase.ASKING:
            self.phase = FollowerPhase.FETCHING
        self._ready_at_ms = now_ms + self._backoff_ms
        self._backoff_ms = min(2 * self._backoff_ms, self._backoff_ms_max)

    def fail(self, reason: str) -> FollowerEffects:
        """Stop until metadata brings a newer epoch."""
        self.phase = FollowerPhase.FAILED
        return (FollowerFailed(reason),)

    def check_invariants(self) -> None:
        """Assert how phase, epochs and offsets relate."""
        is_comparing = self.phase is FollowerPhase.COMPARING
        assert self.log_start <= self.fetch_offset or self.phase is FollowerPhase.TRUNCATING, (
            f"the log starts at {self.log_start}: {self!r}"
        )
        assert not is_comparing or self._mode is TruncationMode.EPOCH_REQUEST, f"{self._mode.value} compares: {self!r}"
        assert not (is_comparing and self._is_compared), f"compared already: {self!r}"
        fetched_epoch = self._own_epoch if self._compares_in_fetch else NONE
        assert self.last_fetched_epoch == fetched_epoch, f"the log's last epoch is {self._own_epoch}: {self!r}"
        assert self._own_epoch <= max(self.leader_epoch, NONE), f"epoch {self._own_epoch} is yet to come: {self!r}"
        assert self._first_backoff_ms <= self._backoff_ms <= self._backoff_ms_max, f"pauses for {self._backoff_ms} ms"

    def _evidence(self, point: Truncation, answer: EpochEnd, log_end: Offset, high_watermark: Offset) -> Evidence:
        """Return what a cut after a comparison rests on."""
        numbers = (
            ("answer_epoch", answer.leader_epoch),
            ("answer_end_offset", answer.end_offset),
            ("last_fetched_epoch", self._own_epoch),
            ("leader_epoch", self.leader_epoch),
            ("log_end", log_end),
            ("high_watermark", high_watermark),
            ("is_below_high_watermark", point.offset < high_watermark),
            ("is_finished", point.is_finished),
        )
        return Evidence(point.rule, numbers)

    def _truncate(self, offset: Offset, evidence: Evidence) -> FollowerEffects:
        """Order a cut, and request nothing until it is done."""
        assert offset <= self.fetch_offset, f"cutting at {offset} would lengthen {self!r}"
        self.phase = FollowerPhase.TRUNCATING
        return (TruncateLog(offset, evidence),)

    def _fetch_from(self, log_end: Offset, latest_epoch: LeaderEpoch) -> None:
        """Fetch at the log end; in `epoch-request` mode not before leader and log agree."""
        self.fetch_offset = log_end
        self._own_epoch = latest_epoch
        self.phase = FollowerPhase.FETCHING
        if self._compares_in_fetch:
            self.last_fetched_epoch = latest_epoch
        elif self._mode is TruncationMode.EPOCH_REQUEST and not self._is_compared and latest_epoch != NONE:
            self.phase = FollowerPhase.COMPARING
