"""Diagnosis: why a partition's replicas did what they did, as findings with their evidence.

One hard idea: an effect (a replica left, a leader changed, a watermark stood
still) and a condition (a process stood still, a line was cut) are told by
different witnesses; a cause is a condition that was there before the effect,
befell somebody who could bring it about, and is explained by nothing deeper.
Where none is found the cause is unknown, and said to be.

The roles decide the name: the same pause is the follower's or the leader's.

Pure: events in, findings out. Units: Unix milliseconds.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from syncline.explain.conditions import CLOCKS_MS, SLOW_DISK_MS, Condition, History, Kind, Seen, conditions_of
from syncline.model.events import Election, Event, IsrChange, Json, Truncation, Watermark
from syncline.model.reasons import WANTED, Reason, reason_of

# How long before an effect its cause may have begun, when nothing tells.
LOOK_BACK_MS: Final = 15_000
# A cause may be told a little later than its effect: by another broker's clock.
SLACK_MS: Final = 1_000


class Cause(StrEnum):
    """What may lie behind an effect, by its name in JSON."""

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
    NOTHING = "none"


# How much an effect counts when the window's main cause is looked for.
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
# Without a cause they are answers to something else.
NO_TROUBLE: Final = frozenset({Effect.JOINED, Effect.RELINQUISHED, Effect.REFUSED, Effect.TRUNCATED})
# The deepest first: what explains others goes before what it explains.
_DEPTH: Final = (
    Kind.GONE,
    Kind.STALL,
    Kind.DISK,
    Kind.CUT,
    Kind.UNREACHABLE,
    Kind.LATE,
    Kind.FRESH,
    Kind.BURST,
    Kind.SILENT,
    Kind.STOPPED,
)


@dataclass(slots=True)
class Finding:
    """One effect and its cause. `event` is what told of the effect, None when nothing came of the condition."""

    effect: Effect
    ts_ms: int
    cause: Cause
    replica: int = -1
    leader: int = -1
    condition: Condition | None = None
    event: IsrChange | Election | Watermark | Truncation | None = None
    # Unix times and numbers that sentences are made of.
    numbers: dict[str, Json] = field(default_factory=dict)
    # Other conditions that were there at the time, and were not enough or explained.
    also: tuple[Condition, ...] = ()

    @property
    def needs_no_cause(self) -> bool:
        """Whether the rule alone explains it: an answer to something else, or what somebody asked for."""
        if self.effect is Effect.ELECTED and isinstance(self.event, Election):
            return self.event.leader_before < 0 or _is_wanted(self.event)
        return self.effect in NO_TROUBLE

    @property
    def broker(self) -> int:
        """Whom the cause befell; of a cut line, the replica that suffered."""
        return self.replica if self.condition is None else self.condition.broker


@dataclass(slots=True)
class Diagnosis:
    """All findings of a window, in order of time, and the one that stands out."""

    topic: str
    partition: int
    since_ms: int
    until_ms: int
    leader: int
    findings: list[Finding]
    main: Finding | None
    conditions: list[Condition]
    # When the partition was made, if that was within the window.
    created_ms: int | None = None


def diagnose(
    events: Iterable[Event],
    topic: str,
    partition: int,
    *,
    since_ms: int,
    until_ms: int,
    replica: int | None = None,
    leader: int = -1,
    replicas: Sequence[int] = (),
) -> Diagnosis:
    """Return what happened to a partition between two times, and why.

    Events from before `since_ms` help to understand. `leader` and `replicas` are as they are now, if that is known.
    """
    history = History(events, topic, partition)
    found = _Diagnostician(history, conditions_of(history), leader, tuple(replicas) or history.replicas())
    findings = [
        each
        for each in found.findings(since_ms, until_ms)
        if replica is None
        or replica == each.replica
        or (each.effect is Effect.ELECTED and replica == each.leader)
        or (each.condition is not None and replica in {each.condition.broker, each.condition.other})
    ]
    main = _main(findings)
    return Diagnosis(
        topic,
        partition,
        since_ms,
        until_ms,
        history.leader_at(until_ms, leader),
        findings,
        main,
        [each for each in found.conditions if each.touches(since_ms, until_ms)],
        next((each.ts_ms for each in history.elections if _is_new(each) and since_ms <= each.ts_ms <= until_ms), None),
    )


def _main(findings: Sequence[Finding]) -> Finding | None:
    """Return the finding whose cause stands behind the most; a replica's new beginning before what led to it."""
    weights: dict[tuple[str, int], int] = {}
    first: dict[tuple[str, int], Finding] = {}
    for each in findings:
        if each.needs_no_cause and each.cause is Cause.UNKNOWN:
            continue
        key = (each.cause.value, id(each.condition))
        weight = _WEIGHTS.get(each.effect, 0)
        if each.cause is Cause.UNKNOWN:
            weight = 0 if each.effect is Effect.ELECTED else 1
        if each.cause is Cause.STOPPED:
            weight = 1
        if each.cause is Cause.NEW_REPLICA:
            weight = 20
        weights[key] = weights.get(key, 0) + weight
        first.setdefault(key, each)
    if not weights:
        return None
    best = max(weights, key=lambda key: (weights[key], _severity(first[key]), -first[key].ts_ms))
    return first[best]


