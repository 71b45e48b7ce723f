"""Epoch checks, divergence and truncation points: E02, E05-E07, E25, E26 of the scenario catalogue."""

import pytest

from syncline.core.replication.leader_epochs import EpochCache, EpochEnd
from syncline.core.replication.truncation import check_leader_epoch, find_divergence, truncation_point
from syncline.model.errors import ErrorCode
from tests.core.replicas import MemoryLog

LEADER = [(0, 0), (3, 2), (4, 8), (7, 13), (9, 14), (10, 17)]
OUT_OF_RANGE = ErrorCode.OFFSET_OUT_OF_RANGE

DIVERGENCES = [
    pytest.param(0, 2, None, id="0-2"),
    pytest.param(7, 14, None, id="7-14"),
    pytest.param(9, 17, None, id="9-17"),
    pytest.param(10, 17, None, id="10-17"),
    pytest.param(2, 5, (0, 2), id="2-5"),
    pytest.param(0, 4, (0, 2), id="0-4"),
    pytest.param(6, 6, (4, 13), id="6-6"),
    pytest.param(5, 9, (4, 13), id="5-9"),
    pytest.param(10, 18, (10, 17), id="10-18"),
    pytest.param(11, 5, OUT_OF_RANGE, id="newer-than-known"),
    pytest.param(-1, 17, None, id="no-epoch"),
    pytest.param(-2, 17, None, id="nonsense-epoch-is-no-epoch"),
    pytest.param(-1, 18, OUT_OF_RANGE, id="no-epoch-above"),
]


@pytest.mark.parametrize(("epoch", "offset", "verdict"), DIVERGENCES)
def test_e02_divergence_is_found_from_the_last_fetched_epoch(epoch: int, offset: int, verdict: object) -> None:
    """The leader's log ends at 17."""
    assert find_divergence(EpochCache(LEADER), epoch, offset, 0, 17) == verdict


DIVERGENCES_FROM_5 = [
    pytest.param(0, 0, OUT_OF_RANGE, id="below-the-start"),
    pytest.param(2, 8, (2, 5), id="2-8"),
    pytest.param(0, 5, None, id="0-5"),
    pytest.param(3, 5, None, id="3-5"),
]


@pytest.mark.parametrize(("epoch", "offset", "verdict"), DIVERGENCES_FROM_5)
def test_e02_divergence_after_the_log_start_rose(epoch: int, offset: int, verdict: object) -> None:
    """The log starts at 5 now."""
    cache = EpochCache(LEADER)
    cache.truncate_from_start(5)

    assert find_divergence(cache, epoch, offset, 5, 17) == verdict


def test_c21_a_read_below_the_log_start_is_out_of_range() -> None:
    """The log starts at 5: 4 is gone, 5 is readable, and so is the end."""
    cache = EpochCache([(0, 5)])

    assert find_divergence(cache, -1, 4, 5, 10) is ErrorCode.OFFSET_OUT_OF_RANGE
    assert find_divergence(cache, -1, 5, 5, 10) is None
    assert find_divergence(cache, -1, 10, 5, 10) is None


def test_e05_epoch_request_takes_two_rounds_when_the_leader_has_an_epoch_between() -> None:
    """The follower lacks epoch 4; asked again with 3, both know it."""
    follower = EpochCache([(3, 90), (5, 120)])

    first = truncation_point(EpochEnd(4, 155), follower, 170, 80)
    assert (first.offset, first.is_finished) == (120, False)
    follower.truncate_from_end(120)
    second = truncation_point(EpochEnd(3, 101), follower, 120, 80)

    assert (second.offset, second.is_finished) == (101, True)


def test_e06_a_leader_without_history_leaves_the_watermark() -> None:
    """The watermark is the only bound left."""
    point = truncation_point(EpochEnd(-1, -1), EpochCache([(3, 90)]), 120, 80)

    assert (point.offset, point.is_finished) == (80, True)


def test_e07_an_answer_without_epoch_keeps_wrong_records() -> None:
    """One round with offsets alone cuts at 2, and `0,2,5` is not `1,3,5`: why KIP-279 was needed."""
    leader, follower = MemoryLog("1,3,5"), MemoryLog("0,2,4")
    end = leader.epochs.end_offset_for(follower.epochs.latest_epoch, leader.log_end).end_offset

    point = truncation_point(EpochEnd(-1, end), follower.epochs, follower.log_end, 0)
    follower.truncate(point.offset)
    follower.records += leader.read(follower.log_end, 9)

    assert (point.offset, point.is_finished) == (2, True)
    assert follower.epoch_string == "0,2,5"


def test_truncation_of_a_follower_that_is_older_than_all_ends_at_the_leaders_offset() -> None:
    """Its own history has nothing to compare with."""
    point = truncation_point(EpochEnd(8, 50), EpochCache([(3, 0)]), 120, 10)

    assert (point.offset, point.is_finished) == (50, True)


def test_e25_a_consumer_finds_its_position_truncated() -> None:
    """Epoch 3 ends at 12, below position 15."""
    answer = EpochCache([(3, 0), (5, 12)]).end_offset_for(3, 20)

    assert answer == (3, 12)
    assert answer.end_offset < 15


@pytest.mark.parametrize(
    ("requested", "verdict"),
    [
        pytest.param(4, ErrorCode.FENCED_LEADER_EPOCH, id="older"),
        pytest.param(6, ErrorCode.UNKNOWN_LEADER_EPOCH, id="newer"),
        pytest.param(5, ErrorCode.NONE, id="equal"),
        pytest.param(-1, ErrorCode.NONE, id="none"),
        pytest.param(-2, ErrorCode.FENCED_LEADER_EPOCH, id="below-none"),
    ],
)
def test_e26_epochs_fence_requests(requested: int, verdict: ErrorCode) -> None:
    """The leader is in epoch 5."""
    assert check_leader_epoch(requested, 5) is verdict
