"""Burrow's verdicts against the golden vectors of its own tests, and against the traps that its users fell into.

`burrow_histories.jsonl` has what Burrow itself made of random histories: its storage and its evaluator (`master` after
1.9.5), called by a test of ours that was put beside them. One line is one history: samples of the end as [end, ms],
commits as [offset, ms, order]; then the window [offset, order, ms, lag], the lag, and [now_ms, allowed_lag, status].
"""

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from syncline.core.lag.burrow_status import group_status, partition_status
from syncline.core.lag.commit_ring import Commit, CommitRing
from syncline.core.lag.commit_slab import CommitSlab
from syncline.core.lag.end_ring import EndRing
from syncline.model.ids import TopicPartition
from syncline.model.lag import GroupStatus, PartitionVerdict, StatusRule

OK, WARN, ERR, STOP, STALL, REWIND = (
    GroupStatus.OK,
    GroupStatus.WARN,
    GroupStatus.ERR,
    GroupStatus.STOP,
    GroupStatus.STALL,
    GroupStatus.REWIND,
)
RISING = [1_000, 2_000, 3_000, 4_000, 5_000]
EACH_100_S = [100, 200, 300, 400, 500]
# Milliseconds, of which Burrow compares all but those of now.
EACH_SECOND = [18_356, 19_362, 20_366, 21_367, 22_370, 23_373, 24_378, 25_379, 26_383, 27_383, 28_383, 29_388, 30_391]
EACH_SECOND += [31_394, 32_397]


def made(offsets: Sequence[int], times_s: Sequence[float], lags: Sequence[int | None]) -> list[Commit]:
    """Return a full window of commits."""
    rows = zip(offsets, times_s, lags, strict=True)
    return [
        Commit(offset, order, int(time_s * 1_000), int(time_s * 1_000), lag)
        for order, (offset, time_s, lag) in enumerate(rows)
    ]


# (commits, stored ends, now in s, allowed lag, status, rule)
VECTORS = {
    "0": (made(RISING, EACH_100_S, [0, 50, 100, 150, 200]), [5_200], 600, 0, OK, StatusRule.LAG_WAS_LOW),
    "1": (made(RISING, EACH_100_S, [0, 50, 100, 150, 200]), [5_200], 900, 0, OK, StatusRule.LAG_WAS_LOW),
    "2": (made(RISING, EACH_100_S, [0, 50, 100, 150, 200]), [5_200], 1_000, 0, STOP, StatusRule.STOPPED),
    "3": (made(RISING, EACH_100_S, [50, 100, 150, 200, 250]), [5_250], 1_000, 0, STOP, StatusRule.STOPPED),
    "4": (made([1_000] * 5, EACH_100_S, [0, 50, 100, 150, 200]), [1_200], 600, 0, OK, StatusRule.LAG_WAS_LOW),
    "5": (made([1_000] * 5, EACH_100_S, [100, 150, 200, 250, 300]), [1_300], 600, 0, STALL, StatusRule.STALLED),
    "6": (made([1_000] * 5, EACH_100_S, [100] * 5), [1_100], 600, 0, STALL, StatusRule.STALLED),
    "7": (
        made([1_000, 2_000, 3_000, 2_000, 4_000], EACH_100_S, [100, 150, 200, 1_250, 300]),
        [4_300],
        600,
        0,
        OK,
        StatusRule.LAG_FELL,
    ),
    "7b": (
        made([1_000, 2_000, 3_000, 2_000, 2_500], EACH_100_S, [100, 150, 200, 1_250, 1_300]),
        [3_800],
        600,
        0,
        REWIND,
        StatusRule.REWOUND,
    ),
    "8": (made(RISING, EACH_100_S, [50, 100, 150, 200, 250]), [5_000], 1_000, 0, OK, StatusRule.NO_LAG),
    "9": (
        made(range(8_079, 8_094), [ms / 1_000 for ms in EACH_SECOND], [0] * 15),
        [8_500, 8_600, 8_800, 9_000, 9_024],
        50,
        0,
        STOP,
        StatusRule.STOPPED,
    ),
    "10": (
        made(range(8_079, 8_094), [ms / 1_000 for ms in EACH_SECOND], [0] * 15),
        [8_093, 8_093, 8_093, 8_094],
        50,
        0,
        OK,
        StatusRule.LAG_WAS_LOW,
    ),
    "11": (
        made(
            [1_000, 1_500, 2_000, 2_500, 3_000, 3_500, 4_000, 4_500, 5_000, 5_500],
            [100, 150, 200, 250, 300, 350, 400, 450, 500, 550],
            [0, None, 50, None, 100, None, 150, None, 200, None],
        ),
        [5_700],
        600,
        0,
        OK,
        StatusRule.LAG_WAS_LOW,
    ),
    "12": (made([1_000, 2_000, 2_000], [100, 200, 300], [2, 1, 1]), [2_001], 550, 1, OK, StatusRule.NO_LAG),
    "13": (made([1_000] * 5, EACH_100_S, [100, 150, 200, 250, 300]), [1_300], 600, 99, STALL, StatusRule.STALLED),
    "14": (
        made([1_000, 2_000, 3_000, 2_000, 4_000], EACH_100_S, [100, 150, 200, 1_250, 300]),
        [4_300],
        600,
        99,
        OK,
        StatusRule.LAG_FELL,
    ),
    "15": (
        made([1_000, 2_000, 3_000, 2_000, 2_500], EACH_100_S, [100, 150, 200, 1_250, 300]),
        [4_300],
        600,
        0,
        REWIND,
        StatusRule.REWOUND,
    ),
    "W": (
        made(RISING, EACH_100_S, [50, 100, 150, 200, 250]),
        [5_250],
        600,
        0,
        WARN,
        StatusRule.LAG_NOT_FALLING,
    ),
}