def _severity(finding: Finding) -> int:
    """Return how deep a cause lies; of two that did equally much, the deeper one is named."""
    return 0 if finding.condition is None else len(_DEPTH) - _DEPTH.index(finding.condition.kind)


class _Diagnostician:
    """What is known of one partition, asked one effect after another."""

    def __init__(self, history: History, conditions: list[Condition], leader: int, replicas: tuple[int, ...]) -> None:
        self.history = history
        self.conditions = conditions
        self._leader_now = leader
        self._replicas = replicas

    def findings(self, since_ms: int, until_ms: int) -> list[Finding]:
        """Return the findings of a window, in order of time."""
        found: list[Finding] = []
        for change in self.history.isr_changes:
            if since_ms <= change.ts_ms <= until_ms:
                found += self._of_isr_change(change)
        for election in self.history.elections:
            if since_ms <= election.ts_ms <= until_ms and not _is_new(election):
                found.append(self._of_election(election))
        for mark in self.history.watermarks:
            if mark.phase == "held" and since_ms <= mark.ts_ms <= until_ms:
                found.append(self._of_stall(mark))
        found += [
            Finding(Effect.TRUNCATED, each.ts_ms, Cause.UNKNOWN, each.broker, each.leader, event=each)
            for each in self.history.truncations
            if since_ms <= each.ts_ms <= until_ms and each.log_end_after < each.log_end_before
        ]
        for seen in self.history.of_kind("protection"):
            is_mine = (seen.last.topic, seen.last.partition) == (self.history.topic, self.history.partition)
            if is_mine and seen.begin_ms <= until_ms and seen.end_ms >= since_ms:
                found.append(self._of_protection(seen))
        used = {id(each.condition) for each in found}
        for condition in self.conditions:
            if id(condition) not in used and condition.touches(since_ms, until_ms):
                finding = self._without_effect(condition)
                if finding is not None:
                    found.append(finding)
        return sorted(found, key=lambda each: each.ts_ms)

    def _leader_at(self, at_ms: int) -> int:
        return self.history.leader_at(at_ms, self._leader_now)

    # Effects.

    def _of_isr_change(self, change: IsrChange) -> list[Finding]:
        leader = change.broker if change.rule.startswith(("lag", "reached")) else self._leader_at(change.ts_ms - 1)
        if change.change == "relinquish":
            slow = self._slow_reads(change.broker, change.ts_ms)
            cause = Cause.UNKNOWN if slow is None else Cause.LEADER_DISK
            return [Finding(Effect.RELINQUISHED, change.ts_ms, cause, change.broker, change.broker, slow, change)]
        if change.outcome == "refused":
            return [Finding(Effect.REFUSED, change.ts_ms, Cause.UNKNOWN, -1, leader, event=change)]
        left = sorted(set(change.before) - set(change.after))
        joined = sorted(set(change.after) - set(change.before))
        return [
            *(self._of_leaving(change, replica, leader) for replica in left),
            *(self._of_joining(change, replica, leader) for replica in joined),
        ]

    def _of_joining(self, change: IsrChange, replica: int, leader: int) -> Finding:
        # What was filled before it joined the last time has nothing to do with this time.
        before_ms = max(
            (
                each.ts_ms
                for each in self.history.isr_changes
                if each.ts_ms < change.ts_ms and replica in set(each.after) - set(each.before)
            ),
            default=0,
        )
        fresh = next(
            (
                each
                for each in self.conditions
                if each.kind is Kind.FRESH
                and each.broker == replica
                and each.touches(before_ms, change.ts_ms + SLACK_MS)
            ),
            None,
        )
        cause = Cause.UNKNOWN if fresh is None else Cause.NEW_REPLICA
        return Finding(Effect.JOINED, change.ts_ms, cause, replica, leader, fresh, change)

    def _of_leaving(self, change: IsrChange, replica: int, leader: int) -> Finding:
        numbers = _leaving_numbers(change, replica)
        from_ms = numbers.get("caught_up_ms")
        begin_ms = from_ms if isinstance(from_ms, int) else change.ts_ms - LOOK_BACK_MS
        if change.rule == "fencing":
            begin_ms = _fencing_began_ms(change.ts_ms, reason_of(change.evidence.get("reason")), change.evidence)
            # Whom the controller fenced may have led until then.
            leader = self._leader_at(change.ts_ms - CLOCKS_MS)
        cause, condition = self._why_missing(
            replica, leader, begin_ms, change.ts_ms, is_fenced=change.rule == "fencing"
        )
        if condition is None:
            condition = self._read_that_waits(change, replica, numbers)
            cause = Cause.UNKNOWN if condition is None else Cause.LEADER_DISK
        return Finding(
            Effect.LEFT,
            change.ts_ms,
            cause,
            replica,
            leader,
            condition,
            change,
            numbers,
            self._beside(condition, begin_ms, change.ts_ms),
        )

    def _read_that_waits(self, change: IsrChange, replica: int, numbers: Mapping[str, Json]) -> Condition | None:
        """Return the leader's slow disk, as it stands in the decision itself, if it was slow for long enough."""
        since_ms, decided_ms = numbers.get("reading_since_ms"), numbers.get("decided_ms")
        if not isinstance(since_ms, int) or not isinstance(decided_ms, int) or decided_ms - since_ms < SLOW_DISK_MS:
            return None
        took_ms = decided_ms - since_ms
        operations = {("read", self.history.key, replica): took_ms}
        return Condition(Kind.DISK, change.broker, since_ms, decided_ms, is_over=False, operations=operations)

    def _of_election(self, election: Election) -> Finding:
        before = election.leader_before
        begin_ms = _fencing_began_ms(election.ts_ms, election.reason, election.evidence)
        cause, condition = Cause.UNKNOWN, None
        if election.reason is Reason.RELINQUISHED or self._was_relinquished(before, election.ts_ms):
            condition = self._slow_reads(before, election.ts_ms)
            cause = Cause.UNKNOWN if condition is None else Cause.LEADER_DISK
        elif before >= 0 and not _is_wanted(election):
            cause, condition = self._why_missing(before, before, begin_ms, election.ts_ms, is_fenced=True)
        return Finding(
            Effect.ELECTED,
            election.ts_ms,
            cause,
            election.leader_after,
            before,
            condition,
            election,
            {},
            self._beside(condition, begin_ms, election.ts_ms),
        )

    def _slow_reads(self, leader: int, at_ms: int) -> Condition | None:
        """Return the slow disk for which a leader gave a partition away."""
        for each in self.conditions:
            if (
                each.kind is Kind.DISK
                and each.broker == leader
                and each.touches(at_ms - LOOK_BACK_MS, at_ms + SLACK_MS)
            ):
                return each
        return None

    def _was_relinquished(self, leader: int, at_ms: int) -> bool:
        return any(
            each.change == "relinquish" and each.broker == leader and abs(each.ts_ms - at_ms) <= SLACK_MS
            for each in self.history.isr_changes
        )

    def _of_protection(self, seen: Seen) -> Finding:
        event = seen.last
        leader, replica = int(event.broker), int(event.subject)
        cause, condition = self._why_missing(replica, leader, seen.begin_ms, seen.end_ms, is_fenced=False)
        return Finding(
            Effect.SPARED,
            seen.begin_ms,
            cause,
            replica,
            leader,
            condition,
            None,
            {"until_ms": seen.end_ms, "is_over": seen.is_over},
        )

    def _of_stall(self, mark: Watermark) -> Finding:
        holders = [int(each) for each in str(mark.evidence.get("holders", "")).split(",") if each.strip().isdecimal()]
        end_ms = next(
            (each.ts_ms for each in self.history.watermarks if each.phase == "resumed" and each.ts_ms >= mark.ts_ms),
            mark.ts_ms,
        )
        told = [
            self._why_missing(each, mark.broker, mark.since_ms - SLACK_MS, end_ms, is_fenced=False) for each in holders
        ]
        if not holders:
            told = [(each.cause, each.condition) for each in self._absent(mark)]
        named = [(cause, condition) for cause, condition in told if condition is not None]
        cause, condition = named[0] if named else (Cause.UNKNOWN, None)
        return Finding(
            Effect.HELD,
            mark.ts_ms,
            cause,
            holders[0] if holders else -1,
            mark.broker,
            condition,
            mark,
            {"until_ms": end_ms, "holders": list(holders)},
            # Each of those that it waited for may have had a trouble of its own.
            tuple({id(other): other for _, other in named if other is not condition}.values()),
        )

    def _absent(self, mark: Watermark) -> list[Finding]:
        """Return why each replica had left that the ISR lacked when it was too small."""
        last: dict[int, IsrChange] = {}
        for change in self.history.isr_changes:
            if change.ts_ms <= mark.ts_ms and change.outcome == "committed":
                last.update(dict.fromkeys(sorted(set(change.before) ^ set(change.after)), change))
        return [
            self._of_leaving(change, replica, mark.broker)
            for replica, change in sorted(last.items())
            if replica in change.before
        ]

    def _without_effect(self, condition: Condition) -> Finding | None:
        """Return a condition that concerns this partition although nothing came of it."""
        leader = self._leader_at(condition.begin_ms)
        mine = self._replicas
        if condition.broker not in mine:
            return None
        if condition.kind in {Kind.CUT, Kind.SILENT} and not (
            condition.other in mine and leader in {condition.broker, condition.other}
        ):
            return None
        if condition.kind is Kind.STOPPED and any(
            each.kind is Kind.FRESH and each.broker == condition.broker for each in self.conditions
        ):
            return None
        if condition.kind is Kind.DISK and not self._concerns(condition):
            return None
        return Finding(
            Effect.NOTHING,
            condition.begin_ms,
            self._name(condition, condition.broker, leader),
            condition.broker,
            leader,
            condition,
        )

    def _concerns(self, disk: Condition) -> bool:
        """Return whether a slow disk can have held this partition up."""
        if disk.blocked_ms:
            return True
        return any(
            partition == self.history.key or replica in self._replicas for _, partition, replica in disk.operations
        )

    # Causes.

    def _why_missing(
        self, replica: int, leader: int, begin_ms: int, at_ms: int, *, is_fenced: bool
    ) -> tuple[Cause, Condition | None]:
        """Return why a replica could not show its leader, or the controller, that it is there and has everything."""
        best: Condition | None = None
        for condition in self._candidates(replica, leader, begin_ms, at_ms, is_fenced=is_fenced):
            if best is None or self._rank(condition, begin_ms, at_ms) > self._rank(best, begin_ms, at_ms):
                best = condition
        if best is None:
            return self._unnamed(replica, leader, begin_ms, at_ms)
        return self._name(best, replica, leader, is_fenced=is_fenced), best

    def _unnamed(self, replica: int, leader: int, begin_ms: int, at_ms: int) -> tuple[Cause, Condition | None]:
        """Return what is left when nobody's trouble was told: a burst that the followers met in good health."""
        burst = next(
            (each for each in self.conditions if each.kind is Kind.BURST and each.touches(begin_ms - SLACK_MS, at_ms)),
            None,
        )
        if burst is not None:
            return Cause.BURST, burst
        return Cause.UNKNOWN, None

    def _candidates(self, replica: int, leader: int, begin_ms: int, at_ms: int, *, is_fenced: bool) -> list[Condition]:
        found = []
        for each in self.conditions:
            if not each.touches(begin_ms - CLOCKS_MS, at_ms + SLACK_MS) or each.kind is Kind.BURST:
                continue
            mine = each.broker == replica
            # A fencing is the controller's doing: what befell the leader of the partition has no part in it.
            leads = each.broker == leader and (not is_fenced or replica == leader)
            match each.kind:
                case Kind.GONE | Kind.STOPPED | Kind.STALL:
                    fits = mine or leads
                case Kind.DISK:
                    reads_for = any(who == replica for op, _, who in each.operations if op == "read")
                    cuts = any(op == "cut" and key == self.history.key for op, key, _ in each.operations)
                    fits = (mine and (each.blocked_ms > 0 or cuts)) or (leads and (each.blocked_ms > 0 or reads_for))
                case Kind.CUT | Kind.SILENT:
                    ends = {each.broker, each.other}
                    # Between replicas it is the deeper cause, even if one of them is the controller as well.
                    fits = {replica, leader} <= ends <= set(self._replicas) or (
                        is_fenced
                        and replica in ends
                        and each.kind is Kind.CUT
                        and not self._is_unreachable(replica, begin_ms, at_ms)
                    )
                case Kind.UNREACHABLE:
                    fits = mine and is_fenced
                case _:
                    fits = mine and not is_fenced
            if fits:
                found.append(each)
        return found

    def _is_unreachable(self, broker: int, begin_ms: int, at_ms: int) -> bool:
        return any(
            each.kind is Kind.UNREACHABLE and each.broker == broker and each.touches(begin_ms, at_ms)
            for each in self.conditions
        )

    def _rank(self, condition: Condition, begin_ms: int, at_ms: int) -> tuple[int, int]:
        """Return how well a condition explains: the one that was there for a good part of the time, then the deeper."""
        depth = -_DEPTH.index(condition.kind)
        if condition.kind in {Kind.GONE, Kind.FRESH}:
            return 2, depth
        covered_ms = condition.overlap_ms(begin_ms - CLOCKS_MS, at_ms + CLOCKS_MS)
        if covered_ms >= (at_ms - begin_ms) / 2:
            return 2, depth
        return int(covered_ms >= CLOCKS_MS), depth

    def _name(self, condition: Condition, replica: int, leader: int, *, is_fenced: bool = False) -> Cause:
        leads = condition.broker == leader
        match condition.kind:
            case Kind.GONE:
                return Cause.LEADER_DEAD if leads else Cause.FOLLOWER_DEAD
            case Kind.STOPPED:
                return Cause.STOPPED
            case Kind.STALL:
                return Cause.LEADER_PAUSED if leads else Cause.FOLLOWER_PAUSED
            case Kind.DISK:
                return Cause.LEADER_DISK if leads else Cause.FOLLOWER_DISK
            case Kind.CUT:
                return Cause.CUT_ONE_WAY if len(condition.lost) == 1 else Cause.CUT_BOTH_WAYS
            case Kind.UNREACHABLE:
                is_follower = condition.broker != leader
                return Cause.FENCED_ALIVE if is_fenced and is_follower else Cause.CONTROLLER
            case Kind.LATE:
                return Cause.METADATA_LATE
            case Kind.FRESH:
                return Cause.NEW_REPLICA
            case Kind.BURST:
                return Cause.BURST
            case Kind.SILENT:
                return Cause.UNKNOWN

    def _beside(self, chosen: Condition | None, begin_ms: int, at_ms: int) -> tuple[Condition, ...]:
        return tuple(
            each
            for each in self.conditions
            if each is not chosen
            and each.touches(begin_ms - CLOCKS_MS, at_ms + CLOCKS_MS)
            and each.broker in self._replicas
            and (each.other < 0 or each.other in self._replicas or each.kind is Kind.UNREACHABLE)
        )


