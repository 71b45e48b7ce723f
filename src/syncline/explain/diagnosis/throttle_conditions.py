"""Throttles: the replicas of a partition that a quota held back.

A sample names what it holds back at its own time, so a replica counts as held from the first sample that names it to
the last one, and still if none has followed.

Units: Unix milliseconds.
"""

from syncline.explain.diagnosis.condition import Condition, Kind
from syncline.explain.diagnosis.history import History
from syncline.model.events import Json, Throttle


def held_back(history: History) -> list[Condition]:
    """Return, for each replica of the partition and each throttle, when it was held back."""
    found: dict[tuple[int, int, str, str, int], Condition] = {}
    for sample in history.throttles:
        series = (int(sample.broker), sample.role, sample.move, sample.since_ms)
        named = {int(name.rpartition("@")[2]) for name in sample.replicas if name.rpartition("@")[0] == history.key}
        for replica in sorted(named):
            condition = found.get((replica, *series))
            if condition is None:
                begin_ms = min(sample.since_ms, sample.ts_ms) if sample.phase == "begin" else sample.ts_ms
                condition = Condition(Kind.THROTTLED, replica, begin_ms, sample.ts_ms, is_over=False)
                found[(replica, *series)] = condition
            condition.end_ms = max(condition.end_ms, sample.ts_ms)
            condition.is_over = False
            condition.numbers = _numbers(sample)
        for (replica, *others), condition in found.items():
            if tuple(others) == series and replica not in named:
                condition.is_over = True
    return list(found.values())


def _numbers(sample: Throttle) -> dict[str, Json]:
    return {
        "by": int(sample.broker),
        "role": sample.role,
        "move": sample.move,
        "mode": sample.mode,
        "quota_bytes_per_s": sample.quota_bytes_per_s,
        "rate_bytes_per_s": sample.rate_bytes_per_s,
        "held": sample.held,
    }
