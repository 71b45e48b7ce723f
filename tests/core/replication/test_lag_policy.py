"""Follower state and lag modes: section A of the scenario catalogue."""

import pytest

from syncline.core.fetching.session import FetchSpec
from syncline.core.fetching.session_cache import SessionCache
from syncline.core.replication.effects import NOTHING
from syncline.core.replication.known_brokers import BrokerStanding
from syncline.core.replication.lag_policy import LagBegin, MessageLag, TimeLag
from syncline.core.replication.leader_epochs import EpochCache
from syncline.core.replication.truncation import find_divergence
from syncline.model.errors import ErrorCode
from tests.core.s0 import LAG_MS, S0


def test_a01_first_fetch_proves_nothing_until_it_reaches_the_end() -> None:
    """A new leader's grace is kept by a fetch below the end, and replaced by one that reaches it."""
    s = S0(log_end=6)

    s.f(2, 3, 500)
    assert s.state(2) == (3, 6, 500, 0)
    s.f(2, 6, 1000)

    assert s.state(2) == (6, 6, 1000, 1000)


def test_a02_reaching_the_previous_end_counts_as_of_the_previous_fetch() -> None:
    """The follower reached 10, the end at its fetch of 5000, while the log moved on to 15."""
    s = S0(replicas=(1, 2), log_end=10)
    s.f(2, 5, 5000)
    assert s.state(2) == (5, 10, 5000, 0)
    s.append(15, 10_001)

    s.f(2, 10, 10_001)
    s.tick(10_001)

    assert s.state(2) == (10, 15, 10_001, 5000)
    assert s.hw == 10
    assert s.sent == []


def test_a02_a_check_just_before_that_fetch_evicts() -> None:
    """Without the second fetch the last proof is 10 001 ms old."""
    s = S0(replicas=(1, 2), log_end=10)
    s.f(2, 5, 5000)
    s.append(15, 10_001)

    s.tick(10_001)

    assert s.requested == [[1]]


def test_a03_an_append_during_the_read_does_not_make_the_reader_late() -> None:
    """The end captured before the read counts: the follower read to it."""
    s = S0(log_end=100)
    s.put(2, 95, 95, 900, 900)
    s.append(101, 1000)

    s.f(2, 100, 1000, captured=100)

    assert s.state(2) == (100, 100, 1000, 1000)


STEADY_LOAD_POLICIES = [
    pytest.param(TimeLag(LAG_MS), 0, id="time"),
    pytest.param(LagBegin(LAG_MS), 15_000, id="lag-begin"),
    pytest.param(MessageLag(LAG_MS, 4000), 0, id="messages"),
]


