"""The Disk port over a simulated medium, for one process.

`read_resident` misses at random, and always while the disk is slow; `read_later`
then takes virtual time. Blocking calls take none. Files outlive the process;
descriptors and locks die with it. With `pages`, what is in memory is exact.

Units: sizes and positions are bytes, times ns.
"""

import contextlib
import errno
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from syncline.records.buffers import Buffer, FileRange
from syncline.storage.disk import UNMEASURED, Residency
from syncline.virtual.determinism.trace import Trace
from syncline.virtual.disk.medium import REFUSED, ROOM_BYTES, Directory, Inode, Medium, Node
from syncline.virtual.disk.pages import SimPages
from syncline.virtual.time.durations import MS
from syncline.virtual.time.loop import VirtualLoop
from syncline.virtual.time.process import Process, current_process

Result = TypeVar("Result")
NOWHERE: Final = -1


@dataclass(frozen=True, kw_only=True)
class DiskSettings:
    """The behaviour of a disk without faults."""

    latency_ns_min: int = 50_000
    latency_ns_max: int = 2 * MS
    miss_probability: float = 0.01


class SimDisk:
    """The Disk port over a medium, for one process."""

    def __init__(
        self, loop: VirtualLoop, medium: Medium, rng: random.Random, trace: Trace, settings: DiskSettings | None = None
    ) -> None:
        self.loop = loop
        self.medium = medium
        self.process = current_process.get()
        self._rng = rng
        self._trace = trace
        self.settings = settings or DiskSettings()
        self.slow_ns_max = 0
        # The pages in memory, if a test wants to know them; else reads miss at random.
        self.pages: SimPages | None = None
        self._failures: dict[str, int] = {}
        # What a check may do that looks at the disk now.
        self._inspection: frozenset[str] | None = None
        # Gets the path and the data of each append.
        self.on_append: Callable[[str, bytes], None] | None = None

    @contextlib.contextmanager
    def inspected(self, *, may_open: bool) -> Iterator[None]:
        """Let a check read, unnoticed: nothing is drawn or recorded, and nothing fails but what a check must not do.

        Without `may_open`, it must not open files: what a broker opens stays open.
        """
        assert self._inspection is None, "a check looks already"
        self._inspection = frozenset({"open", "read"} if may_open else {"read"})
        try:
            yield
        finally:
            self._inspection = None

    def fail_next(self, operation: str, error: int) -> None:
        """Let the next `append`, `read`, `sync`, `rename`, `open` or `truncate` fail once with this errno."""
        self._failures[operation] = error

    def enter(self, operation: str, path: str) -> None:
        """Check that the process is alive; raise the error that is planned for this operation, if any."""
        if self._inspection is not None:
            if operation not in self._inspection:
                raise OSError(errno.EMFILE, f"this check does not {operation}", path)
            return
        if self.process is not None:
            self.process.check_alive()
        if self._failures:
            error = self._failures.pop(operation, None)
            if error is not None:
                self._trace.record(self.loop.now_ns, "disk-error", self.medium.host, operation, error)
                raise OSError(error, f"simulated failure of {operation}", path)
        refusing = self.medium.refusing
        if refusing and operation in REFUSED[refusing]:
            self._trace.record(self.loop.now_ns, "disk-error", self.medium.host, operation, refusing)
            raise OSError(refusing, f"the simulated disk refuses to {operation}", path)

    def _need_descriptor(self, path: str) -> None:
        """Raise if the process has no descriptors: whole files and directories are opened, too."""
        if self.medium.refusing == errno.EMFILE and self._inspection is None:
            self.enter("open", path)

    def misses(self) -> bool:
        """Return whether the next read misses the page cache."""
        if self._inspection is not None:
            return False
        return self.slow_ns_max > 0 or self._rng.random() < self.settings.miss_probability

    def record(self, operation: str, path: str, size: int) -> None:
        """Record an operation."""
        self._trace.record(self.loop.now_ns, "disk", self.medium.host, operation, path, size)

    def later(self, work: Callable[[], Result], done: Callable[[Result | Exception], None]) -> None:
        """Run `work` beside the loop: it takes effect at one moment, and `done` is called at a later one."""
        self.loop.call_at_ns(self.loop.now_ns + self._latency_ns(), self._work, work, done)

    def _work(self, work: Callable[[], Result], done: Callable[[Result | Exception], None]) -> None:
        result: Result | Exception
        try:
            result = work()
        except Exception as error:  # noqa: BLE001 - as a worker does: `done` gets any error
            result = error
        self.loop.call_at_ns(self.loop.now_ns + self._latency_ns() // 4, done, result)
        # An error and this frame, which is part of its traceback, would keep each other.
        del result

    def _latency_ns(self) -> int:
        settings = self.settings
        latency_ns = settings.latency_ns_min + int(self._rng.random() ** 3 * settings.latency_ns_max)
        if self.slow_ns_max:
            latency_ns += int(self._rng.random() * self.slow_ns_max)
        return latency_ns

    @staticmethod
    def _names(path: str) -> list[str]:
        return [name for name in path.split("/") if name and name != "."]

    def _node(self, path: str) -> Node:
        node: Node = self.medium.root
        for name in self._names(path):
            child = node.names.get(name) if isinstance(node, Directory) else None
            if child is None:
                raise FileNotFoundError(errno.ENOENT, "No such file or directory", path)
            node = child
        return node

    def _directory(self, path: str) -> Directory:
        node = self._node(path)
        if not isinstance(node, Directory):
            raise NotADirectoryError(errno.ENOTDIR, "Not a directory", path)
        return node

    def _inode(self, path: str) -> Inode:
        node = self._node(path)
        if isinstance(node, Directory):
            raise IsADirectoryError(errno.EISDIR, "Is a directory", path)
        return node

    def _parent(self, path: str) -> tuple[Directory, str]:
        names = self._names(path)
        return self._directory("/".join(names[:-1])), names[-1]

    def open(self, path: str, *, create: bool = False) -> "SimFile":
        """Open a file."""
        self.enter("open", path)
        return SimFile(self, path, self._open(path, create=create))

    def _open(self, path: str, *, create: bool) -> Inode:
        try:
            return self._inode(path)
        except FileNotFoundError:
            if not create:
                raise
        self.enter("create", path)
        directory, name = self._parent(path)
        inode = Inode()
        self.medium.change((directory, name, inode))
        return inode

    def read_file(self, path: str) -> bytes:
        """Return the whole file."""
        self._need_descriptor(path)
        self.enter("read", path)
        return bytes(self._inode(path).data)

    def replace_file(self, path: str, data: Buffer, *, sync: bool = True) -> None:
        """Make `path` hold `data`: a new file takes the name."""
        self._need_descriptor(path)
        self.enter("append", path)
        self.check_room(len(data), path)
        directory, name = self._parent(path)
        inode = Inode()
        inode.append(bytes(data))
        if sync:
            self.enter("sync", path)
            inode.sync()
        self.medium.change((directory, name, inode))
        if sync:
            self.medium.sync_directory(directory)

    def rename(self, source: str, target: str) -> None:
        """Give a file or directory another name."""
        self.enter("rename", source)
        node = self._node(source)
        old_directory, old_name = self._parent(source)
        new_directory, new_name = self._parent(target)
        taken = new_directory.names.get(new_name)
        if isinstance(taken, Directory) and (taken.names or isinstance(node, Inode)):
            raise OSError(errno.ENOTEMPTY, "Directory not empty", target)
        self.medium.change((old_directory, old_name, None), (new_directory, new_name, node))

    def remove(self, path: str) -> None:
        """Remove a file."""
        self.enter("remove", path)
        self._inode(path)
        directory, name = self._parent(path)
        self.medium.change((directory, name, None))

    def remove_tree(self, path: str) -> None:
        """Remove a directory and all below it."""
        self.enter("remove", path)
        self._directory(path)
        directory, name = self._parent(path)
        self.medium.change((directory, name, None))

    def make_directory(self, path: str) -> None:
        """Create a directory and its parents."""
        self.enter("make_directory", path)
        directory = self.medium.root
        for name in self._names(path):
            child = directory.names.get(name)
            if child is None:
                child = Directory()
                self.medium.change((directory, name, child))
            elif not isinstance(child, Directory):
                raise FileExistsError(errno.EEXIST, "File exists", path)
            directory = child

    def list(self, path: str) -> list[str]:
        """Return the names in a directory, sorted."""
        self.enter("list", path)
        return sorted(self._directory(path).names)

    def exists(self, path: str) -> bool:
        """Return whether something has this name."""
        try:
            self._node(path)
        except FileNotFoundError:
            return False
        return True

    def sync_directory(self, path: str) -> None:
        """Make the names in a directory safe."""
        self._need_descriptor(path)
        self.enter("sync", path)
        self.record("sync_directory", path, 0)
        self.medium.sync_directory(self._directory(path))

    def free_bytes(self, path: str) -> int:
        """Return how much room is left on the disk."""
        self._node(path)
        return max(0, self.medium.room_bytes - self.medium.used_bytes())

    def check_room(self, size: int, path: str) -> None:
        """Raise if the disk is full."""
        if self.medium.room_bytes < ROOM_BYTES and self.medium.used_bytes() + size > self.medium.room_bytes:
            raise OSError(errno.ENOSPC, "No space left on device", path)

    def lock(self, path: str) -> "SimLock":
        """Take a lock file."""
        self.enter("open", path)
        inode = self._open(path, create=True)
        holder = inode.locked_by
        if holder is not None and holder.alive:
            raise BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable", path)
        inode.locked_by = self.process or WORLD_PROCESS
        if not inode.number:
            self.medium.numbers += 1
            inode.number = self.medium.numbers
        return SimLock(inode)

    def run_later(self, work: Callable[[], Result], done: Callable[[Result | Exception], None]) -> None:
        """Run `work` off the loop."""
        self.later(work, done)

    def cache_memory_bytes(self) -> int:
        """Return the size of the page cache, if it has one."""
        return NOWHERE if self.pages is None else self.pages.memory_bytes

    def boot_id(self) -> str:
        """Return an id that changes with each power cut."""
        return f"{self.medium.host}-boot-{self.medium.boots}"


# The holder of locks that are taken outside any simulated process.
WORLD_PROCESS: Final = Process("world")


class SimLock:
    """A lock file that dies with its process."""

    def __init__(self, inode: Inode) -> None:
        self._inode: Inode | None = inode
        self._number = inode.number

    def identity(self) -> str:
        """Return the file's number."""
        return str(self._number)

    def release(self) -> None:
        """Release the lock."""
        if self._inode is not None:
            self._inode.locked_by = None
            self._inode = None


class SimFile:
    """An open file."""

    def __init__(self, disk: SimDisk, path: str, inode: Inode) -> None:
        self._disk = disk
        self._inode = inode
        self._is_open = True
        # What lies before this was not written through this file.
        self._own_from = len(inode.data)
        # Where the last look found less than it wanted.
        self._missed_at = NOWHERE
        self.path = path

    def _enter(self, operation: str) -> None:
        self._disk.enter(operation, self.path)
        if not self._is_open:
            raise OSError(errno.EBADF, "the file is closed", self.path)

    @property
    def size_bytes(self) -> int:
        """Return the length."""
        return len(self._inode.data)

    def append(self, parts: Sequence[Buffer]) -> None:
        """Write `parts` at the end, as one write."""
        self._enter("append")
        data = b"".join(parts)
        self._disk.check_room(len(data), self.path)
        if self._disk.pages is not None:
            self._disk.pages.touch(self._inode, len(self._inode.data), len(data))
        self._inode.append(data)
        self._disk.record("append", self.path, len(data))
        if self._disk.on_append is not None:
            self._disk.on_append(self.path, data)

    def hot_range(self, position: int, size: int) -> FileRange | None:
        """Return bytes that are in memory, to be sent unread."""
        pages = self._disk.pages
        if not self._is_open or position < self._own_from or position + size > len(self._inode.data):
            return None
        if self._disk.misses() if pages is None else pages.bytes_in_memory(self._inode, position, size) < size:
            return None
        return FileRange(self, position, size)

    def send(self, socket_descriptor: int, position: int, size: int) -> int:
        """Send up to `size` bytes unread; return how many the socket took."""
        self._enter("read")
        return self._disk.loop.world_network().unread.send(socket_descriptor, self._inode, position, size)

    def read_resident(self, position: int, size: int) -> Buffer | None:
        """Return bytes that are in memory."""
        self._enter("read")
        pages = self._disk.pages
        if position + size > len(self._inode.data):
            return None
        if self._disk.misses() if pages is None else pages.bytes_in_memory(self._inode, position, size) < size:
            self._missed_at = position
            return None
        if pages is not None:
            pages.touch(self._inode, position, size)
        return bytes(self._inode.data[position : position + size])

    def read(self, position: int, size: int, residency: Residency | None = None) -> Buffer:
        """Return bytes."""
        self._enter("read")
        data = bytes(self._inode.data[position : position + size])
        pages = self._disk.pages
        if residency is not None and residency.resident_bytes == UNMEASURED:
            known = len(data) if pages is None else pages.bytes_in_memory(self._inode, position, len(data))
            residency.resident_bytes = known
        if pages is not None:
            pages.touch(self._inode, position, len(data))
        return data

    def read_later(
        self,
        position: int,
        size: int,
        done: Callable[[Buffer | OSError], None],
        residency: Residency | None = None,
    ) -> None:
        """Read without waiting."""
        self._enter("read_later")
        if residency is not None and self._disk.pages is None and self._missed_at == position:
            residency.resident_bytes = 0
        self._missed_at = NOWHERE
        finished: Callable[[Any], None] = done
        self._disk.later(lambda: self.read(position, size, residency), finished)

    def expect_jumps(self) -> None:
        """Do nothing: nothing is read ahead."""

    def truncate(self, size: int) -> None:
        """Cut the file."""
        self._enter("truncate")
        self._inode.truncate(size)
        self._disk.record("truncate", self.path, size)

    def sync(self) -> None:
        """Make the contents safe."""
        self._enter("sync")
        self._inode.sync()
        self._disk.record("sync", self.path, len(self._inode.data))

    def sync_later(self, done: Callable[[OSError | None], None]) -> None:
        """Sync without waiting."""
        self._enter("sync_later")
        finished: Callable[[Any], None] = done
        self._disk.later(self.sync, finished)

    def write_out(self, *, is_last: bool = False) -> None:
        """Do nothing: no page waits for write-out to be dropped."""

    def drop_before(self, position: int) -> int:
        """Forget the pages before a position."""
        pages = self._disk.pages
        if pages is None or position <= 0:
            return 0
        dropped_to = min(position, len(self._inode.data))
        pages.drop(self._inode, 0, dropped_to)
        return dropped_to

    def drop_cached(self, position: int, size: int) -> None:
        """Forget the pages of a range."""
        if self._disk.pages is not None:
            self._disk.pages.drop(self._inode, position, size)

    def close(self) -> None:
        """Close the descriptor."""
        self._is_open = False
