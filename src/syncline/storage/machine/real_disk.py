"""The Disk port on this machine's files.

One hard idea: asking the kernel for bytes "only if you have them"
(`preadv2` with RWF_NOWAIT) keeps disk waits off the event loop. The kernel may
refuse bytes that are in memory (a page under write-out, a lock held elsewhere),
so a refusal means "leave it to a worker". What this process wrote a moment ago
is surely cached and is read without the flag.

What was in memory is asked for first (`resident_pages.py`), because any read has
the kernel fetch what was not. For the same reason the kernel must not read ahead
of readers of old records, by 8 MiB on some machines: all but the first of their
reads would seem to be in memory. A worker that had to wait for the disk has as
much again brought in for the next read, and says so.

Descriptors: one per open file. A worker that uses one holds it (`hold`), and
after `close` the last user closes it: if the number were reused for another
file meanwhile, the worker would read the wrong file.
"""

# Paths are text, as in the port: making Path objects costs more than most of the calls.
# ruff: noqa: PTH102, PTH104, PTH108, PTH110, PTH112, PTH120, PTH208

import contextlib
import errno
import fcntl
import itertools
import os
import threading
from collections.abc import Callable, Sequence
from typing import Final, TypeVar

from syncline.records.buffers import Buffer, FileRange
from syncline.storage.disk import UNMEASURED, BrokenFileError, Residency
from syncline.storage.machine.page_cache import PageCacheRecycler, Ranges
from syncline.storage.machine.resident_pages import UNKNOWN, ResidentPages
from syncline.storage.machine.uncleared import uncleared
from syncline.storage.machine.workers import CallSoon, WorkerPool

Result = TypeVar("Result")

# Read without the flag within this distance of the end; write-out starts later (`write_behind.py`).
HOT_TAIL_BYTES: Final = 4 << 20
# Records are for the user of the broker alone.
FILE_MODE: Final = 0o600
DIRECTORY_MODE: Final = 0o700
_NOWAIT: Final[int] = getattr(os, "RWF_NOWAIT", 0)
_MAY_ADVISE: Final = hasattr(os, "posix_fadvise")
_PAGES: Final = ResidentPages()
_BOOT_ID: Final = "/proc/sys/kernel/random/boot_id"


