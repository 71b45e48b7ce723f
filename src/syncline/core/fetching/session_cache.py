"""Session cache: which fetch sessions a node remembers, and which one it evicts.

One hard idea: the value of a session is what its reader would have to send again. Followers rank above consumers and
large sessions above small ones, so a node without a free slot evicts the cheapest session; a silent one goes first.

Units: times in ms of the node's monotonic clock.
Invariants: no more sessions than slots; sessions are in the order of their last use.
Source: KIP-227 (its eviction rules).
"""

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Final

from syncline.core.fetching.session import (
    CLOSING_EPOCH,
    NO_SESSION_ID,
    OPENING_EPOCH,
    SESSION_EPOCH_MAX,
    FetchContext,
    FetchSession,
    FetchSpec,
)
from syncline.core.replication.known_brokers import KnownBrokers
from syncline.model.errors import ErrorCode
from syncline.model.ids import BrokerEpoch, BrokerId

# A session that was silent for this long may be evicted whatever its rank; Kafka's constant.
SESSION_IDLE_MAX_MS: Final = 120_000


class SessionCache:
    """The sessions of one node, least recently used first."""

    __slots__ = ("_brokers", "_draw_session_id", "_sessions", "_slots_max", "evicted_count")

    def __init__(self, slots_max: int, draw_session_id: Callable[[], int], brokers: KnownBrokers) -> None:
        self._slots_max = slots_max
        self._draw_session_id = draw_session_id
        self._brokers = brokers
        self._sessions: dict[int, FetchSession] = {}
        self.evicted_count = 0

    def __len__(self) -> int:
        return len(self._sessions)

    @property
    def partition_count(self) -> int:
        """The number of partitions remembered in all sessions."""
        return sum(len(session.partitions) for session in self._sessions.values())

    def find(self, session_id: int) -> "FetchSession | None":
        """Return a remembered session; it does not count as used."""
        return self._sessions.get(session_id)

    def open(
        self,
        session_id: int,
        session_epoch: int,
        *,
        listed: Sequence[tuple[Hashable, FetchSpec]],
        forgotten: Iterable[Hashable],
        uses_topic_ids: bool,
        replica_id: BrokerId,
        broker_epoch: BrokerEpoch,
        now_ms: int,
    ) -> FetchContext | ErrorCode:
        """Return the context of a fetch request, or the error that refuses it as a whole.

        A refusal leaves the named session as it was.
        """
        if session_epoch in (OPENING_EPOCH, CLOSING_EPOCH):
            self.close(session_id)
            slot_id = NO_SESSION_ID
            if session_epoch == OPENING_EPOCH:
                slot_id = self._take_slot(len(listed), is_follower=replica_id >= 0, now_ms=now_ms)
            session = FetchSession(
                slot_id,
                uses_topic_ids=uses_topic_ids,
                replica_id=replica_id,
                broker_epoch=broker_epoch,
                now_ms=now_ms,
            )
            if slot_id != NO_SESSION_ID:
                self._sessions[slot_id] = session
            return FetchContext(session, is_full=True, added=session.ask(listed))
        known = self._sessions.get(session_id)
        if known is None:
            return ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        if session_epoch != known.next_epoch:
            return ErrorCode.INVALID_FETCH_SESSION_EPOCH
        if uses_topic_ids != known.uses_topic_ids:
            return ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR
        self._use(known, broker_epoch, now_ms)
        added = known.ask(listed)
        known.forget(forgotten)
        if not known.partitions:
            # The session is empty: the reader learns from id 0 that its next fetch must be full. A partition that it
            # listed and forgot in one request is answered once more.
            self.close(session_id)
            last = FetchSession(
                NO_SESSION_ID,
                uses_topic_ids=uses_topic_ids,
                replica_id=replica_id,
                broker_epoch=broker_epoch,
                now_ms=now_ms,
            )
            return FetchContext(last, is_full=True, added=last.ask(listed))
        return FetchContext(known, is_full=False, added=added)

    def close(self, session_id: int) -> None:
        """End a session, if it exists."""
        session = self._sessions.pop(session_id, None)
        if session is not None:
            session.close()

    def check_invariants(self) -> None:
        """Assert the bound, the order of use, and what holds in each session."""
        assert len(self._sessions) <= self._slots_max, f"{len(self._sessions)} sessions in {self._slots_max} slots"
        used_ms = None
        for session_id, session in self._sessions.items():
            assert session_id == session.session_id > 0, f"{session!r} is kept under {session_id}"
            assert used_ms is None or used_ms <= session.last_used_ms, f"{session!r} was used before the one before it"
            assert session.created_ms <= session.last_used_ms, f"{session!r} was used before it was made"
            used_ms = session.last_used_ms
            session.check_invariants()

    def _use(self, session: FetchSession, broker_epoch: BrokerEpoch, now_ms: int) -> None:
        """Count one more request of `session`."""
        session.next_epoch = 1 if session.next_epoch == SESSION_EPOCH_MAX else session.next_epoch + 1
        session.last_used_ms = now_ms
        self._sessions[session.session_id] = self._sessions.pop(session.session_id)
        if session.is_follower and (
            broker_epoch != session.broker_epoch or self._brokers.is_stale(session.replica_id, broker_epoch)
        ):
            session.new_incarnation(broker_epoch, now_ms)
        else:
            session.clock.touch(now_ms)

    def _take_slot(self, size: int, *, is_follower: bool, now_ms: int) -> int:
        """Return the id of a new session, 0 when there is no slot for it."""
        if len(self._sessions) >= self._slots_max and not self._evict_for(size, is_follower=is_follower, now_ms=now_ms):
            return NO_SESSION_ID
        while (session_id := self._draw_session_id()) in self._sessions or session_id <= 0:
            pass
        return session_id

    def _evict_for(self, size: int, *, is_follower: bool, now_ms: int) -> bool:
        """Evict a silent session, or else one of lower rank that is old enough; return whether there was one.

        Followers rank above consumers, larger sessions above smaller ones. A consumer may not evict a session
        younger than the idle limit; a follower may evict any consumer's.
        """
        oldest = next(iter(self._sessions.values()), None)
        if oldest is None:
            return False
        victim = oldest
        if now_ms - oldest.last_used_ms <= SESSION_IDLE_MAX_MS:
            evictable = [
                session
                for session in self._sessions.values()
                if now_ms - session.created_ms > SESSION_IDLE_MAX_MS or (is_follower and not session.is_follower)
            ]
            if not evictable:
                return False
            victim = min(evictable, key=_rank)
            if (is_follower, size) <= (victim.is_follower, len(victim.partitions)):
                return False
        self.close(victim.session_id)
        self.evicted_count += 1
        return True


def _rank(session: FetchSession) -> tuple[bool, int, int]:
    return (session.is_follower, len(session.partitions), session.session_id)
