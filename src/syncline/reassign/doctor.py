"""Why a move does not progress: findings, each with the number that proves it.

Causes are looked for in this order, since one hides those after it: nobody serves the partition; nobody receives it;
one of the two does not answer; there is no room; the throttle is below what keeping up takes, be it for new replicas or
for in-sync followers that KIP-73 counts, too; and if what is copied is far below the throttle, the throttle is not the
cause.
Units: bytes, bytes per second, seconds.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Final, NamedTuple, assert_never

from syncline.model.ids import TopicPartition
from syncline.reassign.amounts import rate_words, size_words, span_words
from syncline.reassign.formulas import Part, Role

# A throttle whose tenth at most is left for copying deserves a warning.
THIN_MARGIN: Final = 0.10
# A copy that uses less than this part of its quota is held back by something else.
UNUSED: Final = 0.5
# What was measured for less proves nothing of a copy: under a throttle, bytes come some two times per second, and
# batches are sent whole, so that they must have had time for two of the largest usual ones.
MEASURED_S_MIN: Final = 0.9
MEASURED_BYTES_MIN: Final = 2 << 20


class Cause(StrEnum):
    """What holds a copy back."""

    NO_LEADER = "no-leader"
    DESTINATION_DOWN = "destination-down"
    DOES_NOT_ANSWER = "does-not-answer"
    NO_ROOM = "no-room"
    THROTTLE_TOO_LOW = "throttle-too-low"
    STARVED_BY_IN_SYNC = "starved-by-in-sync"
    THIN_MARGIN = "thin-margin"
    NOT_THE_THROTTLE = "not-the-throttle"


class Copy(NamedTuple):
    """One new replica that has not everything yet."""

    key: TopicPartition
    leader: int
    destination: int
    remaining_bytes: int


class BrokerView(NamedTuple):
    """What is known of a broker; -1 bytes is unknown. One that is silent seems to run, and does not answer."""

    is_alive: bool
    usable_bytes: int = -1
    silent_s: float | None = None
    is_silent: bool = False

    @property
    def answers(self) -> bool:
        """Return whether it says what it has."""
        return self.is_alive and not self.is_silent


class PartView(NamedTuple):
    """What a broker does in one role: its quota, what keeping up takes of it, and what was measured.

    `in_sync_bytes_per_s` is the part of the keep-up that goes to in-sync followers. `nothing_moved_s` is for how long
    the broker has moved nothing in this role, as it says itself; None if it does not.
    """

    quota_bytes_per_s: float
    keep_up_bytes_per_s: float
    in_sync_bytes_per_s: float = 0.0
    measured_bytes_per_s: float | None = None
    remaining_bytes: int = 0
    is_progressing: bool = True
    nothing_moved_s: float | None = None


class Finding(NamedTuple):
    """A cause, whom it concerns, and the numbers: has is what there is, needs is what there must be."""

    cause: Cause
    broker: int
    role: Role | None = None
    has: float = 0.0
    needs: float = 0.0
    keys: tuple[TopicPartition, ...] = ()


def diagnose(
    copies: Sequence[Copy],
    brokers: Mapping[int, BrokerView],
    parts: Mapping[Part, PartView],
    *,
    measured_s: float = math.inf,
) -> list[Finding]:
    """Return what holds the copies back, the worst first; empty if nothing does.

    `measured_s` is how long rates were measured: after too short a time a copy that got nothing is not suspicious,
    unless its broker says that nothing came before either.
    """
    unfinished = [copy for copy in copies if copy.remaining_bytes > 0]
    # A destination that is down may hold all that was written, and nobody may know what a leader that is down had; the
    # move waits for both nevertheless.
    down = _grouped((copy.destination, copy.key) for copy in copies if not _is_alive(brokers, copy.destination))
    leaderless = _grouped((-1, copy.key) for copy in copies if not _is_alive(brokers, copy.leader))
    findings = [Finding(Cause.NO_LEADER, broker, keys=keys) for broker, keys in leaderless.items()]
    findings += [
        Finding(Cause.DESTINATION_DOWN, broker, has=_silence(brokers, broker), keys=keys)
        for broker, keys in down.items()
    ]
    silent = _grouped(
        (broker, copy.key)
        for copy in copies
        for broker in (copy.leader, copy.destination)
        if broker in brokers and brokers[broker].is_silent
    )
    findings += [Finding(Cause.DOES_NOT_ANSWER, broker, keys=keys) for broker, keys in silent.items()]
    findings += _without_room(unfinished, brokers)
    explained = {finding.broker for finding in findings}
    waiting = waiting_parts(unfinished, brokers)
    for part, view in parts.items():
        if view.remaining_bytes > 0 and part.broker not in explained:
            is_sure = is_proved(view, measured_s) and part not in waiting
            findings += [
                each for each in _of_throttle(part, view) if is_sure or each.cause is not Cause.NOT_THE_THROTTLE
            ]
    order = list(Cause)
    return sorted(findings, key=lambda each: (order.index(each.cause), each.broker, each.role or ""))


def waiting_parts(copies: Iterable[Copy], brokers: Mapping[int, BrokerView]) -> set[Part]:
    """Return the parts all of whose copies wait for a broker that is down or silent: their rates say nothing."""
    waiting: dict[Part, bool] = {}
    for copy in copies:
        waits = not all(each in brokers and brokers[each].answers for each in (copy.leader, copy.destination))
        for part in (Part(copy.leader, Role.SENDING), Part(copy.destination, Role.RECEIVING)):
            waiting[part] = waiting.get(part, True) and waits
    return {part for part, waits in waiting.items() if waits}


def is_proved(view: PartView, measured_s: float) -> bool:
    """Return whether a measurement of this length proves that a part gets little: something would have come."""
    # What a broker says of itself counts like a measurement that found nothing.
    known_s = max(measured_s, view.nothing_moved_s or 0.0)
    return known_s >= MEASURED_S_MIN and known_s * view.quota_bytes_per_s >= MEASURED_BYTES_MIN


def without_chance(view: PartView, measured_s: float) -> PartView:
    """Return what a broker does, without a rate that says nothing: between two batches every copy stands still."""
    measured = view.measured_bytes_per_s
    is_idle = not view.is_progressing and measured is not None and measured < UNUSED * view.quota_bytes_per_s
    return view._replace(measured_bytes_per_s=None) if is_idle and not is_proved(view, measured_s) else view


def sentence(finding: Finding, *, is_over: bool = False) -> str:
    """Return a finding in words; `is_over` if it is told afterwards."""
    broker, role = finding.broker, finding.role
    match finding.cause:
        case Cause.NO_LEADER:
            if is_over:
                return f"{_listed(finding.keys)} had no running leader, so no broker sent the records."
            has = "has" if len(finding.keys) == 1 else "have"
            return f"{_listed(finding.keys)} {has} no running leader, so no broker sends the records."
        case Cause.DESTINATION_DOWN:
            if is_over:
                down = "was down" if math.isinf(finding.has) else f"was down for {span_words(finding.has)}"
                return f"broker {broker} {down}, and {_listed(finding.keys)} waited for it."
            down = "is down" if math.isinf(finding.has) else f"has been down for {span_words(finding.has)}"
            wait = "waits" if len(finding.keys) == 1 else "wait"
            return f"broker {broker} {down}, and {_listed(finding.keys)} {wait} for it."
        case Cause.DOES_NOT_ANSWER:
            wait = "waits" if len(finding.keys) == 1 else "wait"
            return (
                f"broker {broker} does not answer. If it is paused or cut off, {_listed(finding.keys)} {wait} for it."
            )
        case Cause.NO_ROOM:
            return (
                f"broker {broker} has room for {size_words(finding.has)}, but has yet to receive "
                f"{size_words(finding.needs)}."
            )
        case Cause.THROTTLE_TOO_LOW:
            return (
                f"broker {broker} needs more than {rate_words(finding.needs)} for {role}: keep-up traffic "
                f"alone takes {rate_words(finding.needs)}, but the throttle is {rate_words(finding.has)}."
            )
        case Cause.STARVED_BY_IN_SYNC:
            return (
                f"broker {broker} needs more than {rate_words(finding.needs)} for {role}: in-sync followers "
                f"count, too, and use up the throttle of {rate_words(finding.has)} before new replicas get "
                "any of it."
            )
        case Cause.THIN_MARGIN:
            return (
                f"broker {broker} uses {rate_words(finding.needs)} of {rate_words(finding.has)} for {role} "
                "just to keep up, which leaves little for copying."
            )
        case Cause.NOT_THE_THROTTLE:
            does = "sends" if role is Role.SENDING else "receives"
            if math.isinf(finding.needs):
                return (
                    f"broker {broker} {does} {rate_words(finding.has)}, only enough to keep up, and no "
                    "throttle limits it: its disk, its network or the other side is slow."
                )
            return (
                f"broker {broker} {does} {rate_words(finding.has)}, far below its throttle of "
                f"{rate_words(finding.needs)}: its disk, its network or the other side is slower."
            )
        case unknown:
            assert_never(unknown)


def _of_throttle(part: Part, view: PartView) -> list[Finding]:
    quota, keep_up = view.quota_bytes_per_s, view.keep_up_bytes_per_s
    if math.isinf(quota):
        if not view.is_progressing and view.measured_bytes_per_s is not None:
            return [Finding(Cause.NOT_THE_THROTTLE, part.broker, part.role, view.measured_bytes_per_s, quota)]
        return []
    if quota <= keep_up:
        is_starved = view.in_sync_bytes_per_s > 0 and quota > keep_up - view.in_sync_bytes_per_s
        cause = Cause.STARVED_BY_IN_SYNC if is_starved else Cause.THROTTLE_TOO_LOW
        return [Finding(cause, part.broker, part.role, quota, keep_up)]
    measured = view.measured_bytes_per_s
    if not view.is_progressing and measured is not None and measured < UNUSED * quota:
        return [Finding(Cause.NOT_THE_THROTTLE, part.broker, part.role, measured, quota)]
    if (quota - keep_up) / quota < THIN_MARGIN:
        return [Finding(Cause.THIN_MARGIN, part.broker, part.role, quota, keep_up)]
    return []


def _without_room(copies: Iterable[Copy], brokers: Mapping[int, BrokerView]) -> list[Finding]:
    wanted: dict[int, int] = {}
    for copy in copies:
        wanted[copy.destination] = wanted.get(copy.destination, 0) + copy.remaining_bytes
    return [
        Finding(Cause.NO_ROOM, broker, has=brokers[broker].usable_bytes, needs=size)
        for broker, size in wanted.items()
        if broker in brokers and 0 <= brokers[broker].usable_bytes < size
    ]


def _is_alive(brokers: Mapping[int, BrokerView], broker: int) -> bool:
    return broker in brokers and brokers[broker].is_alive


def _silence(brokers: Mapping[int, BrokerView], broker: int) -> float:
    silent_s = brokers[broker].silent_s if broker in brokers else None
    return math.inf if silent_s is None else silent_s


def _grouped(pairs: Iterable[tuple[int, TopicPartition]]) -> dict[int, tuple[TopicPartition, ...]]:
    groups: dict[int, dict[TopicPartition, None]] = {}
    for broker, key in pairs:
        groups.setdefault(broker, {})[key] = None
    return {broker: tuple(sorted(keys)) for broker, keys in groups.items()}


def _listed(keys: Sequence[TopicPartition]) -> str:
    named = ", ".join(map(str, keys[:3]))
    return named if len(keys) <= 3 else f"{named} and {len(keys) - 3} more partitions"
