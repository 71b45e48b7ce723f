"""The index of partitions that ticks look at: nothing that time could change is missing from it."""

import random
from dataclasses import replace

import pytest

from syncline.core.fetching.session import FetchSpec, SessionPartition
from syncline.core.fetching.session_cache import SessionCache
from syncline.core.replication.effects import IsrChange, IsrCommitted
from syncline.core.replication.lag_policy import LagBegin, LagPolicy, MessageLag, TimeLag
from syncline.core.replication.slow_leader.pending_fetches import PendingFetches
from syncline.core.replication.slow_leader.rules import SlowReadRules
from syncline.core.replication.slow_leader.waits import PendingEntry
from syncline.core.replication.tick_index import TickIndex
from syncline.model.errors import ErrorCode
from tests.core.s0 import LAG_MS, S0, standings


def settle(index: TickIndex, s: S0, now: int) -> None:
    """Run one tick over the index."""
    for partition in index.take():
        assert partition is s.partition
        s.tick(now)
        index.give_back(partition)


def test_partition_is_looked_at_first_and_left_alone_when_settled() -> None:
    """All replicas have everything, and everything is committed."""
    index = TickIndex()
    s = S0(log_end=10, high_watermark=10, ticks=index)
    assert len(index) == 1
    settle(index, s, 100)
    assert len(index) == 1, "no follower has fetched so far"
    s.f(2, 10, 200)
    s.f(3, 10, 210)
    settle(index, s, 300)

    assert (len(index), s.partition.is_ticked) == (0, False)


@pytest.mark.parametrize("event", ["append", "fall back", "leave", "configure"])
def test_partition_is_looked_at_again_when_something_unsettles_it(event: str) -> None:
    """Once, however often it happens."""
    index = TickIndex()
    s = S0(log_end=10, high_watermark=10, ticks=index)
    s.f(2, 10, 200)
    s.f(3, 10, 210)
    settle(index, s, 300)
    for now in (400, 410):
        if event == "append":
            s.append(s.partition.log_end + 1, now)
        elif event == "fall back":
            s.f(2, 9, now)
        elif event == "leave":
            s.metadata([1, 3], at=now, partition_epoch=now)
        else:
            s.partition.configure(s.partition.settings, now)

    assert len(index) == 1


@pytest.mark.parametrize("policy", [MessageLag(LAG_MS, 4000), LagBegin(LAG_MS)], ids=["messages", "lag-begin"])
def test_silence_keeps_a_partition_in_the_index_under_the_historic_modes(policy: LagPolicy) -> None:
    """Under that rule a member that has everything is evicted for not fetching."""
    index = TickIndex()
    s = S0(log_end=10, high_watermark=10, ticks=index, policy=policy)
    s.f(2, 10, 200)
    s.f(3, 10, 210)
    settle(index, s, 300)
    assert len(index) == 1

    settle(index, s, 20_000)

    assert s.isr == [1]


@pytest.mark.parametrize("is_fenced", [False, True])
def test_follower_that_may_join_keeps_its_partition_in_the_index(is_fenced: bool) -> None:
    """It has everything and was refused: the tick proposes it again. One that is fenced waits for metadata instead."""
    index = TickIndex()
    s = S0(isr=(1, 2), log_end=10, high_watermark=10, ticks=index, confirms=False)
    s.f(2, 10, 200)
    s.f(3, 10, 210)
    s.answer(s.sent[-1], 220, error=ErrorCode.OPERATION_NOT_ATTEMPTED)
    if is_fenced:
        s.brokers.replace(standings(1, 2, 3, fenced=[3]))
        s.note(s.partition.brokers_changed(230), 230)
    (taken,) = index.take()
    s.tick(300)
    if not is_fenced:
        # The queue may refuse at once, before the tick gives the partition back.
        s.answer(s.sent[-1], 300, error=ErrorCode.OPERATION_NOT_ATTEMPTED)
    index.give_back(taken)

    assert len(index) == (0 if is_fenced else 1)
    if is_fenced:
        s.brokers.replace(standings(1, 2, 3))
        s.note(s.partition.brokers_changed(400), 400)
        assert s.requested[-1] == [1, 2, 3]


