"""Freeing page cache behind the writer.

One hard idea: a log is written once and, on a follower, hardly ever read; still
every byte of it takes a fresh page of memory, and on many machines a fresh page
costs more than writing it out. A helper thread starts write-out early, waits
for the previous window to be written, and drops it: appends then reuse the same
few pages. It also spreads write-out evenly, so that no write waits for a burst. What
is written out and dropped, and when, is planned elsewhere (`write_behind.py`).

This is no fsync: neither metadata nor the disk's own cache is flushed.
Where `sync_file_range` is missing (not Linux), nothing happens.
Units: bytes. Source: sync_file_range(2), posix_fadvise(2).
"""

import contextlib
import ctypes
import errno
import os
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Final, Protocol

from syncline.storage.machine.reserved_blocks import FILE_BYTES_MIN, ReservedBlocks, give_back

_WRITE: Final = 2
_WAIT_BEFORE_WRITE_WAIT_AFTER: Final = 7
_REFUSALS: Final = (errno.EIO, errno.ENOSPC, errno.EDQUOT)


class Descriptor(Protocol):
    """A file whose descriptor stays valid between `hold` and `let_go`."""

    def hold(self) -> int:
        """Return the descriptor; OSError if it is closed."""

    def let_go(self) -> None:
        """End what `hold` began."""


class Ranges:
    """What of a file is to be written out, and dropped; what is asked for meanwhile is added to what waits.

    Also how far it has blocks, and its size if it is complete: then the thread may cut off the blocks behind it.
    """

    __slots__ = (
        "_closed_bytes",
        "_complete_bytes",
        "_cut_count",
        "_has_strays",
        "_lock",
        "_reserved_to",
        "_waits",
        "drop_from",
        "drop_to",
        "error",
        "file",
        "write_from",
        "write_to",
    )

    def __init__(self, file: Descriptor, start: int) -> None:
        self.file = file
        self._lock = threading.Lock()
        self._waits = False
        # What write-out has failed with: the kernel tells it once for each open file, so a later sync has to.
        self.error: OSError | None = None
        self.write_from = self.write_to = self.drop_from = self.drop_to = start
        self._reserved_to = 0
        self._cut_count = 0
        # The size when it was closed; -1: it is open.
        self._closed_bytes = -1
        # Whether blocks may have been reserved that `_reserved_to` does not count.
        self._has_strays = False
        # -1: it grows.
        self._complete_bytes = -1

    def add(self, *, write_to: int = 0, drop_to: int = 0) -> tuple[bool, bool]:
        """Move the ends; return whether there is anything new, and whether the thread has to be told."""
        with self._lock:
            if write_to <= self.write_to and drop_to <= self.drop_to:
                return False, False
            self.write_to, self.drop_to = max(self.write_to, write_to), max(self.drop_to, drop_to)
            waited, self._waits = self._waits, True
            return True, not waited

    def complete(self, size: int) -> bool:
        """Record that the file does not grow beyond this size; return whether the thread has to be told."""
        with self._lock:
            if size < FILE_BYTES_MIN and not self._reserved_to:
                return False
            self._complete_bytes = size
            waited, self._waits = self._waits, True
            return not waited

    def grows_again(self) -> None:
        """Record that the file is not complete after all."""
        with self._lock:
            self._complete_bytes = -1

    def take(self) -> tuple[int, int, int, int]:
        """Return the two ranges, and begin anew behind them."""
        with self._lock:
            self._waits = False
            assert self.write_from <= self.write_to, f"write-out from {self.write_from} to {self.write_to}"
            assert self.drop_from <= self.drop_to, f"pages go from {self.drop_from} to {self.drop_to}"
            taken = self.write_from, self.write_to, self.drop_from, self.drop_to
            self.write_from, self.drop_from = self.write_to, self.drop_to
            return taken

    def cut(self, size: int) -> None:
        """Record that the file will be cut to this size, before that is done: the thread must not undo it."""
        with self._lock:
            self.write_from, self.write_to = min(self.write_from, size), min(self.write_to, size)
            self.drop_from, self.drop_to = min(self.drop_from, size), min(self.drop_to, size)
            self._reserved_to = min(self._reserved_to, size)
            self._cut_count += 1
            self._complete_bytes = -1

    def close(self, descriptor: int, size: int) -> None:
        """Give back what is left over of a file of this size, which is about to be closed."""
        with self._lock:
            self._closed_bytes = size
            if self._complete_bytes >= 0 or self._reserved_to > size or self._has_strays:
                self._complete_bytes = size
        self.give_back(descriptor)

    def give_back(self, descriptor: int) -> bool:
        """Give back the blocks behind the end of a complete file; return whether it is complete."""
        with self._lock:
            if self._complete_bytes < 0:
                return False
            with contextlib.suppress(OSError):  # Then they stay until the file is removed.
                give_back(descriptor, self._complete_bytes)
            self._complete_bytes, self._reserved_to = -1, 0
            return True

    def reserve(self, blocks: ReservedBlocks, descriptor: int, end: int) -> None:
        """Reserve blocks for what follows the position `end`, unless there are enough, or it was cut off meanwhile."""
        with self._lock:
            if self._complete_bytes >= 0 or end > self.write_to or not blocks.are_due(end, self._reserved_to):
                return
            start, cut_count = max(end, self._reserved_to), self._cut_count
        # Without the lock: the loop never waits for this, unless it appends to the same file.
        reserved_to = blocks.reserve(descriptor, start)
        with self._lock:
            if self._closed_bytes >= 0:
                with contextlib.suppress(OSError):  # As in `give_back`.
                    give_back(descriptor, self._closed_bytes)
            elif self._cut_count == cut_count:
                self._reserved_to = max(self._reserved_to, reserved_to)
            else:
                # A cut came before the call or after it: the blocks may be gone.
                self._has_strays = True


