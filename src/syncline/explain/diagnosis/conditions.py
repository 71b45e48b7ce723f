"""All conditions of a history, each only if no other condition explains it.

One hard idea: several brokers see the same trouble under different names. A paused broker is silent to its leader,
heartbeats late, and cannot reach the controller. So the deepest conditions come first, and what they explain is
dropped: a death explains a silence, a silence explains no death.
"""

from typing import Final

from syncline.explain.diagnosis.broker_conditions import (
    deaths,
    fresh_logs,
    late_metadata,
    slow_disks,
    stalls,
    stops,
    unreachable_controllers,
)
from syncline.explain.diagnosis.condition import JOIN_MS, Condition, Kind, number
from syncline.explain.diagnosis.connection_conditions import cuts
from syncline.explain.diagnosis.disk_conditions import unfit_brokers
from syncline.explain.diagnosis.history import History
from syncline.explain.diagnosis.throttle_conditions import held_back

BURST_RECORDS: Final = 1_000
# A burst has at least this many times the usual number of records.
BURST_FACTOR: Final = 5


def conditions_of(history: History) -> list[Condition]:
    """Return what was wrong, ordered by beginning, without conditions that a deeper one explains."""
    disks = slow_disks(history)
    deep = [*deaths(history), *stalls(history, disks), *stops(history)]
    blocking = [*deep, *(each for each in disks if each.blocked_ms)]
    late = late_metadata(history, blocking)
    cut = cuts(history, [*deep, *disks], late)
    unreachable = unreachable_controllers(history, blocking)
    late = [
        each for each in late if not any(other.broker == each.broker and other.explains(each) for other in unreachable)
    ]
    found = [*deep, *disks, *late, *cut, *unreachable, *fresh_logs(history, late), *_bursts(history)]
    found += [*unfit_brokers(history), *held_back(history)]
    return sorted(found, key=lambda each: each.begin_ms)


def _bursts(history: History) -> list[Condition]:
    """Return the times when clients wrote much more than usual."""
    found: list[Condition] = []
    inflows = sorted(
        each.inflow_records
        for each in {each.ts_ms: each for each in history.progress}.values()
        if each.inflow_records >= 0
    )
    usual = inflows[len(inflows) // 4] if len(inflows) >= 4 else 0
    for sample in history.progress:
        if sample.inflow_records < max(BURST_RECORDS, BURST_FACTOR * usual):
            continue
        begin_ms = sample.ts_ms - max(0, sample.interval_ms)
        if found and begin_ms <= found[-1].end_ms + JOIN_MS:
            numbers = found[-1].numbers
            found[-1].end_ms = sample.ts_ms
            numbers["inflow_records"] = max(number(numbers, "inflow_records"), sample.inflow_records)
        else:
            numbers = {"inflow_records": sample.inflow_records, "usual_records": usual}
            found.append(Condition(Kind.BURST, sample.broker, begin_ms, sample.ts_ms, numbers=numbers))
    return found
