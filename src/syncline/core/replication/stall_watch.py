"""Stall watch: noticing that a watermark does not move although records wait above it.

One hard idea: a stall is seen between two ticks, never on the hot path. The
first tick that finds records above the mark starts the count; a later one that
finds the mark where it was reports it, once per cause, and the end as well.

Units: times in ms of the node's monotonic clock; a report is late by up to one tick.
"""

from collections.abc import Callable

from syncline.core.replication.effects import NOTHING, Effects, WatermarkHeld, WatermarkResumed
from syncline.core.replication.evidence import Evidence, Scalar
from syncline.model.ids import Offset

# The rule that holds a watermark, and the numbers that it compares.
Cause = tuple[str, tuple[tuple[str, Scalar], ...]]


class StallWatch:
    """What the ticks saw of one watermark."""

    __slots__ = ("_mark", "_reported", "_since_ms", "_waits")

    def __init__(self, high_watermark: Offset, now_ms: int) -> None:
        self._mark = high_watermark
        self._since_ms = now_ms
        self._waits = False
        self._reported: Cause | None = None

    def tick(
        self,
        high_watermark: Offset,
        log_end: Offset,
        now_ms: int,
        cause_of: Callable[[int], Cause],
        evidence_of: Callable[[Cause], Evidence],
    ) -> Effects:
        """Return what there is to report; the evidence is gathered only then."""
        waits = high_watermark < log_end
        if high_watermark != self._mark or not (waits and self._waits):
            resumed = WatermarkResumed(high_watermark, now_ms - self._since_ms)
            effects: Effects = NOTHING if self._reported is None else (resumed,)
            self._mark, self._waits, self._since_ms, self._reported = high_watermark, waits, now_ms, None
            return effects
        cause = cause_of(now_ms)
        if cause == self._reported:
            return NOTHING
        self._reported = cause
        return (WatermarkHeld(high_watermark, log_end, self._since_ms, evidence_of(cause)),)
