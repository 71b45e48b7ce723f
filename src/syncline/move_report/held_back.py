"""What held a move back, moment by moment: the doctor of `syncline reassign status`, asked afterwards.

It gets for each bin what `status` measures live: what is left, what keeping up takes, the throttle, and which brokers
are alive. Bins with one finding in a row are a stretch; a finding of a single bin may be noise, and is left out. A
broker was down from when the controller last heard of it, and not only from when it was given up.

Units: Unix milliseconds, bytes, bytes per second.
"""

import math
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from syncline.model.events import BrokerState
from syncline.model.ids import NONE
from syncline.move_report.bins import Grid
from syncline.move_report.copies import History
from syncline.move_report.facts import PartFacts, Stretch
from syncline.reassign.doctor import BrokerView, Cause, Copy, Finding, PartView, diagnose, sentence
from syncline.reassign.formulas import Part

_BINS_MIN: Final = 2
# Rates are means of so many bins, as traffic comes in waves.
_MEAN_OF: Final = 3
_DEAD: Final = frozenset({"fenced", "shutdown"})


def stretches(
    parts: Sequence[PartFacts], copies: Sequence[History], states: Sequence[BrokerState], grid: Grid
) -> tuple[Stretch, ...]:
    """Return the stretches in order of time."""
    by_name: dict[tuple[object, ...], list[tuple[int, Finding]]] = {}
    for index, end_ms in enumerate(grid.ends_ms):
        unfinished = _unfinished(copies, end_ms)
        views = {
            each.part: _view(each, index) for each in parts if each.is_copying[index] and each.remaining_bytes[index]
        }
        brokers = _brokers(parts, copies, states, end_ms)
        for finding in diagnose(unfinished, brokers, views, measured_s=_MEAN_OF * grid.bin_ms / 1_000):
            by_name.setdefault((finding.cause, finding.broker, finding.role, finding.keys), []).append((index, finding))
    by_part = {each.part: each for each in parts}
    found = [
        _stretch(run, _first_bin(run, by_part), grid)
        for findings in by_name.values()
        for run in _runs(findings)
        if len(run) >= _BINS_MIN
    ]
    return tuple(sorted(found, key=lambda each: (each.start_ms, each.end_ms, each.sentence)))


def _view(part: PartFacts, index: int) -> PartView:
    low = max(0, index + 1 - _MEAN_OF)
    near = [at for at in range(low, index + 1) if part.is_copying[at]]
    quota = part.quotas[index]
    keep_up = sum(part.keep_up[at] for at in near) / len(near)
    measured = sum(part.rates[at] for at in near) / len(near)
    return PartView(
        math.inf if quota is None else quota,
        keep_up,
        measured_bytes_per_s=measured,
        remaining_bytes=part.remaining_bytes[index],
        is_progressing=measured > keep_up,
    )


def _unfinished(copies: Iterable[History], at_ms: int) -> list[Copy]:
    """Return the copies that are under way at a moment, as the doctor needs them."""
    found = []
    for history in copies:
        copy = history.copy
        until_ms = copy.joined_ms if copy.joined_ms is not None else copy.ended_ms
        if copy.started_ms >= at_ms or (until_ms is not None and until_ms < at_ms):
            continue
        reported = bisect_right(history.received, at_ms, key=lambda each: each.at_ms)
        if reported:
            last = history.received[reported - 1]
            found.append(Copy(copy.key, last.leader, copy.destination, last.lag_bytes))
    return found


def _brokers(
    parts: Iterable[PartFacts], copies: Iterable[History], states: Iterable[BrokerState], at_ms: int
) -> Mapping[int, BrokerView]:
    """Return which brokers are alive: all whose last state, and the silence before the next one, say nothing else."""
    down_since_ms: dict[int, int] = {}
    for state in states:
        if state.state in _DEAD:
            since_ms = state.ts_ms - _silent_ms(state)
            if since_ms <= at_ms:
                down_since_ms.setdefault(int(state.subject), since_ms)
        elif state.state == "unfenced" and state.ts_ms <= at_ms:
            down_since_ms.pop(int(state.subject), None)
    named = {each.part.broker for each in parts} | {history.copy.destination for history in copies}
    return {
        broker: BrokerView(is_alive=False, silent_s=(at_ms - down_since_ms[broker]) / 1_000)
        if broker in down_since_ms
        else BrokerView(is_alive=True)
        for broker in named
    }


def _silent_ms(state: BrokerState) -> int:
    """Return for how long the controller had not heard of a broker when it gave it up; 0 if it does not say."""
    silent_ms = state.evidence.get("silent_ms")
    return silent_ms if isinstance(silent_ms, int) else 0


def _runs(findings: Sequence[tuple[int, Finding]]) -> list[list[tuple[int, Finding]]]:
    """Return findings of bins that follow each other, together; one bin may be missing between."""
    runs: list[list[tuple[int, Finding]]] = []
    for index, finding in findings:
        if not runs or index - runs[-1][-1][0] > _BINS_MIN:
            runs.append([])
        runs[-1].append((index, finding))
    return runs


def _first_bin(run: Sequence[tuple[int, Finding]], parts: Mapping[Part, PartFacts]) -> int:
    """Return where a stretch begins: a mean finds a standstill only when its last bin stands still as well."""
    first, finding = run[0]
    if finding.cause is not Cause.NOT_THE_THROTTLE or finding.role is None:
        return first
    part, found = parts[Part(finding.broker, finding.role)], first
    while found > max(0, first + 1 - _MEAN_OF) and part.is_copying[found - 1] and part.rates[found - 1] <= finding.has:
        found -= 1
    return found


def _stretch(run: Sequence[tuple[int, Finding]], first: int, grid: Grid) -> Stretch:
    """Return a stretch; its numbers are the means of its bins."""
    findings = [finding for _, finding in run]
    mean = findings[0]._replace(
        has=max(each.has for each in findings) if _is_silence(findings) else _mean(each.has for each in findings),
        needs=_mean(each.needs for each in findings),
    )
    begin_ms, end_ms = grid.start_ms + first * grid.bin_ms, grid.start_ms + (run[-1][0] + 1) * grid.bin_ms
    return Stretch(
        begin_ms, end_ms, None if mean.broker == NONE else mean.broker, mean.role, sentence(mean, is_over=True)
    )


def _is_silence(findings: Sequence[Finding]) -> bool:
    return findings[0].role is None


def _mean(values: Iterable[float]) -> float:
    known = list(values)
    return sum(known) / len(known)