def _is_new(election: Election) -> bool:
    """Return whether this was the partition's beginning."""
    return election.leader_before < 0 and election.reason is Reason.CREATED


def _is_wanted(election: Election) -> bool:
    """Return whether somebody asked for it, or the balancer did: nothing was wrong."""
    return election.reason in WANTED


def _fencing_began_ms(at_ms: int, reason: Reason, numbers: Mapping[str, Json]) -> int:
    """Return since when, at the latest, something was wrong with a broker that was fenced."""
    timeout_ms = numbers.get("timeout_ms")
    if reason is Reason.SESSION_TIMED_OUT and isinstance(timeout_ms, int):
        return at_ms - timeout_ms
    return at_ms - (SLACK_MS if reason is Reason.PROCESS_GONE else LOOK_BACK_MS)


def _leaving_numbers(change: IsrChange, replica: int) -> dict[str, Json]:
    """Return what the leader knew of a replica that left, its times turned into Unix time."""
    evidence = change.evidence
    noted_ms = evidence.get("noted_ms")
    if not isinstance(noted_ms, int):
        return {}

    def unix_ms(value: object) -> int | None:
        return change.ts_ms - (noted_ms - value) if isinstance(value, int) else None

    numbers: dict[str, Json] = {"decided_ms": unix_ms(evidence.get("now_ms"))}
    for row in _rows(evidence.get("followers"), replica):
        numbers["caught_up_ms"] = unix_ms(row.get("last_caught_up_ms"))
        numbers["fetch_ms"] = unix_ms(row.get("last_fetch_ms"))
        numbers["log_end"] = row.get("log_end")
    for row in _rows(evidence.get("asked"), replica):
        numbers["asked_ms"] = unix_ms(row.get("asked_ms"))
        numbers["is_owed"] = row.get("is_owed")
        numbers["reading_since_ms"] = unix_ms(row.get("reading_since_ms"))
        numbers["pending_fetches_protect"] = row.get("pending_fetches_protect")
    for name in ("leader_log_end", "replica_lag_time_max_ms", "replica_lag_max_messages"):
        if isinstance(evidence.get(name), int):
            numbers[name] = evidence[name]
    return {name: value for name, value in numbers.items() if value is not None}


def _rows(rows: object, replica: int) -> list[dict[str, Json]]:
    if not isinstance(rows, list | tuple):
        return []
    return [row for row in rows if isinstance(row, dict) and row.get("broker_id") == replica]
