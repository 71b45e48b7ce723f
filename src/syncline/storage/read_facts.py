"""What a read tells of the lag of its reader: by subtraction, from what was known when the read began.

One hard idea: a fetch that has found its first batch knows all that lag is made of, so it does not search the log
again. It notes first what may change while a worker reads (the end of the log, its newest time, what was written to
all logs), and adds afterwards what the worker finds (the place of the batch, and when it came).

Units: byte coordinates as in `byte_lag.py`, times are Unix milliseconds, -1 unknown. Source: KIP-489.
"""

from typing import Final, NamedTuple, TypeAlias

from syncline.core.lag.append_time import time_found
from syncline.model.ids import NONE
from syncline.storage.append_time_search import AppendTimeSearch
from syncline.storage.append_times import Floor, Found

_make: Final = tuple.__new__  # A named tuple's own constructor takes three times as long.


class ReadFacts(NamedTuple):
    """What a read tells of its first batch and of its log, at the moment when the read began."""

    end_bytes: int
    """Coordinate of the log end."""
    coordinate_bytes: int
    newest_event_ms: int
    """The largest time that a producer has set, of the newest segment that has one."""
    append_ms: int
    distance_bytes: int
    """What this broker has written to all its logs since the batch came."""
    is_estimated: bool
    """Whether `append_ms` lies in a gap."""


# What of a log changes with every append: the coordinate of its end, its newest event time, and the bytes that this
# broker has written to all its logs.
LogState: TypeAlias = tuple[int, int, int]


def facts_of(state: LogState, base_bytes: int, position_bytes: int, floor: Floor | None) -> ReadFacts:
    """Return what a read tells whose first batch lies at this position of its segment.

    `base_bytes` are those of the segments before, `floor` is the entry of the batch, or the last one before.
    """
    coordinate_bytes = base_bytes + position_bytes
    end_bytes, newest_ms, written_bytes = state
    assert coordinate_bytes < end_bytes, f"a batch was read at {coordinate_bytes}, and the log ended at {end_bytes}"
    append_ms = distance_bytes = NONE
    is_estimated = False
    if floor is not None:
        append_ms, next_ms, floor_position, before_bytes = floor
        # The bytes of this log between the entry and the batch were written before the batch, too.
        distance_bytes = written_bytes - before_bytes
        if position_bytes > floor_position:
            distance_bytes -= position_bytes - floor_position
        # A broker that crashed may have forgotten some of what it had written.
        distance_bytes = max(0, distance_bytes)
        if append_ms < 0 or position_bytes != floor_position:
            is_whole = append_ms >= 0
            append_ms, is_estimated = time_found(
                append_ms if is_whole else ~append_ms,
                next_ms if next_ms >= 0 else None,
                is_entry=False,
                is_whole=is_whole,
            )
    return _make(ReadFacts, (end_bytes, coordinate_bytes, newest_ms, append_ms, distance_bytes, is_estimated))


class ReadReport:
    """What is found out about a read that a worker does: it fills this in, and the loop looks at it afterwards."""

    __slots__ = ("base_bytes", "position_bytes", "state", "times")

    def __init__(self, state: LogState, times: Found | AppendTimeSearch | None) -> None:
        # Of the log before the read.
        self.state = state
        # When the first of the batches came, or what a worker needs to find that out. None: unknown.
        self.times = times
        # Where the bytes lie in their segment, and the bytes of the segments before it.
        self.position_bytes = 0
        self.base_bytes = 0

    def located(self, base_bytes: int, position_bytes: int) -> None:
        """Take note of where the bytes lie."""
        assert base_bytes >= 0 <= position_bytes, f"bytes at {position_bytes} of a segment that begins at {base_bytes}"
        self.base_bytes, self.position_bytes = base_bytes, position_bytes

    def search(self) -> None:
        """Look up when the first batch came, if that is still open; may wait for the disk."""
        if isinstance(self.times, AppendTimeSearch):
            try:
                self.times = self.times.run()
            except OSError:
                # The read itself succeeds or fails without it.
                self.times = None

    def facts(self) -> ReadFacts:
        """Return what the read tells, once its bytes are there."""
        found = self.times
        floor = None
        if isinstance(found, Found):
            entry = found.entry
            floor = (entry.append_ms, found.next_ms, entry.position, entry.written_bytes)
        return facts_of(self.state, self.base_bytes, self.position_bytes, floor)
