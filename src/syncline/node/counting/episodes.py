"""Unusual conditions, reported to the journal in few events.

One hard idea: a condition is reported when it begins, at intervals that double
while it lasts (so that an outage of days takes few more events than one of
minutes), and when it ends. Each event contains when the condition began, so a
reader of only one of them knows it, too.

Times in ms of the node's monotonic clock; events carry Unix time.
"""

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from typing import Final, Literal

from syncline.model.events import Event, Json, Observation
from syncline.model.ids import NONE, BrokerId, TopicPartition
from syncline.node.clock import Clock

FIRST_REPORT_MS: Final = 1_000


@dataclass(slots=True)
class _Open:
    """A reported condition that has not ended."""

    kind: str
    subject: BrokerId
    key: TopicPartition | None
    since_ms: int
    since_wall_ms: int
    report_ms: int
    pause_ms: int = FIRST_REPORT_MS


class Episodes:
    """The open conditions of one broker."""

    def __init__(self, broker_id: BrokerId, clock: Clock, note: Callable[[Event], None]) -> None:
        self._broker_id = broker_id
        self._clock = clock
        self._note = note
        self._open: dict[Hashable, _Open] = {}

    def __len__(self) -> int:
        return len(self._open)

    def is_open(self, name: Hashable) -> bool:
        """Return whether a condition was reported and has not ended."""
        return name in self._open

    def names(self) -> list[Hashable]:
        """Return the names of the open conditions."""
        return list(self._open)

    def hold(
        self,
        name: Hashable,
        kind: str,
        subject: int,
        since_ms: int,
        evidence: Callable[[], Mapping[str, Json]],
        key: TopicPartition | None = None,
    ) -> None:
        """Report a condition that holds now, if a report is due; only then is `evidence` called."""
        now_ms = self._clock.mono_ms()
        known = self._open.get(name)
        if known is None:
            since_wall_ms = self._clock.wall_ms() - (now_ms - since_ms)
            known = _Open(kind, BrokerId(subject), key, since_ms, since_wall_ms, now_ms + FIRST_REPORT_MS)
            self._open[name] = known
            self._report(known, "begin", now_ms, evidence())
        elif now_ms >= known.report_ms:
            known.pause_ms *= 2
            known.report_ms = now_ms + known.pause_ms
            self._report(known, "ongoing", now_ms, evidence())

    def end(self, name: Hashable, evidence: Callable[[], Mapping[str, Json]] = dict) -> None:
        """Report that a condition has ended; do nothing if it is not open."""
        known = self._open.pop(name, None)
        if known is not None:
            self._report(known, "end", self._clock.mono_ms(), evidence())

    def over(
        self,
        kind: str,
        subject: int,
        since_ms: int,
        until_ms: int,
        evidence: Mapping[str, Json],
        key: TopicPartition | None = None,
    ) -> None:
        """Report a condition that was noticed only after its end."""
        since_wall_ms = self._clock.wall_ms() - (self._clock.mono_ms() - since_ms)
        self._report(_Open(kind, BrokerId(subject), key, since_ms, since_wall_ms, 0), "end", until_ms, evidence)

    def _report(
        self, known: _Open, phase: Literal["begin", "ongoing", "end"], until_ms: int, evidence: Mapping[str, Json]
    ) -> None:
        self._note(
            Observation(
                ts_ms=self._clock.wall_ms(),
                broker=self._broker_id,
                kind=known.kind,
                subject=known.subject,
                phase=phase,
                since_ms=known.since_wall_ms,
                lasted_ms=until_ms - known.since_ms,
                topic="" if known.key is None else known.key.topic,
                partition=NONE if known.key is None else known.key.partition,
                evidence=evidence,
            )
        )
