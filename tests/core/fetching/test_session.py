"""Fetch sessions, the server's side: H01-H03, H06 and what was observed of Kafka 4.3."""

from collections.abc import Sequence

import pytest

from syncline.core.fetching.session import (
    SESSION_EPOCH_MAX,
    FetchContext,
    FetchSpec,
    SessionPartition,
)
from syncline.core.fetching.session_cache import SESSION_IDLE_MAX_MS, SessionCache
from syncline.core.fetching.watchers import PartitionWatchers
from syncline.core.replication.known_brokers import BrokerStanding, KnownBrokers
from syncline.model.errors import ErrorCode
from tests.core.s0 import standings

CONSUMER, FOLLOWER = -1, 2


def make_cache(slots: int = 10) -> SessionCache:
    """Sessions get the ids 101, 102, ..."""
    return SessionCache(slots, iter(range(101, 10_000)).__next__, KnownBrokers(standings(1, 2, 3)))


def fetch(
    cache: SessionCache,
    session_id: int,
    epoch: int,
    keys: Sequence[str] = (),
    *,
    forgotten: Sequence[str] = (),
    reader: int = CONSUMER,
    broker_epoch: int = -1,
    by_id: bool = True,
    now: int = 0,
) -> FetchContext | ErrorCode:
    """Open a request that lists `keys` at offset 10; what holds in the cache holds before and after."""
    cache.check_invariants()
    answer = cache.open(
        session_id,
        epoch,
        listed=[(key, FetchSpec(10, 1000)) for key in keys],
        forgotten=forgotten,
        uses_topic_ids=by_id,
        replica_id=reader,
        broker_epoch=broker_epoch,
        now_ms=now,
    )
    cache.check_invariants()
    return answer


def opened(answer: FetchContext | ErrorCode) -> FetchContext:
    """Return the context of a request that must not be refused."""
    assert isinstance(answer, FetchContext)
    return answer


def entries(context: FetchContext) -> list[SessionPartition]:
    """Return the entries of a session."""
    return list(context.session.partitions.values())


def answer_one(
    context: FetchContext, entry: SessionPartition, *, records: int = 0, mark: int = 10, **more: object
) -> bool:
    """Answer `entry`, by default with nothing new."""
    row = context.record_sent(
        entry, record_bytes=records, high_watermark=mark, log_start=0, at_bound=records == 0, **more
    )
    context.session.check_invariants()
    return row


def answer_all(context: FetchContext, **more: object) -> list[object]:
    """Answer all pending entries; return the keys that belong in the answer."""
    return [entry.key for entry in context.pending() if answer_one(context, entry, **more)]


def test_h01_the_life_of_a_session() -> None:
    """Opened, used, used twice with one epoch, unknown."""
    cache = make_cache()
    first = opened(fetch(cache, 0, 0, ["t-0"]))
    assert (first.session_id, first.is_full) == (101, True)

    assert opened(fetch(cache, 101, 1)).session_id == 101
    assert fetch(cache, 101, 1) is ErrorCode.INVALID_FETCH_SESSION_EPOCH
    assert fetch(cache, 102, 1) is ErrorCode.FETCH_SESSION_ID_NOT_FOUND

    assert opened(fetch(cache, 101, 2)).session_id == 101, "a wrong epoch does not disturb the session"


def test_h01_after_the_last_epoch_comes_1() -> None:
    """0 would open a new session."""
    cache = make_cache()
    opened(fetch(cache, 0, 0, ["t-0"])).session.next_epoch = SESSION_EPOCH_MAX

    opened(fetch(cache, 101, SESSION_EPOCH_MAX))

    assert opened(fetch(cache, 101, 1)).session_id == 101


