"""From the journal's events to the facts of a report: series in bins of time, the throttle's steps, what held back.

The page shows a little time before the move and after it, as far as the journal has it, so that a reader sees what
clients felt without it.

Units: Unix milliseconds, bytes, bytes per second.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from syncline.model.events import (
    Acknowledgements,
    BrokerState,
    Election,
    Event,
    FollowerProgress,
    IsrChange,
    Throttle,
)
from syncline.model.ids import NONE, TopicPartition
from syncline.model.reasons import Reason
from syncline.move_report.bins import Grid
from syncline.move_report.copies import endings, histories, usual_interval_ms
from syncline.move_report.facts import Ending, Facts, Mark, Step, Wait
from syncline.move_report.held_back import stretches
from syncline.move_report.moves import MoveSpan
from syncline.move_report.roles import part_facts
from syncline.reassign.amounts import rate_words, span_words

# A bin has one of these lengths, and there are at most so many: more could not be told apart.
_BINS_MS: Final = (1_000, 2_000, 5_000, 10_000, 30_000, 60_000, 300_000, 900_000, 3_600_000)
_BINS_MAX: Final = 150
# How much of its own length is shown before and after a move, at most this long.
_MARGIN: Final = 0.15
_MARGIN_MAX_MS: Final = 60_000
_MARGIN_MIN_MS: Final = 3_000
# More throttles than these are seen in their line alone.
_STEPS_MAX: Final = 4
# More marks would hide each other.
_MARKS_MAX: Final = 12
_STATES: Final = {"fenced": "is gone", "unfenced": "is back", "shutdown": "stops"}
_ENDS: Final = {
    Ending.COMPLETED: "complete",
    Ending.MIXED: "over",
    Ending.CANCELLED: "cancelled",
    Ending.OVERTAKEN: "taken over",
    Ending.RUNNING: "goes on",
}


@dataclass(slots=True)
class _Sorted:
    """The events of a window, by their kinds."""

    progress: list[FollowerProgress] = field(default_factory=list)
    joins: list[IsrChange] = field(default_factory=list)
    throttles: list[Throttle] = field(default_factory=list)
    waits: list[Acknowledgements] = field(default_factory=list)
    states: list[BrokerState] = field(default_factory=list)
    elections: list[Election] = field(default_factory=list)


def window_of(span: MoveSpan, now_ms: int) -> tuple[int, int]:
    """Return from when to when events matter to a report."""
    ended_ms = now_ms if span.ended_ms is None else span.ended_ms
    margin_ms = min(max(round((ended_ms - span.started_ms) * _MARGIN), _MARGIN_MIN_MS), _MARGIN_MAX_MS)
    return span.started_ms - margin_ms, ended_ms + margin_ms


def facts_of(span: MoveSpan, events: Iterable[Event], now_ms: int) -> Facts:
    """Return the facts of a move; `events` are those of its window, of its partitions and brokers at least."""
    sorted_events = _sorted(events, set(span.keys))
    start_ms, end_ms = _shown(span, sorted_events, now_ms)
    copies = histories(span, sorted_events.progress, sorted_events.joins, sorted_events.elections)
    bin_ms = _bin_ms(end_ms - start_ms, usual_interval_ms([each.received for each in copies]))
    # A bin begins with the move, as its throttle does.
    start_ms = span.started_ms + (start_ms - span.started_ms) // bin_ms * bin_ms
    count = max(1, -(-(end_ms - start_ms) // bin_ms))
    steps = _steps(span)
    grid = Grid(start_ms, bin_ms, count)
    parts = part_facts(copies, sorted_events.throttles, steps, span.move_id, grid)
    brokers = {each.part.broker for each in parts}
    last = span.records[-1] if span.records else None
    return Facts(
        move_id=span.move_id,
        name=last.name if last is not None else "",
        goal=_goal(span),
        ending=_ending(span),
        started_ms=span.started_ms,
        ended_ms=span.ended_ms,
        start_ms=start_ms,
        end_ms=end_ms,
        bin_ms=bin_ms,
        copies=tuple(each.copy for each in copies),
        parts=parts,
        steps=steps,
        waits=_waits(sorted_events.waits, grid),
        marks=_marks(span, steps, sorted_events, brokers, end_ms),
        held_back=stretches(parts, copies, sorted_events.states, grid),
        reassigned=endings(span),
    )


def _sorted(events: Iterable[Event], keys: set[TopicPartition]) -> _Sorted:
    found = _Sorted()
    seen: set[tuple[object, ...]] = set()
    for event in sorted(events, key=lambda each: each.ts_ms):
        match event:
            case FollowerProgress():
                # A retry may have written it twice.
                name = (event.ts_ms, event.broker, event.topic, event.partition, event.follower)
                if TopicPartition(event.topic, event.partition) in keys and name not in seen:
                    seen.add(name)
                    found.progress.append(event)
            case IsrChange():
                if TopicPartition(event.topic, event.partition) in keys:
                    found.joins.append(event)
            case Election():
                if TopicPartition(event.topic, event.partition) in keys:
                    found.elections.append(event)
            case Throttle():
                found.throttles.append(event)
            case Acknowledgements():
                if (event.ts_ms, event.broker) not in seen:
                    seen.add((event.ts_ms, event.broker))
                    found.waits.append(event)
            case BrokerState():
                found.states.append(event)
            case _:
                pass
    return found


def _shown(span: MoveSpan, events: _Sorted, now_ms: int) -> tuple[int, int]:
    """Return the time that is shown: the move, and what the journal has of its margins."""
    low, high = window_of(span, now_ms)
    ended_ms = now_ms if span.ended_ms is None else span.ended_ms
    times = [*(each.ts_ms for each in events.waits), *(each.ts_ms for each in events.progress)]
    seen = [at for at in times if low <= at <= high]
    start_ms = max(low, min([span.started_ms, *(at - 1_000 for at in seen)]))
    end_ms = min(high, max([ended_ms, *seen]))
    return start_ms, max(end_ms, start_ms + 1_000)


def _bin_ms(span_ms: int, interval_ms: int) -> int:
    # Samples are taken a little later than their interval says.
    return next((each for each in _BINS_MS if 1.2 * each >= interval_ms and span_ms <= each * _BINS_MAX), _BINS_MS[-1])


def _goal(span: MoveSpan) -> str:
    last = span.records[-1] if span.records else None
    if last is None or not last.control:
        return ""
    if last.control == "deadline":
        return f"to end {span_words((last.deadline_ms - span.started_ms) / 1000)} after it began"
    return f"so that clients wait at most {last.impact_percent} % longer"


def _ending(span: MoveSpan) -> Ending:
    if span.ended_ms is None:
        return Ending.RUNNING
    how = set(endings(span).values())
    return how.pop() if len(how) == 1 else Ending.MIXED


def _steps(span: MoveSpan) -> tuple[Step, ...]:
    """Return the throttle of the move over time, each change once."""
    found: list[Step] = []
    for record in span.records:
        bound = None if record.throttle_bytes_per_s == NONE else record.throttle_bytes_per_s
        if record.phase != "ended" and (not found or found[-1].bytes_per_s != bound):
            found.append(Step(record.ts_ms, bound))
    return tuple(found)


def _waits(samples: Sequence[Acknowledgements], grid: Grid) -> tuple[Wait, ...]:
    """Return for each bin what the broker whose clients waited longest reported."""
    worst: dict[int, Acknowledgements] = {}
    for sample in samples:
        index = grid.index_of(sample.ts_ms)
        if index is not None and (index not in worst or _length(worst[index]) < _length(sample)):
            worst[index] = sample
    return tuple(
        Wait(each.ts_ms, int(each.broker), each.count, each.p50_ms, each.p99_ms, each.max_ms)
        for _, each in sorted(worst.items())
    )


def _length(sample: Acknowledgements) -> tuple[int, int]:
    return sample.p99_ms, sample.max_ms


def _marks(
    span: MoveSpan, steps: Sequence[Step], events: _Sorted, brokers: Iterable[int], end_ms: int
) -> tuple[Mark, ...]:
    """Return what happened to the move: its begin, other throttles, its end; and brokers that went or came back."""
    begins = f"begins at {_bound(steps[0])}" if steps and steps[0].bytes_per_s is not None else "move begins"
    found = [Mark(span.started_ms, begins)]
    if len(steps) <= _STEPS_MAX:
        found += [Mark(each.at_ms, f"throttle {_bound(each)}") for each in steps[1:]]
    if span.ended_ms is not None:
        found.append(Mark(span.ended_ms, f"move {_ENDS[_ending(span)]}"))
    known = {*brokers}
    for state in events.states:
        if state.subject in known and span.started_ms <= state.ts_ms <= end_ms and state.state in _STATES:
            found.append(Mark(state.ts_ms, f"broker {state.subject} {_STATES[state.state]}"))
    for election in events.elections:
        is_own = election.reason is Reason.REASSIGNMENT_COMPLETED
        is_change = election.leader_before != election.leader_after
        if span.started_ms < election.ts_ms < end_ms and is_change and not is_own:
            where = f"{election.topic}-{election.partition}"
            leader = "has no leader" if election.leader_after == NONE else f"led by broker {election.leader_after}"
            found.append(Mark(election.ts_ms, f"{where} {leader}"))
    return tuple(sorted(found)[:_MARKS_MAX])


def _bound(step: Step) -> str:
    return "removed" if step.bytes_per_s is None else rate_words(step.bytes_per_s)
