"""Causes: which condition explains that a replica was missing.

A condition is a candidate if it held when the replica went missing and affected a broker that can cause this. The role
of that broker decides the cause's name: the same pause may be the follower's or the leader's. Candidates that lasted
for half of the time come first, and of these the deepest.

Units: Unix milliseconds.
"""

from collections.abc import Sequence
from typing import Final, assert_never

from syncline.explain.diagnosis.condition import CLOCKS_MS, DEPTH, JOIN_MS, Condition, Kind
from syncline.explain.diagnosis.findings import Cause
from syncline.explain.diagnosis.throttle_conditions import is_starved

# A broker may report a cause this much after another broker reports the effect.
SLACK_MS: Final = 1_000
# How long before an effect its cause may have begun, if no event shows when.
LOOK_BACK_MS: Final = 15_000


class Causes:
    """The conditions of one partition's history, searched for causes."""

    def __init__(self, key: str, conditions: Sequence[Condition], replicas: Sequence[int]) -> None:
        self._key = key
        self._conditions = conditions
        self._replicas = frozenset(replicas)

    def of_absence(
        self, replica: int, leader: int, begin_ms: int, at_ms: int, *, is_fenced: bool
    ) -> tuple[Cause, Condition | None]:
        """Return why a replica could not prove to its leader that it has everything.

        If it `is_fenced`: why it could not prove to the controller that it is alive.
        """
        best: Condition | None = None
        for condition in self._candidates(replica, leader, begin_ms, at_ms, is_fenced=is_fenced):
            if best is None or _rank(condition, begin_ms, at_ms) > _rank(best, begin_ms, at_ms):
                best = condition
        if best is not None:
            return name_of(best, leader, is_fenced=is_fenced), best
        # All brokers were healthy; the remaining cause is that clients wrote faster than followers could fetch.
        for each in self._conditions:
            if each.kind is Kind.BURST and each.touches(begin_ms - SLACK_MS, at_ms):
                return Cause.BURST, each
        return Cause.UNKNOWN, None

    def of_decision(self, broker: int, kind: Kind, at_ms: int) -> tuple[Cause, Condition | None]:
        """Return what made a broker unfit, by which the controller explains its decision."""
        for each in self._conditions:
            if each.kind is kind and each.broker == broker and each.touches(at_ms - JOIN_MS, at_ms + JOIN_MS):
                return name_of(each, broker), each
        return Cause.UNKNOWN, None

    def of_giving_away(self, leader: int, at_ms: int) -> tuple[Cause, Condition | None]:
        """Return the slow disk because of which a leader gave a partition away."""
        for each in self._conditions:
            is_there = each.touches(at_ms - LOOK_BACK_MS, at_ms + SLACK_MS)
            if each.kind is Kind.DISK and each.broker == leader and is_there:
                return Cause.LEADER_DISK, each
        return Cause.UNKNOWN, None

    def of_joining(self, replica: int, begin_ms: int, at_ms: int) -> tuple[Cause, Condition | None]:
        """Return the empty log that a replica filled before it joined.

        The last one: a move may have been cancelled and repeated, and the copy of the cancelled one is gone.
        """
        for each in reversed(self._conditions):
            if each.kind is Kind.FRESH and each.broker == replica and each.touches(begin_ms, at_ms + SLACK_MS):
                return Cause.NEW_REPLICA, each
        return Cause.UNKNOWN, None

    def beside(self, chosen: Condition | None, begin_ms: int, at_ms: int) -> tuple[Condition, ...]:
        """Return the other conditions of that time that concern this partition's replicas."""
        return tuple(
            each
            for each in self._conditions
            if each is not chosen
            and each.touches(begin_ms - CLOCKS_MS, at_ms + CLOCKS_MS)
            and self._is_of_replicas(each)
        )

    def _is_of_replicas(self, condition: Condition) -> bool:
        match condition.kind:
            case Kind.CUT:
                # Also a connection to a controller that holds no replica.
                return bool({condition.broker, condition.other} & self._replicas)
            case Kind.SILENT:
                return {condition.broker, condition.other} <= self._replicas
            case _:
                return condition.broker in self._replicas

    def concerns_partition(self, condition: Condition, leader: int) -> bool:
        """Return whether a condition that changed neither the ISR nor the leader is still worth a finding."""
        if condition.broker not in self._replicas:
            return False
        match condition.kind:
            case Kind.CUT | Kind.SILENT:
                return condition.other in self._replicas and leader in {condition.broker, condition.other}
            case Kind.STOPPED:
                return not any(each.kind is Kind.FRESH and each.broker == condition.broker for each in self._conditions)
            case Kind.DISK:
                return condition.blocked_ms > 0 or any(
                    partition == self._key or replica in self._replicas
                    for _, partition, replica in condition.operations
                )
            case _:
                return True

    def _candidates(self, replica: int, leader: int, begin_ms: int, at_ms: int, *, is_fenced: bool) -> list[Condition]:
        return [
            each
            for each in self._conditions
            if each.touches(begin_ms - CLOCKS_MS, at_ms + SLACK_MS)
            and self._fits(each, replica, leader, is_fenced=is_fenced, begin_ms=begin_ms, at_ms=at_ms)
        ]

    def _fits(
        self, condition: Condition, replica: int, leader: int, *, is_fenced: bool, begin_ms: int, at_ms: int
    ) -> bool:
        mine = condition.broker == replica
        # The controller fences, so conditions of the partition's leader do not matter.
        leads = condition.broker == leader and (not is_fenced or replica == leader)
        blocks = condition.blocked_ms > 0
        match condition.kind:
            case Kind.FULL | Kind.DESCRIPTORS:
                return mine and not is_fenced
            case Kind.DAMAGED:
                # Followers cannot copy it.
                return leads and not is_fenced
            case Kind.FAILED:
                return (mine or leads) and not is_fenced
            case Kind.GONE | Kind.STOPPED | Kind.STALL:
                return mine or leads
            case Kind.DISK:
                reads_for = any(waiting == replica for op, _, waiting in condition.operations if op == "read")
                cuts_log = any(op == "cut" and key == self._key for op, key, _ in condition.operations)
                return (mine and (blocks or cuts_log)) or (leads and (blocks or reads_for))
            case Kind.CUT | Kind.SILENT:
                ends = {condition.broker, condition.other}
                # A cut between replicas is the deeper cause, even if one of them is also the controller.
                if {replica, leader} <= ends <= self._replicas:
                    return True
                is_mine = is_fenced and replica in ends and condition.kind is Kind.CUT
                return is_mine and not self._is_unreachable(replica, begin_ms, at_ms)
            case Kind.UNREACHABLE:
                return mine and is_fenced
            case Kind.LATE | Kind.FRESH:
                return mine and not is_fenced
            case Kind.BURST | Kind.THROTTLED:
                # Members are not held back.
                return False
            case _:
                assert_never(condition.kind)

    def _is_unreachable(self, broker: int, begin_ms: int, at_ms: int) -> bool:
        return any(
            each.kind is Kind.UNREACHABLE and each.broker == broker and each.touches(begin_ms, at_ms)
            for each in self._conditions
        )


