"""High watermark, acknowledgements and what clients may see: section C of the scenario catalogue."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from syncline.core.replication import watermark
from syncline.core.replication.follower_state import NEVER_MS, FollowerState
from syncline.core.replication.known_brokers import KnownBrokers
from syncline.core.replication.lag_policy import TimeLag
from syncline.core.replication.leader import PartitionSettings
from syncline.model.errors import ErrorCode
from tests.core.s0 import LAG_MS, S0, standings


def test_c01_the_slowest_member_sets_the_mark() -> None:
    """Followers at 7 and 9."""
    s = S0(log_end=10, high_watermark=5)
    s.put(2, 7, 7, 100, 100)
    s.put(3, 9, 9, 100, 100)

    s.trigger(200)

    assert s.hw == 7


@pytest.mark.parametrize(("caught_up", "mark"), [(0, 8), (15_000, 2)], ids=["c02-late", "c03-near-isr"])
def test_c02_c03_only_a_caught_up_outsider_is_waited_for(caught_up: int, mark: int) -> None:
    """Broker 3, outside the ISR at offset 2, holds the mark while it is within its window."""
    s = S0(isr=(1, 2), log_end=10, high_watermark=1)
    s.put(2, 8, 8, 100, 100)
    s.put(3, 2, 2, caught_up, caught_up)

    s.trigger(20_000)

    assert s.hw == mark


def test_c04_one_record_is_committed_by_the_fetch_that_follows_it() -> None:
    """The first fetch brings the record, the second proves that it arrived."""
    s = S0(replicas=(1, 2))
    s.append(1, 0)
    assert s.partition.acknowledgement(1) is None

    s.f(2, 0, 10)
    assert s.hw == 0
    s.f(2, 1, 20)

    assert s.hw == 1
    assert s.partition.acknowledgement(1) is ErrorCode.NONE
    assert watermark.follower_mark(1, 0, 1) == 1


def test_c06_an_answer_given_at_once_carries_the_mark_from_before() -> None:
    """The shell reads the mark before it reports the fetch."""
    s = S0(replicas=(1, 2))
    s.append(1, 0)
    s.f(2, 0, 10)
    shown = s.hw

    s.f(2, 1, 20)

    assert (shown, s.hw) == (0, 1)


def test_c07_a_leader_without_live_followers_commits_at_once() -> None:
    """ISR [1], both others fenced."""
    s = S0(isr=(1,), log_end=5, high_watermark=5, fenced=(2, 3))
    assert s.partition.check_append(-1) is ErrorCode.NONE

    s.append(6, 10)
    assert s.partition.acknowledgement(6) is ErrorCode.NONE
    s.append(7, 20)

    assert s.marks == [6, 7]


def test_c08_below_min_isr_all_is_refused_and_one_is_frozen() -> None:
    """acks=1 appends, but nothing is committed."""
    s = S0(isr=(1,), min_isr=2, log_end=5, high_watermark=5)

    assert s.partition.check_append(-1) is ErrorCode.NOT_ENOUGH_REPLICAS
    assert s.partition.check_append(1) is ErrorCode.NONE
    s.append(6, 10)

    assert s.hw == 5


def test_c09_min_isr_is_never_more_than_the_replicas() -> None:
    """One replica, min ISR 2: effectively 1."""
    s = S0(replicas=(1,), min_isr=2)

    assert s.partition.check_append(-1) is ErrorCode.NONE
    s.append(1, 10)

    assert s.partition.acknowledgement(1) is ErrorCode.NONE


def test_c10_without_the_gate_an_eviction_commits_on_too_few() -> None:
    """The record stays, and the producer learns that too few have it."""
    s = S0(replicas=(1, 2), min_isr=2, gate=False, log_end=10, high_watermark=10)
    s.append(11, 6000)

    s.tick(10_001)

    assert (s.isr, s.hw, s.maximal) == ([1], 11, [1])
    assert s.partition.acknowledgement(11) is ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND


def test_c11_with_the_gate_the_produce_waits_for_the_follower() -> None:
    """The mark does not move; when the follower is back it moves."""
    s = S0(replicas=(1, 2), min_isr=2, log_end=10, high_watermark=10)
    s.append(11, 6000)
    s.tick(15_000)
    assert (s.isr, s.hw) == ([1], 10)
    assert s.partition.acknowledgement(11) is None

    s.f(2, 11, 40_000)

    assert (s.isr, s.hw) == ([1, 2], 11)


def test_c12_a_silent_follower_leaves_the_produce_waiting() -> None:
    """The shell's timer ends it with REQUEST_TIMED_OUT; the record stays."""
    s = S0(replicas=(1, 2))
    s.append(1, 0)

    s.tick(1000)

    assert s.partition.acknowledgement(1) is None
    assert s.partition.log_end == 1


