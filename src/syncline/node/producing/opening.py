"""Opening: batches whose records must be read before they are appended, in a worker thread.

A leader opens few batches: those for compacted topics, those with timestamps in doubt, and large ones whose records
differ in size (`records.validate`). Reading a record takes microseconds, and a batch of a megabyte may have half a
million, so it happens beside the loop. One batch at a time: the threads are there for the disk, and one of them at
work takes enough of the interpreter's time.

Ownership: the worker reads and changes the batch where it lies, in the receive buffer. The connection receives
nothing more until the request is answered (`Connection.wait_for`).
"""

from collections import deque
from collections.abc import Callable
from typing import TypeAlias

from syncline.records.batch import BatchHeader

Work: TypeAlias = Callable[[], BatchHeader]
Opened: TypeAlias = Callable[[BatchHeader | Exception], None]
# Runs a function beside the loop, and calls another one on the loop with its result or exception: `Disk.run_later`.
RunLater: TypeAlias = Callable[[Work, Opened], None]


class Opening:
    """The batches of one broker that wait to be opened."""

    def __init__(self, run_later: RunLater, settle: Callable[[], None]) -> None:
        self._run_later = run_later
        # Answers the parked requests that an opened batch has made answerable.
        self._settle = settle
        self._waiting: deque[tuple[Work, Opened]] = deque()

    def submit(self, work: Work, opened: Opened) -> None:
        """Have `work` done after what was submitted before; `opened` gets its result or exception, on the loop."""
        self._waiting.append((work, opened))
        if len(self._waiting) == 1:
            self._begin()

    def _begin(self) -> None:
        work, _ = self._waiting[0]
        self._run_later(work, self._done)

    def _done(self, result: BatchHeader | Exception) -> None:
        assert self._waiting, "a result of nothing that was submitted"
        _, opened = self._waiting[0]
        try:
            opened(result)
        finally:
            self._waiting.popleft()
            if self._waiting:
                self._begin()
        self._settle()
