"""Fetcher: all partitions that this broker follows from one leader, as one session.

One hard idea: the client's half of a fetch session is a diff. The fetcher keeps
what it last sent for each partition; a request lists only partitions for which
the follower now wants something else, and forgets those to leave out. As on the
server, the work is proportional to the number of changes, not of partitions.
Nor does one request list everything, if thousands change at once: the next ones list
the rest, so that neither side works on one of them for long. What the last answer had records of comes first: until it
is listed again, the leader sends the same records with each answer.

Units: times in ms of the node's monotonic clock.
Invariants: one request in flight; a partition that backs off, compares, truncates, failed or
is held by a throttle is not part of the leader's session.
Source: KIP-227, KIP-73 (throttling by leaving out), KIP-279 (questions before fetches).
"""

from collections.abc import Hashable
from itertools import chain
from typing import Final, Generic, NamedTuple, TypeVar

from syncline.core.fetching.limits import RECORD_ROWS_MAX
from syncline.core.fetching.session import NO_SESSION_ID, OPENING_EPOCH, SESSION_EPOCH_MAX
from syncline.core.replication.follower import EpochQuestion, FetchAsk, FollowerPartition, FollowerPhase
from syncline.model.errors import ErrorCode
from syncline.model.tables import shrink

Key = TypeVar("Key", bound=Hashable)

_FULL: Final = OPENING_EPOCH
# What one request lists, and what it forgets, at most: all of which one answer has records, and as many others.
LISTED_MAX: Final = 2 * RECORD_ROWS_MAX

# A named tuple's own constructor takes three times as long.
_make: Final = tuple.__new__


class FetchRequestPlan(NamedTuple, Generic[Key]):
    """One request to the leader: the partitions to list, and those to drop from the session.

    `is_partial`: there are more, which the next request lists; so this one is not to wait for data.
    """

    session_id: int
    session_epoch: int
    listed: list[tuple[Key, FetchAsk]]
    forgotten: list[Key]
    is_partial: bool = False


