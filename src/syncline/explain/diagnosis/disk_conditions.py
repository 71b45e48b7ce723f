"""Disks and logs that made a broker unfit: no room, no descriptors, an I/O error, damage.

The broker reports these itself, but it may be unable to write its report, or end before it does. The controller knows
them, too: they are the reasons of its decisions. So a decision stands for the report that is missing.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from syncline.explain.diagnosis.condition import JOIN_MS, Condition, Kind, number
from syncline.explain.diagnosis.history import History, Observed
from syncline.model.events import Json
from syncline.model.impairments import Refusal
from syncline.model.reasons import Reason, reason_of

_KIND_OF_REFUSAL: Final = {Refusal.NO_ROOM.value: Kind.FULL, Refusal.NO_DESCRIPTORS.value: Kind.DESCRIPTORS}
_KIND_OF_REASON: Final = {
    Reason.DISK_FULL: Kind.FULL,
    Reason.NO_DESCRIPTORS: Kind.DESCRIPTORS,
    Reason.LOGS_DAMAGED: Kind.DAMAGED,
    Reason.LOGS_FAILED: Kind.FAILED,
}


def decided_kind(reason: Reason, numbers: Mapping[str, Json]) -> Kind | None:
    """Return what made a broker unfit, according to a decision about it; None if the decision has another reason.

    A process ends because its disk failed: the controller knows the failed logs when it finds the process gone.
    """
    if reason is Reason.PROCESS_GONE and number(numbers, "failed_count") > 0:
        return Kind.FAILED
    return _KIND_OF_REASON.get(reason)


def unfit_brokers(history: History) -> list[Condition]:
    """Return what brokers report of their disks and of this partition's logs, and what only decisions show."""
    found = [condition for each in history.observations if (condition := _reported(each, history.key)) is not None]
    for broker, kind, ts_ms in _decided(history):
        known = (each for each in found if each.kind is kind and each.broker == broker)
        if not any(each.touches(ts_ms - JOIN_MS, ts_ms + JOIN_MS) for each in known):
            found.append(Condition(kind, broker, ts_ms, ts_ms, is_over=False))
    return found


def _reported(observed: Observed, key: str) -> Condition | None:
    event = observed.last
    match event.kind:
        case "writes-refused":
            kind = _KIND_OF_REFUSAL.get(str(event.evidence.get("refusal")))
        case "log-damaged" if f"{event.topic}-{event.partition}" == key:
            kind = Kind.DAMAGED
        case "log-failed":
            # One log's error ends the whole broker.
            kind = Kind.FAILED
        case _:
            kind = None
    if kind is None:
        return None
    return Condition(
        kind,
        event.broker,
        observed.begin_ms,
        observed.end_ms,
        is_over=observed.is_over,
        numbers={**observed.first.evidence, **event.evidence},
    )


def _decided(history: History) -> Iterator[tuple[int, Kind, int]]:
    """Yield (broker, what made it unfit, time) of each decision."""
    for election in history.elections:
        kind = decided_kind(election.reason, election.evidence)
        if kind is not None and election.leader_before >= 0:
            yield election.leader_before, kind, election.ts_ms
    for change in history.isr_changes:
        kind = decided_kind(reason_of(change.evidence.get("reason")), change.evidence)
        if kind is not None:
            for broker in sorted(set(change.before) - set(change.after)):
                yield broker, kind, change.ts_ms
