"""Followers and their logs: E03, E04, E08-E24 and E28 of the scenario catalogue."""

import pytest

from syncline.core.brokers import KnownBrokers
from syncline.core.evidence import Evidence
from syncline.core.follower import FetchAsk, FollowerFailed, FollowerPartition, FollowerPhase, TruncateLog
from syncline.core.leader_epochs import EpochCache, EpochEnd
from syncline.model.errors import ErrorCode

from .replicas import BACKOFF_MS, FetchAnswer, MemoryLog, Replica
from .s0 import standings


@pytest.fixture
def brokers() -> KnownBrokers:
    """Brokers 1, 2 and 3, all active."""
    return KnownBrokers(standings(1, 2, 3))


def test_e03_quick_elections_are_repaired_in_rounds(brokers: KnownBrokers) -> None:
    """Each answer lowers the follower's latest epoch, until the histories agree."""
    leader, follower = Replica(1, MemoryLog("1,3,5")), Replica(2, MemoryLog("0,2,4"))
    leader.lead(6, (1,), brokers=brokers)
    follower.follow(6)

    follower.catch_up(leader)

    assert follower.truncated_to == [2, 1, 0]
    assert follower.log.records == leader.log.records


def test_e03_one_round_is_enough_when_one_epoch_differs(brokers: KnownBrokers) -> None:
    """Leader `0,2,5`, follower `0,2,4`."""
    leader, follower = Replica(1, MemoryLog("0,2,5")), Replica(2, MemoryLog("0,2,4"))
    leader.lead(6, (1,), brokers=brokers)
    follower.follow(6)

    follower.catch_up(leader)

    assert follower.truncated_to == [2]
    assert follower.log.records == leader.log.records


def test_e04_the_mark_stays_while_the_tail_is_cut(brokers: KnownBrokers) -> None:
    """One truncation to 3, above the follower's watermark."""
    leader, follower = Replica(1, MemoryLog("0,0,2,5,5"), mark=4), Replica(2, MemoryLog("0,0,2,4,4,4"), mark=1)
    leader.lead(6, (1, 2), brokers=brokers)
    follower.follow(6)

    follower.fetch_from(leader)
    assert (follower.truncated_to, follower.hw) == ([3], 1)
    follower.fetch_from(leader)
    follower.fetch_from(leader)

    assert (follower.log.epoch_string, follower.hw) == ("0,0,2,5,5", 4)


def lose_a_leader(brokers: KnownBrokers, *, compares_epochs: bool) -> tuple[Replica, Replica]:
    """Steps 1 to 7 of the data loss: F restarts before it learnt of the commit, then L stops and F leads."""
    first = Replica(1, compares_epochs=compares_epochs)
    second = Replica(2, compares_epochs=compares_epochs)
    first.lead(0, (1, 2), brokers=brokers)
    second.follow(0)
    first.write("m0")
    second.fetch_from(first)
    second.fetch_from(first, is_answer_lost=True)
    assert (first.hw, second.hw, second.log.log_end) == (1, 0, 1)
    second.restart()
    second.follow(0)
    first.restart()
    second.lead(1, (2,), brokers=brokers)
    return first, second


def test_e08_truncation_by_watermark_loses_a_committed_record(brokers: KnownBrokers) -> None:
    """Both logs end at 0, although acks=all was acknowledged."""
    old, new = lose_a_leader(brokers, compares_epochs=False)

    old.follow(1)
    old.catch_up(new)

    assert (old.log.values, new.log.values) == ([], [])


def test_e09_truncation_by_epoch_keeps_it(brokers: KnownBrokers) -> None:
    """The same steps, and m0 is on both."""
    old, new = lose_a_leader(brokers, compares_epochs=True)

    old.follow(1)
    old.catch_up(new)

    assert (old.log.values, new.log.values) == (["m0"], ["m0"])
    assert new.log.epochs.entries == ((0, 0), (1, 1))
    assert new.hw == 1


def test_e10_a_write_in_between_makes_the_loss_a_divergence(brokers: KnownBrokers) -> None:
    """By watermark, offset 0 differs for ever; by epoch, both hold both records."""
    old, new = lose_a_leader(brokers, compares_epochs=False)
    new.write("x0")
    old.follow(1)
    old.catch_up(new)
    assert (old.log.values, new.log.values) == (["m0"], ["x0"])

    old, new = lose_a_leader(brokers, compares_epochs=True)
    new.write("x0")
    old.follow(1)
    old.catch_up(new)

    assert old.log.values == new.log.values == ["m0", "x0"]