class PageCacheRecycler:
    """One thread that writes out and drops ranges of files in turn, and reserves blocks ahead of their ends.

    What waits is bounded by the number of files, however slow the disk is.
    """

    def __init__(self) -> None:
        self.blocks = ReservedBlocks()
        self._sync_file_range = _load_sync_file_range()
        self._waiting: SimpleQueue[Ranges | None] = SimpleQueue()
        self._thread: threading.Thread | None = None

    @property
    def is_available(self) -> bool:
        """Whether this operating system has the system call."""
        return self._sync_file_range is not None

    def write_out(self, ranges: Ranges, end: int, *, is_last: bool) -> None:
        """Have write-out started of what is new up to here; `is_last`: the file does not grow on."""
        self._submit(ranges, *ranges.add(write_to=end))
        if is_last:
            self._submit(ranges, True, ranges.complete(end))

    def drop(self, ranges: Ranges, end: int) -> bool:
        """Have what was not dropped yet dropped up to here; return whether there is any."""
        is_new, is_first = ranges.add(drop_to=end)
        self._submit(ranges, is_new, is_first)
        return is_new

    def close(self) -> None:
        """Finish what was asked for so far and end the thread."""
        if self._thread is not None:
            self._waiting.put(None)
            self._thread.join()
            self._thread = None

    def _submit(self, ranges: Ranges, is_new: bool, is_first: bool) -> None:
        if is_new and is_first:
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="page-cache", daemon=True)
                self._thread.start()
            self._waiting.put(ranges)

    def _run(self) -> None:
        while (ranges := self._waiting.get()) is not None:
            try:
                descriptor = ranges.file.hold()
            except OSError:
                continue  # Closed meanwhile: the kernel takes care of its pages.
            try:
                write_from, write_to, drop_from, drop_to = ranges.take()
                if write_to > write_from:
                    self._write(descriptor, write_from, write_to - write_from, _WRITE)
                if not ranges.give_back(descriptor):
                    ranges.reserve(self.blocks, descriptor, write_to)
                if drop_to > drop_from:
                    self._drop(descriptor, drop_from, drop_to - drop_from)
            except OSError as error:
                if ranges.error is None:
                    ranges.error = error
            finally:
                ranges.file.let_go()

    def _drop(self, descriptor: int, position: int, size: int) -> None:
        self._write(descriptor, position, size, _WAIT_BEFORE_WRITE_WAIT_AFTER)
        with contextlib.suppress(OSError):  # It is advice.
            os.posix_fadvise(descriptor, position, size, os.POSIX_FADV_DONTNEED)

    def _write(self, descriptor: int, position: int, size: int, flags: int) -> None:
        """Write out a range. Raises OSError if the disk refuses; file systems that cannot do it keep their pages."""
        assert self._sync_file_range is not None, "ranges are submitted only where the call exists"
        if self._sync_file_range(descriptor, position, size, flags) == 0:
            return
        number = ctypes.get_errno()
        if number in _REFUSALS:
            raise OSError(number, os.strerror(number))


def _load_sync_file_range() -> Callable[[int, int, int, int], int] | None:
    if not hasattr(os, "posix_fadvise"):
        return None
    try:
        function = ctypes.CDLL(None, use_errno=True).sync_file_range
    except (AttributeError, OSError):
        return None
    function.argtypes = [ctypes.c_int, ctypes.c_int64, ctypes.c_int64, ctypes.c_uint]
    function.restype = ctypes.c_int
    checked: Callable[[int, int, int, int], int] = function
    return checked