class Fetcher(Generic[Key]):
    """The partitions followed from one leader, and the session with it."""

    __slots__ = (
        "_advanced",
        "_backing_off",
        "_changed",
        "_comparing",
        "_has_session",
        "_held",
        "_limits",
        "_partitions",
        "_sent",
        "_session_epoch",
        "_session_id",
    )

    def __init__(self) -> None:
        self._partitions: dict[Key, FollowerPartition] = {}
        self._sent: dict[Key, FetchAsk] = {}
        # Dicts as ordered sets: the order of a set is not deterministic.
        # What the latest answers had records of; it is listed before all else that has changed.
        self._advanced: dict[Key, None] = {}
        self._changed: dict[Key, None] = {}
        self._held: dict[Key, None] = {}
        # What a throttle leaves to partitions that it does not hold.
        self._limits: dict[Key, int] = {}
        self._backing_off: dict[Key, None] = {}
        # Partitions that must ask the leader for the end of an epoch before they may fetch.
        self._comparing: dict[Key, None] = {}
        self._session_id = NO_SESSION_ID
        self._session_epoch = _FULL
        # False while the leader has no room for a session: then each request lists everything.
        self._has_session = True

    def __len__(self) -> int:
        return len(self._partitions)

    def __contains__(self, key: Key) -> bool:
        return key in self._partitions

    def add(self, key: Key, partition: FollowerPartition) -> None:
        """Follow `partition` from this leader."""
        self._partitions[key] = partition
        self.restated(key)

    def remove(self, key: Key) -> None:
        """Stop following the partition."""
        self._partitions.pop(key, None)
        shrink(self._partitions)
        self._held.pop(key, None)
        self._limits.pop(key, None)
        self._changed[key] = None

    @property
    def held_count(self) -> int:
        """Return how many partitions a throttle holds."""
        return len(self._held)

    def is_held(self, key: Key) -> bool:
        """Return whether a throttle holds a partition."""
        return key in self._held

    def touch(self, key: Key) -> None:
        """Look at the partition when making the next request: its state changed."""
        if key not in self._advanced:
            self._changed[key] = None

    def restated(self, key: Key) -> None:
        """Look at the partition again: it may be in another phase."""
        self._changed[key] = None
        partition = self._partitions.get(key)
        if partition is not None and partition.phase is FollowerPhase.COMPARING:
            self._comparing[key] = None

    def hold(self, key: Key) -> None:
        """Leave the partition out while a throttle holds it."""
        assert key in self._partitions, f"{key} is held and not followed"
        self._held[key] = None
        self._limits.pop(key, None)
        self._changed[key] = None

    def release(self, key: Key, limit_bytes: int = 0) -> None:
        """Fetch the partition again: so many bytes at once, 0 as configured."""
        assert limit_bytes >= 0, f"{key} is limited to {limit_bytes} bytes"
        if key in self._held:
            del self._held[key]
            self._changed[key] = None
        if self._limits.get(key, 0) != limit_bytes:
            self._changed[key] = None
            if limit_bytes:
                self._limits[key] = limit_bytes
            else:
                del self._limits[key]

    def sent(self, key: Key) -> FetchAsk | None:
        """Return what the session has for a partition, None when the partition is not in it."""
        return self._sent.get(key)

    def processed(self, key: Key) -> None:
        """List the partition first in the next request, and last in the next full one: it was served."""
        partition = self._partitions.pop(key, None)
        if partition is not None:
            self._partitions[key] = partition
            self._advanced[key] = None

    def next_wake_ms(self) -> int | None:
        """Return when the first back-off ends, None when nothing backs off."""
        times_ms = [
            partition.ready_at_ms
            for waiting, phase in (
                (self._backing_off, FollowerPhase.FETCHING),
                (self._comparing, FollowerPhase.COMPARING),
            )
            for key in waiting
            if (partition := self._partitions.get(key)) is not None and partition.phase is phase
        ]
        return min(times_ms, default=None)

    def next_questions(self, now_ms: int) -> list[tuple[Key, EpochQuestion]]:
        """Return the questions that precede the next fetch: where epochs of the leader's log end."""
        if not self._comparing:
            return []
        questions: list[tuple[Key, EpochQuestion]] = []
        for key in list(self._comparing):
            partition = self._partitions.get(key)
            if partition is None or partition.phase is not FollowerPhase.COMPARING:
                del self._comparing[key]
            elif partition.has_question(now_ms):
                questions.append((key, partition.question()))
        return questions

    def next_request(self, now_ms: int) -> FetchRequestPlan[Key] | None:
        """Return the next request, None when no partition is ready."""
        for key in [key for key in self._backing_off if self._is_over(key, now_ms)]:
            del self._backing_off[key]
            self._changed[key] = None
        is_full = self._session_epoch == _FULL
        if is_full:
            self._sent.clear()
        listed: list[tuple[Key, FetchAsk]] = []
        forgotten: list[Key] = []
        later: list[Key] = []
        keys = iter(self._partitions if is_full else chain(self._advanced, self._changed))
        for key in keys:
            ask = self._wanted(key, now_ms)
            known = self._sent.get(key)
            if ask is None:
                if known is not None:
                    del self._sent[key]
                    forgotten.append(key)
                    if len(forgotten) == LISTED_MAX:
                        later.extend(keys)
            elif ask != known:
                self._sent[key] = ask
                listed.append((key, ask))
                if len(listed) == LISTED_MAX and self._has_session:
                    later.extend(keys)
        self._advanced.clear()
        self._changed.clear()
        if forgotten:
            shrink(self._sent)
        if later:
            self._changed.update(dict.fromkeys(later))
        if not self._sent:
            if not is_full:
                # The leader closes the old session when the next opening request names it.
                self._reset(self._session_id)
            # The session ends with what it forgets; what is yet to be listed begins the next one.
            return self.next_request(now_ms) if self._changed else None
        return _make(FetchRequestPlan, (self._session_id, self._session_epoch, listed, forgotten, bool(later)))

    def answered(self, session_id: int) -> None:
        """Advance the session after an answer without a top-level error."""
        self._has_session = session_id != NO_SESSION_ID
        if session_id == NO_SESSION_ID:
            self._reset(NO_SESSION_ID)
            return
        is_last = self._session_epoch == SESSION_EPOCH_MAX
        self._session_id = session_id
        self._session_epoch = 1 if is_last else self._session_epoch + 1

    def session_refused(self, error: ErrorCode) -> None:
        """The leader refused the session: let the next request open a new one."""
        # If the leader still has the session, but out of step, naming it in the opening request closes it.
        self._reset(NO_SESSION_ID if error is ErrorCode.FETCH_SESSION_ID_NOT_FOUND else self._session_id)

    def disconnected(self, now_ms: int) -> None:
        """Back off with all partitions that an unanswered request covered, and open a new session afterwards."""
        for key in self._comparing:
            partition = self._partitions.get(key)
            if partition is not None and partition.phase is FollowerPhase.COMPARING:
                partition.back_off(now_ms)
        for key in self._sent:
            partition = self._partitions.get(key)
            if partition is not None:
                partition.back_off(now_ms)
                self._backing_off[key] = None
        self._reset(self._session_id)

    def check_invariants(self) -> None:
        """Assert that the leader's session is as recorded here, apart from what the next request changes."""
        for key in self._sent:
            assert key in self._partitions or key in self._changed, f"{key} is gone, and the leader would not learn it"
            assert key not in self._held or key in self._changed, f"{key} is held, and the leader would not learn it"
        for key in self._held:
            assert key in self._partitions, f"{key} is held and not followed"
            assert key not in self._limits, f"{key} is held and has a share"
        assert 0 <= self._session_epoch <= SESSION_EPOCH_MAX, f"session epoch {self._session_epoch}"
        assert self._session_id != NO_SESSION_ID or self._session_epoch == _FULL, f"epoch {self._session_epoch} of none"
        for partition in self._partitions.values():
            partition.check_invariants()

    def _reset(self, session_id: int) -> None:
        """Make the next request a full one."""
        self._session_id = session_id
        self._session_epoch = _FULL

    def _is_over(self, key: Key, now_ms: int) -> bool:
        """Return whether the back-off of a partition is over."""
        partition = self._partitions.get(key)
        return partition is None or partition.phase is not FollowerPhase.FETCHING or partition.is_ready(now_ms)

    def _wanted(self, key: Key, now_ms: int) -> FetchAsk | None:
        """Return what the session should have for a partition, None when it should not be in the session."""
        partition = self._partitions.get(key)
        if partition is None or key in self._held:
            return None
        if partition.is_ready(now_ms):
            ask = partition.ask()
            return ask._replace(limit_bytes=self._limits[key]) if key in self._limits else ask
        if partition.phase is FollowerPhase.FETCHING:
            self._backing_off[key] = None
        elif partition.phase is FollowerPhase.COMPARING:
            self._comparing[key] = None
        return None