REFUSALS = [
    pytest.param(0, 5, ErrorCode.FETCH_SESSION_ID_NOT_FOUND, id="no-id"),
    pytest.param(0, -2, ErrorCode.FETCH_SESSION_ID_NOT_FOUND, id="nonsense-epoch"),
    pytest.param(999, 1, ErrorCode.FETCH_SESSION_ID_NOT_FOUND, id="unknown"),
    pytest.param(101, 7, ErrorCode.INVALID_FETCH_SESSION_EPOCH, id="wrong-epoch"),
]


@pytest.mark.parametrize(("session_id", "epoch", "error"), REFUSALS)
def test_session_refusals(session_id: int, epoch: int, error: ErrorCode) -> None:
    """As Kafka 4.3 answers."""
    cache = make_cache()
    fetch(cache, 0, 0, ["t-0"])

    assert fetch(cache, session_id, epoch) is error


def test_session_refuses_to_mix_names_and_ids() -> None:
    """A session of ids is asked by name."""
    cache = make_cache()
    fetch(cache, 0, 0, ["t-0"])

    assert fetch(cache, 101, 1, by_id=False) is ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR


@pytest.mark.parametrize(("epoch", "new_id"), [(-1, 0), (0, 102)], ids=["close", "reopen"])
def test_session_ends_when_named_in_a_full_fetch(epoch: int, new_id: int) -> None:
    """The answer is full; the old id is gone."""
    cache = make_cache()
    old = opened(fetch(cache, 0, 0, ["t-0"])).session

    again = opened(fetch(cache, 101, epoch, ["t-0"]))

    assert (again.is_full, again.session_id) == (True, new_id)
    assert old.partitions == {}
    assert fetch(cache, 101, 1) is ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_session_is_created_even_without_partitions() -> None:
    """As Kafka does."""
    assert opened(fetch(make_cache(), 0, 0)).session_id == 101


def test_session_that_runs_empty_is_closed() -> None:
    """Id 0 makes the reader start with a full fetch."""
    cache = make_cache()
    fetch(cache, 0, 0, ["t-0"])

    context = opened(fetch(cache, 101, 1, forgotten=["t-0"]))

    assert (context.session_id, context.partition_count, len(cache)) == (0, 0, 0)


def test_h02_an_incremental_answer_lists_only_news() -> None:
    """Of three partitions one got data, one a new watermark."""
    cache = make_cache()
    first = opened(fetch(cache, 0, 0, ["t-0", "t-1", "t-2"]))
    watchers = {entry.key: PartitionWatchers() for entry in entries(first)}
    for entry in entries(first):
        watchers[entry.key].add(entry)
    assert answer_all(first) == ["t-0", "t-1", "t-2"]

    watchers["t-2"].high_watermark_moved()
    watchers["t-1"].high_watermark_moved()
    second = opened(fetch(cache, 101, 1))
    t1, t2 = second.pending()

    assert (t1.key, t2.key) == ("t-1", "t-2")
    assert answer_one(second, t1, records=100)
    assert answer_one(second, t2, mark=11)
    assert answer_all(opened(fetch(cache, 101, 2, ["t-1"])), mark=10) == []


def test_h02_a_change_without_news_is_not_listed() -> None:
    """It is looked at, and left out."""
    cache = make_cache()
    first = opened(fetch(cache, 0, 0, ["t-0"]))
    watchers = PartitionWatchers()
    watchers.add(entries(first)[0])
    answer_all(first)

    watchers.role_changed()

    assert answer_all(opened(fetch(cache, 101, 1))) == []
    assert opened(fetch(cache, 101, 2)).pending() == []


def test_h03_a_healed_partition_is_listed_once() -> None:
    """An error is listed every time; after it the remembered watermark is void."""
    cache = make_cache()
    first = opened(fetch(cache, 0, 0, ["t-0"]))
    answer_all(first)
    entries(first)[0].changed(wakes=True)

    assert answer_all(opened(fetch(cache, 101, 1)), error=ErrorCode.KAFKA_STORAGE_ERROR) == ["t-0"]
    assert answer_all(opened(fetch(cache, 101, 2)), error=ErrorCode.KAFKA_STORAGE_ERROR) == ["t-0"]
    assert answer_all(opened(fetch(cache, 101, 3))) == ["t-0"]

    assert answer_all(opened(fetch(cache, 101, 4))) == []


