"""Diagnosis: why a partition's replicas did what they did, as findings with their evidence.

One hard idea: different brokers report an effect (a replica left, a leader changed, a watermark stopped) and a
condition (a process was paused, a connection was cut). A cause is a condition that held before the effect, affected a
broker that can cause it, and is explained by no deeper condition. Without such a condition the cause is unknown, and
the finding says so.

Pure: events in, findings out, no sentences. Units: Unix milliseconds.
"""

from collections.abc import Iterable, Mapping, Sequence

from syncline.explain.diagnosis.broker_conditions import SLOW_DISK_MS
from syncline.explain.diagnosis.causes import LOOK_BACK_MS, SLACK_MS, Causes, name_of
from syncline.explain.diagnosis.condition import CLOCKS_MS, Condition, Kind
from syncline.explain.diagnosis.conditions import conditions_of
from syncline.explain.diagnosis.disk_conditions import decided_kind
from syncline.explain.diagnosis.findings import (
    REASSIGNMENT_RULE,
    Cause,
    Diagnosis,
    Effect,
    Finding,
    is_wanted,
    main_finding,
)
from syncline.explain.diagnosis.history import History, Observed
from syncline.model.events import Election, Event, IsrChange, Json, Truncation, Watermark
from syncline.model.reasons import Reason, reason_of


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
    """Return what happened to a partition between two times, and why; `replica` selects the findings of one broker.

    Events from before `since_ms` serve as context; what was over before the partition was created does not. `leader`
    and `replicas` are the current ones, if known.
    """
    history = History(events, topic, partition)
    created = (each.ts_ms for each in history.elections if _is_creation(each) and since_ms <= each.ts_ms <= until_ms)
    created_ms = next(created, None)
    conditions = conditions_of(history)
    if created_ms is not None and not history.has_before(created_ms):
        # What was over before the partition existed did nothing to it.
        conditions = [each for each in conditions if each.end_ms >= created_ms]
    effects = _Effects(history, conditions, leader, tuple(replicas) or history.replicas())
    findings = [
        each for each in effects.findings(since_ms, until_ms) if replica is None or _concerns_broker(each, replica)
    ]
    return Diagnosis(
        topic,
        partition,
        since_ms,
        until_ms,
        history.leader_at(until_ms, leader),
        findings,
        main_finding(findings),
        [each for each in conditions if each.touches(since_ms, until_ms)],
        created_ms,
    )


def _concerns_broker(finding: Finding, broker: int) -> bool:
    condition = finding.condition
    return (
        # A deletion takes every replica.
        finding.effect is Effect.DELETED
        or broker == finding.replica
        or (finding.effect is Effect.ELECTED and broker == finding.leader)
        or (condition is not None and broker in {condition.broker, condition.other})
    )


