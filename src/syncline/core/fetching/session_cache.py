"""Session cache: which fetch sessions a node remembers, and which one it evicts.

One hard idea: the value of a session is what its reader would have to send again. Followers rank above consumers and
large sessions above small ones, so a node without a free slot evicts the cheapest session; a silent one goes first.

A broker has one session. One that opens another has lost it: its process is a new one, or the answer that named the
session never came. Then the lost one ends, which would hold its partitions, and be marked by each append, until all
slots are taken.

Clients' sessions have a bound in bytes besides. Only silent ones make room for others there: the most valuable session
is also the one that takes most. Without room, a full fetch gets no session (id 0), and a session that would grow ends,
upon which its reader sends a full fetch.

Units: times in ms of the node's monotonic clock, sizes in bytes.
Invariants: no more sessions than slots, no more bytes of clients' sessions than their bound; sessions are in the order
of their last use; each is counted for one connection at most.
Source: KIP-227 (its eviction rules; Kafka does not bound the bytes).
"""

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Sequence
from typing import Final

from syncline.core.fetching.session import (
    CLOSING_EPOCH,
    NO_SESSION_ID,
    OPENING_EPOCH,
    SESSION_EPOCH_MAX,
    FetchContext,
    FetchSession,
    FetchSpec,
    SessionPartition,
)
from syncline.core.fetching.session_bytes import PARTITION_BYTES, Payer, SessionBytes, session_bytes
from syncline.core.replication.known_brokers import KnownBrokers
from syncline.model.errors import ErrorCode
from syncline.model.ids import BrokerEpoch, BrokerId

# A session that was silent for this long may be evicted whatever its rank; Kafka's constant.
SESSION_IDLE_MAX_MS: Final = 120_000
UNBOUNDED_BYTES: Final = 2**63 - 1


