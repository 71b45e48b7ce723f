"""The lag of one group in one partition in seven numbers, for fifty thousand partitions at once.

One hard idea: a scrape of all groups has a second, and a whole row (`rows.group_row`) with its speeds and its verdict
takes ten times as long as what is exported for each partition. These are the same numbers by the same rules, and tests
compare the two.

Units: offsets, bytes, ms; None is unknown.
"""

from typing import Final, NamedTuple, Protocol

from syncline.core.lag.append_time import staleness_ms
from syncline.model.ids import Offset
from syncline.model.lag import UNKNOWN, PartitionEnds

_make: Final = tuple.__new__


class Placed(Protocol):
    """Where the next record of a group lies: an `OffsetPlace`, or what a slab keeps of one."""

    @property
    def coordinate_bytes(self) -> int:
        """Return the byte coordinate of its batch."""

    @property
    def append_ms(self) -> int:
        """Return when it was appended, -1 unknown."""

    @property
    def event_ms(self) -> int:
        """Return its producer's time, -1 unknown."""


class Brief(NamedTuple):
    """How far a group is behind in one partition."""

    lag_hw: int
    lag_lso: int
    lag_leo: int
    lost: int
    lag_bytes: int | None
    staleness_ms: int | None
    event_lag_ms: int | None


def brief(committed: Offset, ends: PartitionEnds, place: Placed | None) -> Brief:
    """Return the lag of a commit; `place` is that of the first record behind it that still exists, None if unknown."""
    assert committed >= 0, f"offset {committed} is no commit"
    lag_leo = ends.log_end - committed
    lost = ends.log_start - committed if committed < ends.log_start else 0
    if lag_leo <= 0:
        return Brief(0, 0, 0, lost, 0, 0, 0)
    lag_hw = ends.high_watermark - committed if committed < ends.high_watermark else 0
    lag_lso = ends.last_stable - committed if committed < ends.last_stable else 0
    if committed + lost >= ends.log_end:
        return Brief(lag_hw, lag_lso, lag_leo, lost, 0, 0, 0)
    if place is None:
        return Brief(lag_hw, lag_lso, lag_leo, lost, None, None, None)
    append_ms, event_ms, newest_event_ms = place.append_ms, place.event_ms, ends.newest_event_ms
    lag_bytes = ends.end_bytes - place.coordinate_bytes
    late_ms = event_lag_ms = None
    if append_ms != UNKNOWN:
        late_ms = staleness_ms(Offset(committed + lost), ends.high_watermark, append_ms, ends.at_ms)
    if UNKNOWN not in (event_ms, newest_event_ms):
        event_lag_ms = newest_event_ms - event_ms if newest_event_ms > event_ms else 0
    return _make(Brief, (lag_hw, lag_lso, lag_leo, lost, max(0, lag_bytes), late_ms, event_lag_ms))