def test_a_partition_whose_reader_had_to_cut_is_listed_once_more() -> None:
    """The reader takes no watermark of a row with a diverging epoch, and nothing else would tell it later."""
    cache = make_cache()
    first = opened(fetch(cache, 0, 0, ["t-0"]))

    assert answer_all(first, mark=10, is_notable=True) == ["t-0"]
    assert answer_all(opened(fetch(cache, 101, 1, ["t-0"])), mark=10) == ["t-0"]
    assert answer_all(opened(fetch(cache, 101, 2, ["t-0"])), mark=10) == []


def test_h06_served_partitions_go_to_the_end() -> None:
    """Room for one of three: p0 at creation, then p0, p1, p2, p0."""
    cache = make_cache()
    served = []
    for epoch in range(5):
        context = opened(fetch(cache, 101 if epoch else 0, epoch, ["p0", "p1", "p2"] if epoch == 0 else ()))
        first, *others = context.pending()
        assert answer_one(context, first, records=94)
        for entry in others:
            context.record_sent(entry, record_bytes=0, high_watermark=50, log_start=0, at_bound=False)
        served.append(first.key)

    assert served == ["p0", "p0", "p1", "p2", "p0"]


def test_session_new_partition_is_listed_even_without_data() -> None:
    """Its watermark was never sent."""
    cache = make_cache()
    answer_all(opened(fetch(cache, 0, 0, ["t-0"])))

    assert answer_all(opened(fetch(cache, 101, 1, ["t-1"]))) == ["t-1"]


def test_session_forgets_what_is_listed_and_forgotten_at_once() -> None:
    """As Kafka does."""
    cache = make_cache()
    fetch(cache, 0, 0, ["t-0", "t-1"])

    context = opened(fetch(cache, 101, 1, ["t-1"], forgotten=["t-1"]))

    assert [entry.key for entry in context.pending()] == ["t-0"]


def test_session_takes_the_last_of_duplicate_entries() -> None:
    """One row, at the last one's offset."""
    context = make_cache().open(
        0,
        0,
        listed=[("t-0", FetchSpec(1, 5)), ("t-1", FetchSpec(2, 5)), ("t-0", FetchSpec(3, 5))],
        forgotten=(),
        uses_topic_ids=True,
        replica_id=CONSUMER,
        broker_epoch=-1,
        now_ms=0,
    )

    assert [(entry.key, entry.fetch_offset) for entry in opened(context).pending()] == [("t-0", 3), ("t-1", 2)]


def test_session_change_between_look_and_answer_is_not_lost() -> None:
    """A read may take time; an append meanwhile keeps the entry pending."""
    cache = make_cache()
    context = opened(fetch(cache, 0, 0, ["t-0"], reader=FOLLOWER))
    (entry,) = context.pending()

    entry.changed(wakes=True)
    answer_one(context, entry)

    assert opened(fetch(cache, 101, 1, reader=FOLLOWER)).pending() == [entry]


def test_session_with_data_left_is_looked_at_again() -> None:
    """Nothing changed, but there was no room for it."""
    cache = make_cache()
    context = opened(fetch(cache, 0, 0, ["t-0"]))
    (entry,) = context.pending()
    context.record_sent(entry, record_bytes=0, high_watermark=50, log_start=0, at_bound=False)

    assert opened(fetch(cache, 101, 1)).pending() == [entry]


def test_session_of_2000_idle_partitions_looks_at_one() -> None:
    """The cost is proportional to the changes."""
    cache = make_cache()
    first = opened(fetch(cache, 0, 0, [f"t-{i}" for i in range(2000)], reader=FOLLOWER))
    answer_all(first)

    entries(first)[1234].changed(wakes=True)

    assert [entry.key for entry in opened(fetch(cache, 101, 1, reader=FOLLOWER)).pending()] == ["t-1234"]


