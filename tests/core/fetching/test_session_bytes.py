"""The memory of clients' fetch sessions: for whom it is counted, how much it may be, and what happens at the bound."""

from collections.abc import Sequence

from syncline.core.fetching.session import NO_SESSION_ID, FetchContext, FetchSession, FetchSpec
from syncline.core.fetching.session_bytes import session_bytes
from syncline.core.fetching.session_cache import SESSION_IDLE_MAX_MS, SessionCache
from syncline.core.replication.known_brokers import KnownBrokers
from syncline.model.errors import ErrorCode
from syncline.model.ids import BrokerEpoch, BrokerId
from tests.core.s0 import standings

CONSUMER, FOLLOWER = -1, 2
# Two sessions of so many partitions have room, a third one has not.
MANY = 10
ROOM_BYTES = 2 * session_bytes(MANY) + session_bytes(0)


class Connection:
    """Counts what is remembered for one client."""

    def __init__(self) -> None:
        self.kept_bytes = 0

    def keep(self, change_bytes: int) -> None:
        """Count."""
        self.kept_bytes += change_bytes
        assert self.kept_bytes >= 0


def make_cache(slots: int = 10) -> SessionCache:
    """Sessions get the ids 101, 102, ..."""
    brokers = KnownBrokers(standings(1, 2, 3))
    return SessionCache(slots, iter(range(101, 10_000)).__next__, brokers, clients_bytes_max=ROOM_BYTES)


def fetch(
    cache: SessionCache,
    connection: Connection | None,
    session_id: int = 0,
    epoch: int = 0,
    *,
    keys: Sequence[int] = range(MANY),
    forgotten: Sequence[int] = (),
    reader: int = CONSUMER,
    now: int = 0,
) -> FetchContext | ErrorCode:
    """Open a request of a client, or of a broker if there is no `connection`."""
    answer = cache.open(
        session_id,
        epoch,
        listed=[(key, FetchSpec(10, 1000)) for key in keys],
        forgotten=forgotten,
        uses_topic_ids=True,
        replica_id=reader,
        broker_epoch=-1,
        now_ms=now,
        payer=connection,
    )
    cache.check_invariants()
    return answer


def session_id_of(answer: FetchContext | ErrorCode) -> int:
    """Return the session id in the answer to a request that must not be refused."""
    assert isinstance(answer, FetchContext)
    return answer.session_id


def test_session_without_room_is_not_remembered() -> None:
    """Its fetch is answered with id 0, and counts for its client from when it waits until then."""
    cache, clients = make_cache(), [Connection() for _ in range(3)]
    answers = [fetch(cache, client) for client in clients]
    last = answers[2]
    assert isinstance(last, FetchContext)
    counts = [clients[2].kept_bytes]
    for step in (last.stay, last.stay, last.finish):
        step()
        counts.append(clients[2].kept_bytes)

    assert [session_id_of(answer) for answer in answers] == [101, 102, 0]
    assert [client.kept_bytes for client in clients] == [session_bytes(MANY), session_bytes(MANY), 0]
    assert (counts, cache.clients_bytes) == ([0, session_bytes(MANY), session_bytes(MANY), 0], 2 * session_bytes(MANY))


def test_silent_sessions_make_room_and_live_ones_do_not() -> None:
    """Oldest first, and no more than are needed."""
    cache, client = make_cache(), Connection()
    fetch(cache, client)
    fetch(cache, client)
    still = fetch(cache, client, now=SESSION_IDLE_MAX_MS)
    fetch(cache, client, 102, 1, keys=(), now=SESSION_IDLE_MAX_MS)
    late = fetch(cache, client, now=SESSION_IDLE_MAX_MS + 1)

    assert (session_id_of(still), session_id_of(late)) == (0, 103)
    assert cache.find(101) is None
    assert cache.find(102) is not None
    assert cache.evicted_count == 1


def built(count: int = MANY) -> FetchSession:
    """Return the session of a long fetch, which is complete and has no id."""
    session = FetchSession(
        NO_SESSION_ID, uses_topic_ids=True, replica_id=BrokerId(CONSUMER), broker_epoch=BrokerEpoch(-1), now_ms=0
    )
    session.ask([(key, FetchSpec(10, 1000)) for key in range(count)])
    return session