class SessionCache:
    """The sessions of one node, least recently used first.

    `clients_bytes_max` bounds the memory of those that have a payer.
    """

    __slots__ = ("_brokers", "_bytes", "_draw_session_id", "_paid", "_sessions", "_slots_max", "evicted_count")

    def __init__(
        self,
        slots_max: int,
        draw_session_id: Callable[[], int],
        brokers: KnownBrokers,
        *,
        clients_bytes_max: int = UNBOUNDED_BYTES,
    ) -> None:
        self._slots_max = slots_max
        self._draw_session_id = draw_session_id
        self._brokers = brokers
        self._sessions: dict[int, FetchSession] = {}
        self._bytes = SessionBytes(clients_bytes_max)
        # The sessions that are counted for each connection.
        self._paid: dict[Payer, dict[int, FetchSession]] = {}
        self.evicted_count = 0

    def __len__(self) -> int:
        return len(self._sessions)

    @property
    def partition_count(self) -> int:
        """The number of partitions remembered in all sessions."""
        return sum(len(session.partitions) for session in self._sessions.values())

    @property
    def clients_bytes(self) -> int:
        """The memory that clients' sessions take."""
        return self._bytes.total

    @property
    def held_count(self) -> int:
        """The number of partitions that throttles hold back, once per follower."""
        return sum(session.held_count for session in self._sessions.values() if session.is_follower)

    def held(self) -> Iterator[tuple[FetchSession, object, Collection[SessionPartition]]]:
        """Iterate over what throttles hold back: sessions, each with a quota and what waits for it."""
        for session in self._sessions.values():
            for gate, entries in session.held.items():
                yield session, gate, entries

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
        payer: Payer | None = None,
    ) -> FetchContext | ErrorCode:
        """Return the context of a fetch request, or the error that refuses it as a whole.

        `payer` is the connection of a client, for which the memory is counted, that of a request without a session once
        it stays; None for a broker. A refusal leaves the
        named session as it was, unless there is no room for what it would become: then it ends.
        """
        if session_epoch in (OPENING_EPOCH, CLOSING_EPOCH):
            self.close(session_id)
            slot_id = NO_SESSION_ID
            if session_epoch == OPENING_EPOCH:
                if payer is None:
                    self._end_lost(replica_id, broker_epoch)
                slot_id = self._take_slot(len(listed), replica_id, payer, now_ms)
            session = FetchSession(
                slot_id,
                uses_topic_ids=uses_topic_ids,
                replica_id=replica_id,
                broker_epoch=broker_epoch,
                now_ms=now_ms,
            )
            session.ask(listed)
            if slot_id == NO_SESSION_ID:
                return FetchContext(session, is_full=True, payer=payer)
            if payer is not None:
                session.count_for(payer)
            self._remember(session)
            return FetchContext(session, is_full=True)
        known = self._sessions.get(session_id)
        if known is None or (known.payer is None) is not (payer is None):
            # Brokers and clients do not share sessions.
            return ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        if session_epoch != known.next_epoch:
            return ErrorCode.INVALID_FETCH_SESSION_EPOCH
        if uses_topic_ids != known.uses_topic_ids:
            return ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR
        self._use(known, broker_epoch, now_ms)
        if payer is not known.payer:
            # The reader has another connection.
            self._count_for(known, payer)
        if listed and payer is not None and not self._may_grow(known, listed, now_ms):
            self._evict(known)
            return ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        self._changed(known, listed, forgotten)
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
            last.ask(listed)
            return FetchContext(last, is_full=True, payer=payer)
        return FetchContext(known, is_full=False)

    def adopt(
        self, session: FetchSession, before_id: int, *, is_kept: bool, now_ms: int, payer: Payer | None = None
    ) -> None:
        """Do what `open` does for a full fetch, with a session that was built for it and has all of its partitions.

        It takes the place of the session `before_id`; it gets an id, and is remembered, if it is to be kept and there
        is room.
        """
        assert session.session_id == NO_SESSION_ID, f"{session!r} is in use"
        assert session.payer is None, f"{session!r} is counted already"
        self.close(before_id)
        if is_kept:
            if payer is None:
                self._end_lost(session.replica_id, session.broker_epoch)
            session.session_id = self._take_slot(len(session.partitions), session.replica_id, payer, now_ms)
        session.last_used_ms = now_ms
        session.clock.touch(now_ms)
        if payer is not None:
            session.count_for(payer)
        if session.session_id != NO_SESSION_ID:
            self._remember(session)

    def change(
        self,
        session: FetchSession,
        listed: Sequence[tuple[Hashable, FetchSpec]],
        forgotten: Sequence[Hashable],
        now_ms: int,
    ) -> bool:
        """Store one more part of what a fetch changes in its session, which `open` has returned.

        Returns whether it is stored; not if the session has ended since, or ends because there is no room for it.
        """
        if self._sessions.get(session.session_id) is not session:
            return False
        if session.payer is not None and not self._may_grow(session, listed, now_ms):
            self._evict(session)
            return False
        self._changed(session, listed, forgotten)
        return True

    def close(self, session_id: int) -> None:
        """End a session, if it exists."""
        session = self._sessions.pop(session_id, None)
        if session is not None:
            self._count_for(session, None)
            session.close()

    def is_payer(self, payer: Payer) -> bool:
        """Return whether sessions are counted for a connection."""
        return payer in self._paid

    def payer_left(self, payer: Payer) -> None:
        """End the sessions that are counted for a connection, which is closed."""
        for session_id in list(self._paid.get(payer, ())):
            self.close(session_id)

    def check_invariants(self) -> None:
        """Assert the bounds, the order of use, and what holds in each session."""
        assert len(self._sessions) <= self._slots_max, f"{len(self._sessions)} sessions in {self._slots_max} slots"
        used_ms = None
        clients_bytes = paid_count = 0
        for session_id, session in self._sessions.items():
            assert session_id == session.session_id > 0, f"{session!r} is kept under {session_id}"
            assert used_ms is None or used_ms <= session.last_used_ms, f"{session!r} was used before the one before it"
            assert session.created_ms <= session.last_used_ms, f"{session!r} was used before it was made"
            used_ms = session.last_used_ms
            session.check_invariants()
            if session.payer is not None:
                clients_bytes += session.size_bytes
                paid_count += 1
                assert self._paid[session.payer][session_id] is session, f"{session!r} does not end with its connection"
        assert paid_count == sum(map(len, self._paid.values())), "a session that is gone is counted for a connection"
        assert all(self._paid.values()), "a connection without sessions is remembered"
        bytes_max = self._bytes.max_bytes
        assert clients_bytes == self._bytes.total <= bytes_max, f"{clients_bytes} bytes of {bytes_max}"

    def _remember(self, session: FetchSession) -> None:
        self._sessions[session.session_id] = session
        if session.payer is not None:
            self._bytes.add(session.size_bytes)
            self._paid.setdefault(session.payer, {})[session.session_id] = session

    def _count_for(self, session: FetchSession, payer: Payer | None) -> None:
        """Count a remembered session for another connection."""
        before = session.payer
        if before is not None:
            sessions = self._paid[before]
            del sessions[session.session_id]
            if not sessions:
                del self._paid[before]
            self._bytes.add(-session.size_bytes)
        session.count_for(payer)
        if payer is not None:
            self._bytes.add(session.size_bytes)
            self._paid.setdefault(payer, {})[session.session_id] = session

    def _changed(
        self, session: FetchSession, listed: Sequence[tuple[Hashable, FetchSpec]], forgotten: Iterable[Hashable]
    ) -> None:
        """Store what a request changes in its session."""
        before_count = len(session.partitions)
        session.ask(listed)
        session.forget(forgotten)
        after_count = len(session.partitions)
        if session.payer is not None and after_count != before_count:
            self._bytes.add((after_count - before_count) * PARTITION_BYTES)

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

    def _end_lost(self, replica_id: BrokerId, broker_epoch: BrokerEpoch) -> None:
        """End the sessions of a broker that opens another one, but not those of a newer process."""
        for each in list(self._sessions.values()):
            if each.is_brokers and each.replica_id == replica_id and each.broker_epoch <= broker_epoch:
                self.close(each.session_id)

    def _take_slot(self, size: int, replica_id: BrokerId, payer: Payer | None, now_ms: int) -> int:
        """Return the id of a new session, 0 when there is no slot for it, or no memory."""
        if payer is not None and not self._make_room(session_bytes(size), now_ms):
            return NO_SESSION_ID
        is_brokers = replica_id >= 0 and payer is None
        if len(self._sessions) >= self._slots_max and not self._evict_for(size, is_brokers=is_brokers, now_ms=now_ms):
            return NO_SESSION_ID
        while (session_id := self._draw_session_id()) in self._sessions or session_id <= 0:
            pass
        return session_id

    def _may_grow(self, session: FetchSession, listed: Sequence[tuple[Hashable, FetchSpec]], now_ms: int) -> bool:
        """Return whether there is room for the listed partitions that are new to a session, which was just used."""
        partitions = session.partitions
        growth = sum(key not in partitions for key, _ in listed)
        return not growth or self._make_room(growth * PARTITION_BYTES, now_ms)

    def _make_room(self, size_bytes: int, now_ms: int) -> bool:
        """Evict silent sessions of clients until there is so much room; return whether there is."""
        while not self._bytes.has_room(size_bytes):
            oldest = next((session for session in self._sessions.values() if session.payer is not None), None)
            if oldest is None or now_ms - oldest.last_used_ms <= SESSION_IDLE_MAX_MS:
                return False
            self._evict(oldest)
        return True

    def _evict_for(self, size: int, *, is_brokers: bool, now_ms: int) -> bool:
        """Evict a silent session, or else one of lower rank that is old enough; return whether there was one.

        Followers rank above consumers, larger sessions above smaller ones. A consumer may not evict a session
        younger than the idle limit; a follower may evict any consumer's. A client that says it is a follower is none.
        """
        oldest = next(iter(self._sessions.values()), None)
        if oldest is None:
            return False
        victim = oldest
        if now_ms - oldest.last_used_ms <= SESSION_IDLE_MAX_MS:
            evictable = [
                session
                for session in self._sessions.values()
                if now_ms - session.created_ms > SESSION_IDLE_MAX_MS or (is_brokers and not session.is_brokers)
            ]
            if not evictable:
                return False
            victim = min(evictable, key=_rank)
            if (is_brokers, size) <= (victim.is_brokers, len(victim.partitions)):
                return False
        self._evict(victim)
        return True

    def _evict(self, session: FetchSession) -> None:
        self.close(session.session_id)
        self.evicted_count += 1


def _rank(session: FetchSession) -> tuple[bool, int, int]:
    return (session.is_brokers, len(session.partitions), session.session_id)
