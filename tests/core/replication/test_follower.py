"""Followers and their logs: E03-E14, E16-E24 and E28 of the scenario catalogue, in every mode that they name."""

import pytest

from syncline.core.replication.evidence import Evidence
from syncline.core.replication.follower import (
    AwaitMetadata,
    EpochQuestion,
    FetchAsk,
    FollowerPartition,
    FollowerPhase,
    TruncateLog,
)
from syncline.core.replication.known_brokers import KnownBrokers
from syncline.core.replication.leader_epochs import EpochCache, EpochEnd
from syncline.core.replication.truncation import TruncationMode
from syncline.model.errors import ErrorCode
from tests.core.replicas import BACKOFF_MS, FetchAnswer, MemoryLog, Replica
from tests.core.s0 import standings

EPOCH_FETCH, EPOCH_REQUEST, HIGH_WATERMARK = TruncationMode
EPOCH_MODES = pytest.mark.parametrize("mode", [EPOCH_FETCH, EPOCH_REQUEST])
ALL_MODES = pytest.mark.parametrize("mode", TruncationMode)


@pytest.fixture
def brokers() -> KnownBrokers:
    """Brokers 1, 2 and 3, all active."""
    return KnownBrokers(standings(1, 2, 3))


@EPOCH_MODES
def test_e03_quick_elections_are_repaired_in_rounds(brokers: KnownBrokers, mode: TruncationMode) -> None:
    """Each answer lowers the follower's latest epoch, until the histories agree."""
    leader, follower = Replica(1, MemoryLog("1,3,5")), Replica(2, MemoryLog("0,2,4"), mode=mode)
    leader.lead(6, (1,), brokers=brokers)
    follower.follow(6)

    follower.catch_up(leader)

    assert follower.truncated_to == [2, 1, 0]
    assert follower.log.records == leader.log.records


@EPOCH_MODES
def test_e03_one_round_is_enough_when_one_epoch_differs(brokers: KnownBrokers, mode: TruncationMode) -> None:
    """Leader `0,2,5`, follower `0,2,4`."""
    leader, follower = Replica(1, MemoryLog("0,2,5")), Replica(2, MemoryLog("0,2,4"), mode=mode)
    leader.lead(6, (1,), brokers=brokers)
    follower.follow(6)

    follower.catch_up(leader)

    assert follower.truncated_to == [2]
    assert follower.log.records == leader.log.records


@EPOCH_MODES
def test_e04_the_mark_stays_while_the_tail_is_cut(brokers: KnownBrokers, mode: TruncationMode) -> None:
    """One truncation to 3, above the follower's watermark."""
    leader = Replica(1, MemoryLog("0,0,2,5,5"), mark=4)
    follower = Replica(2, MemoryLog("0,0,2,4,4,4"), mark=1, mode=mode)
    leader.lead(6, (1, 2), brokers=brokers)
    follower.follow(6)

    if mode is EPOCH_REQUEST:
        assert follower.compare_with(leader) == (2, 3)
    else:
        assert follower.fetch_from(leader).diverging == (2, 3)
    assert (follower.truncated_to, follower.hw) == ([3], 1)
    follower.fetch_from(leader)
    follower.fetch_from(leader)

    assert (follower.log.epoch_string, follower.hw) == ("0,0,2,5,5", 4)


def comparing(epochs: EpochCache, log_end: int, *, high_watermark: int = 0, leader_epoch: int = 9) -> FollowerPartition:
    """Return a follower in `epoch-request` mode that has yet to compare its log."""
    follower = FollowerPartition(BACKOFF_MS, mode=EPOCH_REQUEST)
    effects = follower.follow(
        leader_epoch, log_start=0, log_end=log_end, high_watermark=high_watermark, latest_epoch=epochs.latest_epoch
    )
    assert (effects, follower.phase) == ((), FollowerPhase.COMPARING)
    return follower


def cut(follower: FollowerPartition, effects: object, epochs: EpochCache) -> int:
    """Perform the one cut that was ordered, and return where it was."""
    assert isinstance(effects, tuple)
    (effect,) = effects
    assert isinstance(effect, TruncateLog)
    epochs.truncate_from_end(effect.offset)
    follower.truncated(effect.offset, epochs.latest_epoch, 0)
    return effect.offset


