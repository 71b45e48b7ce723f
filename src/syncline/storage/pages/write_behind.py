"""What a broker's logs have in memory and not on the disk yet, and which pages of them may go: one plan for one disk.

One hard idea: memory that was never used costs a broker more than writing does, and pages that the kernel has to write
out in a hurry cost its event loop. So write-out keeps pace with the logs, however many they are: a log starts it when
it has grown by a step, and those that have waited longest when all together have much that is new. Behind it, the logs
that this broker leads give pages back in the order in which they were written, whichever log that is, beyond a share
of the memory. A window that a reader will read soon is held beyond that, up to another share. So tail readers find all
in memory, and one that is behind keeps what lies before it. Nothing is held for a reader that has stopped: one that
read nothing while half of the first share was written.

Nothing here waits or knows a clock; files take the hints (`File.write_out`, `File.drop_before`). What another broker on
the same disk does is not known: each keeps little unwritten, so that together they stay below the kernel's limits.

Units: bytes. Invariant: what is gone of a segment is its beginning.
"""

from collections import deque
from collections.abc import Callable
from itertools import islice
from typing import Final, NamedTuple, Protocol, TypeAlias

from syncline.model.ids import Offset
from syncline.storage.segments.segment import Segment

# A log that has grown by so much starts write-out.
STEP_BYTES: Final = 8 << 20
# With so much new in all logs together, those that have waited longest do. The kernel starts at a tenth of the memory.
NEW_BYTES_MAX: Final = 64 << 20
# Of the memory, what led logs keep at least of their newest bytes, and at most for readers that are behind.
_SPARE_SHARE: Final = 32
_HELD_SHARE: Final = 8
SPARE_BYTES_MIN: Final = 64 << 20
# Windows of readers that are looked at again with each new window.
_LOOKS: Final = 4
# With fewer windows, a look for those whose files are closed is not worth its time.
_SWEPT_MIN: Final = 64
# Logs that start write-out after one append, the one that has waited longest first: thousands would take milliseconds.
_LOGS_AT_ONCE: Final = 32

# Finds out how much memory the pages of files may take, off the loop (-1: unknown), and calls back.
AskMemory: TypeAlias = Callable[[Callable[[int | Exception], None]], None]


class Growing(Protocol):
    """A log, to its plan."""

    def write_out(self) -> None:
        """Start write-out of all that is new."""

    def reads_from(self) -> Offset | None:
        """Return the lowest offset that was read lately; None if none was."""


class Window(NamedTuple):
    """A stretch of a log, up to this position and offset."""

    log: Growing
    segment: Segment
    end_position: int
    end_offset: Offset
    size_bytes: int

    @property
    def is_wanted(self) -> bool:
        """Whether a reader has yet to read the end of it."""
        reads_from = self.log.reads_from()
        return reads_from is not None and reads_from < self.end_offset


