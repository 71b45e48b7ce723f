"""The judge of the truth test: it accepts what is true, and finds each lie (the run itself is `make lag-truth`)."""

from typing import Any

import pytest

from syncline.records.builder import BatchBuilder
from tests.lag_truth.history import Commits, History
from tests.lag_truth.sampling import Sample
from tests.lag_truth.truth import PartitionTruth, Verdict

GROUP = "g"
# Each batch has two records, sent at 1,000 * n and acknowledged 20 ms later.
BATCHES = 5
ROW = {
    "partition": 0,
    "at_ms": 9_000,
    "committed": 4,
    "lag_hw": 6,
    "lag_leo": 6,
    "readable": 6,
    "is_estimated": False,
    "ends": {"hw": 10, "leo": 10},
}


def partition() -> tuple[History, PartitionTruth]:
    """Return what clients logged of a partition, and the truth about it."""
    history, log = History(), b""
    for number in range(BATCHES):
        builder = BatchBuilder(base_offset=2 * number)
        for record in (0, 1):
            name = b"p:%d:" % (2 * number + record)
            builder.append(0, None, name + b"x")
            history.sent_ms[name] = 1_000.0 * (number + 1)
            history.acknowledged_ms[0, 2 * number + record] = 1_000.0 * (number + 1) + 20
        log += builder.build()
    history.commits[GROUP, 0].may_be(0.0, 4, 4)
    return history, PartitionTruth(log, 0, history)


def judged(**row: Any) -> Verdict:
    """Return the verdict on one row, which is true but for these fields."""
    history, truth = partition()
    verdict = Verdict([truth], history)
    told = {**ROW, "lag_bytes": truth.end_bytes - truth.bytes_from(4), "staleness_ms": 9_000 - 3_010, **row}
    verdict.judge(Sample(GROUP, 8_999.5, 9_001.5, told))
    return verdict


def test_true_row_is_accepted() -> None:
    """Nothing is off."""
    verdict = judged()

    assert (verdict.samples, verdict.violations) == (1, [])
    assert tuple(verdict.worst) == (0.0, 0, 0, "")


def test_row_in_the_middle_of_a_batch_has_all_of_its_bytes() -> None:
    """A fetch would return the whole batch."""
    _, truth = partition()

    assert truth.bytes_from(5) == truth.bytes_from(4)
    assert truth.bytes_from(10) == truth.end_bytes
    assert truth.is_batch_end(6)
    assert not truth.is_batch_end(7)


@pytest.mark.parametrize(
    "lie",
    [
        {"staleness_ms": 9_000 - 3_010 - 265},
        {"staleness_ms": 9_000 - 3_010 + 265},
        {"lag_hw": 5},
        {"readable": 7},
        {"committed": 6, "lag_hw": 4, "lag_leo": 4, "readable": 4, "staleness_ms": 5_000},
        {"ends": {"hw": 8, "leo": 10}, "lag_hw": 4, "readable": 4},
        {"ends": {"hw": 11, "leo": 11}, "lag_hw": 7, "readable": 7, "lag_leo": 7},
        {"lag_bytes": 10_000},
        {"at_ms": 8_000},
        {"committed": None, "lag_hw": None},
    ],
    ids=", ".join,
)
def test_lie_is_found(lie: dict[str, Any]) -> None:
    """A row that is too late, too early, of another moment, or wrong by one record or some bytes."""
    assert judged(**lie).violations


def test_record_without_an_answer_is_bounded_by_its_neighbours() -> None:
    """It was appended before what came after it was acknowledged."""
    history, _ = partition()
    del history.acknowledged_ms[0, 4], history.acknowledged_ms[0, 5]
    log = b"".join(_batch(number) for number in range(BATCHES))

    assert PartitionTruth(log, 0, history).acknowledged_ms[4] == 4_020


def _batch(number: int) -> bytes:
    builder = BatchBuilder(base_offset=2 * number)
    for record in (0, 1):
        builder.append(0, None, b"p:%d:x" % (2 * number + record))
    return bytes(builder.build())


def test_commits_are_known_between_two_moments() -> None:
    """While an offset is being set, it may be either; a member goes forwards only."""
    commits = Commits()
    commits.setting(10, 100.0)
    commits.may_be(200.0, 10, 10)
    commits.advancing(300.0)
    commits.reached(15, 400.0)

    assert commits.between(0.0, 50.0) == (-1, -1)
    assert commits.between(50.0, 150.0) == (-1, 10)
    assert commits.between(210.0, 220.0) == (10, 10)
    assert commits.between(250.0, 350.0)[0] == 10
    assert commits.between(450.0, 460.0)[0] == 15
