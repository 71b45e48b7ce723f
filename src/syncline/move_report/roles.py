"""What each broker sent and received for a move in each bin of time, against what bounded it.

Units: bytes, bytes per second; Unix milliseconds.
"""

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Final

from syncline.model.events import Throttle
from syncline.move_report.bins import Grid
from syncline.move_report.copies import History, Received
from syncline.move_report.facts import Level, PartFacts, Step
from syncline.reassign.formulas import Part, Role

# A bin that a part copied for less than this part of has no rate.
_COVERED_MIN: Final = 0.25
_ROLE_OF: Final[Mapping[str, Role]] = {"leader": Role.SENDING, "follower": Role.RECEIVING}


def part_facts(
    copies: Sequence[History], throttles: Sequence[Throttle], steps: Sequence[Step], move_id: str, grid: Grid
) -> tuple[PartFacts, ...]:
    """Return the brokers that sent or received, senders first; `steps` is the move's own throttle."""
    senders = {Part(each.leader, Role.SENDING) for history in copies for each in history.received}
    receivers = {Part(history.copy.destination, Role.RECEIVING) for history in copies if history.received}
    found = []
    for part in (*sorted(senders), *sorted(receivers)):
        mine = [some for history in copies if (some := _of(part, history))]
        samples = [
            each
            for each in throttles
            if Part(int(each.broker), _ROLE_OF[each.role]) == part and each.move in {"", move_id}
        ]
        found.append(_part(part, mine, samples, steps, grid))
    # What was copied within a moment has no rate.
    return tuple(each for each in found if any(each.is_copying))


def _of(part: Part, history: History) -> list[Received]:
    if part.role is Role.RECEIVING:
        return list(history.received) if history.copy.destination == part.broker else []
    return [each for each in history.received if each.leader == part.broker]


def _part(
    part: Part, mine: Sequence[Sequence[Received]], samples: Sequence[Throttle], steps: Sequence[Step], grid: Grid
) -> PartFacts:
    received = [each for some in mine for each in some]
    copied = grid.spread((each.start_ms, each.at_ms, each.copied_bytes) for each in received)
    added = grid.spread((each.start_ms, each.at_ms, each.added_bytes) for each in received)
    covered_ms = _covered_ms(mine, grid)
    listed = [Step(each.ts_ms, each.quota_bytes_per_s) for each in samples if not each.move]
    middles = [end_ms - grid.bin_ms // 2 for end_ms in grid.ends_ms]
    ratios = [each.ratio for each in samples if each.phase == "ongoing"]
    return PartFacts(
        part,
        rates=_per_s(copied, covered_ms),
        keep_up=_per_s(added, covered_ms),
        quotas=tuple(_lower(_bound_at(steps, at_ms), _bound_at(listed, at_ms)) for at_ms in middles),
        remaining_bytes=tuple(sum(_lag_at(some, end_ms) for some in mine) for end_ms in grid.ends_ms),
        is_copying=tuple(ms > 0 for ms in covered_ms),
        levels=_levels(received, steps, listed),
        held_share=sum(ratios) / len(ratios) if ratios else None,
    )


def _levels(received: Sequence[Received], steps: Sequence[Step], listed: Sequence[Step]) -> tuple[Level, ...]:
    """Return the times under one throttle, from the first byte's interval to the last one's."""
    begin_ms, end_ms = min(each.start_ms for each in received), max(each.at_ms for each in received)
    inner = {step.at_ms for step in (*steps, *listed) if begin_ms < step.at_ms < end_ms}
    levels: list[Level] = []
    for start_ms, until_ms in pairwise(sorted({begin_ms, end_ms} | inner)):
        bound = _lower(_bound_at(steps, start_ms), _bound_at(listed, start_ms))
        copied = sum(each.copied_bytes * _share(each, start_ms, until_ms) for each in received)
        added = sum(each.added_bytes * _share(each, start_ms, until_ms) for each in received)
        level = Level(start_ms, until_ms, bound, copied, added)
        if levels and levels[-1].bound == bound:
            before = levels.pop()
            level = Level(before.start_ms, until_ms, bound, before.copied_bytes + copied, before.added_bytes + added)
        levels.append(level)
    return tuple(levels)


def _share(received: Received, start_ms: int, end_ms: int) -> float:
    """Return which part of an interval lies between two moments."""
    common_ms = min(received.at_ms, end_ms) - max(received.start_ms, start_ms)
    return max(common_ms, 0) / (received.at_ms - received.start_ms)


def _covered_ms(mine: Sequence[Sequence[Received]], grid: Grid) -> list[float]:
    """Return how much of each bin a part copied; 0 for so little that its rate would be chance."""
    found = [0.0] * grid.bin_count
    for some in mine:
        covered = grid.spread((each.start_ms, each.at_ms, each.at_ms - each.start_ms) for each in some)
        found = [max(one, other) for one, other in zip(found, covered, strict=True)]
    return [ms if ms >= _COVERED_MIN * grid.bin_ms else 0.0 for ms in found]


def _per_s(amounts: Sequence[float], covered_ms: Sequence[float]) -> tuple[float, ...]:
    return tuple(amount * 1_000 / ms if ms else 0.0 for amount, ms in zip(amounts, covered_ms, strict=True))


def _lag_at(received: Sequence[Received], at_ms: int) -> int:
    """Return what a copy lacks at a moment: as of the last report, and before the first, as of its beginning."""
    reported = bisect_right(received, at_ms, key=lambda each: each.at_ms)
    return received[reported - 1].lag_bytes if reported else received[0].lag_bytes + received[0].copied_bytes


def _bound_at(steps: Sequence[Step], at_ms: int) -> float | None:
    """Return the bound of a moment; before the first step the first one, since nothing moved earlier."""
    passed = [each for each in steps if each.at_ms <= at_ms]
    step = passed[-1] if passed else steps[0] if steps else None
    return None if step is None or step.bytes_per_s is None else float(step.bytes_per_s)


def _lower(one: float | None, other: float | None) -> float | None:
    bounds = [each for each in (one, other) if each is not None]
    return min(bounds, default=None)
