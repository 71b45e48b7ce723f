"""Whether a group keeps up, by Burrow's rules: from the shape of its last commits, without any threshold.

One hard idea: lag alone says nothing, because every consumer lags a little at every moment. What counts is the
behaviour over a window of commits: does it commit at all, do its offsets move, does its lag ever fall. The rules, in
this order (the first that applies decides):

    0  fewer commits than asked for                                   OK
    1  lag now at most the allowed lag                                OK, whatever the window looks like
    2  silent for longer than the window, and lag at all stored ends  STOP
    3  an offset fell, and none since came back to where it was       REWIND
    4  a lag in the window was at most the allowed lag                OK
    5  all offsets are equal                                          STALL
    6  the lag never fell                                             WARN
    7  otherwise                                                      OK

Traps. A window is in commits, not in time: who commits every second has "stopped" after nine. A single commit is a
window of no length: STOP as soon as any time passes. Lags that are not known neither rise nor fall, so a window
without any known lag is WARN.

Three rules of ours stand aside unless they are asked for: `min_window_ms` waits with all verdicts while too little was
seen, and with STOP until a group was silent for so long; `unread` knows that the offsets that are left may be markers
of transactions; while the broker that judges was stopped (`pauses`), no group counts as silent.

Units: ms; `now_ms` in whole seconds is what Burrow compares. Burrow's shares are 32 bits wide; these are not.
Source: Burrow, caching evaluator.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

from syncline.core.lag.commit_ring import Commit
from syncline.core.lag.own_pauses import Pause, excused_ms
from syncline.model.ids import TopicPartition
from syncline.model.lag import Fact, GroupStatus, GroupVerdict, PartitionVerdict, StatusRule


def partition_status(
    commits: Sequence[Commit | None],
    ends: Sequence[int],
    now_ms: int,
    *,
    allowed_lag: int = 0,
    minimum_complete: float = 0.0,
    min_window_ms: int = 0,
    unread: int | None = None,
    pauses: Iterable[Pause] = (),
) -> PartitionVerdict:
    """Return the verdict on a window of commits, blanks first, given the stored ends, oldest first.

    `unread` is the number of records that can still be read, if that is known: 0 is OK whatever offsets are left.
    """
    window = [commit for commit in commits if commit is not None]
    # Burrow takes a window of nothing but blanks for one with a single commit.
    complete = max(1, len(window)) / len(commits) if commits else 0.0
    if not window:
        return PartitionVerdict(GroupStatus.OK, StatusRule.NO_COMMITS, complete, 0, {})
    first, last = window[0], window[-1]
    assert commits[len(commits) - len(window)] is first, "blanks come before commits"
    current_lag = max(0, ends[-1] - last.offset) if ends else 0
    evidence: dict[str, Fact] = {
        "lag": current_lag,
        "offset": last.offset,
        "silent_ms": now_ms - last.commit_ms,
        "window_ms": last.commit_ms - first.commit_ms,
        "commits": len(window),
    }
    is_full = len(window) == len(commits)
    if complete < minimum_complete:
        status, rule = GroupStatus.OK, StatusRule.INCOMPLETE
    elif current_lag <= allowed_lag:
        status, rule = GroupStatus.OK, StatusRule.NO_LAG
    elif unread == 0:
        status, rule = GroupStatus.OK, StatusRule.NOTHING_READABLE
    elif min_window_ms and not is_full and now_ms - first.commit_ms <= min_window_ms:
        status, rule = GroupStatus.OK, StatusRule.TOO_EARLY
    else:
        paused_ms = excused_ms(pauses, first.commit_ms)
        status, rule, more = _judge(window, ends, now_ms, allowed_lag, min_window_ms, paused_ms)
        evidence |= more
    return PartitionVerdict(status, rule, complete, current_lag, evidence)


def group_status(verdicts: Iterable[tuple[TopicPartition, PartitionVerdict]]) -> GroupVerdict:
    """Return the verdict on a group: its worst partition, where STOP, STALL and REWIND all are ERR."""
    rows = list(verdicts)
    if not rows:
        return GroupVerdict(GroupStatus.OK, 0.0, 0, None)
    worst_status = max(GroupStatus.OK, *(verdict.status for _, verdict in rows))
    worst, _ = max(rows, key=lambda row: row[1].current_lag)
    return GroupVerdict(
        status=min(worst_status, GroupStatus.ERR),
        complete=sum(verdict.complete == 1.0 for _, verdict in rows) / len(rows),
        total_lag=sum(verdict.current_lag for _, verdict in rows),
        worst=worst,
    )


def _judge(
    window: Sequence[Commit], ends: Sequence[int], now_ms: int, allowed_lag: int, min_window_ms: int, paused_ms: int
) -> tuple[GroupStatus, StatusRule, Mapping[str, Fact]]:
    """Return what rules 2 to 7 say, with the numbers that each adds."""
    first, last = window[0], window[-1]
    silent_ms, window_ms = now_ms - last.commit_ms, last.commit_ms - first.commit_ms
    had_no_lag = any(end <= last.offset for end in ends)
    # Late commits may make a window's length negative; Burrow takes it as it is.
    patience_ms = max(window_ms, min_window_ms) if min_window_ms else window_ms
    if silent_ms > patience_ms + paused_ms and not had_no_lag:
        return GroupStatus.STOP, StatusRule.STOPPED, {}
    rewind = _open_rewind(window)
    if rewind is not None:
        return GroupStatus.REWIND, StatusRule.REWOUND, {"from_offset": rewind[0], "to_offset": rewind[1]}
    lags = [commit.lag for commit in window if commit.lag is not None]
    if any(lag <= allowed_lag for lag in lags):
        return GroupStatus.OK, StatusRule.LAG_WAS_LOW, {"least_lag": min(lags)}
    if all(commit.offset == first.offset for commit in window):
        return GroupStatus.STALL, StatusRule.STALLED, {}
    if all(before <= after for before, after in pairwise(lags)):
        grown = {"first_lag": lags[0], "last_lag": lags[-1]} if lags else {}
        return GroupStatus.WARN, StatusRule.LAG_NOT_FALLING, grown
    return GroupStatus.OK, StatusRule.LAG_FELL, {}


def _open_rewind(window: Sequence[Commit]) -> tuple[int, int] | None:
    """Return from where to where offsets first fell, None if they did not or came back since."""
    for index, (before, after) in enumerate(pairwise(window), start=1):
        if after.offset < before.offset:
            has_recovered = any(commit.offset >= before.offset for commit in window[index:])
            return None if has_recovered else (before.offset, after.offset)
    return None
