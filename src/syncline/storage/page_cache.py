"""Freeing page cache behind the writer.

One hard idea: a log is written once and, on a follower, hardly ever read; still
every byte of it takes a fresh page of memory, and on many machines a fresh page
costs more than writing it out. A helper thread starts write-out early, waits
for the previous window to be written, and drops it: appends then reuse the same
few pages. It also spreads write-out evenly, so that no write waits for a burst.

This is no fsync: neither metadata nor the disk's own cache is flushed.
Where `sync_file_range` is missing (not Linux), nothing happens.
Units: bytes. Source: sync_file_range(2), posix_fadvise(2).
"""

import ctypes
import os
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Final, NamedTuple, Protocol

_WRITE: Final = 2
_WAIT_BEFORE_WRITE_WAIT_AFTER: Final = 7


class Descriptor(Protocol):
    """A file whose descriptor stays valid between `hold` and `let_go`."""

    def hold(self) -> int:
        """Return the descriptor; OSError if it is closed."""

    def let_go(self) -> None:
        """End what `hold` began."""


class Window(NamedTuple):
    """The range written since the last hint, and the range that may be dropped."""

    file: Descriptor
    written_from: int
    written_to: int
    drop_from: int
    drop_to: int


class PageCacheRecycler:
    """One thread that writes out and drops windows of files."""

    def __init__(self) -> None:
        self._sync_file_range = _load_sync_file_range()
        self._windows: SimpleQueue[Window | None] = SimpleQueue()
        self._thread: threading.Thread | None = None

    @property
    def is_available(self) -> bool:
        """Whether this operating system has the system call."""
        return self._sync_file_range is not None

    def submit(self, window: Window) -> None:
        """Have the helper thread handle `window`."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="page-cache", daemon=True)
            self._thread.start()
        self._windows.put(window)

    def close(self) -> None:
        """Finish the windows submitted so far and end the thread."""
        if self._thread is not None:
            self._windows.put(None)
            self._thread.join()
            self._thread = None

    def _run(self) -> None:
        while (window := self._windows.get()) is not None:
            try:
                descriptor = window.file.hold()
            except OSError:
                continue  # Closed meanwhile: the kernel takes care of its pages.
            try:
                self._recycle(descriptor, window)
            finally:
                window.file.let_go()

    def _recycle(self, descriptor: int, window: Window) -> None:
        assert self._sync_file_range is not None, "windows are submitted only where the call exists"
        self._sync_file_range(descriptor, window.written_from, window.written_to - window.written_from, _WRITE)
        drop_bytes = window.drop_to - window.drop_from
        if drop_bytes > 0:
            self._sync_file_range(descriptor, window.drop_from, drop_bytes, _WAIT_BEFORE_WRITE_WAIT_AFTER)
            os.posix_fadvise(descriptor, window.drop_from, drop_bytes, os.POSIX_FADV_DONTNEED)


def _load_sync_file_range() -> Callable[[int, int, int, int], int] | None:
    if not hasattr(os, "posix_fadvise"):
        return None
    try:
        function = ctypes.CDLL(None).sync_file_range
    except (AttributeError, OSError):
        return None
    function.argtypes = [ctypes.c_int, ctypes.c_int64, ctypes.c_int64, ctypes.c_uint]
    function.restype = ctypes.c_int
    checked: Callable[[int, int, int, int], int] = function
    return checked