class RealDisk:
    """Files of this machine, with worker threads for calls that may wait."""

    def __init__(self, call_soon_threadsafe: CallSoon, *, workers: int = 4, recycle: bool = True) -> None:
        self._pool = WorkerPool(call_soon_threadsafe, workers)
        self._recycler = PageCacheRecycler()
        self._may_recycle = recycle and self._recycler.is_available
        self._temporary = itertools.count(1)

    def close(self) -> None:
        """Finish the work of the threads and end them."""
        self._pool.close()
        self._recycler.close()

    def end_idle_threads(self) -> None:
        """End the threads if none has work, and free what they keep; others start with the next work."""
        self._pool.end_idle()

    def open(self, path: str, *, create: bool = False) -> "RealFile":
        """Open a file for reading and appending."""
        flags = os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if create else 0)
        descriptor = os.open(path, flags, FILE_MODE)
        recycler = self._recycler if self._may_recycle else None
        return RealFile(path, descriptor, self._pool, recycler, is_new=create)

    def read_file(self, path: str) -> bytes:
        """Return the whole file."""
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            return _read_all(descriptor, 0, os.fstat(descriptor).st_size)
        except OSError as error:
            # Reading a descriptor does not say of which file it is.
            error.filename = error.filename or path
            raise
        finally:
            os.close(descriptor)

    def replace_file(self, path: str, data: Buffer, *, sync: bool = True) -> None:
        """Make `path` hold `data`, through a temporary file."""
        temporary = f"{path}.{next(self._temporary)}.tmp"
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, FILE_MODE)
        try:
            try:
                _write_all(descriptor, [data], 0)
                if sync:
                    os.fsync(descriptor)
            finally:
                os.close(descriptor)
            os.rename(temporary, path)
        except OSError:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
            raise
        if sync:
            self.sync_directory(os.path.dirname(path) or ".")

    def rename(self, source: str, target: str) -> None:
        """Give a file or directory another name."""
        os.rename(source, target)

    def remove(self, path: str) -> None:
        """Remove a file."""
        os.unlink(path)

    def remove_tree(self, path: str) -> None:
        """Remove a directory and all below it."""
        # Imported late: it imports compressors for archives, and a start deletes nothing.
        import shutil

        shutil.rmtree(path)

    def make_directory(self, path: str) -> None:
        """Create a directory, and its parents only if they are missing, which is rare: looking costs time."""
        try:
            os.mkdir(path, DIRECTORY_MODE)
        except FileNotFoundError:
            self.make_directory(os.path.dirname(path) or ".")
            self.make_directory(path)
        except FileExistsError:
            if not os.path.isdir(path):
                raise

    def list(self, path: str) -> list[str]:
        """Return the names in a directory, sorted."""
        return sorted(os.listdir(path))

    def exists(self, path: str) -> bool:
        """Return whether a file or directory has this name."""
        return os.path.exists(path)

    def sync_directory(self, path: str) -> None:
        """Make the names in a directory safe from a power cut."""
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def free_bytes(self, path: str) -> int:
        """Return how much room is left for a process without privileges."""
        figures = os.statvfs(path)
        return figures.f_bavail * figures.f_frsize

    def lock(self, path: str) -> "RealLock":
        """Take the lock file `path`; BlockingIOError if another process has it."""
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, FILE_MODE)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(descriptor)
            raise
        return RealLock(descriptor)

    def run_later(self, work: Callable[[], Result], done: Callable[[Result | Exception], None]) -> None:
        """Run `work` in a worker thread."""
        self._pool.submit(work, done)

    def cache_memory_bytes(self) -> int:
        """Return what this machine, and its control group, leave for the page cache."""
        # Imported late: hardly anybody asks.
        from syncline.storage.machine.cache_memory import cache_memory_bytes

        return cache_memory_bytes()

    def boot_id(self) -> str:
        """Return the kernel's random id of this boot, "" where there is none."""
        try:
            descriptor = os.open(_BOOT_ID, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return ""
        try:
            # Files under /proc report size 0.
            return os.read(descriptor, 64).decode("ascii").strip()
        finally:
            os.close(descriptor)


class RealLock:
    """An flock that the kernel drops when its process ends."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def identity(self) -> str:
        """Return the file's device, inode and change time; no tool can set that time."""
        status = os.fstat(self._descriptor)
        return f"{status.st_dev}:{status.st_ino}:{status.st_ctime_ns}"

    def release(self) -> None:
        """Release the lock; releasing twice is fine."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


class RealFile:
    """One open file."""

    def __init__(
        self, path: str, descriptor: int, pool: WorkerPool, recycler: PageCacheRecycler | None, *, is_new: bool
    ) -> None:
        self.path = path
        self.size_bytes = os.fstat(descriptor).st_size
        self._descriptor = descriptor
        self._pool = pool
        self._recycler = recycler
        self._lock = threading.Lock()
        self._holders = 0
        self._is_closed = False
        self._is_broken = False
        self._is_complete = False
        self._expects_jumps = False
        # The last look that did not find all: its position, and how many bytes it found.
        self._missed = (-1, UNMEASURED)
        # What this process has written is in memory; older contents may not be.
        self._own_from = 0 if is_new and not self.size_bytes else self.size_bytes
        self._ranges = Ranges(self, self._own_from)

    def append(self, parts: Sequence[Buffer]) -> None:
        """Write `parts` at the end; cut off again what a failed write left behind."""
        if self._is_broken:
            raise BrokenFileError(errno.EIO, "an earlier append failed half-way", self.path)
        if self._is_closed:
            raise _closed(self.path)
        if self._is_complete:
            self._is_complete = False
            self._ranges.grows_again()
        size = self.size_bytes
        try:
            if len(parts) == 1:
                part = parts[0]
                wanted = len(part)
                written = os.pwrite(self._descriptor, part, size)
            else:
                wanted = sum(map(len, parts))
                written = os.pwritev(self._descriptor, parts, size)
            if written != wanted:
                # A short write comes before an error: write the rest to get that error.
                written += _write_all(self._descriptor, [b"".join(parts)[written:]], size + written)
        except OSError:
            self._cut_back(size)
            raise
        self.size_bytes = size + written

    def _cut_back(self, size: int) -> None:
        try:
            os.ftruncate(self._descriptor, size)
        except OSError as error:
            self._is_broken = True
            raise BrokenFileError(
                error.errno, f"cannot cut off a failed append: {error.strerror}", self.path
            ) from error

    def read_resident(self, position: int, size: int) -> Buffer | None:
        """Return bytes that are in memory, else None. `read_later` reports the errors of the disk."""
        if self._is_closed:
            raise _closed(self.path)
        if position + size > self.size_bytes:
            return None
        if self._is_hot(position):
            try:
                hot = os.pread(self._descriptor, size, position)
            except OSError:
                return None
            return hot if len(hot) == size else None
        if not self._expects_jumps:
            self.expect_jumps()
        known = _PAGES.bytes_in_memory(self._descriptor, position, size)
        if known in {UNKNOWN, size}:
            # cachestat also counts pages that the kernel is still reading in: only the flag avoids waiting for them.
            data = uncleared(size)
            filled = _fill_from_memory(self._descriptor, position, data)
            if filled == size:
                return data
            known = filled if known == UNKNOWN else known
        self._missed = position, known
        return None

    def _is_hot(self, position: int) -> bool:
        """Whether what this process wrote from a position on is surely in memory still."""
        return position >= self._own_from and position >= self.size_bytes - HOT_TAIL_BYTES

    def hot_range(self, position: int, size: int) -> FileRange | None:
        """Return bytes at the end of the file to be sent unread; None if they lie elsewhere."""
        assert size > 0, f"a range of {size} bytes at {position}"
        if self._is_closed or position + size > self.size_bytes or not self._is_hot(position):
            return None
        return FileRange(self, position, size)

    def send(self, socket_descriptor: int, position: int, size: int) -> int:
        """Send up to `size` bytes unread; return how many the socket took."""
        if self._is_closed:
            raise _closed(self.path)
        return os.sendfile(socket_descriptor, self._descriptor, position, size)

    def expect_jumps(self) -> None:
        """Have the kernel read no more than it is asked for."""
        self._expects_jumps = True
        if _MAY_ADVISE:
            with contextlib.suppress(OSError):
                os.posix_fadvise(self._descriptor, 0, 0, os.POSIX_FADV_RANDOM)

    def read(self, position: int, size: int, residency: Residency | None = None) -> Buffer:
        """Return up to `size` bytes; may wait for the disk, in any thread."""
        descriptor = self.hold()
        try:
            if residency is None:
                return _read_all(descriptor, position, size)
            return _read_measured(descriptor, position, size, residency)
        finally:
            self.let_go()

    def read_later(
        self,
        position: int,
        size: int,
        done: Callable[[Buffer | OSError], None],
        residency: Residency | None = None,
    ) -> None:
        """Read in a worker thread; the file may be closed meanwhile, the read still gets its bytes."""
        missed, self._missed = self._missed, (-1, UNMEASURED)
        if residency is not None and missed[0] == position:
            residency.resident_bytes = missed[1]
        try:
            descriptor = self.hold()
        except OSError as error:
            closed = error
            self._pool.submit(lambda: closed, done)
            return

        def work() -> Buffer:
            try:
                if residency is None:
                    return _read_all(descriptor, position, size)
                return _read_measured(descriptor, position, size, residency)
            finally:
                self.let_go()

        self._pool.submit(work, done)

    def truncate(self, size: int) -> None:
        """Cut the file to `size` bytes."""
        if self._is_closed:
            raise _closed(self.path)
        self._ranges.cut(size)
        os.ftruncate(self._descriptor, size)
        self.size_bytes = size
        self._own_from = min(self._own_from, size)

    def sync(self) -> None:
        """Make the contents safe from a power cut; may be called in any thread. Fails if write-out has failed."""
        if (failed := self._ranges.error) is not None:
            raise OSError(failed.errno, failed.strerror, self.path)
        descriptor = self.hold()
        try:
            os.fdatasync(descriptor)
        finally:
            self.let_go()

    def sync_later(self, done: Callable[[OSError | None], None]) -> None:
        """Sync in a worker thread."""
        self._pool.submit(self.sync, done)

    def write_out(self, *, is_last: bool = False) -> None:
        """Have a thread start write-out of what is new, and reserve blocks for what comes next."""
        if self._recycler is None or self._is_closed:
            return
        self._is_complete = is_last
        self._recycler.write_out(self._ranges, self.size_bytes, is_last=is_last)

    def drop_before(self, position: int) -> int:
        """Have a thread free the page cache of what this process has written before a position."""
        if self._recycler is None or self._is_closed or not self._recycler.drop(self._ranges, position):
            return 0
        self._own_from = max(self._own_from, position)
        return position

    def drop_cached(self, position: int, size: int) -> None:
        """Free the page cache of a range; pages that are not written out yet stay."""
        if not size or not _MAY_ADVISE:
            return
        descriptor = self.hold()
        try:
            os.posix_fadvise(descriptor, position, size, os.POSIX_FADV_DONTNEED)
        finally:
            self.let_go()

    def close(self) -> None:
        """Close the descriptor as soon as no worker holds it."""
        with self._lock:
            if self._is_closed:
                return
            self._is_closed = True
            self._ranges.close(self._descriptor, self.size_bytes)
            if self._holders:
                return
        os.close(self._descriptor)

    def hold(self) -> int:
        """Return the descriptor and keep it open until `let_go`."""
        with self._lock:
            if self._is_closed:
                raise _closed(self.path)
            self._holders += 1
        return self._descriptor

    def let_go(self) -> None:
        """End what `hold` began."""
        with self._lock:
            self._holders -= 1
            if not self._is_closed or self._holders:
                return
        os.close(self._descriptor)


def _closed(path: str) -> OSError:
    return OSError(errno.EBADF, "the file was closed", path)


def _fill_from_memory(descriptor: int, position: int, data: bytearray) -> int:
    """Read what is in memory, up to the first byte that is not; return how much, UNMEASURED if nobody can tell.

    There is no second try: the first one has the kernel fetch the rest, and fast disks are done by then.
    """
    if not _NOWAIT:
        return UNMEASURED
    try:
        return os.preadv(descriptor, [data], position, _NOWAIT)
    except BlockingIOError:
        return 0
    except OSError:
        # The file system does not know the flag, or the disk fails, which the read itself reports.
        return UNMEASURED


def _in_memory(descriptor: int, position: int, size: int) -> int:
    """Return how many bytes of a range are in memory, UNMEASURED if nobody can tell."""
    known = _PAGES.bytes_in_memory(descriptor, position, size)
    return known if known != UNKNOWN else _fill_from_memory(descriptor, position, bytearray(size))


def _read_measured(descriptor: int, position: int, size: int, residency: Residency) -> Buffer:
    """Return up to `size` bytes, fewer only at the end of the file, and say how many of them were in memory."""
    if residency.resident_bytes == UNMEASURED:
        residency.resident_bytes = _in_memory(descriptor, position, size)
    data = _read_all(descriptor, position, size)
    if residency.reads_ahead and UNMEASURED < residency.resident_bytes < size:
        residency.ahead_bytes = _bring_in(descriptor, position + size, size)
    return data


def _bring_in(descriptor: int, position: int, size: int) -> int:
    """Have bytes read into memory without waiting; return how many, 0 if the first of them are there."""
    size = min(size, os.fstat(descriptor).st_size - position)
    if size <= 0 or not _MAY_ADVISE or _in_memory(descriptor, position, 1):
        return 0
    os.posix_fadvise(descriptor, position, size, os.POSIX_FADV_WILLNEED)
    return size


def _read_all(descriptor: int, position: int, size: int) -> bytes:
    """Return up to `size` bytes: nearly always with one pread, with more if it returns less before the end."""
    data = os.pread(descriptor, size, position)
    while len(data) < size:
        more = os.pread(descriptor, size - len(data), position + len(data))
        if not more:
            break
        data += more
    return data


def _write_all(descriptor: int, parts: Sequence[Buffer], position: int) -> int:
    """Write all of `parts`; return their size. A write of no bytes counts as a full disk."""
    data = memoryview(b"".join(parts)) if len(parts) > 1 else memoryview(parts[0])
    written = 0
    while written < len(data):
        count = os.pwrite(descriptor, data[written:], position + written)
        if count == 0:
            raise OSError(errno.ENOSPC, "nothing could be written")
        written += count
    return written
