"""Repeats: findings that changed nothing and differ in times and amounts only, so that they can be told as one.

A disk that is slow for minutes makes a condition every few seconds. Those between two effects belong together if they
have the same cause, befell the same brokers, and were beside the same other conditions; others of that time may lie
between them. An effect divides them, because what was before it may have led to it.

Units: Unix milliseconds.
"""

from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from typing import Final

from syncline.explain.diagnosis.condition import Condition
from syncline.explain.diagnosis.findings import Effect, Finding

# What a condition's evidence names beside amounts. An operator must learn each of them.
_NAMES: Final = ("inferred_from", "reason", "error", "errno", "on", "by", "role", "move", "neighbour")


@dataclass(frozen=True, slots=True)
class Repeats:
    """A finding, or several that are repeats of each other, in order of time."""

    findings: list[Finding]

    @property
    def longest(self) -> Finding:
        """The finding whose condition lasted longest; of equals the first."""
        return max(self.findings, key=lambda each: 0 if each.condition is None else each.condition.length_ms)

    @property
    def end_ms(self) -> int:
        """When the last one ended, up to the last report."""
        return max(each.ts_ms if each.condition is None else each.condition.end_ms for each in self.findings)


def repeats_of(findings: Iterable[Finding]) -> list[Repeats]:
    """Return each finding with its repeats, in order of the first ones; `findings` are in order of time."""
    found: list[Repeats] = []
    since_effect: dict[Hashable, Repeats] = {}
    for each in findings:
        if each.effect is not Effect.NOTHING or each.condition is None:
            since_effect.clear()
            found.append(Repeats([each]))
            continue
        key = _what(each, each.condition)
        if key in since_effect:
            since_effect[key].findings.append(each)
        else:
            since_effect[key] = Repeats([each])
            found.append(since_effect[key])
    return found


def _what(finding: Finding, condition: Condition) -> Hashable:
    """Return what repeats share."""
    return (
        finding.cause,
        finding.brokers,
        _who(condition),
        condition.lost,
        condition.is_over,
        tuple(str(condition.numbers.get(name)) for name in _NAMES),
        frozenset(map(_who, finding.beside)),
    )


def _who(condition: Condition) -> Hashable:
    return condition.kind, condition.broker, condition.other
