"""Group lag for tools on this machine: verbs of the control API.

    lag.groups  from, count           -> groups: one row each; next
    lag.group   group, from, count    -> rows of its partitions with their verdicts; verdict, findings, missing; next

Those about readers and places are in `reader_verbs` and `place_verbs`.

A broker answers for the groups that it coordinates; of another group it says so in `standing`, with Kafka's name of the
error. Long lists come in pages: `next` is where the following one begins, null after the last.

Units as in `model.lag`. Null is unknown; "never" stands for what is infinite, which JSON has no number for.
"""

import asyncio
from collections.abc import Mapping
from math import isinf
from typing import TYPE_CHECKING, Any, Final, Protocol

from syncline.core.lag.rows import totals
from syncline.model.errors import ErrorCode
from syncline.model.lag import Finding, GroupVerdict, PartitionVerdict
from syncline.node.control.verbs import ControlRefused
from syncline.node.lag.group_lag import MeasuredGroup, MeasuredRow
from syncline.node.lag.pages import next_page, page_of

if TYPE_CHECKING:
    from syncline.node.lag.on_demand import LagOnDemand
    from syncline.node.views.values import HasBrokerId

    class Host(HasBrokerId, Protocol):
        """What these verbs use of their broker."""

        @property
        def lag(self) -> LagOnDemand:
            """Return what measures lag."""


Fields = Mapping[str, Any]
Answer = dict[str, Any]

NEVER: Final = "never"


async def groups(broker: "Host", fields: Fields) -> Answer:
    """Return a row for each group that this broker coordinates."""
    first, count = page_of(fields)
    lag = broker.lag.of_groups
    if lag is None:
        return {"broker": broker.broker_id, "groups": [], "next": None}
    group_ids = lag.group_ids()
    cut = await lag.cut(group_ids[first : first + count], is_exact=False, is_fresh=True)
    rows = []
    for group_id in cut.group_ids():
        rows.append(_summary(await cut.measured(group_id)))
        await asyncio.sleep(0)
    return {"broker": broker.broker_id, "groups": rows, "next": next_page(first, count, len(group_ids))}


async def group(broker: "Host", fields: Fields) -> Answer:
    """Return the partitions of one group, asked for anew, its status and the causes."""
    group_id = fields.get("group")
    if not isinstance(group_id, str):
        raise ControlRefused('a group is named by "group" (text).')
    first, count = page_of(fields)
    lag = broker.lag.of_groups
    standing = ErrorCode.NOT_COORDINATOR if lag is None else lag.standing(group_id)
    if lag is None or standing is not ErrorCode.NONE:
        return {"broker": broker.broker_id, "standing": standing.name}
    measured = await lag.paged(group_id, first, count)
    return {
        "broker": broker.broker_id,
        "standing": standing.name,
        **_summary(measured),
        "rows": [_row(each) for each in measured.rows[first : first + count]],
        "verdict": _group_verdict(measured.verdict),
        "findings": [_finding(each) for each in measured.findings],
        "unanswered": [
            {"topic": key.topic, "partition": key.partition, "error": code.name} for key, code in measured.missing
        ],
        "next": next_page(first, count, len(measured.rows)),
    }


def _summary(group: MeasuredGroup) -> Answer:
    sums = totals(each.row for each in group.rows)
    worst = group.verdict.worst
    return {
        "group": group.group_id,
        "state": group.members.state.value,
        "members": group.members.member_count,
        "status": group.verdict.status.name,
        "partitions": sums.rows,
        "without_commit": sums.without_commit,
        "missing": len(group.missing),
        "lag_records": sums.lag_hw,
        "lags": {
            "hw": sums.lag_hw,
            "lso": sums.lag_lso,
            "leo": sums.lag_leo,
        },
        "readable": sums.readable,
        "lost": sums.lost,
        "lag_bytes": sums.lag_bytes,
        "staleness_ms": sums.staleness_ms,
        "event_lag_ms": sums.event_lag_ms,
        "catch_up_s": _plain(sums.catch_up_s),
        "retention_margin_s": _plain(sums.retention_margin_s),
        "loses_data": sums.loses_data,
        "worst": None if worst is None else str(worst),
    }


def _row(each: MeasuredRow) -> Answer:
    fields = {name: _plain(value) for name, value in each.row._asdict().items()}
    ends = each.ends
    return {
        **fields,
        "status": each.row.status.name,
        "rule": each.row.rule.value,
        "leader": ends.leader,
        "log_start": ends.log_start,
        "ends": {"hw": ends.high_watermark, "lso": ends.last_stable, "leo": ends.log_end},
        "verdict": _partition_verdict(each.verdict),
    }


def _partition_verdict(verdict: PartitionVerdict) -> Answer:
    return {
        "status": verdict.status.name,
        "rule": verdict.rule.value,
        "complete": verdict.complete,
        "current_lag": verdict.current_lag,
        "evidence": {name: _plain(value) for name, value in verdict.evidence.items()},
    }


def _group_verdict(verdict: GroupVerdict) -> Answer:
    worst = verdict.worst
    return {
        "status": verdict.status.name,
        "complete": verdict.complete,
        "total_lag": verdict.total_lag,
        "worst": None if worst is None else [worst.topic, worst.partition],
    }


def _finding(finding: Finding) -> Answer:
    key = finding.partition
    return {
        "cause": finding.cause.value,
        "evidence": {name: _plain(value) for name, value in finding.evidence.items()},
        "partition": None if key is None else [key.topic, key.partition],
    }


def _plain(value: Any) -> Any:
    """Return a value that every reader of JSON takes."""
    return NEVER if isinstance(value, float) and isinf(value) else value