def test_c24_session_wakes_followers_by_data_and_consumers_by_the_mark() -> None:
    """A watermark alone wakes no follower."""
    cache, watchers = make_cache(), PartitionWatchers()
    woken: list[str] = []
    for name, reader in (("follower", FOLLOWER), ("consumer", CONSUMER)):
        context = opened(fetch(cache, 0, 0, ["t-0"], reader=reader))
        watchers.add(entries(context)[0])
        context.session.on_change = lambda _, name=name: woken.append(name)

    watchers.log_end_moved()
    assert woken == ["follower"]
    watchers.high_watermark_moved()
    assert woken == ["follower", "consumer"]
    watchers.log_start_moved()
    assert woken == ["follower", "consumer"]
    watchers.role_changed()

    assert woken == ["follower", "consumer", "follower", "consumer"]


def test_session_that_is_gone_hears_nothing_and_is_dropped() -> None:
    """A fetch without a session leaves no trace once it is answered."""
    cache, watchers = make_cache(), PartitionWatchers()
    context = opened(fetch(cache, 0, -1, ["t-0"]))
    watchers.add(entries(context)[0])
    context.session.on_change = lambda _: pytest.fail("the session is over")

    context.finish()
    watchers.high_watermark_moved()
    watchers.add(entries(opened(fetch(cache, 0, 0, ["t-0"])))[0])

    assert len(watchers) == 1


def test_sessions_that_are_gone_never_outnumber_those_that_live() -> None:
    """Adding a watcher costs little, and ended ones do not accumulate."""
    cache, watchers = make_cache(), PartitionWatchers()
    living = [opened(fetch(cache, 0, 0, ["t-0"])) for _ in range(10)]
    for context in living:
        watchers.add(entries(context)[0])
    for _ in range(1_000):
        context = opened(fetch(cache, 0, -1, ["t-0"]))
        watchers.add(entries(context)[0])
        context.finish()

        assert len(watchers) <= 2 * len(living) + 1


def test_session_of_another_incarnation_is_looked_at_as_a_whole() -> None:
    """Its old stamp stops, and every partition is looked at again."""
    cache = make_cache()
    first = opened(fetch(cache, 0, 0, ["t-0", "t-1"], reader=FOLLOWER, broker_epoch=20, now=100))
    answer_all(first)

    again = opened(fetch(cache, 101, 1, reader=FOLLOWER, broker_epoch=25, now=200))

    assert [entry.key for entry in again.pending()] == ["t-0", "t-1"]


def test_session_of_a_stale_incarnation_proves_nothing() -> None:
    """Metadata knows a newer process: the partitions themselves must refuse."""
    brokers = KnownBrokers(standings(1, 2))
    cache = SessionCache(10, iter(range(101, 110)).__next__, brokers)
    first = opened(fetch(cache, 0, 0, ["t-0"], reader=FOLLOWER, broker_epoch=20, now=100))
    answer_all(first)

    brokers.replace({1: BrokerStanding(10), 2: BrokerStanding(26)})

    assert len(opened(fetch(cache, 101, 1, reader=FOLLOWER, broker_epoch=20, now=200)).pending()) == 1


def test_session_cache_is_full_of_young_sessions() -> None:
    """A consumer gets none, a follower pushes the smallest consumer out."""
    cache = make_cache(slots=2)
    fetch(cache, 0, 0, ["a", "b"])
    fetch(cache, 0, 0, ["a"])

    assert opened(fetch(cache, 0, 0, ["a", "b", "c"], now=10)).session_id == 0
    assert opened(fetch(cache, 0, 0, ["a"], reader=FOLLOWER, now=10)).session_id == 103

    assert fetch(cache, 102, 1, now=20) is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert opened(fetch(cache, 101, 1, now=20)).session_id == 101
    assert cache.evicted_count == 1