def _rank(condition: Condition, begin_ms: int, at_ms: int) -> tuple[int, int]:
    depth = -DEPTH.index(condition.kind)
    if condition.kind in {Kind.GONE, Kind.FRESH}:
        return 2, depth
    covered_ms = condition.overlap_ms(begin_ms - CLOCKS_MS, at_ms + CLOCKS_MS)
    if covered_ms >= (at_ms - begin_ms) / 2:
        return 2, depth
    return int(covered_ms >= CLOCKS_MS), depth


def name_of(condition: Condition, leader: int, *, is_fenced: bool = False) -> Cause:
    """Return the name that a condition has as a cause, given which broker led the partition."""
    leads = condition.broker == leader
    match condition.kind:
        case Kind.FULL:
            return Cause.DISK_FULL
        case Kind.DESCRIPTORS:
            return Cause.NO_DESCRIPTORS
        case Kind.DAMAGED:
            return Cause.LOG_DAMAGED
        case Kind.FAILED:
            return Cause.DISK_FAILED
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
            return Cause.FENCED_ALIVE if is_fenced and not leads else Cause.CONTROLLER
        case Kind.LATE:
            return Cause.METADATA_LATE
        case Kind.FRESH:
            return Cause.NEW_REPLICA
        case Kind.BURST:
            return Cause.BURST
        case Kind.THROTTLED:
            return Cause.STARVED if is_starved(condition.numbers) else Cause.THROTTLED
        case Kind.SILENT:
            return Cause.UNKNOWN
        case _:
            assert_never(condition.kind)
