"""Findings: the effects on a partition, each with its cause, as data.

Sentences are made from findings (`sentences`), and no finding rests on a sentence.
Units: Unix milliseconds.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from syncline.explain.diagnosis.condition import DEPTH, Condition, Kind
from syncline.model.events import Election, IsrChange, Json, Reassignment, TopicChange, Truncation, Watermark
from syncline.model.reasons import WANTED


class Cause(StrEnum):
    """What may have caused an effect; the values appear in the JSON of `syncline why`."""

    FOLLOWER_DEAD = "follower-process-dead"
    LEADER_DEAD = "leader-process-dead"
    STOPPED = "stopped-in-good-order"
    FOLLOWER_PAUSED = "follower-paused"
    LEADER_PAUSED = "leader-paused"
    FOLLOWER_DISK = "follower-disk-slow"
    LEADER_DISK = "leader-disk-slow"
    CUT_BOTH_WAYS = "network-cut-both-ways"
    CUT_ONE_WAY = "network-cut-one-way"
    BURST = "burst-of-writes"
    NEW_REPLICA = "new-replica-catching-up"
    CONTROLLER = "controller-unreachable"
    FENCED_ALIVE = "fenced-though-alive"
    METADATA_LATE = "metadata-late"
    DISK_FULL = "disk-full"
    NO_DESCRIPTORS = "no-descriptors"
    DISK_FAILED = "disk-failed"
    LOG_DAMAGED = "log-damaged"
    THROTTLED = "held-back-by-a-throttle"
    STARVED = "starved-by-a-neighbours-move"
    UNKNOWN = "unknown"


class Effect(StrEnum):
    """What happened to a partition."""

    LEFT = "left-isr"
    JOINED = "joined-isr"
    REFUSED = "isr-change-refused"
    RELINQUISHED = "relinquished"
    ELECTED = "election"
    HELD = "watermark-held"
    SPARED = "kept-in-isr-by-pending-fetch"
    TRUNCATED = "truncated"
    REASSIGNED = "reassigned"
    DELETED = "topic-deleted"
    NOTHING = "none"


# Effects that follow from another effect or were wanted, and need no cause of their own.
NO_TROUBLE: Final = frozenset(
    {Effect.JOINED, Effect.RELINQUISHED, Effect.REFUSED, Effect.TRUNCATED, Effect.REASSIGNED, Effect.DELETED}
)
# The rule of a member of the ISR that left because its replica is no longer wanted.
REASSIGNMENT_RULE: Final = "reassignment"

# The conditions that explain most effects: their absence is evidence, too.
_RULED_OUT: Final = (Kind.GONE, Kind.STALL, Kind.DISK, Kind.CUT)


@dataclass(slots=True)
class Finding:
    """One effect and its cause; `event` reports the effect.

    It is None when a condition changed neither the ISR nor the leader; clients may have noticed it all the same.
    """

    effect: Effect
    ts_ms: int
    cause: Cause
    replica: int = -1
    leader: int = -1
    condition: Condition | None = None
    event: IsrChange | Election | Watermark | Truncation | Reassignment | TopicChange | None = None
    # Unix times and numbers for the sentences.
    numbers: dict[str, Json] = field(default_factory=dict)
    # Other conditions of that time, which do not suffice as cause or are explained by it.
    also: tuple[Condition, ...] = ()

    @property
    def needs_no_cause(self) -> bool:
        """Whether the rule alone explains it: it follows from another effect, or is a requested election."""
        if self.effect is Effect.ELECTED and isinstance(self.event, Election):
            return self.event.leader_before < 0 or is_wanted(self.event)
        if self.effect is Effect.LEFT and isinstance(self.event, IsrChange):
            return self.event.rule == REASSIGNMENT_RULE
        return self.effect in NO_TROUBLE

    @property
    def broker(self) -> int:
        """The broker that the cause affected; for a cut connection, the replica that was cut off."""
        return self.replica if self.condition is None else self.condition.broker

    @property
    def brokers(self) -> tuple[int, ...]:
        """The brokers whose conditions were compared: the replica and the leader."""
        return tuple(sorted({self.replica, self.leader} - {-1}))

    @property
    def beside(self) -> tuple[Condition, ...]:
        """Those other conditions that affected `brokers`."""
        return tuple(each for each in self.also if {each.broker, each.other} & set(self.brokers))

    @property
    def ruled_out(self) -> tuple[Kind, ...]:
        """The kinds of conditions that no broker reported of `brokers`; of others nothing is claimed."""
        chosen = self.condition
        if chosen is not None and chosen.kind is Kind.GONE:
            return ()
        present = {each.kind for each in self.beside} | (set() if chosen is None else {chosen.kind})
        if len(self.brokers) < 2:
            # There is no connection between them.
            present.add(Kind.CUT)
        return tuple(each for each in _RULED_OUT if each not in present)

    def check_invariants(self) -> None:
        """Raise `AssertionError` when the fields contradict each other."""
        is_known = self.cause is not Cause.UNKNOWN
        assert not is_known or self.condition is not None, f"{self.cause} rests on no condition"
        assert all(each is not self.condition for each in self.also), f"{self.condition} beside itself"
        assert (self.effect is Effect.NOTHING) <= (self.event is None), f"nothing changed, and yet {self.event}"
        for condition in (self.condition, *self.also):
            if condition is not None:
                condition.check_invariants()


@dataclass(slots=True)
class Diagnosis:
    """All findings of a window in order of time, and the main one."""

    topic: str
    partition: int
    since_ms: int
    until_ms: int
    leader: int
    findings: list[Finding]
    main: Finding | None
    conditions: list[Condition]
    # When the partition was created, if that was within the window.
    created_ms: int | None = None

    def check_invariants(self) -> None:
        """Raise `AssertionError` when the findings contradict each other."""
        assert self.main is None or any(each is self.main for each in self.findings), "the main finding is none of all"
        times = [each.ts_ms for each in self.findings]
        assert times == sorted(times), f"findings are not in order of time: {times}"
        for finding in self.findings:
            finding.check_invariants()


def is_wanted(election: Election) -> bool:
    """Return whether an administrator or the balancer requested the election, so that nothing was wrong."""
    return election.reason in WANTED


# The weight of an effect in the choice of the main finding.
_WEIGHTS: Final[Mapping[Effect, int]] = {
    Effect.LEFT: 6,
    Effect.ELECTED: 6,
    Effect.RELINQUISHED: 6,
    Effect.HELD: 2,
    Effect.SPARED: 2,
    Effect.REFUSED: 1,
    Effect.TRUNCATED: 1,
    Effect.NOTHING: 1,
}
# A damaged log matters more than the copies that replace it.
_DAMAGED_WEIGHT: Final = 50
# A replica that is held back now matters more than why it once left.
_THROTTLED_WEIGHT: Final = 7
# A replica that fills an empty log matters more than the cause of its emptiness.
_NEW_REPLICA_WEIGHT: Final = 20


def main_finding(findings: list[Finding]) -> Finding | None:
    """Return the first finding of the cause that explains the most, None if nothing needs a cause."""
    weights: dict[tuple[str, int], int] = {}
    first: dict[tuple[str, int], Finding] = {}
    for each in findings:
        if each.needs_no_cause and each.cause is Cause.UNKNOWN:
            continue
        key = (each.cause.value, id(each.condition))
        weights[key] = weights.get(key, 0) + _weight(each)
        first.setdefault(key, each)
    if not weights:
        return None
    best = max(weights, key=lambda key: (weights[key], _severity(first[key]), -first[key].ts_ms))
    return first[best]


def _weight(finding: Finding) -> int:
    match finding.cause:
        case Cause.UNKNOWN:
            return 0 if finding.effect is Effect.ELECTED else 1
        case Cause.STOPPED:
            return 1
        case Cause.LOG_DAMAGED if finding.effect is not Effect.NOTHING:
            return _DAMAGED_WEIGHT
        case Cause.NEW_REPLICA:
            # A copy that led to a join comes before one that was given up.
            return _NEW_REPLICA_WEIGHT + (finding.effect is not Effect.NOTHING)
        case Cause.THROTTLED | Cause.STARVED if finding.condition is not None and not finding.condition.is_over:
            return _THROTTLED_WEIGHT
        case _:
            return _WEIGHTS.get(finding.effect, 0)


def _severity(finding: Finding) -> int:
    """Return how deep a cause is; of two that explain equally much, the deeper one is the main one."""
    return 0 if finding.condition is None else len(DEPTH) - DEPTH.index(finding.condition.kind)