def test_e05_a_follower_asks_again_when_it_lacks_the_leaders_epoch() -> None:
    """It has no epoch 4: cut to 120, then asked with 3, which both know; nothing is fetched in between."""
    epochs = EpochCache([(3, 90), (5, 120)])
    follower = comparing(epochs, 170, high_watermark=80)
    assert follower.question() == EpochQuestion(5, 9)

    assert cut(follower, follower.compared(EpochEnd(4, 155), epochs, 170, 80), epochs) == 120
    assert (follower.phase, follower.question()) == (FollowerPhase.COMPARING, EpochQuestion(3, 9))
    assert not follower.is_ready(0)
    assert cut(follower, follower.compared(EpochEnd(3, 101), epochs, 120, 80), epochs) == 101

    assert follower.is_ready(0)
    assert follower.ask() == FetchAsk(101, -1, 9, 0)


def test_e06_a_follower_keeps_what_is_committed_when_the_leader_has_no_such_history() -> None:
    """(-1, -1): it cuts at its own watermark, and that is the end of it."""
    epochs = EpochCache([(3, 90)])
    follower = comparing(epochs, 170, high_watermark=110)

    assert cut(follower, follower.compared(EpochEnd(-1, -1), epochs, 170, 110), epochs) == 110

    assert follower.is_ready(0)


def test_e07_a_follower_keeps_wrong_records_when_answers_name_no_epoch(brokers: KnownBrokers) -> None:
    """KIP-101's first answers: one round cuts at 2, and `0,2,5` is not `1,3,5`: why KIP-279 was needed."""
    leader, follower = Replica(1, MemoryLog("1,3,5")), Replica(2, MemoryLog("0,2,4"), mode=EPOCH_REQUEST)
    leader.lead(6, (1,), brokers=brokers)
    follower.follow(6)
    machine = follower.follower
    assert machine is not None
    end = leader.log.epochs.end_offset_for(machine.question().epoch, leader.log.log_end).end_offset

    follower.perform(machine.compared(EpochEnd(-1, end), follower.log.epochs, follower.log.log_end, 0))
    follower.catch_up(leader)

    assert follower.truncated_to == [2]
    assert (follower.log.epoch_string, leader.log.epoch_string) == ("0,2,5", "1,3,5")


def test_follower_fetches_at_once_when_the_logs_agree() -> None:
    """The leader's end of the epoch is the own log's end: nothing is cut, and nothing is asked twice."""
    epochs = EpochCache([(3, 90)])
    follower = comparing(epochs, 170)

    assert follower.compared(EpochEnd(3, 170), epochs, 170, 0) == ()

    assert follower.is_ready(0)
    assert not follower.has_question(0)


def test_follower_forgets_a_last_epoch_without_records_when_the_leader_lacks_it() -> None:
    """It led epoch 5 and wrote nothing; the leader's history ends where the own records end, and 5 goes."""
    epochs = EpochCache([(3, 90), (5, 170)])
    follower = comparing(epochs, 170)

    assert cut(follower, follower.compared(EpochEnd(3, 170), epochs, 170, 0), epochs) == 170

    assert epochs.latest_epoch == 3
    assert follower.is_ready(0)


def test_follower_asks_again_later_when_the_question_was_refused() -> None:
    """A leader without the metadata of its election refuses; the pause ends, and the question is the same."""
    follower = comparing(EpochCache([(3, 90)]), 170)
    asked = follower.question()

    assert follower.refused(asked, ErrorCode.NOT_LEADER_OR_FOLLOWER, 100) == ()

    assert (follower.has_question(1099), follower.has_question(1100)) == (False, True)
    assert not follower.is_ready(1100)
    assert follower.question() == asked


def test_follower_compares_anew_when_its_offset_was_out_of_range() -> None:
    """The cut was by offset alone; what is left may still be another history."""
    epochs = EpochCache([(3, 0), (5, 8)])
    follower = comparing(epochs, 12)
    assert follower.compared(EpochEnd(5, 12), epochs, 12, 0) == ()
    follower.refused(follower.ask(), ErrorCode.OFFSET_OUT_OF_RANGE, 0)

    assert cut(follower, follower.leader_end_known(9, log_end=12, high_watermark=0), epochs) == 9

    assert follower.phase is FollowerPhase.COMPARING


def test_follower_compares_nothing_when_it_goes_by_its_high_watermark(brokers: KnownBrokers) -> None:
    """KIP-279's logs: cut to the watermark 0 or 2, and in the second case wrong records stay."""
    for mark, result in ((0, "1,3,5"), (2, "0,2,5")):
        leader = Replica(1, MemoryLog("1,3,5"))
        follower = Replica(2, MemoryLog("0,2,4"), mark=mark, mode=HIGH_WATERMARK)
        leader.lead(6, (1,), brokers=brokers)
        follower.follow(6)
        assert follower.follower is not None
        assert follower.follower.ask() == FetchAsk(mark, -1, 6, 0)
        follower.catch_up(leader)

        assert follower.log.epoch_string == result
        assert follower.truncated_to == [mark]


