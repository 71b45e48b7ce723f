"""`lag explain`: why a group is behind, in words, from the verdicts and findings of its coordinator."""

from collections.abc import Callable, Mapping
from math import inf
from typing import Any, Final

from syncline.explain.words.lag_sentences import tell
from syncline.model.ids import TopicPartition
from syncline.model.lag import (
    Finding,
    GroupStatus,
    GroupVerdict,
    LagCause,
    LagRow,
    PartitionVerdict,
    StatusRule,
)

_NEVER: Final = "never"
# What clients say they are.
_NAMES: Final = ("client_id", "host")


def paragraphs(found: Mapping[str, Any], *, named: Callable[[str], str] = str) -> list[str]:
    """Return a group as its coordinator answered, as paragraphs; `named` makes of a client's name the one to show."""
    told = tell(
        named(found["group"]),
        _group_verdict(found["verdict"]),
        [(_row(each), _verdict(each["verdict"])) for each in found["rows"]],
        [_finding(each, named) for each in found["findings"]],
    )
    unanswered = [f"{each['topic']}-{each['partition']} ({each['error']})" for each in found["unanswered"]]
    if unanswered:
        told.append(f"Nothing is known about {', '.join(unanswered)}: their leaders did not report.")
    if any(each["is_estimated"] and each["staleness_ms"] for each in found["rows"]):
        told.append("Some waiting times are estimated from the timestamps that producers set.")
    return told


def _row(fields: Mapping[str, Any]) -> LagRow:
    values = {name: _value(name, fields[name]) for name in LagRow._fields}
    return LagRow(**{**values, "status": GroupStatus[fields["status"]], "rule": StatusRule(fields["rule"])})


def _verdict(fields: Mapping[str, Any]) -> PartitionVerdict:
    return PartitionVerdict(
        status=GroupStatus[fields["status"]],
        rule=StatusRule(fields["rule"]),
        complete=fields["complete"],
        current_lag=fields["current_lag"],
        evidence={name: _value(name, value) for name, value in fields["evidence"].items()},
    )


def _group_verdict(fields: Mapping[str, Any]) -> GroupVerdict:
    worst = fields["worst"]
    return GroupVerdict(
        status=GroupStatus[fields["status"]],
        complete=fields["complete"],
        total_lag=fields["total_lag"],
        worst=None if worst is None else TopicPartition(*worst),
    )


def _finding(fields: Mapping[str, Any], named: Callable[[str], str]) -> Finding:
    key = fields["partition"]
    return Finding(
        cause=LagCause(fields["cause"]),
        evidence={
            name: named(value) if name in _NAMES and value is not None else _value(name, value)
            for name, value in fields["evidence"].items()
        },
        partition=None if key is None else TopicPartition(*key),
    )


def _value(name: str, value: Any) -> Any:
    """Return a value as it was before it became JSON: seconds, and rates per second, may be infinite."""
    return inf if value == _NEVER and name.endswith("_s") else value
