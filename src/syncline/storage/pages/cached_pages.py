"""The page cache of one log: how much of it is new, from where it is read, and how much of it stays.

One hard idea: a read is remembered as one number. Readers go forward, so what they will read next is all that lies
above the lowest offset read lately; "lately" is counted in bytes written (`write_behind.py`), which needs no clock.

Units: bytes, offsets.
"""

from typing import Final

from syncline.model.ids import Offset
from syncline.storage.pages.write_behind import Window, WriteBehind
from syncline.storage.segments.segment_list import SegmentList

# Instead of a number of bytes to keep, as `page.cache.leader.budget.bytes` has them: all; and what readers want, within
# what all such logs share.
ALL: Final = -1
WANTED: Final = -2
# Less than this is no window of its own: thousands of logs would have too many.
WINDOW_BYTES_MIN: Final = 256 << 10


class CachedPages:
    """The pages of one log."""

    __slots__ = (
        "_behind",
        "_keep_bytes",
        "_new_bytes",
        "_period",
        "_read_before",
        "_read_now",
        "_segments",
        "_window_bytes",
        "is_counted",
    )

    def __init__(self, segments: SegmentList, behind: WriteBehind) -> None:
        self._segments = segments
        self._behind = behind
        self._new_bytes = 0
        self._window_bytes = 0
        self._period = behind.period
        self._read_now: Offset | None = None
        self._read_before: Offset | None = None
        self.keep_bytes = ALL

    @property
    def keep_bytes(self) -> int:
        """How many of the newest bytes stay in the page cache, ALL or WANTED."""
        return self._keep_bytes

    @keep_bytes.setter
    def keep_bytes(self, keep_bytes: int) -> None:
        assert keep_bytes >= WANTED, f"a log keeps {keep_bytes} bytes"
        self._keep_bytes = keep_bytes
        # A log of which so many bytes are kept takes the same few pages all the time, and pushes nothing else out.
        self.is_counted = keep_bytes < 0

    def wrote(self, size_bytes: int) -> None:
        """Record that the log has grown."""
        self._new_bytes += size_bytes
        self._behind.grew(self, size_bytes, self._new_bytes)

    def roll(self) -> None:
        """Record that the next byte goes to another segment."""
        self._behind.forget(self)
        self.write_out(is_last=True)

    def close(self) -> None:
        """Record that the log is closed: it has nothing to write out any more."""
        self._behind.forget(self)
        self._behind.started(self._new_bytes)
        self._new_bytes = 0

    def was_read(self, offset: Offset) -> None:
        """Record that something was read from here on."""
        if self._period != self._behind.period:
            self._turn()
        if self._read_now is None or offset < self._read_now:
            self._read_now = offset

    def reads_from(self) -> Offset | None:
        """Return the lowest offset that was read in this period or the one before; None if none was."""
        if self._period != self._behind.period:
            self._turn()
        if self._read_now is None or self._read_before is None:
            return self._read_before if self._read_now is None else self._read_now
        return min(self._read_now, self._read_before)

    def _turn(self) -> None:
        period = self._behind.period
        self._read_before = self._read_now if self._period + 1 == period else None
        self._read_now, self._period = None, period

    def write_out(self, *, is_last: bool = False) -> None:
        """Start write-out of what is new, and give back what need not stay; `is_last`: the segment does not grow on."""
        size_bytes, self._new_bytes = self._new_bytes, 0
        self._behind.started(size_bytes)
        segment = self._segments.active
        file = segment.open_file
        if file is None:
            return
        file.write_out(is_last=is_last)
        if self._keep_bytes == WANTED:
            self._window_bytes += size_bytes
            if self._window_bytes >= (1 if is_last else WINDOW_BYTES_MIN):
                window = Window(self, segment, segment.size_bytes, segment.end_offset, self._window_bytes)
                self._window_bytes = 0
                self._behind.may_go(window)
        elif self._keep_bytes != ALL:
            segment.drop_before(segment.size_bytes - self._keep_bytes)