@pytest.mark.parametrize("name", VECTORS)
def test_l27_golden_vector(name: str) -> None:
    """The table of Burrow's tests; 7b and W follow from its rules."""
    commits, ends, now_s, allowed_lag, status, rule = VECTORS[name]

    verdict = partition_status(commits, ends, now_s * 1_000, allowed_lag=allowed_lag)

    assert (verdict.status, verdict.rule) == (status, rule)
    assert verdict.complete == 1.0
    assert verdict.current_lag == max(0, ends[-1] - commits[-1].offset)


def test_l27_recorded_histories_get_burrows_windows_and_verdicts() -> None:
    """120 windows after late, repeated and frequent commits, and 1,440 verdicts on them, of every status."""
    lines = Path(__file__).with_name("burrow_histories.jsonl").read_text().splitlines()
    seen = set()
    for history in map(json.loads, lines):
        ring = CommitRing(history["intervals"], history["distance_ms"])
        ends = EndRing(history["intervals"])
        for operation in history["ops"]:
            match operation:
                case [end, at_ms]:
                    ends.add(end, at_ms)
                case [offset, commit_ms, order]:
                    ring.add(offset, order, commit_ms, 0, None if ends.newest is None else ends.newest.offset)
        window = ring.commits()

        assert [commit and [commit.offset, commit.order, commit.commit_ms, commit.lag] for commit in window] == history[
            "commits"
        ]
        for now_ms, allowed_lag, status in history["verdicts"]:
            verdict = partition_status(window, ends.offsets(), now_ms, allowed_lag=allowed_lag)
            assert (verdict.status, verdict.current_lag) == (status, history["lag"])
            seen.add(verdict.status)

    assert len(lines) == 120
    assert seen == {OK, WARN, STOP, STALL, REWIND}


@pytest.mark.parametrize(
    ("offsets", "lags", "status"),
    [
        pytest.param([1_000, 1_000, 2_000, 500], [9, 9, 9, 9], REWIND, id="a rewind behind equal offsets"),
        pytest.param([1_000, 2_000, 500, 2_000], [9, 9, 9, 8], OK, id="back at where it was"),
        pytest.param([1_000, 2_000, 500, 2_500, 700], [9, 9, 9, 9, 8], OK, id="of two rewinds the first has recovered"),
        pytest.param([1_000, 2_000, 3_000, 4_000], [100] * 4, WARN, id="lags that stay equal do not fall"),
        pytest.param([1_000, 2_000, 3_000, 4_000], [100, 200, 199, 300], OK, id="a lag that fell once"),
        pytest.param([1_000, 2_000, 3_000, 4_000], [None] * 4, WARN, id="lags that nobody knows"),
    ],
)
def test_shape_of_the_window_decides(offsets: list[int], lags: list[int | None], status: GroupStatus) -> None:
    """Borders between the rules, which the table does not have."""
    window = made(offsets, [100 * index for index in range(len(offsets))], lags)

    assert partition_status(window, [9_000], 400_000).status is status


def test_l28_single_commit_has_stopped_after_a_second_unless_a_window_is_asked_for() -> None:
    """The window of one commit has no length; with a minimum of 60 s it is judged after 60 s."""
    ring = CommitRing()
    ring.add(offset=90, order=0, commit_ms=1_000_000, observed_ms=1_000_000, end=100)
    burrow = {s: partition_status(ring.commits(), [100], 1_000_000 + s * 1_000).status for s in (0, 1)}
    ours = {
        s: partition_status(ring.commits(), [100], 1_000_000 + s * 1_000, min_window_ms=60_000).status
        for s in (0, 1, 59, 60, 61)
    }

    assert burrow == {0: STALL, 1: STOP}
    assert ours == {0: OK, 1: OK, 59: OK, 60: OK, 61: STOP}