def lose_a_leader(brokers: KnownBrokers, mode: TruncationMode) -> tuple[Replica, Replica]:
    """Steps 1 to 7 of the data loss: F restarts before it learnt of the commit, then L stops and F leads."""
    first = Replica(1, mode=mode)
    second = Replica(2, mode=mode)
    first.lead(0, (1, 2), brokers=brokers)
    second.follow(0)
    first.write("m0")
    second.fetch_from(first)
    second.fetch_from(first, is_answer_lost=True)
    assert (first.hw, second.hw, second.log.log_end) == (1, 0, 1)
    second.restart()
    second.follow(0)
    if mode is EPOCH_REQUEST:
        second.compare_with(first)
    first.restart()
    second.lead(1, (2,), brokers=brokers)
    return first, second


def test_e08_truncation_by_watermark_loses_a_committed_record(brokers: KnownBrokers) -> None:
    """Both logs end at 0, although acks=all was acknowledged."""
    old, new = lose_a_leader(brokers, HIGH_WATERMARK)

    old.follow(1)
    old.catch_up(new)

    assert (old.log.values, new.log.values) == ([], [])


@EPOCH_MODES
def test_e09_truncation_by_epoch_keeps_it(brokers: KnownBrokers, mode: TruncationMode) -> None:
    """The same steps, and m0 is on both."""
    old, new = lose_a_leader(brokers, mode)

    old.follow(1)
    old.catch_up(new)

    assert (old.log.values, new.log.values) == (["m0"], ["m0"])
    assert new.log.epochs.entries == ((0, 0), (1, 1))
    assert new.hw == 1


@ALL_MODES
def test_e10_a_write_in_between_makes_the_loss_a_divergence(brokers: KnownBrokers, mode: TruncationMode) -> None:
    """By watermark, offset 0 differs for ever; by epoch, both hold both records."""
    old, new = lose_a_leader(brokers, mode)
    new.write("x0")
    old.follow(1)
    old.catch_up(new)

    is_lost = mode is HIGH_WATERMARK
    assert (old.log.values, new.log.values) == ((["m0"], ["x0"]) if is_lost else (["m0", "x0"], ["m0", "x0"]))


def diverge(brokers: KnownBrokers, mode: TruncationMode, *, checkpoint: int | None = None) -> tuple[Replica, Replica]:
    """Steps 1 to 8 of the divergence: L committed m2, F knows only of m1, restarts, leads and writes m3."""
    first = Replica(1, mode=mode)
    second = Replica(2, mode=mode)
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
    old, new = diverge(brokers, HIGH_WATERMARK)

    assert (old.log.values, new.log.values) == (["m1", "m2"], ["m1", "m3"])


@EPOCH_MODES
def test_e12_truncation_by_epoch_keeps_all_three(brokers: KnownBrokers, mode: TruncationMode) -> None:
    """Epoch 1 starts at 2, behind m2."""
    old, new = diverge(brokers, mode)

    assert old.log.values == new.log.values == ["m1", "m2", "m3"]


@EPOCH_MODES
def test_e13_a_record_lost_by_power_is_cut_on_the_other_side(brokers: KnownBrokers, mode: TruncationMode) -> None:
    """F really lost m2 before it led: consistent, and acks=1 promised no more."""
    old = Replica(1, MemoryLog("0,0"), mark=2, mode=mode)
    new = Replica(2, MemoryLog("0"), mark=1, mode=mode)
    new.lead(1, (2,), brokers=brokers)
    new.write("m3")
    old.follow(1)

    answer = old.compare_with(new) if mode is EPOCH_REQUEST else old.fetch_from(new).diverging
    assert answer == (0, 1)
    assert old.truncated_to == [1]
    old.catch_up(new)

    assert old.log.records == new.log.records


def test_e14_truncation_by_a_stale_watermark_is_lucky(brokers: KnownBrokers) -> None:
    """With a checkpoint of 1 the old leader cuts m2 and takes m3: consistent, and lossy."""
    old, new = diverge(brokers, HIGH_WATERMARK, checkpoint=1)

    assert old.log.values == new.log.values == ["m1", "m3"]


BLIND_OR_FETCHING = pytest.mark.parametrize("mode", [EPOCH_FETCH, HIGH_WATERMARK])


