"""Whether a group catches up, and whether retention deletes what it has not read before it does.

One hard idea: both questions are about the same race. The group closes its lag at the speed by which it is faster than
the producers; retention comes nearer by the clock, or by the bytes written. A group that needs longer than retention
will lose records, and that can be said before it happens: not long before, as speeds change.

Units: offsets, bytes, seconds; rates per second; instants in Unix ms. Infinite means never.
Source: Kafka's retention: segments are deleted from the log's start, whole, one after the other.
"""

from math import exp, inf
from typing import Final

from syncline.model.lag import UNKNOWN, OffsetPlace, PartitionEnds

# A rate follows a change with this time constant; what is usual, twenty times as slowly.
NOW_MS: Final = 30_000
USUAL_MS: Final = 600_000
# What was measured longer ago says nothing of now.
_WINDOW_MS: Final = 300_000
# How far ahead a speed of the last minutes is believed.
FORESEEN_S: Final = 3_600.0


def smoothed(rate_per_s: float | None, advance: int, elapsed_ms: int, smoothing_ms: int = NOW_MS) -> float | None:
    """Return a rate after `advance` more offsets in `elapsed_ms`; None after a step back, which is no speed.

    Without a rate before, or after a long silence, what was measured now is the rate.
    """
    assert elapsed_ms >= 0, f"{elapsed_ms} ms have passed"
    assert rate_per_s is None or rate_per_s >= 0, f"a rate of {rate_per_s}"
    if advance < 0:
        return None
    if not elapsed_ms:
        return rate_per_s
    now_per_s = advance * 1_000 / elapsed_ms
    if rate_per_s is None or elapsed_ms >= _WINDOW_MS:
        return now_per_s
    return now_per_s + (rate_per_s - now_per_s) * exp(-elapsed_ms / smoothing_ms)


class Rate:
    """How fast an end moves, from offsets seen at ticks: now, or with `USUAL_MS` as a rule."""

    __slots__ = ("_at_ms", "_offset", "_smoothing_ms", "per_s")

    def __init__(self, smoothing_ms: int = NOW_MS) -> None:
        assert smoothing_ms > 0, f"a rate that follows in {smoothing_ms} ms"
        self._smoothing_ms = smoothing_ms
        self._offset = UNKNOWN
        self._at_ms = UNKNOWN
        # None until it was seen twice, and after a step back.
        self.per_s: float | None = None

    def seen(self, offset: int, at_ms: int) -> None:
        """Record an offset; a tick that is not later than the last one is ignored."""
        assert offset >= 0, f"offset {offset} was seen"
        if self._offset != UNKNOWN:
            if at_ms <= self._at_ms:
                return
            self.per_s = smoothed(self.per_s, offset - self._offset, at_ms - self._at_ms, self._smoothing_ms)
        self._offset, self._at_ms = offset, at_ms


def catch_up_s(lag: int, consumed_per_s: float | None, produced_per_s: float | None) -> float | None:
    """Return after how many seconds `lag` offsets are read; infinite if the group is not faster than producers.

    None if a rate is not known yet.
    """
    assert lag >= 0, f"a lag of {lag}"
    if not lag:
        return 0.0
    if consumed_per_s is None or produced_per_s is None:
        return None
    return lag / (consumed_per_s - produced_per_s) if consumed_per_s > produced_per_s else inf


def retention_margin_s(place: OffsetPlace, ends: PartitionEnds, now_ms: int) -> float:
    """Return for how many seconds retention keeps the record at `place`; at most 0 means until the next clean-up.

    By size, a segment is deleted when all newer ones together have `retention_bytes`. What is written until the active
    segment is full goes to no newer one, so for a record in the active segment the margin is a lower bound.
    """
    margin_s = inf
    if ends.retention_ms >= 0 and place.kept_until_ms != UNKNOWN:
        margin_s = (place.kept_until_ms - now_ms) / 1_000
    if ends.retention_bytes >= 0:
        room_bytes = ends.retention_bytes - (ends.end_bytes - place.segment_end_bytes)
        if room_bytes <= 0:
            margin_s = min(margin_s, 0.0)
        elif ends.written_bytes_per_s > 0:
            margin_s = min(margin_s, room_bytes / ends.written_bytes_per_s)
    return margin_s


def reading_s(lag: int, consumed_per_s: float | None) -> float | None:
    """Return after how many seconds the group has read what is unread now, whatever comes meanwhile."""
    assert lag >= 0, f"a lag of {lag}"
    if not lag:
        return 0.0
    if consumed_per_s is None:
        return None
    return lag / consumed_per_s if consumed_per_s else inf


def loses_data(margin_s: float | None, needed_s: float | None, unread_s: float | None) -> bool:
    """Return whether retention comes first: before the group has caught up, which takes `needed_s`.

    Speeds are those of the last minutes. So nothing is foreseen for more than an hour. And a group that is about as
    fast as producers, now a little slower and now a little faster, will not have caught up for long, and loses nothing
    if it reads what is unread now, which takes `unread_s`, before retention comes to the first of it: the rest is
    kept longer. Without a known margin there is no alarm, without a known speed only if the records go now.
    """
    if margin_s is None:
        return False
    if margin_s <= 0:
        return True
    if needed_s is None or unread_s is None or margin_s > FORESEEN_S:
        return False
    keeps_pace = needed_s > FORESEEN_S or unread_s * 1_000 < NOW_MS
    return margin_s < (unread_s if keeps_pace else needed_s)


def rate_to_save(lag: int, margin_s: float, produced_per_s: float) -> float:
    """Return how many offsets per second the group must read to catch up before retention; infinite if it cannot."""
    assert lag > 0, "a group without lag has nothing to save"
    return lag / margin_s + produced_per_s if margin_s > 0 else inf
