"""The journal's events of what the controller has committed, in their order, many of them in slices.

A topic of ten thousand partitions is one decision and ten thousand elections, which together would hold the loop for
forty milliseconds.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from syncline.core.cluster.decision_events import events_of
from syncline.model.events import Election, Event
from syncline.model.ids import BrokerId
from syncline.node.clock import Clock
from syncline.node.controller.commits import Decided

log = logging.getLogger("syncline.controller")

# Events made and noted in one turn of the loop: takes 1 to 2 ms.
SLICE: Final = 250


class DecisionJournal:
    """Notes the events of one controller's decisions."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, clock: Clock, writer: BrokerId, on_event: Callable[[Event], None]
    ) -> None:
        self._loop = loop
        self._clock = clock
        self._writer = writer
        self._on_event = on_event
        # The events of committed decisions that are still to be noted.
        self._waiting: deque[Iterator[Event]] = deque()
        self._is_busy = False
        # For the metrics: elections that may have lost records.
        self.unclean_election_count = 0

    def committed(self, done: Sequence[Decided]) -> None:
        """Note the events of decisions, now or in the next turns of the loop."""
        ts_ms = self._clock.wall_ms()
        for decided in done:
            self._waiting.append(
                events_of(
                    decided.replaced,
                    decided.changes,
                    why=decided.why,
                    proposed_by_leader=decided.proposed_by_leader,
                    writer=self._writer,
                    ts_ms=ts_ms,
                )
            )
        if not self._is_busy:
            self._slice()

    def _slice(self) -> None:
        self._is_busy = True
        left = SLICE
        while self._waiting and left:
            left -= 1
            try:
                self._note_next()
            except Exception:
                # The events of other decisions follow.
                log.exception("events of a decision are missing in the journal")
                self._waiting.popleft()
        self._is_busy = bool(self._waiting)
        if self._is_busy:
            self._loop.call_soon(self._slice)

    def _note_next(self) -> None:
        event = next(self._waiting[0], None)
        if event is None:
            self._waiting.popleft()
            return
        if isinstance(event, Election) and not event.clean:
            self.unclean_election_count += 1
        self._on_event(event)