def test_minimum_window_waits_with_stop_and_not_with_what_a_full_window_shows() -> None:
    """A group that commits each second has stopped after nine by Burrow's rule; one that falls behind is warned."""
    window = made(range(1_000, 1_010), range(100, 110), range(10, 20))

    assert partition_status(window, [1_100], 119_000).status is STOP
    assert partition_status(window, [1_100], 119_000, min_window_ms=60_000).status is WARN
    assert partition_status(window, [1_100], 170_000, min_window_ms=60_000).status is STOP


def test_l29_group_is_as_bad_as_its_worst_partition_and_never_worse_than_err() -> None:
    """STALL is above ERR; a window that is half full is not complete."""

    def group(*statuses: GroupStatus, complete: float = 1.0) -> tuple[GroupStatus, float, int, TopicPartition | None]:
        rows = [
            (TopicPartition("t", index), PartitionVerdict(status, StatusRule.LAG_FELL, 1.0, index * 10, {}))
            for index, status in enumerate(statuses)
        ]
        rows[0] = (rows[0][0], rows[0][1]._replace(complete=complete))
        return tuple(group_status(rows))

    assert group(OK, WARN, STALL) == (ERR, 1.0, 30, TopicPartition("t", 2))
    assert group(OK, WARN) == (WARN, 1.0, 10, TopicPartition("t", 1))
    assert group(OK, OK, OK, complete=0.5) == (OK, pytest.approx(2 / 3), 30, TopicPartition("t", 2))
    assert group_status([]) == (OK, 0.0, 0, None)


def test_l31_late_commit_without_a_lag_does_not_influence_a_warning() -> None:
    """Lags 10, 20, 30 with an unknown one between them never fall."""
    ring = CommitRing(4)
    for order, lag in ((10, 10), (20, 20), (40, 30)):
        ring.add(offset=order, order=order, commit_ms=order * 1_000, observed_ms=order * 1_000, end=order + lag)
    ring.add(offset=30, order=30, commit_ms=30_000, observed_ms=41_000, end=70)

    verdict = partition_status(ring.commits(), [70], 45_000)

    assert (verdict.status, verdict.evidence["first_lag"], verdict.evidence["last_lag"]) == (WARN, 10, 30)


def test_l32_idle_group_gets_its_time_for_new_data() -> None:
    """Fully read an hour ago, one record now: fine while a stored end shows that it had no lag, then STOP."""
    ring, ends = CommitRing(), EndRing()
    for order in range(10):
        ring.add(offset=91 + order, order=order, commit_ms=order * 5_000, observed_ms=order * 5_000, end=91 + order)
    for sample in range(20):
        ends.add(100, sample * 30_000)
    hour_ms = 3_600_000
    statuses = []
    for sample in range(11):
        ends.add(101, hour_ms + sample * 30_000)
        statuses.append(partition_status(ring.commits(), ends.offsets(), hour_ms + sample * 30_000).status)

    assert statuses == [OK] * 9 + [STOP] * 2


@pytest.mark.parametrize(
    ("commits", "complete"),
    [
        pytest.param([], 0.0, id="a partition that nobody committed to"),
        pytest.param([None] * 10, 0.1, id="a blank window, which Burrow counts as one commit"),
    ],
)
def test_without_commits_there_is_nothing_to_judge(commits: list[None], complete: float) -> None:
    """As OK as Burrow has it; the rule says why."""
    assert partition_status(commits, [100], 1_000) == (OK, StatusRule.NO_COMMITS, complete, 0, {})


def test_window_that_is_not_complete_enough_is_not_judged() -> None:
    """Three of ten commits, and four are asked for."""
    window = [None] * 7 + made([1_000] * 3, [1, 2, 3], [5, 6, 7])

    assert partition_status(window, [1_010], 3_500).status is STALL
    assert partition_status(window, [1_010], 3_500, minimum_complete=0.3).status is STALL
    assert partition_status(window, [1_010], 3_500, minimum_complete=0.4).rule is StatusRule.INCOMPLETE


def test_l20_offsets_that_hold_no_records_are_no_lag() -> None:
    """A marker behind the last record: by offsets a lag of 1 for ever, and nothing to read."""
    window = made([99] * 5, EACH_100_S, [1] * 5)

    assert partition_status(window, [100], 5_000_000).status is STOP
    assert partition_status(window, [100], 5_000_000, unread=0) == (
        OK,
        StatusRule.NOTHING_READABLE,
        1.0,
        1,
        {"lag": 1, "offset": 99, "silent_ms": 4_500_000, "window_ms": 400_000, "commits": 5},
    )


def test_commits_that_a_new_coordinator_replays_are_no_warning() -> None:
    """All lags unknown is WARN by Burrow's rules; with the first end that is known they fall as they should."""
    slab = CommitSlab()
    slot = slab.slot("t", 0)
    for step in range(10):
        slab.add(slot, 100 * step, step * 5_000, None)
    before = partition_status(slab.commits(slot), [950], 46_000)
    slab.end_known(slot, 950)

    assert before.status is WARN
    assert partition_status(slab.commits(slot), [950], 46_000).status is OK
