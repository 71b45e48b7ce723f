"""A leader whose replicas are reassigned: who counts, and what the minimum is."""

from syncline.core.replication.slow_leader.succession import succession
from tests.core.s0 import S0


def marks(s: S0, log_end: int, at: int) -> int:
    """Append up to `log_end`, and return the watermark."""
    s.append(log_end, at)
    return s.partition.high_watermark


def test_lone_leader_commits_while_others_are_added() -> None:
    """Its minimum of 2 is one of the replicas of before, as long as the others are not all in sync."""
    s = S0(replicas=(1,), min_isr=2)
    s.metadata([1], at=0, replicas=(1, 2, 3), adding=(2, 3), partition_epoch=21)

    assert (s.partition.effective_min_isr, marks(s, 5, 10)) == (1, 5)
    s.f(2, 5, 20)
    assert (s.partition.isr, s.partition.effective_min_isr) == ((1, 2), 1)


def test_minimum_rises_with_the_answer_that_completes_the_reassignment() -> None:
    """The record that says so comes late: before it, the leader is alone again, and must not commit alone.

    The controller holds 3 eligible, as it left an ISR that was smaller than the minimum.
    """
    s = S0(replicas=(1,), min_isr=2)
    s.metadata([1], at=0, replicas=(1, 2, 3), adding=(2, 3), partition_epoch=21)
    s.f(2, 0, 10)
    s.f(3, 0, 20)
    assert (s.partition.isr, s.partition.effective_min_isr) == ((1, 2, 3), 2)

    s.append(7, 30)
    s.tick(20_000)

    assert s.partition.isr == (1,)
    assert (s.partition.effective_min_isr, s.partition.high_watermark) == (2, 0)


def test_records_wait_for_no_replica_that_is_being_added() -> None:
    """Until it is in the ISR; then it counts like any other, whether it stays or goes."""
    s = S0(confirms=False)
    s.metadata([1, 2, 3], at=0, replicas=(2, 4, 1, 3), adding=(4,), removing=(1, 3), partition_epoch=21)
    s.append(5, 10)
    s.f(2, 5, 20)
    s.f(3, 5, 20)
    assert s.partition.high_watermark == 5

    s.f(4, 5, 30)
    s.append(8, 40)
    s.f(2, 8, 50)
    s.f(3, 8, 50)
    assert s.partition.high_watermark == 5
    s.f(4, 8, 60)
    assert s.partition.high_watermark == 8


def test_slow_leader_names_those_that_stay_first() -> None:
    """3 has the most records, and would soon hand the partition on."""
    s = S0(replicas=(1, 2, 3), log_end=9, high_watermark=5)
    s.f(2, 7, 10)
    s.f(3, 9, 10)
    followers = s.partition.followers

    assert succession(1, (1, 2, 3), followers) == (3, 2, 1)
    assert succession(1, (1, 2, 3), followers, removing=(3,)) == (2, 3, 1)