def diverge(brokers: KnownBrokers, *, compares_epochs: bool, checkpoint: int | None = None) -> tuple[Replica, Replica]:
    """Steps 1 to 8 of the divergence: L committed m2, F knows only of m1, restarts, leads and writes m3."""
    first = Replica(1, compares_epochs=compares_epochs)
    second = Replica(2, compares_epochs=compares_epochs)
    first.lead(0, (1, 2), brokers=brokers)
    second.follow(0)
    first.write("m1")
    first.write("m2")
    for _ in range(3):
        second.fetch_from(first)
    assert (first.hw, second.hw, second.log.log_end) == (2, 1, 2)
    second.restart()
    second.follow(0)
    first.restart(checkpoint=checkpoint)
    second.lead(1, (2,), brokers=brokers)
    second.write("m3")
    first.follow(1)
    first.catch_up(second)
    return first, second


def test_e11_truncation_by_watermark_lets_logs_diverge(brokers: KnownBrokers) -> None:
    """Both believe offset 1 committed, and hold different records there."""
    old, new = diverge(brokers, compares_epochs=False)

    assert (old.log.values, new.log.values) == (["m1", "m2"], ["m1", "m3"])


def test_e12_truncation_by_epoch_keeps_all_three(brokers: KnownBrokers) -> None:
    """Epoch 1 starts at 2, behind m2."""
    old, new = diverge(brokers, compares_epochs=True)

    assert old.log.values == new.log.values == ["m1", "m2", "m3"]


def test_e13_a_record_lost_by_power_is_cut_on_the_other_side(brokers: KnownBrokers) -> None:
    """F really lost m2 before it led: consistent, and acks=1 promised no more."""
    old = Replica(1, MemoryLog("0,0"), mark=2)
    new = Replica(2, MemoryLog("0"), mark=1)
    new.lead(1, (2,), brokers=brokers)
    new.write("m3")
    old.follow(1)

    answer = old.fetch_from(new)
    assert answer.diverging == (0, 1)
    assert old.truncated_to == [1]
    old.catch_up(new)

    assert old.log.records == new.log.records


def test_e14_truncation_by_a_stale_watermark_is_lucky(brokers: KnownBrokers) -> None:
    """With a checkpoint of 1 the old leader cuts m2 and takes m3: consistent, and lossy."""
    old, new = diverge(brokers, compares_epochs=False, checkpoint=1)

    assert old.log.values == new.log.values == ["m1", "m3"]


def out_of_range(follower_end: int, leader_start: int, leader_end: int) -> tuple[Replica, Replica]:
    """Return a follower that was refused with OFFSET_OUT_OF_RANGE, and a leader with the given log."""
    follower = Replica(2, MemoryLog(",".join("0" * follower_end)), compares_epochs=False, mark=follower_end)
    leader = Replica(1, MemoryLog(",".join("0" * (leader_end - leader_start)), log_start=leader_start))
    follower.follow(1)
    assert follower.follower is not None
    follower.take(follower.follower.ask(), FetchAnswer(ErrorCode.OFFSET_OUT_OF_RANGE))
    follower.resolve_out_of_range(leader, 500)
    return follower, leader


def test_e16_beyond_the_leaders_end_the_tail_is_cut() -> None:
    """Follower 12, leader 9."""
    follower, _ = out_of_range(12, 0, 9)

    assert follower.truncated_to == [9]
    assert follower.follower is not None
    assert follower.follower.ask().fetch_offset == 9


def test_e17_before_the_leaders_start_nothing_is_kept() -> None:
    """Follower 12, leader 100 to 200."""
    follower, _ = out_of_range(12, 100, 200)

    assert (follower.log.log_start, follower.log.log_end, follower.hw) == (100, 100, 100)
    assert follower.follower is not None
    assert follower.follower.ask().fetch_offset == 100


def test_e18_within_the_leaders_log_the_offset_is_kept() -> None:
    """Follower 150, leader 100 to 200: asked again after a pause, nothing is cut."""
    follower, _ = out_of_range(150, 100, 200)

    assert follower.truncated_to == []
    machine = follower.follower
    assert machine is not None
    assert machine.ask().fetch_offset == 150
    assert not machine.is_ready(500)
    assert machine.is_ready(500 + BACKOFF_MS)


def machine(
    leader_epoch: int = 5, *, log_end: int = 50, high_watermark: int = 50, latest_epoch: int = 3
) -> FollowerPartition:
    """Return a follower that is fetching."""
    follower = FollowerPartition(BACKOFF_MS)
    follower.follow(
        leader_epoch, log_start=0, log_end=log_end, high_watermark=high_watermark, latest_epoch=latest_epoch
    )
    return follower


