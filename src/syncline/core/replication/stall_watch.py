"""Stall watch: detects that a watermark does not move although records wait above it.

One hard idea: two ticks detect a stall, at no cost to the hot path. The first
tick that finds records above the mark records where it is; a later one that finds
it there reports the stall, once per cause, and a further one reports its end.

Units: times in ms of the node's monotonic clock; a report is late by up to one tick.
"""

from syncline.core.replication import watermark
from syncline.core.replication.effects import NOTHING, Effects, WatermarkHeld, WatermarkResumed
from syncline.core.replication.evidence import Scalar
from syncline.core.replication.in_sync_set import InSyncSet
from syncline.core.replication.lag_policy import LagPolicy
from syncline.model.ids import Offset

# The rule that holds a watermark, and the numbers that the rule compares.
Cause = tuple[str, tuple[tuple[str, Scalar], ...]]


class StallWatch:
    """What the ticks saw of one watermark."""

    __slots__ = ("_mark", "_reported", "_since_ms", "_waits", "is_stalled")

    def __init__(self, high_watermark: Offset, now_ms: int) -> None:
        self._mark = high_watermark
        self._since_ms = now_ms
        self._waits = False
        self._reported: Cause | None = None
        self.is_stalled = False

    def __repr__(self) -> str:
        stalled = f", stalled by {self._reported}" if self.is_stalled else ""
        return f"StallWatch({self._mark} since {self._since_ms}{stalled})"

    def tick(self, high_watermark: Offset, log_end: Offset, now_ms: int) -> Effects:
        """Compare the watermark with the last tick's; return the report that a reported stall has ended."""
        assert high_watermark >= self._mark, f"the watermark went back from {self._mark} to {high_watermark}"
        waits = high_watermark < log_end
        self.is_stalled = waits and self._waits and high_watermark == self._mark
        if self.is_stalled:
            return NOTHING
        resumed = WatermarkResumed(high_watermark, now_ms - self._since_ms)
        effects: Effects = NOTHING if self._reported is None else (resumed,)
        self._mark, self._waits, self._since_ms, self._reported = high_watermark, waits, now_ms, None
        return effects

    def report(self, cause: Cause, log_end: Offset, in_sync: InSyncSet) -> Effects:
        """Return the report of a stall, if its cause is new; only then gather the evidence."""
        assert self.is_stalled, f"nothing to report: {self!r}"
        if cause == self._reported:
            return NOTHING
        self._reported = cause
        return (WatermarkHeld(self._mark, log_end, self._since_ms, in_sync.evidence(*cause)),)


def cause_of_stall(
    high_watermark: Offset,
    log_end: Offset,
    in_sync: InSyncSet,
    lag: LagPolicy,
    *,
    min_isr_gate: int,
    now_ms: int,
) -> Cause:
    """Return which rule or replica holds the watermark; an ISR smaller than `min_isr_gate` commits nothing."""
    isr_size = len(in_sync.committed)
    if isr_size < min_isr_gate:
        return "held:min-isr", (("isr_size", isr_size), ("effective_min_isr", min_isr_gate))
    holders = [follower for follower in in_sync.followers if follower.log_end <= high_watermark]
    members = [follower.broker_id for follower in holders if follower.counts]
    if members:
        return "held:isr-member", (("holders", ",".join(map(str, members))),)
    near = [one.broker_id for one in holders if watermark.holds_back(one, log_end, lag, in_sync.brokers, now_ms)]
    return "held:near-isr", (("holders", ",".join(map(str, near))),)