@pytest.mark.parametrize("acks", [2, -2, 7])
def test_c14_other_acks_are_invalid(acks: int) -> None:
    """Only -1, 0 and 1 exist."""
    assert S0().partition.check_append(acks) is ErrorCode.INVALID_REQUIRED_ACKS


@pytest.mark.parametrize(("checkpoint", "log_start", "mark"), [(4, 0, 4), (9, 0, 6), (0, 0, 0), (0, 3, 3)])
def test_c17_a_loaded_mark_lies_within_the_log(checkpoint: int, log_start: int, mark: int) -> None:
    """Log end 6; no checkpoint counts as 0."""
    assert watermark.follower_mark(checkpoint, log_start, 6) == mark


def test_c18_a_followers_mark_may_go_down_under_a_new_leader() -> None:
    """From 10 to the new leader's 7."""
    assert watermark.follower_mark(7, 0, 12) == 7


def test_c22_clients_learn_the_latest_offset_once_the_epochs_start_is_committed() -> None:
    """Before that the mark may be below what the predecessor acknowledged."""
    s = S0(replicas=(1, 2), epoch_start=10, high_watermark=7, log_end=12)
    assert not s.partition.are_offsets_available
    s.f(2, 9, 50)
    assert not s.partition.are_offsets_available

    s.f(2, 10, 100)

    assert s.partition.are_offsets_available


def test_c28_min_isr_is_read_at_each_evaluation() -> None:
    """Raising it freezes the mark, lowering it lets the next trigger move it."""
    s = S0(isr=(1,), log_end=10, high_watermark=10, fenced=(2, 3))
    s.partition.configure(PartitionSettings(TimeLag(LAG_MS), min_insync_replicas=2), 5)
    s.append(11, 10)
    assert s.hw == 10

    s.partition.configure(PartitionSettings(TimeLag(LAG_MS), min_insync_replicas=1), 15)
    s.append(12, 20)

    assert s.hw == 12


def test_c29_a_new_leader_goes_on_from_its_own_mark() -> None:
    """Broker 2 leads with ISR [2,3]."""
    s = S0(replicas=(1, 2, 3), isr=(2, 3), leader=2, log_end=12, high_watermark=7, epoch_start=12)

    s.f(3, 9, 50)
    assert s.hw == 9
    s.f(3, 12, 60)

    assert s.hw == 12


def test_watermark_waits_for_a_follower_that_is_only_proposed() -> None:
    """The controller may have accepted it already."""
    s = S0(replicas=(1, 2), isr=(1,), log_end=10, high_watermark=10, confirms=False)
    s.f(2, 10, 0)

    s.append(20, LAG_MS * 3)

    assert s.hw == 10


FOLLOWER = st.tuples(
    st.integers(-1, 12),
    st.booleans(),
    st.booleans(),
    st.sampled_from([NEVER_MS, 0, 5000, 9000]),
    st.sampled_from([None, -1, 20, 99]),
)


def obvious(log_end: int, followers: list[FollowerState], brokers: KnownBrokers, now_ms: int) -> int:
    """The obvious rule: collect all replicas that hold the mark, then take the minimum."""
    holding = [log_end]
    for follower in followers:
        is_near = (
            follower.log_end == log_end or now_ms - follower.last_caught_up_ms <= LAG_MS
        ) and brokers.is_eligible(follower.broker_id, follower.broker_epoch)
        if follower.counts or is_near:
            holding.append(follower.log_end)
    return min(holding)


@given(log_end=st.integers(0, 12), drawn=st.lists(FOLLOWER, max_size=4), now_ms=st.integers(0, 25_000))
def test_watermark_fast_path_equals_the_obvious_rule(log_end: int, drawn: list[tuple], now_ms: int) -> None:
    """For any followers, epochs and times."""
    brokers = KnownBrokers(
        standings(*range(2, 2 + len(drawn)), fenced=[2 + i for i, one in enumerate(drawn) if one[2]])
    )
    followers = []
    for index, (offset, counts, _, caught_up, incarnation) in enumerate(drawn):
        follower = FollowerState(2 + index, 0)
        follower.log_end, follower.counts = min(offset, log_end), counts
        follower.last_caught_up_ms, follower.broker_epoch = caught_up, incarnation
        followers.append(follower)

    reached = watermark.reached(log_end, followers, TimeLag(LAG_MS), brokers, now_ms)

    assert reached == obvious(log_end, followers, brokers, now_ms)