def test_e19_fenced_in_the_current_epoch_the_partition_fails() -> None:
    """Only metadata with a newer epoch revives it."""
    follower = machine()

    effects = follower.refused(follower.ask(), ErrorCode.FENCED_LEADER_EPOCH, 0)

    assert isinstance(effects[0], FollowerFailed)
    assert not follower.is_ready(10**9)
    follower.follow(6, log_start=0, log_end=50, high_watermark=50, latest_epoch=3)
    assert follower.is_ready(0)


def test_e20_fenced_in_an_older_epoch_it_tries_again() -> None:
    """The request was sent in 5; meanwhile 6 is known."""
    follower = machine()
    sent = follower.ask()
    follower.follow(6, log_start=0, log_end=50, high_watermark=50, latest_epoch=3)

    effects = follower.refused(sent, ErrorCode.FENCED_LEADER_EPOCH, 100)

    assert effects == ()
    assert not follower.is_ready(1099)
    assert follower.is_ready(1100)
    assert follower.ask().leader_epoch == 6


def test_e21_an_answer_overtaken_by_a_truncation_is_dropped() -> None:
    """It speaks of offset 50; the log ends at 40."""
    follower = machine()
    sent = follower.ask()

    follower.truncated(40, 3, 0)

    assert not follower.accepts(sent)
    assert follower.ask().fetch_offset == 40


def test_e21_an_answer_of_an_older_epoch_is_dropped() -> None:
    """Same offset, other leadership."""
    follower = machine()
    sent = follower.ask()

    follower.follow(6, log_start=0, log_end=50, high_watermark=50, latest_epoch=3)

    assert not follower.accepts(sent)


def test_e22_a_diverging_answer_moves_neither_mark_nor_start(brokers: KnownBrokers) -> None:
    """The leader's watermark 9 and start 3 belong to another log."""
    follower = Replica(2, MemoryLog("0,0,0,0,0,0,4,4"), mark=5)
    follower.follow(6)
    assert follower.follower is not None

    follower.take(follower.follower.ask(), FetchAnswer(diverging=EpochEnd(0, 6), high_watermark=9, log_start=3))

    assert (follower.truncated_to, follower.hw, follower.log.log_start) == ([6], 5, 0)


def test_e23_a_log_without_epochs_is_cut_to_its_watermark() -> None:
    """It cannot be compared; the first fetch names no epoch."""
    follower = FollowerPartition(BACKOFF_MS)

    effects = follower.follow(5, log_start=0, log_end=8, high_watermark=6, latest_epoch=-1)

    numbers = (("log_end", 8), ("high_watermark", 6), ("leader_epoch", 5))
    assert effects == (TruncateLog(6, Evidence("no-epochs", numbers)),)
    assert follower.phase is FollowerPhase.TRUNCATING
    follower.truncated(6, -1, 0)
    assert follower.ask() == FetchAsk(6, -1, 5, 0)


def test_e24_the_same_epoch_again_keeps_the_fetch_state() -> None:
    """Offset and delay stay as they are."""
    follower = machine()
    follower.back_off(100)

    effects = follower.follow(5, log_start=0, log_end=99, high_watermark=99, latest_epoch=4)

    assert effects == ()
    assert follower.ask().fetch_offset == 50
    assert follower.ready_at_ms == 1100


def test_e28_after_an_unclean_election_the_log_is_cut_below_the_mark() -> None:
    """Epoch 7 starts at 20; the evidence says that committed records went."""
    follower = machine(7, log_end=30, high_watermark=28, latest_epoch=6)

    (effect,) = follower.diverged(EpochEnd(6, 20), EpochCache([(6, 10)]), 30, 28)

    assert isinstance(effect, TruncateLog)
    assert effect.offset == 20
    assert effect.evidence["is_below_high_watermark"] is True
    assert effect.evidence.rule == "epoch-ends-differ"


@pytest.mark.parametrize(
    "error",
    [
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INCONSISTENT_TOPIC_ID,
        ErrorCode.KAFKA_STORAGE_ERROR,
    ],
    ids=lambda error: error.name,
)
def test_follower_backs_off_after_other_errors(error: ErrorCode) -> None:
    """It asks again at the same offset."""
    follower = machine()

    effects = follower.refused(follower.ask(), error, 100)

    assert effects == ()
    assert (follower.is_ready(1099), follower.is_ready(1100)) == (False, True)


def test_follower_knows_its_lag_after_the_first_answer() -> None:
    """Unknown, then the distance to the leader's watermark, never negative."""
    follower = machine()
    assert follower.lag_records == -1

    follower.appended(log_end=60, log_start=0, latest_epoch=5, leader_high_watermark=75)
    assert follower.lag_records == 15
    follower.appended(log_end=80, log_start=0, latest_epoch=5, leader_high_watermark=75)

    assert follower.lag_records == 0
    assert follower.ask() == FetchAsk(80, 5, 5, 0)