class _Effects:
    """The effects on one partition, each with its cause."""

    def __init__(self, history: History, conditions: list[Condition], leader: int, replicas: tuple[int, ...]) -> None:
        self._history = history
        self._conditions = conditions
        self._causes = Causes(history.key, conditions, replicas)
        self._leader_now = leader

    def findings(self, since_ms: int, until_ms: int) -> list[Finding]:
        """Return the findings of a window, in order of time."""
        history = self._history
        found: list[Finding] = []
        for change in history.isr_changes:
            if since_ms <= change.ts_ms <= until_ms:
                found += self._isr_change(change)
        for election in history.elections:
            if since_ms <= election.ts_ms <= until_ms and not _is_creation(election):
                found.append(self._election(election))
        for mark in history.watermarks:
            if mark.phase == "held" and since_ms <= mark.ts_ms <= until_ms:
                found.append(self._held_watermark(mark))
        found += [
            _truncation(each)
            for each in history.truncations
            if since_ms <= each.ts_ms <= until_ms and each.log_end_after < each.log_end_before
        ]
        found += [
            Finding(Effect.REASSIGNED, each.ts_ms, Cause.UNKNOWN, -1, self._leader_at(each.ts_ms), event=each)
            for each in history.reassignments
            if since_ms <= each.ts_ms <= until_ms
        ]
        found += [
            Finding(Effect.DELETED, each.ts_ms, Cause.UNKNOWN, -1, self._leader_at(each.ts_ms), event=each)
            for each in history.deletions
            if since_ms <= each.ts_ms <= until_ms
        ]
        for each in history.of_kind("protection"):
            is_mine = (each.last.topic, each.last.partition) == (history.topic, history.partition)
            if is_mine and each.begin_ms <= until_ms and each.end_ms >= since_ms:
                found.append(self._protection(each))
        used = {id(each.condition) for each in found}
        for condition in self._conditions:
            if id(condition) not in used and condition.touches(since_ms, until_ms):
                leader = self._leader_at(condition.begin_ms)
                if self._causes.concerns_partition(condition, leader):
                    found.append(self._without_effect(condition, leader))
        return sorted(found, key=lambda each: each.ts_ms)

    def _without_effect(self, condition: Condition, leader: int) -> Finding:
        begin_ms, broker = condition.begin_ms, condition.broker
        cause, also = name_of(condition, leader), self._causes.beside(condition, begin_ms, condition.end_ms)
        return Finding(Effect.NOTHING, begin_ms, cause, broker, leader, condition, also=also)

    def _leader_at(self, at_ms: int) -> int:
        return self._history.leader_at(at_ms, self._leader_now)

    def _isr_change(self, change: IsrChange) -> list[Finding]:
        if change.change == "relinquish":
            cause, condition = self._causes.of_giving_away(change.broker, change.ts_ms)
            return [Finding(Effect.RELINQUISHED, change.ts_ms, cause, change.broker, change.broker, condition, change)]
        leader = change.broker if _is_proposed(change) else self._leader_at(change.ts_ms - 1)
        if change.outcome == "refused":
            return [Finding(Effect.REFUSED, change.ts_ms, Cause.UNKNOWN, -1, leader, event=change)]
        left = sorted(set(change.before) - set(change.after))
        joined = sorted(set(change.after) - set(change.before))
        return [
            *(self._leaving(change, replica, leader) for replica in left),
            *(self._joining(change, replica, leader) for replica in joined),
        ]

    def _joining(self, change: IsrChange, replica: int, leader: int) -> Finding:
        # An empty log that the replica filled before it joined an earlier time does not matter.
        earlier = (
            each.ts_ms
            for each in self._history.isr_changes
            if each.ts_ms < change.ts_ms and replica in set(each.after) - set(each.before)
        )
        cause, condition = self._causes.of_joining(replica, max(earlier, default=0), change.ts_ms)
        return Finding(Effect.JOINED, change.ts_ms, cause, replica, leader, condition, change)

    def _leaving(self, change: IsrChange, replica: int, leader: int) -> Finding:
        if change.rule == REASSIGNMENT_RULE:
            return Finding(Effect.LEFT, change.ts_ms, Cause.UNKNOWN, replica, leader, event=change)
        numbers = _leaving_numbers(change, replica)
        caught_up_ms = numbers.get("caught_up_ms")
        begin_ms = caught_up_ms if isinstance(caught_up_ms, int) else change.ts_ms - LOOK_BACK_MS
        is_fenced = change.rule == "fencing"
        reason = reason_of(change.evidence.get("reason"))
        if is_fenced:
            begin_ms = _fencing_began_ms(change.ts_ms, reason, change.evidence)
            # The fenced broker may have led until then.
            leader = self._leader_at(change.ts_ms - CLOCKS_MS)
        unfit = decided_kind(reason, change.evidence)
        stopped = self._stopped_before(replica, change.ts_ms) if reason is Reason.CAUGHT_UP_WITH_METADATA else None
        if unfit is not None:
            cause, condition = self._causes.of_decision(replica, unfit, change.ts_ms)
        elif stopped is not None:
            cause, condition = Cause.STOPPED, stopped
        else:
            cause, condition = self._causes.of_absence(replica, leader, begin_ms, change.ts_ms, is_fenced=is_fenced)
        if condition is None:
            condition = self._read_in_decision(change, replica, numbers)
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
            self._causes.beside(condition, begin_ms, change.ts_ms),
        )

    def _stopped_before(self, broker: int, at_ms: int) -> Condition | None:
        """Return that the process of a broker before this one stopped in good order, if it said so on registering.

        After a stop of the whole cluster only that tells of the stop: nobody could journal it. The first broker that
        serves is elected alone, while the others still register.
        """
        registered = [each for each in self._history.states if each.subject == broker and each.state == "registered"]
        last = next((each for each in reversed(registered) if each.ts_ms <= at_ms), next(iter(registered), None))
        if last is None or last.reason is not Reason.REGISTERED_AFTER_CLEAN_STOP:
            return None
        return Condition(Kind.STOPPED, broker, last.ts_ms, last.ts_ms, numbers={"unreported": True})

    def _read_in_decision(self, change: IsrChange, replica: int, numbers: Mapping[str, Json]) -> Condition | None:
        """Return the leader's slow read that the decision's own evidence shows, if it took long enough."""
        since_ms, decided_ms = numbers.get("reading_since_ms"), numbers.get("decided_ms")
        if not isinstance(since_ms, int) or not isinstance(decided_ms, int) or decided_ms - since_ms < SLOW_DISK_MS:
            return None
        operations = {("read", self._history.key, replica): decided_ms - since_ms}
        return Condition(Kind.DISK, change.broker, since_ms, decided_ms, is_over=False, operations=operations)

    def _election(self, election: Election) -> Finding:
        before, at_ms = election.leader_before, election.ts_ms
        begin_ms = _fencing_began_ms(at_ms, election.reason, election.evidence)
        cause, condition = Cause.UNKNOWN, None
        unfit = decided_kind(election.reason, election.evidence)
        if unfit is not None:
            cause, condition = self._causes.of_decision(before, unfit, at_ms)
        elif election.reason is Reason.RELINQUISHED or self._gave_away(before, at_ms):
            cause, condition = self._causes.of_giving_away(before, at_ms)
        elif before >= 0 and not is_wanted(election):
            cause, condition = self._causes.of_absence(before, before, begin_ms, at_ms, is_fenced=True)
        also = self._causes.beside(condition, begin_ms, at_ms)
        return Finding(Effect.ELECTED, at_ms, cause, election.leader_after, before, condition, election, {}, also)

    def _gave_away(self, leader: int, at_ms: int) -> bool:
        return any(
            each.change == "relinquish" and each.broker == leader and abs(each.ts_ms - at_ms) <= SLACK_MS
            for each in self._history.isr_changes
        )

    def _protection(self, observed: Observed) -> Finding:
        leader, replica = int(observed.last.broker), int(observed.last.subject)
        begin_ms, end_ms = observed.begin_ms, observed.end_ms
        cause, condition = self._causes.of_absence(replica, leader, begin_ms, end_ms, is_fenced=False)
        numbers: dict[str, Json] = {"until_ms": end_ms, "is_over": observed.is_over}
        return Finding(Effect.SPARED, begin_ms, cause, replica, leader, condition, None, numbers)

    def _held_watermark(self, mark: Watermark) -> Finding:
        holders = [int(each) for each in str(mark.evidence.get("holders", "")).split(",") if each.strip().isdecimal()]
        resumed = (each.ts_ms for each in self._history.watermarks if each.phase == "resumed")
        end_ms = next((each_ms for each_ms in resumed if each_ms >= mark.ts_ms), mark.ts_ms)
        if holders:
            causes = [
                self._causes.of_absence(each, mark.broker, mark.since_ms - SLACK_MS, end_ms, is_fenced=False)
                for each in holders
            ]
        else:
            causes = [(each.cause, each.condition) for each in self._missing_members(mark)]
        known = [(cause, condition) for cause, condition in causes if condition is not None]
        cause, condition = known[0] if known else (Cause.UNKNOWN, None)
        return Finding(
            Effect.HELD,
            mark.ts_ms,
            cause,
            holders[0] if holders else -1,
            mark.broker,
            condition,
            mark,
            {"until_ms": end_ms, "holders": list(holders)},
            # Each replica that held the watermark may have had a condition of its own.
            tuple({id(other): other for _, other in known if other is not condition}.values()),
        )

    def _missing_members(self, mark: Watermark) -> list[Finding]:
        """Return, for an ISR below its minimum, why each missing replica had left."""
        last: dict[int, IsrChange] = {}
        for change in self._history.isr_changes:
            if change.ts_ms <= mark.ts_ms and change.outcome == "committed":
                last.update(dict.fromkeys(sorted(set(change.before) ^ set(change.after)), change))
        return [
            self._leaving(change, replica, mark.broker)
            for replica, change in sorted(last.items())
            if replica in change.before
        ]


def _truncation(cut: Truncation) -> Finding:
    return Finding(Effect.TRUNCATED, cut.ts_ms, Cause.UNKNOWN, cut.broker, cut.leader, event=cut)


def _is_proposed(change: IsrChange) -> bool:
    """Return whether the leader proposed the change; the controller writes the others."""
    return change.rule.startswith(("lag", "reached"))


def _is_creation(election: Election) -> bool:
    """Return whether this is the first election of a new partition."""
    return election.leader_before < 0 and election.reason is Reason.CREATED


def _fencing_began_ms(at_ms: int, reason: Reason, numbers: Mapping[str, Json]) -> int:
    """Return the latest time at which the condition of a fenced broker can have begun."""
    timeout_ms = numbers.get("timeout_ms")
    if reason is Reason.SESSION_TIMED_OUT and isinstance(timeout_ms, int):
        return at_ms - timeout_ms
    return at_ms - (SLACK_MS if reason is Reason.PROCESS_GONE else LOOK_BACK_MS)


def _leaving_numbers(change: IsrChange, replica: int) -> dict[str, Json]:
    """Return what the leader knew about a replica that left, with times as Unix time."""
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