def test_partition_whose_leadership_is_over_leaves_the_index() -> None:
    """A tick does not look at past leaderships."""
    index = TickIndex()
    s = S0(log_end=10, ticks=index)
    (partition,) = index.take()
    index.give_back(partition, is_over=True)

    assert (len(index), s.partition.is_ticked) == (0, False)


def test_what_was_unsettled_meanwhile_is_active_once() -> None:
    """Also while a tick judges it, and when it was settled before the question; a past leadership is not."""
    index = TickIndex()
    s = S0(log_end=10, high_watermark=10, ticks=index)
    s.f(2, 10, 200)
    s.f(3, 10, 210)

    assert index.active(()) == [s.partition]
    settle(index, s, 300)
    assert index.active(()) == [s.partition], "it was unsettled until now"
    assert index.active(()) == []
    s.append(11, 400)
    assert index.active(index.take()) == [s.partition]
    s.f(2, 11, 410)
    s.f(3, 11, 410)
    index.give_back(s.partition)
    s.append(12, 420)
    assert index.active(()) == [s.partition]
    index.give_back(*index.take(), is_over=True)
    assert index.active(()) == []


def test_time_changes_nothing_in_a_partition_that_is_not_in_the_index() -> None:
    """After any events, a tick over a partition that the index leaves out has no effect, now or much later."""
    assert sum(walk(seed) for seed in range(60)) > 500


def walk(seed: int) -> int:
    """Let things happen to a partition; return how often it was left out, and a tick had no effect."""
    rng = random.Random(seed)
    index = TickIndex()
    rules = rng.choice((None, SlowReadRules(cap_ms=15_000)))
    s = S0(log_end=5, high_watermark=5, ticks=index, policy=TimeLag(LAG_MS), confirms=False, slow_reads=rules)
    fetches, entries = PendingFetches(), []
    now, left_out = 0, 0
    for _ in range(200):
        now += rng.choice((1, 50, 700, 6000))
        partition = s.partition
        match rng.randrange(9):
            case 0:
                s.append(partition.log_end + rng.randrange(1, 4), now)
            case 1 | 2 | 3:
                s.f(rng.choice((2, 3)), max(0, partition.log_end - rng.choice((0, 0, 0, 1, 3))), now)
            case 4:
                settle(index, s, now)
            case 5 if s.sent and partition.in_sync.pending is not None:
                error = rng.choice((ErrorCode.NONE, ErrorCode.NONE, ErrorCode.INELIGIBLE_REPLICA))
                s.answer(s.sent[-1], now, error=error)
            case 6 if rules is not None:
                request = fetches.open(2, 20, now)
                entry = partition.slow_leader.fetch_pends(2, max(0, partition.log_end - 1), request)
                entries.append(entry)
            case 7 if entries:
                fetches.answered(entries.pop().request, now)
            case 8:
                settle(index, s, now)
        fetches.check_invariants()
        partition.check_invariants()
        if not partition.is_ticked:
            left_out += 1
            state = (s.isr, s.hw, s.maximal)
            for later in (now, now + LAG_MS + 1, now + 10 * LAG_MS):
                assert s.partition.tick(later) == ()
            assert (s.isr, s.hw, s.maximal) == state
            assert len(index) == 0

    return left_out


def test_ticks_over_the_index_decide_what_ticks_over_everything_would() -> None:
    """Two leaders get the same events: one is always ticked, the other when the index requires it."""
    evictions = sum(twins(seed) for seed in range(150))
    assert evictions > 100