def test_session_built_in_parts_is_counted_when_it_is_adopted() -> None:
    """It takes the place of the session that its reader had; without room, or if it is the last, it is not kept."""
    cache, client = make_cache(), Connection()
    fetch(cache, client)
    sessions = [built() for _ in range(4)]
    for session, before_id, is_kept in zip(sessions, (101, 0, 0, 102), (True, True, True, False), strict=True):
        cache.adopt(session, before_id, is_kept=is_kept, now_ms=5, payer=client)
        cache.check_invariants()

    assert [session.session_id for session in sessions] == [102, 103, NO_SESSION_ID, NO_SESSION_ID]
    assert cache.find(101) is cache.find(102) is None
    assert cache.clients_bytes == session_bytes(MANY)
    assert client.kept_bytes == 3 * session_bytes(MANY)


def test_session_changes_in_parts_as_long_as_there_is_room() -> None:
    """Each part is counted; one that does not fit ends the session, and a session that has ended stays as it was."""
    cache, client = make_cache(), Connection()
    fetch(cache, client)
    session = cache.find(101)
    assert session is not None
    has_fitted = cache.change(session, [(key, FetchSpec(0, 1)) for key in range(MANY, MANY + 5)], [0, 1], 1)
    cache.check_invariants()
    kept_bytes = client.kept_bytes
    has_too_many = cache.change(session, [(key, FetchSpec(0, 1)) for key in range(100, 100 + 2 * MANY)], (), 1)
    cache.check_invariants()

    assert (has_fitted, has_too_many, len(session.partitions)) == (True, False, 0)
    assert kept_bytes == session_bytes(MANY + 3)
    assert not cache.change(session, (), (), 1)
    assert client.kept_bytes == cache.clients_bytes == 0


def test_session_that_would_outgrow_the_room_ends() -> None:
    """Its reader learns that it was evicted, and sends a full fetch; partitions that it has already need no room."""
    cache, client = make_cache(), Connection()
    fetch(cache, client)
    fetch(cache, client)
    same = fetch(cache, client, 101, 1)
    more = fetch(cache, client, 101, 2, keys=range(2 * MANY))

    assert session_id_of(same) == 101
    assert more is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert client.kept_bytes == cache.clients_bytes == session_bytes(MANY)
    assert cache.evicted_count == 1


def test_session_is_counted_with_the_partitions_it_has() -> None:
    """Added ones count, forgotten ones do not; an ended session counts nothing."""
    cache, client = make_cache(), Connection()
    counts = []
    fetch(cache, client, keys=[1, 2])
    for epoch, keys, forgotten in ((1, [3], []), (2, [1, 4], [2, 3]), (3, [], [1, 4])):
        fetch(cache, client, 101, epoch, keys=keys, forgotten=forgotten)
        counts.append(cache.clients_bytes)

    assert counts == [session_bytes(3), session_bytes(2), 0]
    assert client.kept_bytes == 0


def test_sessions_end_with_their_connection() -> None:
    """Nobody could use them again; sessions of other connections stay."""
    cache, gone, other = make_cache(), Connection(), Connection()
    for client in (gone, other, gone):
        fetch(cache, client, keys=[1])
    cache.payer_left(gone)

    cache.check_invariants()
    assert [cache.find(session_id) is None for session_id in (101, 102, 103)] == [True, False, True]
    assert (gone.kept_bytes, other.kept_bytes, cache.clients_bytes) == (0, session_bytes(1), session_bytes(1))


def test_session_moves_with_its_reader_to_another_connection() -> None:
    """The end of the first one, which the broker may notice later, does not end it."""
    cache, first, second = make_cache(), Connection(), Connection()
    fetch(cache, first)
    fetch(cache, second, 101, 1, keys=())
    cache.payer_left(first)

    cache.check_invariants()
    assert cache.find(101) is not None
    assert (first.kept_bytes, second.kept_bytes) == (0, session_bytes(MANY))


def test_brokers_sessions_have_no_bound_and_are_not_clients() -> None:
    """A client can neither use one nor push one out, whatever it says it is; a follower pushes the client out."""
    cache, client = make_cache(slots=2), Connection()
    large = fetch(cache, None, keys=range(100 * MANY), reader=FOLLOWER)
    pretender = fetch(cache, client, reader=FOLLOWER)
    stolen = fetch(cache, client, 101, 1, keys=())
    small = fetch(cache, None, keys=[1], reader=FOLLOWER + 1)
    denied = fetch(cache, client, keys=range(2 * MANY), reader=FOLLOWER)

    assert [session_id_of(answer) for answer in (large, pretender, small, denied)] == [101, 102, 103, 0]
    assert stolen is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert cache.find(101) is not None
    assert cache.find(102) is None
    assert cache.clients_bytes == 0
