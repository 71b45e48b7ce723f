"""What a read tells of the lag of its reader: by subtraction, from what was known when the read began.

One hard idea: a fetch that has found its first batch knows all that lag is made of, so it does not search the log
again. It notes first what may change while a worker reads (the end of the log, its newest time, what was written to
all logs), and adds afterwards what the worker finds (the place of the batch, and when it came). What is noted are
numbers that are at hand; what they mean is worked out later, for many reads in a row, which takes a third of the time.

Units: byte coordinates as in `byte_lag.py`, times are Unix milliseconds, -1 unknown. Source: KIP-489.
"""

from typing import Final, NamedTuple, TypeAlias

from syncline.core.lag.append_time import STEP_MS, time_found
from syncline.model.ids import NONE
from syncline.storage.arrivals.append_time_search import AppendTimeSearch
from syncline.storage.arrivals.append_times import Floor, Found
from syncline.storage.disk import Residency

# The distance of what the page cache did not keep, however large it is.
DROPPED: Final = 1 << 62

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
    """What this broker has since written to logs whose pages stay; DROPPED if the batch's own pages did not."""
    is_estimated: bool
    """Whether `append_ms` lies in a gap."""


# What of a log changes with every append: the coordinate of its end, its newest event time, and the bytes that this
# broker has written to all logs whose pages stay, until now and when this log got its last batch. Then whether this log
# is one of those.
LogState: TypeAlias = tuple[int, int, int, int, bool]


# What a read notes: the arguments of `facts_of`.
Noted: TypeAlias = tuple[LogState, int, int, Floor | None, int]


def facts_of(
    state: LogState, base_bytes: int, position_bytes: int, floor: Floor | None, dropped_to: int = 0
) -> ReadFacts:
    """Return what a read tells whose first batch lies at this position of its segment.

    `base_bytes` are those of the segments before, `floor` is the entry of the batch, or the last one before. The pages
    of the segment below `dropped_to` are gone.
    """
    coordinate_bytes = base_bytes + position_bytes
    end_bytes, newest_ms, written_bytes, last_written_bytes, is_kept = state
    assert coordinate_bytes < end_bytes, f"a batch was read at {coordinate_bytes}, and the log ended at {end_bytes}"
    append_ms = distance_bytes = NONE
    is_estimated = False
    if floor is not None:
        append_ms, next_ms, floor_position, before_bytes, next_position, next_before_bytes = floor
        behind_bytes = position_bytes - floor_position
        if behind_bytes > 0:
            if next_position < 0:
                next_position, next_before_bytes = end_bytes - base_bytes, last_written_bytes
            if next_before_bytes > before_bytes:
                # Between the two this log and the others were written in turn.
                before_bytes += (next_before_bytes - before_bytes) * behind_bytes // (next_position - floor_position)
            elif is_kept:
                before_bytes += behind_bytes
        distance_bytes = written_bytes - before_bytes
        if not is_kept:
            # What this log has got since is in none of these numbers.
            distance_bytes += end_bytes - coordinate_bytes
        if distance_bytes < 0:  # noqa: PLR1730
            # A broker that crashed may have forgotten some of what it had written.
            distance_bytes = 0
        if append_ms < 0:
            append_ms, is_estimated = time_found(
                ~append_ms, next_ms if next_ms >= 0 else None, is_entry=False, is_whole=False
            )
        elif behind_bytes:
            # As `time_found` has it, in line: each fetch comes here.
            latest_ms = append_ms + STEP_MS
            append_ms = (append_ms + (next_ms if 0 <= next_ms < latest_ms else latest_ms)) // 2
    if position_bytes < dropped_to:
        distance_bytes = DROPPED
    return _make(ReadFacts, (end_bytes, coordinate_bytes, newest_ms, append_ms, distance_bytes, is_estimated))


class ReadReport(Residency):
    """What is found out about a read that a worker does: it fills this in, and the loop looks at it afterwards."""

    __slots__ = ("base_bytes", "dropped_to", "position_bytes", "state", "times")

    def __init__(self, state: LogState, times: Found | AppendTimeSearch | None, dropped_to: int = 0) -> None:
        super().__init__(reads_ahead=True)
        self.dropped_to = dropped_to
        # Of the log before the read.
        self.state = state
        # When the first of the batches came, or what a worker needs to find that out. None: unknown.
        self.times = times
        # Where the bytes lie in their segment, and the bytes of the segments before it.
        self.position_bytes = 0
        self.base_bytes = 0

    def located(self, base_bytes: int, position_bytes: int) -> None:
        """Record where the bytes lie."""
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

    def noted(self) -> Noted:
        """Return what the read has noted, once its bytes are there."""
        found = self.times
        floor = None
        if isinstance(found, Found):
            entry = found.entry
            floor = (entry.append_ms, found.next_ms, entry.position, entry.written_bytes, entry.position, NONE)
        return self.state, self.base_bytes, self.position_bytes, floor, self.dropped_to