def twins(seed: int) -> int:
    """Compare two leaders in one random history; return how many evictions there were."""
    rng = random.Random(seed)
    index = TickIndex()
    rules = rng.choice((None, SlowReadRules(cap_ms=15_000)))
    policies = (TimeLag(LAG_MS), TimeLag(LAG_MS), MessageLag(LAG_MS, 3), LagBegin(LAG_MS))
    policy = rng.choice(policies)
    common = {"log_end": 5, "high_watermark": 5, "policy": policy, "slow_reads": rules, "min_isr": rng.choice((1, 2))}
    both = [S0(ticks=index, confirms=False, **common), S0(confirms=False, **common)]
    fetches = [PendingFetches(), PendingFetches()]
    entries: list[list[PendingEntry]] = []
    caches = [SessionCache(10, lambda: 7, s.brokers) for s in both]
    askers: list[SessionPartition] = []
    fenced: list[int] = []
    epoch = now = evictions = 0
    for _ in range(150):
        now += rng.choice((1, 50, 700, 6000))
        event, follower, back, chance = rng.randrange(14), rng.choice((2, 3)), rng.choice((0, 0, 0, 1, 3)), rng.random()
        grown, other = rng.randrange(1, 4), rng.choice(policies)
        if event == 6:
            fenced = rng.choice(([], [], [2], [3]))
        if event == 10 and entries:
            rng.shuffle(entries)
        ended = entries.pop() if event in {7, 10} and entries else []
        began: list[PendingEntry] = []
        epoch += bool(askers) and event == 12
        for at, s in enumerate(both):
            partition = s.partition
            offset = max(0, partition.log_end - back)
            match event:
                case 0 | 1:
                    s.append(partition.log_end + grown, now)
                case 2 | 3:
                    s.f(follower, offset, now)
                case 4 if partition.in_sync.pending is not None:
                    error = ErrorCode.NONE if chance < 0.7 else ErrorCode.INELIGIBLE_REPLICA
                    s.answer(s.sent[-1], now, error=error)
                case 5 if rules is not None:
                    request = fetches[at].open(2, 20, now)
                    entry = partition.slow_leader.fetch_pends(2, offset, request)
                    assert entry is not None
                    began.append(entry)
                case 6:
                    s.brokers.replace(standings(1, 2, 3, fenced=fenced))
                    s.note(partition.brokers_changed(now), now)
                case 7 if ended:
                    fetches[at].answered(ended[at].request, now)
                case 8 if chance < 0.3:
                    s.note(partition.configure(replace(partition.settings, lag=other), now), now)
                case 9 if chance < 0.3:
                    isr = [1, 2, 3] if chance < 0.1 else [1, follower]
                    term = partition.leader_epoch + (chance < 0.2)
                    s.metadata(isr, at=now, leader_epoch=term, partition_epoch=partition.partition_epoch + 1)
                case 10 if ended:
                    fetches[at].lost(ended[at].request, now, 15_000)
                case 11:
                    # A session whose later fetches do not look at this partition while it is idle.
                    spec = FetchSpec(partition.log_end, 1 << 20)
                    context = caches[at].open(
                        7, 0, listed=[("t", spec)], forgotten=(), uses_topic_ids=False, replica_id=2, broker_epoch=20,
                        now_ms=now,
                    )  # fmt: skip
                    (asker,) = context.pending()
                    askers[at:] = [asker]
                    epoch = 0
                    effects = partition.follower_fetched(
                        2, partition.log_end, 0, partition.log_end, 20, partition.leader_epoch, now, stamp=asker
                    )
                    s.note(effects, now)
                case 12 if len(askers) > at:
                    caches[at].open(
                        7, epoch, listed=(), forgotten=(), uses_topic_ids=False, replica_id=2, broker_epoch=20,
                        now_ms=now,
                    )  # fmt: skip
                case 13:
                    pass
        if began:
            entries.append(began)
        if event in {3, 13}:
            settle(index, both[0], now)
            both[1].tick(now)
        index.check_invariants()
        for each in (*fetches, *caches):
            each.check_invariants()
        seen = [(s.isr, s.maximal, s.hw, s.requested, s.state(2)[0]) for s in both]
        assert seen[0] == seen[1], f"seed {seed} at {now}"
        evictions += sum(isinstance(each, IsrCommitted) and each.kind is IsrChange.SHRINK for each in both[0].effects)
        both[0].effects.clear()
    return evictions
