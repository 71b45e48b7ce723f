"""Effects, records and logs in the words of a trace: one line each, the same in every run."""

from collections.abc import Iterable
from typing import assert_never

from syncline.core.replication.effects import (
    Effect,
    HighWatermarkAdvanced,
    IsrChange,
    IsrCommitted,
    IsrRefused,
    ProposeIsr,
    ProtectionChanged,
    RelinquishSkipped,
    WatermarkHeld,
    WatermarkResumed,
)
from syncline.core.replication.evidence import Evidence, FollowerView
from syncline.core.replication.follower import (
    AskLeaderEnd,
    AskLeaderStart,
    AwaitMetadata,
    FollowerEffect,
    FollowerFailed,
    RestartLog,
    TruncateLog,
)
from syncline.model.ids import NONE
from syncline.model.metadata import PartitionRecord, Recovery
from tests.core.replicas import FetchAnswer, MemoryLog


def ids(brokers: Iterable[int]) -> str:
    """Return broker ids as a list."""
    return ",".join(map(str, brokers)) or "none"


def records(found: Iterable[tuple[int, str]]) -> str:
    """Return records as value@epoch."""
    return " ".join(f"{value}@{epoch}" for epoch, value in found) or "nothing"


def log(found: MemoryLog, high_watermark: int) -> str:
    """Return a log; what lies below the replica's own watermark stands in brackets."""
    count = high_watermark - found.log_start
    below, above = found.records[:count], found.records[count:]
    start = f"from {found.log_start} " if found.log_start else ""
    return f"{start}[{records(below) if below else ''}]{' ' + records(above) if above else ''}"


# What the lines around a decision say already.
SAID_ELSEWHERE = frozenset(
    ("now_ms", "broker_epoch", "epoch_start_offset", "arrival_ms", "parked_ms", "order", "offset")
)


def because(evidence: Evidence) -> str:
    """Return a decision's rule and the numbers that it compared."""
    shown = [(name, value) for name, value in evidence.numbers if value is not None and name not in SAID_ELSEWHERE]
    numbers = " ".join(f"{name}={value}" for name, value in shown)
    return f"{evidence.rule} ({numbers})" if numbers else evidence.rule


def follower(view: FollowerView) -> str:
    """Return what a leader knew of a follower."""
    caught_up = "never" if view.last_caught_up_ms is None else f"at {view.last_caught_up_ms} ms"
    return f"{view.broker_id} is at {view.log_end} and was last caught up {caught_up}"


def effect(found: Effect) -> list[str]:
    """Return what a leader decided."""
    match found:
        case HighWatermarkAdvanced(mark):
            return [f"moves the high watermark to {mark}"]
        case ProposeIsr():
            verb = {IsrChange.SHRINK: "shrink", IsrChange.EXPAND: "expand", IsrChange.RELINQUISH: "relinquish"}
            line = f"proposes ISR {ids(found.broker_ids)} ({verb[found.kind]}): {because(found.evidence)}"
            views = found.evidence.followers if found.kind is IsrChange.SHRINK else ()
            return [line, *(f"  {follower(view)}" for view in views)]
        case IsrCommitted():
            what = f"the ISR is {ids(found.after)} instead of {ids(found.before)}"
            return [f"{what} ({found.kind.value}, partition epoch {found.partition_epoch})"]
        case IsrRefused():
            proposed = ids(found.proposal.broker_ids)
            return [f"its proposal of ISR {proposed} is refused: {found.error.name}; {found.outcome.value}"]
        case WatermarkHeld():
            return [f"high watermark {found.high_watermark} is held below {found.log_end}: {because(found.evidence)}"]
        case WatermarkResumed():
            return [f"high watermark {found.high_watermark} moves again after {found.held_ms} ms"]
        case ProtectionChanged():
            return [f"protection of {found.broker_id} {found.phase.value}: {because(found.evidence)}"]
        case RelinquishSkipped():
            return [f"does not relinquish: {because(found.evidence)}"]
        case _:
            assert_never(found)


def follower_effect(found: FollowerEffect) -> str:
    """Return what a follower decided."""
    match found:
        case TruncateLog():
            return f"truncates its log to {found.offset}: {found.evidence.rule}"
        case RestartLog():
            return f"drops its log and starts again at {found.start_offset}: {found.evidence.rule}"
        case AskLeaderEnd():
            return "asks its leader for the log end"
        case AskLeaderStart():
            return "asks its leader for the log start"
        case AwaitMetadata():
            return "waits for metadata: its leader knows a newer epoch"
        case FollowerFailed():
            return f"stops fetching: {found.reason}"
        case _:
            assert_never(found)


def answer(found: FetchAnswer) -> str:
    """Return what a follower gets."""
    if found.error:
        return found.error.name
    if found.diverging is not None:
        return f"no records: epoch {found.diverging.leader_epoch} ends at {found.diverging.end_offset}"
    return f"{records(found.records)}; the leader's high watermark is {found.high_watermark}"


def partition(found: PartitionRecord) -> str:
    """Return the controller's record of the partition."""
    leader = "no leader" if found.leader == NONE else f"leader {found.leader}"
    parts = [f"{leader}, leader epoch {found.leader_epoch}, ISR {ids(found.isr)}"]
    if found.elr:
        parts.append(f"ELR {ids(found.elr)}")
    if found.last_known_elr:
        parts.append(f"last leader {ids(found.last_known_elr)}")
    if found.recovery is Recovery.RECOVERING:
        parts.append("recovering")
    return ", ".join((*parts, f"partition epoch {found.partition_epoch}"))