@pytest.mark.parametrize(("policy", "evicted_at"), STEADY_LOAD_POLICIES)
def test_a04_steady_load_one_fetch_behind(policy: TimeLag, evicted_at: int) -> None:
    """One record every 10 ms, each fetch finds ten new ones: only `lag-begin` loses patience."""
    s = S0(replicas=(1, 2), policy=policy)
    s.f(2, 0, 0)
    evictions = []
    for now in range(10, 30_001, 10):
        s.append(now // 10, now)
        if now % 100 == 0:
            s.f(2, (now - 100) // 10, now)
        if now % 5000 == 0:
            s.tick(now)
            evictions += [now] if s.isr == [1] else []

    assert evictions[:1] == ([evicted_at] if evicted_at else [])
    assert s.isr == ([1] if evicted_at else [1, 2]), "lag-begin does not let it back while the load lasts"


def test_a05_behind_and_too_old_is_out() -> None:
    """Window 100: caught up at 0, behind at 150."""
    s = S0(log_end=19, lag_ms=100)
    s.f(2, 19, 0)
    s.f(3, 19, 0)
    s.append(20, 100)

    s.tick(150)

    assert s.requested == [[1]]


def test_a06_previous_end_rule_ages_until_the_end_is_reached() -> None:
    """In at 75 by rule B, out at 150, in again once the end is reached."""
    s = S0(replicas=(1, 2), log_end=18, lag_ms=100)
    s.f(2, 18, 0)
    s.append(20, 10)
    s.f(2, 19, 75, captured=20)

    s.tick(75)
    assert s.sent == []
    assert s.state(2) == (19, 20, 75, 0)
    policy, follower = s.partition.settings.lag, s.partition.in_sync.by_id[2]
    assert not policy.is_caught_up(follower, 20, 150)
    s.f(2, 20, 150)

    assert policy.is_caught_up(follower, 20, 150)


def test_a07_a_member_that_never_fetches_is_out_after_its_grace() -> None:
    """A new leader's grace is one window."""
    s = S0(replicas=(1, 2), log_end=20, lag_ms=100)

    s.tick(100)
    assert s.sent == []
    s.tick(150)

    assert s.requested == [[1]]


def test_a08_exactly_the_window_is_still_in_sync() -> None:
    """The comparison is strict."""
    s = S0(replicas=(1, 2), log_end=10)
    s.put(2, 8, 8, 0, 0)

    s.tick(10_000)
    assert s.sent == []
    s.tick(10_001)

    assert s.requested == [[1]]


def test_a09_refused_fetches_leave_the_state_alone() -> None:
    """A diverging, out-of-range, fenced, too new or unreadable fetch proves nothing (I10)."""
    s = S0(log_end=10)
    s.put(2, 8, 10, 700, 600)
    epochs = EpochCache([(0, 0), (5, 8)])

    assert find_divergence(epochs, 4, 9, 0, 10) == (0, 8)
    assert find_divergence(epochs, -1, 11, 0, 10) is ErrorCode.OFFSET_OUT_OF_RANGE
    assert s.partition.check_fetch(2, 4, 20) is ErrorCode.FENCED_LEADER_EPOCH
    assert s.partition.check_fetch(2, 6, 20) is ErrorCode.UNKNOWN_LEADER_EPOCH

    # The fifth, a read error, is answered by the shell without any event.
    assert s.state(2) == (8, 10, 700, 600)


def test_a09_a_read_that_ends_in_another_epoch_is_void() -> None:
    """What was read under epoch 5 says nothing once epoch 6 began."""
    s = S0(log_end=10)
    s.metadata([1, 2, 3], at=50, leader_epoch=6)
    before = s.state(2)

    effects = s.partition.follower_fetched(2, 9, 0, 10, 20, 5, 100)

    assert effects is NOTHING
    assert s.state(2) == before


def test_a10_a_former_incarnation_is_refused() -> None:
    """Broker epoch 21 is refused, 22 accepted, 23 accepted but not eligible until metadata knows it."""
    s = S0(isr=(1, 3), log_end=10, high_watermark=0, confirms=False)
    s.brokers.replace({1: BrokerStanding(10), 2: BrokerStanding(22), 3: BrokerStanding(30)})
    before = s.state(2)

    assert s.partition.check_fetch(2, 5, 21) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert s.f(2, 4, 100, broker_epoch=21) is NOTHING
    assert s.state(2) == before
    assert s.partition.check_fetch(2, 5, 22) is ErrorCode.NONE
    assert s.partition.check_fetch(2, 5, 23) is ErrorCode.NONE
    s.f(2, 10, 200, broker_epoch=23)

    assert s.partition.in_sync.by_id[2].broker_epoch == 23
    assert s.sent == []
    s.brokers.replace({1: BrokerStanding(10), 2: BrokerStanding(23), 3: BrokerStanding(30)})
    s.f(2, 10, 300, broker_epoch=23)
    assert s.requested == [[1, 3, 2]]


def test_a11_an_unassigned_replica_is_refused_by_what_it_knows() -> None:
    """With an epoch the leader may be the stale party; without one the replica is simply wrong here."""
    s = S0()

    assert s.partition.check_fetch(9, 5, -1) is ErrorCode.UNKNOWN_LEADER_EPOCH
    assert s.partition.check_fetch(9, -1, -1) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert s.f(9, 0, 10) is NOTHING


def test_a12_a_new_leader_knows_nobody_and_gives_members_grace() -> None:
    """Broker 1 becomes leader at 50 000 with ISR [1,2]."""
    s = S0(isr=(1, 2), log_end=30, epoch_start=30, high_watermark=17, now=50_000)
    epochs = EpochCache([(5, 0)])

    epochs.assign(6, 30)

    assert epochs.entries[-1] == (6, 30)
    assert s.partition.epoch_start_offset == 30
    assert s.state(2) == (-1, -1, None, 50_000)
    assert s.state(3) == (-1, -1, None, None)
    assert s.hw == 17


def test_a13_re_election_keeps_log_ends_and_resets_times() -> None:
    """No other broker can have led between epochs 5 and 6: the fetched records still exist."""
    s = S0(log_end=30)
    s.put(2, 28, 30, 900, 800)
    s.put(3, 12, 30, 950, None)

    s.metadata([1, 2], at=60_000, leader_epoch=6)

    assert s.state(2) == (28, 30, 60_000, 60_000)
    assert s.state(3) == (12, 30, None, None)
    assert s.partition.epoch_start_offset == 30


def test_a13_skipped_epochs_void_what_followers_proved() -> None:
    """Between epochs 5 and 7 another broker may have led, and cut a follower's log."""
    s = S0(log_end=30)
    s.put(2, 28, 30, 900, 800)

    s.metadata([1, 2], at=60_000, leader_epoch=7)

    assert s.state(2) == (-1, -1, None, 60_000)


def test_a14_newer_partition_epoch_keeps_followers_and_a_stale_one_is_ignored() -> None:
    """A replica newly assigned starts empty; an older record changes nothing."""
    s = S0(log_end=30)
    s.put(2, 28, 30, 900, 800)

    s.metadata([1, 2, 3], at=1000, replicas=(1, 2, 3, 4))
    assert s.state(2) == (28, 30, 900, 800)
    assert s.state(4) == (-1, 0, None, None)
    effects = s.metadata([1], at=1100, partition_epoch=20, replicas=(1, 2))

    assert effects is NOTHING
    assert s.partition.in_sync.replicas == (1, 2, 3, 4)


def test_a15_a_follower_that_lost_its_tail_does_not_pull_the_mark_back() -> None:
    """The log end goes down with it; it stays in the ISR until the window is over."""
    s = S0(log_end=30, high_watermark=30)
    s.put(2, 30, 30, 900, 900)
    s.put(3, 30, 30, 900, 900)

    s.f(2, 25, 1000)
    s.tick(5000)

    assert s.state(2)[0] == 25
    assert s.hw == 30
    assert s.isr == [1, 2, 3]


def test_a16_an_empty_answer_still_proves_what_the_follower_has() -> None:
    """A throttled read returns nothing; the fetch counts all the same."""
    s = S0(isr=(1, 2), log_end=90, high_watermark=90)

    s.f(3, 40, 2000)

    assert (s.state(3)[0], s.state(3)[2]) == (40, 2000)


def test_a17_a_session_fetch_refreshes_partitions_it_does_not_list() -> None:
    """Both partitions stand at the log end: the session's stamp is their proof."""
    t0, t1 = S0(log_end=5), S0(log_end=7)
    cache = SessionCache(10, iter([77]).__next__, t0.brokers)
    opened = cache.open(
        0,
        0,
        listed=[("t-0", FetchSpec(5, 100)), ("t-1", FetchSpec(7, 100))],
        forgotten=(),
        uses_topic_ids=True,
        replica_id=2,
        broker_epoch=20,
        now_ms=1000,
    )
    for s, entry in zip((t0, t1), opened.pending(), strict=True):
        end = s.partition.log_end
        s.partition.follower_fetched(2, end, 0, end, 20, 5, 1000, entry)
        opened.record_sent(entry, record_bytes=0, high_watermark=0, log_start=0, at_bound=True)

    again = cache.open(77, 1, listed=(), forgotten=(), uses_topic_ids=True, replica_id=2, broker_epoch=20, now_ms=3000)

    assert again.pending() == []
    assert t0.state(2) == (5, 5, 3000, 3000)
    assert t1.state(2) == (7, 7, 3000, 3000)


def test_a17_the_proof_is_written_down_when_the_log_moves_on() -> None:
    """After an append the follower was last caught up at the session's last fetch before it."""
    s = S0(log_end=5)
    cache = SessionCache(10, iter([77]).__next__, s.brokers)

    def fetch(epoch: int, now: int) -> None:
        listed = [("t-0", FetchSpec(5, 100))] if epoch == 0 else ()
        context = cache.open(
            77 if epoch else 0,
            epoch,
            listed=listed,
            forgotten=(),
            uses_topic_ids=True,
            replica_id=2,
            broker_epoch=20,
            now_ms=now,
        )
        for entry in context.pending():
            s.partition.follower_fetched(2, 5, 0, 5, 20, 5, now, entry)
            context.record_sent(entry, record_bytes=0, high_watermark=0, log_start=0, at_bound=True)

    fetch(0, 1000)
    fetch(1, 3000)
    s.append(6, 3100)
    fetch(2, 4000)

    assert s.state(2) == (5, 5, 3000, 3000)


def test_a17_a_forgotten_partition_is_refreshed_no_more() -> None:
    """The session goes on without it, so its proofs do too."""
    s = S0(log_end=5)
    cache = SessionCache(10, iter([77]).__next__, s.brokers)
    listed = [("t-0", FetchSpec(5, 100)), ("t-1", FetchSpec(0, 100))]
    common = {"uses_topic_ids": True, "replica_id": 2, "broker_epoch": 20}
    opened = cache.open(0, 0, listed=listed, forgotten=(), now_ms=1000, **common)
    s.partition.follower_fetched(2, 5, 0, 5, 20, 5, 1000, opened.pending()[0])

    cache.open(77, 1, listed=(), forgotten=["t-0"], now_ms=2000, **common)
    cache.open(77, 2, listed=(), forgotten=(), now_ms=3000, **common)

    assert s.state(2) == (5, 5, 2000, 2000)


def test_a18_the_second_read_of_a_parked_fetch_proves_nothing_new() -> None:
    """The fetch of 100 counts as of 100; the next one proves more."""
    s = S0(log_end=10)
    s.f(2, 10, 100)
    s.append(11, 300)
    assert s.state(2) == (10, 10, 100, 100)

    s.f(2, 11, 305)

    assert s.state(2) == (11, 11, 305, 305)


SILENT_POLICIES = [
    pytest.param(TimeLag(LAG_MS), [[1, 2], [1, 2]], id="time"),
    pytest.param(MessageLag(LAG_MS, 4000), [[1, 2], [1]], id="messages"),
    pytest.param(LagBegin(LAG_MS), [[1, 2], [1]], id="lag-begin"),
]


@pytest.mark.parametrize(("policy", "isrs"), SILENT_POLICIES)
def test_a19_a_dead_follower_of_an_idle_partition(policy: TimeLag, isrs: list[list[int]]) -> None:
    """`time` leaves it to the controller's heartbeats; the others evict it."""
    s = S0(replicas=(1, 2), log_end=10, policy=policy)
    s.f(2, 10, 1000)
    seen = []
    for now in (10_000, 15_000):
        s.tick(now)
        seen.append(s.isr)

    assert seen == isrs


def test_a20_messages_mode_counts_strictly_more_than_its_limit() -> None:
    """4000 records behind is in, 4001 is out."""
    s = S0(replicas=(1, 2), policy=MessageLag(LAG_MS, 4000))
    s.f(2, 0, 4900)
    s.append(4000, 4950)

    s.tick(5000)
    assert s.isr == [1, 2]
    s.append(4001, 5001)
    s.tick(5010)

    assert s.isr == [1]


def test_a21_messages_mode_waits_a_window_for_an_unknown_follower() -> None:
    """An unknown log end is not a lag; silence for more than a window is."""
    s = S0(replicas=(1, 2), log_end=9000, policy=MessageLag(LAG_MS, 4000))

    s.tick(10_000)
    assert s.isr == [1, 2]
    s.tick(15_000)

    assert s.isr == [1]


SLOW_POLICIES = [
    pytest.param(MessageLag(LAG_MS, 4000), True, id="messages"),
    pytest.param(TimeLag(LAG_MS), False, id="time"),
]


@pytest.mark.parametrize(("policy", "stays"), SLOW_POLICIES)
def test_a22_always_3000_records_behind_on_a_slow_topic(policy: TimeLag, stays: bool) -> None:
    """Fifty minutes behind: `messages` does not see it."""
    s = S0(replicas=(1, 2), log_end=3000, policy=policy)
    for second in range(1, 31):
        now = second * 1000
        s.append(3000 + second, now)
        s.f(2, second, now)
        s.f(2, second, now + 500)
        if now % 5000 == 0:
            s.tick(now)

    assert s.isr == ([1, 2] if stays else [1])


def test_a23_lag_begin_ends_when_the_end_is_reached() -> None:
    """Lagging from 1100 to 4000 is within the window."""
    s = S0(replicas=(1, 2), policy=LagBegin(LAG_MS))
    s.f(2, 0, 500)
    s.append(10, 1000)
    s.f(2, 0, 1100)
    assert s.partition.in_sync.by_id[2].lag_begin_ms == 1100
    for now in range(4000, 30_001, 500):
        s.f(2, 10, now)
        if now % 5000 == 0:
            s.tick(now)

    assert s.isr == [1, 2]
