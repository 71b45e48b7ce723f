"""Throttles: the replicas of a partition that a quota held back, and who got the quota meanwhile.

A sample names what it holds back at its own time, so a replica counts as held from the first sample that names it to
the last one, and still if none has followed.

The quota of rates and lists is shared by all that lists name, so a replica may wait because others get it. It is
*starved by a neighbour's move* while replicas that other moves are adding get at least 30 % of what passes: without
them, the replica could be 1.4 times as fast or more. Two that share fairly get half each, three a third. When that
begins or ends, another condition begins. A move's own throttle has no neighbours: all that it bounds is one move's.

Units: Unix milliseconds; bytes.
"""

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from syncline.explain.diagnosis.condition import Condition, Kind, number
from syncline.explain.diagnosis.history import History
from syncline.model.events import Json, Throttle

# The part of a quota with which neighbours' moves starve others; no two or three that share fairly get just this.
STARVING_SHARE: Final = 0.3


class _Held(NamedTuple):
    """What holds a replica back: the quota of a broker in one role, which has held something since a time."""

    replica: int
    broker: int
    role: str
    move: str
    since_ms: int


def held_back(history: History) -> list[Condition]:
    """Return, for each replica of the partition and each throttle, when it was held back."""
    found: list[Condition] = []
    latest: dict[_Held, Condition] = {}
    for sample in history.throttles:
        series = _Held(-1, int(sample.broker), sample.role, sample.move, sample.since_ms)
        named = {int(name.rpartition("@")[2]) for name in sample.replicas if name.rpartition("@")[0] == history.key}
        taken = _taken(history, sample)
        for replica in sorted(named):
            name = series._replace(replica=replica)
            condition = latest.get(name)
            if condition is None or (taken and is_starved(taken) is not is_starved(condition.numbers)):
                begin_ms = _begin_ms(sample, condition)
                if condition is not None:
                    condition.is_over = True
                condition = latest[name] = Condition(Kind.THROTTLED, replica, begin_ms, sample.ts_ms, is_over=False)
                found.append(condition)
            condition.end_ms = max(condition.end_ms, sample.ts_ms)
            condition.is_over = False
            condition.numbers = _numbers(sample) | _added(condition.numbers, taken)
        for name, condition in latest.items():
            if name._replace(replica=-1) == series and name.replica not in named:
                condition.is_over = True
    return found


def is_starved(numbers: Mapping[str, Json]) -> bool:
    """Return whether moves of others got so much of the quota that they are what the replica waits for."""
    taken_bytes = number(numbers, "taken_bytes")
    return taken_bytes > 0 and number(numbers, "neighbours_bytes") >= STARVING_SHARE * taken_bytes


def _begin_ms(sample: Throttle, before: Condition | None) -> int:
    """Return since when a sample's replica is held as it is; after another condition, since that one's last report."""
    if before is not None:
        return before.end_ms
    return min(sample.since_ms, sample.ts_ms) if sample.phase == "begin" else sample.ts_ms


def _taken(history: History, sample: Throttle) -> dict[str, Json]:
    """Return what passed the quota since the sample before, and what of it neighbours' moves got; {} if unknown."""
    if not sample.taken:
        return {}
    neighbours = list(_neighbours(history, sample))
    found: dict[str, Json] = {
        "taken_bytes": sum(number(row, "bytes") for row in sample.taken),
        "neighbours_bytes": sum(number(row, "bytes") for row in neighbours),
    }
    if neighbours:
        # The first has most.
        found |= {"neighbour": neighbours[0].get("replica"), "neighbour_move": neighbours[0].get("move")}
    return found


def _added(before: Mapping[str, Json], taken: Mapping[str, Json]) -> dict[str, Json]:
    """Return what was taken during a condition so far; its neighbour is the newest one."""
    names = ("taken_bytes", "neighbours_bytes")
    sums: dict[str, Json] = {
        name: max(0, number(before, name)) + max(0, number(taken, name)) for name in names if {*before, *taken} & {name}
    }
    kept = {name: before[name] for name in ("neighbour", "neighbour_move") if name in before}
    return {**kept, **taken, **sums}


def _neighbours(history: History, sample: Throttle) -> Iterator[Mapping[str, Json]]:
    """Yield the rows of replicas that moves other than this partition's are adding; most bytes first."""
    own = _own_move(history, sample.ts_ms)
    for row in sample.taken:
        is_mine = str(row.get("replica")).rpartition("@")[0] == history.key
        if "move" in row and not is_mine and row["move"] != own:
            yield row


def _own_move(history: History, at_ms: int) -> str | None:
    """Return the move that owned the partition's reassignment, "" if it had no id, None if nothing was reassigned."""
    last = next((each for each in reversed(history.reassignments) if each.ts_ms <= at_ms), None)
    return last.move if last is not None and last.phase in {"started", "changed"} else None


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
