"""How far groups are behind, for the journal: a sample when something moved, a decision when a status changed.

One hard idea: a coordinator may have a thousand groups with fifty partitions each, and measuring a row takes time. So
there is an allowance of rows per second, however short the interval is: each interval goes on with the group behind
the last one, and a group that took more than the allowance is paid for by the intervals after it. `interval_ms` of a
sample says how long it was since the last one of that group.

A group whose commits and ends stand still is not sampled again. Only the waiting time of its next record grows then, by
a second per second; that it has stopped is a change of its status. Partitions of the journal are left out: a sample
would move their ends.

Units: rows; ms.
"""

from collections.abc import Callable, Sequence
from math import isinf
from typing import Final, NamedTuple

from syncline.core.lag.rows import totals
from syncline.model.ids import JOURNAL_TOPIC, BrokerId
from syncline.model.lag import UNKNOWN, Fact, Finding, GroupStatus
from syncline.model.lag_events import Entry, GroupLagSample, GroupStatusChange
from syncline.node.clock import Clock
from syncline.node.lag.group_lag import GroupLag, MeasuredGroup, MeasuredRow

# Forty to eighty microseconds of work each: about a hundredth of the time at most.
ROWS_PER_S: Final = 200
# Groups that are measured as of one moment: a question to each leader is about all of them.
GROUPS_AT_ONCE: Final = 20
# Of one group, so many partitions have a row: those with the largest lag.
ROWS_MAX: Final = 100


class _Seen(NamedTuple):
    """A group as it was last measured."""

    status: GroupStatus
    moved: tuple[object, ...]
    """What is another value when something moved."""
    sampled_ms: int | None
    """Monotonic; of its last sample, None without any."""


class GroupLagSampler:
    """Samples the groups that one broker coordinates."""

    def __init__(
        self,
        *,
        broker_id: BrokerId,
        clock: Clock,
        lag: GroupLag,
        interval_ms: int,
        note: Callable[[GroupLagSample | GroupStatusChange], None],
    ) -> None:
        self._broker_id = broker_id
        self._clock = clock
        self._lag = lag
        self._interval_ms = interval_ms
        self._note = note
        self._allowance = ROWS_PER_S * interval_ms / 1_000
        # Rows that may still be measured; below 0 if a large group took more.
        self._left = 0.0
        # The last group of the last interval, "" before the first.
        self._last = ""
        self._seen: dict[str, _Seen] = {}

    async def sample(self) -> None:
        """Measure as many groups as the allowance is for, and journal what is new."""
        self._left = min(self._allowance, self._left + self._allowance)
        group_ids = self._lag.group_ids()
        self._seen = {each: seen for each in group_ids if (seen := self._seen.get(each)) is not None}
        waiting = _from(group_ids, self._last)
        while waiting and self._left > 0:
            some, waiting = waiting[:GROUPS_AT_ONCE], waiting[GROUPS_AT_ONCE:]
            cut = await self._lag.cut(some, is_exact=False)
            for group_id in cut.group_ids():
                group = await cut.measured(group_id)
                # One without rows takes time, too.
                self._left -= max(1, len(group.rows))
                self._tell(group)
                self._last = group_id

    def _tell(self, group: MeasuredGroup) -> None:
        seen, now_ms = self._seen.get(group.group_id), self._clock.mono_ms()
        before = GroupStatus.NOTFOUND if seen is None else seen.status
        # Without the partition that is worst, a group would look better than it is.
        status = before if group.missing else group.verdict.status
        if status is not before and (status, before) != (GroupStatus.OK, GroupStatus.NOTFOUND):
            self._note(self._change(group, before))
        rows = [each for each in group.rows if each.row.committed is not None and each.row.topic != JOURNAL_TOPIC]
        moved = _moved(group, rows)
        sampled_ms = None if seen is None else seen.sampled_ms
        if rows and (seen is None or seen.moved != moved):
            interval_ms = self._interval_ms if sampled_ms is None else now_ms - sampled_ms
            self._note(self._sample(group, rows, interval_ms))
            sampled_ms = now_ms
        self._seen[group.group_id] = _Seen(status, moved, sampled_ms)

    def _sample(self, group: MeasuredGroup, rows: Sequence[MeasuredRow], interval_ms: int) -> GroupLagSample:
        sums = totals(each.row for each in rows)
        most = sorted(rows, key=lambda each: -(each.row.lag_hw or 0))[:ROWS_MAX]
        return GroupLagSample(
            ts_ms=self._clock.wall_ms(),
            broker=self._broker_id,
            group=group.group_id,
            state=group.members.state.value,
            members=group.members.member_count,
            interval_ms=interval_ms,
            status=group.verdict.status.name,
            partitions=sums.rows,
            missing=len(group.missing),
            lag_records=_known(sums.lag_hw),
            lag_bytes=_known(sums.lag_bytes),
            staleness_ms=_known(sums.staleness_ms),
            event_lag_ms=_known(sums.event_lag_ms),
            lost=sums.lost,
            rows=tuple(_row(each) for each in sorted(most, key=lambda each: each.row.key)),
        )

    def _change(self, group: MeasuredGroup, before: GroupStatus) -> GroupStatusChange:
        worst = max(group.rows, key=lambda each: (each.verdict.status, each.verdict.current_lag), default=None)
        evidence: dict[str, Fact] = {}
        if worst is not None:
            facts = {name: _plain(value) for name, value in worst.verdict.evidence.items()}
            evidence = {"rule": worst.verdict.rule.value, **facts}
        return GroupStatusChange(
            ts_ms=self._clock.wall_ms(),
            broker=self._broker_id,
            group=group.group_id,
            status_before=before.name,
            status_after=group.verdict.status.name,
            topic="" if worst is None else worst.row.topic,
            partition=UNKNOWN if worst is None else worst.row.partition,
            evidence=evidence,
            findings=tuple(_finding(each) for each in group.findings),
        )


def _from(group_ids: Sequence[str], last: str) -> Sequence[str]:
    """Return all groups, beginning behind `last`."""
    first = next((index for index, group_id in enumerate(group_ids) if group_id > last), 0)
    return [*group_ids[first:], *group_ids[:first]]


def _moved(group: MeasuredGroup, rows: Sequence[MeasuredRow]) -> tuple[object, ...]:
    committed = sum(each.row.committed or 0 for each in rows)
    ends = sum(each.ends.high_watermark for each in rows)
    return len(rows), len(group.missing), committed, ends, group.members.state, group.members.member_count


def _row(each: MeasuredRow) -> Entry:
    row = each.row
    return {
        "topic": row.topic,
        "partition": row.partition,
        "committed": row.committed,
        "end": each.ends.high_watermark,
        "lag_bytes": _known(row.lag_bytes),
        "staleness_ms": _known(row.staleness_ms),
        "event_lag_ms": _known(row.event_lag_ms),
        "lost": row.lost,
    }


def _known(value: int | None) -> int:
    return UNKNOWN if value is None else value


def _finding(finding: Finding) -> Entry:
    key = finding.partition
    return {
        "cause": finding.cause.value,
        "topic": "" if key is None else key.topic,
        "partition": UNKNOWN if key is None else key.partition,
        "evidence": {name: _plain(value) for name, value in finding.evidence.items()},
    }


def _plain(value: Fact) -> Fact:
    """Return a fact as JSON has it, which knows no infinity."""
    return "never" if isinstance(value, float) and isinf(value) else value