def out_of_range(
    follower_end: int, leader_start: int, leader_end: int, mode: TruncationMode
) -> tuple[Replica, Replica]:
    """Return a follower that was refused with OFFSET_OUT_OF_RANGE, and a leader with the given log."""
    follower = Replica(2, MemoryLog(",".join("0" * follower_end)), mark=follower_end, mode=mode)
    leader = Replica(1, MemoryLog(",".join("0" * (leader_end - leader_start)), log_start=leader_start))
    follower.follow(1)
    assert follower.follower is not None
    follower.take(follower.follower.ask(), FetchAnswer(ErrorCode.OFFSET_OUT_OF_RANGE))
    follower.resolve_out_of_range(leader, 500)
    return follower, leader


@BLIND_OR_FETCHING
def test_e16_beyond_the_leaders_end_the_tail_is_cut(mode: TruncationMode) -> None:
    """Follower 12, leader 9."""
    follower, _ = out_of_range(12, 0, 9, mode)

    assert follower.truncated_to == [9]
    assert follower.follower is not None
    assert follower.follower.ask().fetch_offset == 9


@BLIND_OR_FETCHING
def test_e17_before_the_leaders_start_nothing_is_kept(mode: TruncationMode) -> None:
    """Follower 12, leader 100 to 200."""
    follower, _ = out_of_range(12, 100, 200, mode)

    assert (follower.log.log_start, follower.log.log_end, follower.hw) == (100, 100, 100)
    assert follower.follower is not None
    assert follower.follower.ask().fetch_offset == 100


@BLIND_OR_FETCHING
def test_e18_within_the_leaders_log_the_offset_is_kept(mode: TruncationMode) -> None:
    """Follower 150, leader 100 to 200: asked again after a pause, nothing is cut."""
    follower, _ = out_of_range(150, 100, 200, mode)

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


def test_e19_fenced_in_the_current_epoch_the_partition_waits_for_metadata() -> None:
    """Only metadata with a newer epoch revives it."""
    follower = machine()

    effects = follower.refused(follower.ask(), ErrorCode.FENCED_LEADER_EPOCH, 0)

    assert effects == (AwaitMetadata(),)
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


def test_e19_fenced_while_it_compares_the_partition_waits_for_metadata() -> None:
    """The same rule for the question that comes before the first fetch."""
    follower = comparing(EpochCache([(3, 0)]), 50, leader_epoch=5)

    effects = follower.refused(follower.question(), ErrorCode.FENCED_LEADER_EPOCH, 0)

    assert effects == (AwaitMetadata(),)
    assert not follower.has_question(10**9)


def test_e20_a_question_fenced_in_an_older_epoch_is_asked_again() -> None:
    """Asked in 5; meanwhile 6 is known, and the next question names it."""
    follower = comparing(EpochCache([(3, 0)]), 50, leader_epoch=5)
    asked = follower.question()
    follower.follow(6, log_start=0, log_end=50, high_watermark=50, latest_epoch=3)

    assert not follower.fits(asked)
    assert follower.refused(asked, ErrorCode.FENCED_LEADER_EPOCH, 100) == ()
    assert (follower.has_question(1099), follower.has_question(1100)) == (False, True)
    assert follower.question() == EpochQuestion(3, 6)


def test_e21_an_answer_overtaken_by_a_truncation_is_dropped() -> None:
    """It refers to offset 50; the log ends at 40."""
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


@EPOCH_MODES
def test_e23_a_log_without_epochs_is_cut_to_its_watermark(mode: TruncationMode) -> None:
    """It cannot be compared; the first fetch names no epoch."""
    follower = FollowerPartition(BACKOFF_MS, mode=mode)

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


def test_e24_the_same_epoch_again_does_not_compare_again() -> None:
    """Leader and log agreed, or will be compared: neither restarts."""
    epochs = EpochCache([(3, 0)])
    follower = comparing(epochs, 50, leader_epoch=5)
    follower.back_off(100)
    follower.follow(5, log_start=0, log_end=50, high_watermark=0, latest_epoch=3)
    assert not follower.has_question(1099)
    follower.compared(EpochEnd(3, 50), epochs, 50, 0)

    assert follower.follow(5, log_start=0, log_end=50, high_watermark=0, latest_epoch=3) == ()

    assert follower.phase is FollowerPhase.FETCHING


@EPOCH_MODES
def test_e28_after_an_unclean_election_the_log_is_cut_below_the_mark(mode: TruncationMode) -> None:
    """Epoch 7 starts at 20; the evidence says that committed records went."""
    epochs = EpochCache([(6, 10)])
    if mode is EPOCH_REQUEST:
        follower = comparing(epochs, 30, high_watermark=28, leader_epoch=7)
        (effect,) = follower.compared(EpochEnd(6, 20), epochs, 30, 28)
    else:
        follower = machine(7, log_end=30, high_watermark=28, latest_epoch=6)
        (effect,) = follower.diverged(EpochEnd(6, 20), epochs, 30, 28)

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
