"""Which moves a journal knows: those with an id, and what was requested without one.

Requests of Kafka's tool make no move. Reassignments without an id that overlap in time are told as one, as nothing else
tells them apart.

Units: Unix milliseconds.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from syncline.model.events import Event, Move, Reassignment
from syncline.model.ids import TopicPartition

_OPEN: Final = frozenset({"started", "changed"})


@dataclass(slots=True)
class MoveSpan:
    """One move: its events in order of time, and when it began and ended (None: not yet)."""

    move_id: str
    started_ms: int
    ended_ms: int | None = None
    records: list[Move] = field(default_factory=list)
    reassignments: list[Reassignment] = field(default_factory=list)
    # Partitions whose reassignment is in progress.
    running: dict[TopicPartition, None] = field(default_factory=dict)

    @property
    def keys(self) -> list[TopicPartition]:
        """Return its partitions, sorted."""
        return sorted({key_of(each) for each in self.reassignments})

    @property
    def copies(self) -> bool:
        """Return whether it had replicas to copy, or may have: it runs."""
        return self.ended_ms is None or any(each.adding for each in self.reassignments)


def key_of(event: Reassignment) -> TopicPartition:
    """Return the partition of an event."""
    return TopicPartition(event.topic, event.partition)


def moves_of(events: Iterable[Event]) -> list[MoveSpan]:
    """Return the moves that events tell of, in the order of their beginnings."""
    found: list[MoveSpan] = []
    open_spans: dict[str, MoveSpan] = {}
    for event in sorted((e for e in events if isinstance(e, Move | Reassignment)), key=_order):
        if isinstance(event, Reassignment):
            _leave_others(event, open_spans)
        span = open_spans.get(event.move)
        if span is None:
            if isinstance(event, Reassignment) and event.phase not in _OPEN and not _is_instant(event):
                # Its beginning is older than what was read.
                continue
            span = open_spans[event.move] = MoveSpan(event.move, event.ts_ms)
            found.append(span)
        if isinstance(event, Move):
            span.records.append(event)
            is_over = event.phase == "ended"
        else:
            span.reassignments.append(event)
            if event.phase in _OPEN:
                span.running[key_of(event)] = None
            else:
                span.running.pop(key_of(event), None)
            # The event of a move itself says when it is over, where there is one.
            is_over = not span.running and not (event.move and span.records)
        if is_over:
            span.ended_ms = event.ts_ms
            del open_spans[event.move]
    return found


def _leave_others(event: Reassignment, open_spans: dict[str, MoveSpan]) -> None:
    """End the partition's part in any other move: this one has taken it over."""
    for move_id, span in list(open_spans.items()):
        if move_id != event.move and span.running.pop(key_of(event), False) is None:
            span.reassignments.append(event)
            if not move_id and not span.running:
                span.ended_ms = event.ts_ms
                del open_spans[move_id]


def _is_instant(event: Reassignment) -> bool:
    """Return whether a completed reassignment had nothing to wait for: it was never in progress."""
    return event.phase == "completed" and not event.adding


# Of one moment: a move begins before its reassignments, and ends after them.
_PHASES: Final = {"started": 0, "changed": 1, "completed": 2, "cancelled": 2, "ended": 3}


def _order(event: Move | Reassignment) -> tuple[int, int]:
    return event.ts_ms, _PHASES[event.phase]


def chosen(moves: Sequence[MoveSpan], move_id: str | None) -> MoveSpan | None:
    """Return the last move of a name or id; without one, the last that had something to copy, or the last of all.

    A request that finds all replicas where they should be, as of a plan that is executed twice, hides no move. None if
    there is none.
    """
    if move_id is None:
        return next((span for span in reversed(moves) if span.copies), moves[-1] if moves else None)
    for span in reversed(moves):
        if move_id == span.move_id or any(each.name == move_id for each in span.records):
            return span
    return None