def test_session_silent_too_long_makes_room() -> None:
    """Any reader may evict it, whatever its rank."""
    cache = make_cache(slots=1)
    fetch(cache, 0, 0, ["a", "b"], reader=FOLLOWER)

    assert opened(fetch(cache, 0, 0, ["a"], now=SESSION_IDLE_MAX_MS)).session_id == 0
    assert opened(fetch(cache, 0, 0, ["a"], now=SESSION_IDLE_MAX_MS + 1)).session_id == 102


def test_session_of_a_follower_is_not_pushed_out_by_consumers() -> None:
    """However large they are, and however old it is, while it is in use."""
    cache = make_cache(slots=1)
    fetch(cache, 0, 0, ["a"], reader=FOLLOWER)
    now = 10 * SESSION_IDLE_MAX_MS
    fetch(cache, 101, 1, reader=FOLLOWER, now=now)

    assert opened(fetch(cache, 0, 0, ["a", "b", "c"], now=now)).session_id == 0


@pytest.mark.parametrize(
    ("broker_epoch", "left"),
    [
        pytest.param(6, [102, 103, 104], id="a new process"),
        pytest.param(5, [102, 103, 104], id="the same, which never heard of its session"),
        pytest.param(4, [101, 102, 103, 104], id="a process that is over"),
    ],
)
def test_session_ends_when_its_broker_opens_another(broker_epoch: int, left: list[int]) -> None:
    """Guards: each restart of a follower left a session with all its partitions, which every append marked."""
    cache = make_cache()
    (entry,) = entries(opened(fetch(cache, 0, 0, ["t-0"], reader=FOLLOWER, broker_epoch=5)))
    opened(fetch(cache, 0, 0, ["t-0"], reader=FOLLOWER + 1, broker_epoch=1))
    opened(fetch(cache, 0, 0, ["t-0"]))
    opened(fetch(cache, 0, 0, ["t-0"], reader=FOLLOWER, broker_epoch=broker_epoch))

    assert [session_id for session_id in range(101, 106) if cache.find(session_id)] == left
    assert entry.is_gone is (101 not in left)


def test_session_cache_without_slots_makes_no_sessions() -> None:
    """`max.incremental.fetch.session.cache.slots` 0."""
    assert opened(fetch(make_cache(slots=0), 0, 0, ["a"])).session_id == 0


def test_what_a_throttle_holds_is_looked_at_when_its_gate_opens() -> None:
    """Records do not change that; a change of roles, a request that lists it, or the end of a membership does."""
    cache = make_cache()
    keys = ["a", "b", "c", "d"]
    session = opened(fetch(cache, 0, 0, keys, reader=FOLLOWER)).session
    entries = [session.partitions[key] for key in keys]
    watchers = PartitionWatchers()
    woken: list[SessionPartition] = []
    for entry in entries:
        watchers.add(entry)
        session.hold(entry, "gate")
    session.on_change = woken.append
    watchers.log_end_moved()
    watchers.high_watermark_moved()
    quiet = (session.pending(), list(woken), session.held_count)
    session.move_to_end(entries[0])
    session.release("gate", 2)
    first = session.pending()
    session.hold(entries[1], "other gate")
    watchers.role_changed()

    assert ([], [], 4) == quiet
    assert entries[1:3] == first
    assert (4, ()) == (len(session.pending()), session.gates)
    assert woken == entries

    for entry in entries:
        session.hold(entry, "gate")
    context = opened(fetch(cache, session.session_id, 1, ["a"], forgotten=["b"], reader=FOLLOWER))

    assert [entries[0]] == context.pending()
    assert {"gate": entries[2:]} == {gate: list(held) for gate, held in session.held.items()}
    assert [(session, "gate", entries[2:])] == [(each, gate, list(held)) for each, gate, held in cache.held()]
    assert cache.held_count == 2
    watchers.throttle_changed()
    assert cache.held_count == 0
    cache.check_invariants()