class WriteBehind:
    """The plan for the logs of one data directory."""

    def __init__(self, ask_memory: AskMemory) -> None:
        self._ask_memory = ask_memory
        # New bytes of all logs, and the logs that have some.
        self._new_bytes = 0
        self._growing: dict[Growing, None] = {}
        self._windows: deque[Window] = deque()
        self._windows_bytes = 0
        self._held: deque[Window] = deque()
        # Which of them is looked at next.
        self._held_at = 0
        self._held_bytes = 0
        # The number of windows at which to look for closed files next: looking at each new one takes quadratic time.
        self._sweep_at = _SWEPT_MIN
        self._since_period = 0
        # Counts periods: while logs that are led get a quarter of `spare_bytes`.
        self.period = 0
        # None: not known yet.
        self._spare_bytes: int | None = None
        self._held_bytes_max = 0
        self._has_asked = False
        self._is_unknown = False

    def __len__(self) -> int:
        return len(self._windows) + len(self._held)

    def grew(self, log: Growing, size_bytes: int, new_bytes: int) -> None:
        """Record that a log got some bytes, and has so many that are new."""
        assert 0 < size_bytes <= new_bytes, f"a log got {size_bytes} bytes, of which {new_bytes} are new"
        if size_bytes == new_bytes:
            self._growing[log] = None
        self._new_bytes += size_bytes
        if new_bytes >= STEP_BYTES:
            del self._growing[log]
            log.write_out()
        elif self._new_bytes >= NEW_BYTES_MAX:
            for each in list(islice(self._growing, _LOGS_AT_ONCE)):
                del self._growing[each]
                each.write_out()

    def forget(self, log: Growing) -> None:
        """Record that a log starts write-out by itself, or is closed."""
        self._growing.pop(log, None)

    def started(self, new_bytes: int) -> None:
        """Record that write-out of so much began, or need not begin any more."""
        self._new_bytes -= new_bytes
        assert self._new_bytes >= 0, f"write-out of {new_bytes} bytes began, more than there were"

    def may_go(self, window: Window) -> None:
        """Record a window that is written out and may be dropped in its turn."""
        assert window.size_bytes > 0, "a window without bytes has nothing to drop"
        if self._is_unknown:
            return
        self._windows.append(window)
        self._windows_bytes += window.size_bytes
        if len(self) >= self._sweep_at:
            self._forget_closed()
        self._since_period += window.size_bytes
        spare_bytes = self._spare_bytes
        if spare_bytes is None:
            if self._windows_bytes > SPARE_BYTES_MIN and not self._has_asked:
                self._has_asked = True
                self._ask_memory(self._learn_memory)
            return
        if self._since_period * 4 >= spare_bytes:
            self._since_period = 0
            self.period += 1
        while self._windows_bytes > spare_bytes:
            self._let_go_or_hold(self._next_window())
        self._look_at_held()

    def _forget_closed(self) -> None:
        """Forget windows whose files are closed, as those of deleted segments are: they have nothing to give back.

        Each keeps a segment with its indexes, and where segments are small, many have fewer bytes than may stay.
        """
        self._windows = deque(each for each in self._windows if each.segment.open_file is not None)
        self._windows_bytes = sum(each.size_bytes for each in self._windows)
        self._held = deque(each for each in self._held if each.segment.open_file is not None)
        self._held_bytes = sum(each.size_bytes for each in self._held)
        self._sweep_at = max(2 * len(self), _SWEPT_MIN)

    def _learn_memory(self, found: int | Exception) -> None:
        if isinstance(found, Exception) or found < 0:
            # As on systems without /proc: all is kept, and the kernel decides.
            self._is_unknown = True
            self._windows.clear()
            self._windows_bytes = 0
            return
        self._spare_bytes = max(SPARE_BYTES_MIN, found // _SPARE_SHARE)
        self._held_bytes_max = found // _HELD_SHARE

    def _next_window(self) -> Window:
        window = self._windows.popleft()
        self._windows_bytes -= window.size_bytes
        assert self._windows_bytes >= 0, "windows have fewer bytes together than one of them"
        return window

    def _let_go_or_hold(self, window: Window) -> None:
        if window.is_wanted:
            self._held.append(window)
            self._held_bytes += window.size_bytes
        else:
            window.segment.drop_before(window.end_position)

    def _look_at_held(self) -> None:
        """Drop what its readers have read, and the oldest if that is too much."""
        held = self._held
        for _ in range(min(_LOOKS, len(held))):
            if self._held_at >= len(held):
                self._held_at = 0
            window = held[self._held_at]
            if window.is_wanted:
                self._held_at += 1
                continue
            del held[self._held_at]
            self._held_bytes -= window.size_bytes
            window.segment.drop_before(window.end_position)
        while self._held_bytes > self._held_bytes_max:
            assert held, f"{self._held_bytes} bytes are held in no window"
            window = held.popleft()
            self._held_bytes -= window.size_bytes
            window.segment.drop_before(window.end_position)
