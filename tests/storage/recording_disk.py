"""A disk in memory that records every operation, so that tests can cut the power after each.

Contents and names are kept apart, as file systems do: an inode has bytes, a
directory has names of inodes. `sync` makes the bytes of one inode durable,
`sync_directory` the names in one directory (the strict model; in the kind one a
file's sync persists its name as well). `replace_file` is what it is on a real
disk: a temporary file, written, synced, renamed, its directory synced.

Work given to `run_later` waits until `pump`, so that a test decides when the
background catches up.
"""

# The port documents its methods.
# ruff: noqa: D102

import errno
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from syncline.storage.disk import BrokenFileError, Residency


class Write(NamedTuple):
    """Bytes of an inode."""

    inode: int
    position: int
    data: bytes


class Truncate(NamedTuple):
    """The end of an inode."""

    inode: int
    size: int


class Link(NamedTuple):
    """A new name in a directory."""

    directory: int
    name: str
    inode: int
    is_directory: bool


class Unlink(NamedTuple):
    """A name that goes."""

    directory: int
    name: str


class Move(NamedTuple):
    """A rename: one name goes, another comes, at once."""

    directory: int
    name: str
    target_directory: int
    target: str


class Sync(NamedTuple):
    """An inode's bytes become durable."""

    inode: int


class SyncDirectory(NamedTuple):
    """A directory's names become durable."""

    inode: int


class Mark(NamedTuple):
    """What storage had promised at this point, for the checker."""

    kind: str
    value: Any


Op = Write | Truncate | Link | Unlink | Move | Sync | SyncDirectory | Mark
ROOT_INODE = 0


@dataclass
class Image:
    """What is on a disk: bytes of inodes, names of directories."""

    contents: dict[int, bytearray] = field(default_factory=dict)
    names: dict[int, dict[str, int]] = field(default_factory=lambda: {ROOT_INODE: {}})

    def copy(self) -> "Image":
        """Return an independent image."""
        return Image(
            {inode: bytearray(data) for inode, data in self.contents.items()},
            {inode: dict(names) for inode, names in self.names.items()},
        )

    def apply(self, op: Op) -> None:
        """Apply an operation; do nothing if it refers to something that was never created."""
        if isinstance(op, Write):
            data = self.contents.setdefault(op.inode, bytearray())
            if len(data) < op.position:
                data.extend(bytes(op.position - len(data)))
            data[op.position : op.position + len(op.data)] = op.data
        elif isinstance(op, Truncate):
            data = self.contents.setdefault(op.inode, bytearray())
            if len(data) > op.size:
                del data[op.size :]
            else:
                data.extend(bytes(op.size - len(data)))
        elif isinstance(op, Link):
            if op.is_directory:
                self.names.setdefault(op.inode, {})
            else:
                self.contents.setdefault(op.inode, bytearray())
            self.names.setdefault(op.directory, {})[op.name] = op.inode
        elif isinstance(op, Unlink):
            self.names.get(op.directory, {}).pop(op.name, None)
        elif isinstance(op, Move):
            inode = self.names.get(op.directory, {}).pop(op.name, None)
            if inode is not None:
                self.names.setdefault(op.target_directory, {})[op.target] = inode

    def tree(self, inode: int = ROOT_INODE) -> dict[str, Any]:
        """Return names and bytes as nested dictionaries: what a user of the disk can see."""
        return {
            name: self.tree(child) if child in self.names else bytes(self.contents.get(child, b""))
            for name, child in sorted(self.names[inode].items())
        }


class RecordingDisk:
    """A Disk over an image, with the list of all that was done to it."""

    def __init__(self, image: Image | None = None, *, boot: str = "boot-1") -> None:
        self.image = image or Image()
        self.ops: list[Op] = []
        self.boot = boot
        self._next_inode = 1 + max([*self.image.contents, *self.image.names])
        self._later: deque[tuple[Callable[[], Any], Callable[[Any], None]]] = deque()
        self._temporary = 0
        self._locks: set[str] = set()
        # (position, size) of what need not stay in memory.
        self.dropped: list[tuple[int, int]] = []
        # What `cache_memory_bytes` answers.
        self.memory_bytes = -1

    def mark(self, kind: str, value: Any = None) -> None:
        """Record for the checker what has been promised so far."""
        self.ops.append(Mark(kind, value))

    def pump(self) -> int:
        """Run the waiting background work; return how many pieces there were."""
        count = 0
        while self._later:
            work, done = self._later.popleft()
            count += 1
            try:
                result = work()
            except Exception as error:  # noqa: BLE001 - `done` gets it
                result = error
            done(result)
        return count

    def _do(self, op: Op) -> None:
        self.ops.append(op)
        self.image.apply(op)

    def _find(self, path: str) -> tuple[int, str, int | None]:
        """Return (inode of the directory, last name, inode or None)."""
        *parents, name = [part for part in path.split("/") if part] or [""]
        inode = ROOT_INODE
        for part in parents:
            child = self.image.names[inode].get(part)
            if child is None or child not in self.image.names:
                raise FileNotFoundError(errno.ENOENT, "no such directory", path)
            inode = child
        return inode, name, (self.image.names[inode].get(name) if name else ROOT_INODE)

    def inode(self, path: str) -> int | None:
        """Return the inode that has this name, None if there is none."""
        return self._find(path)[2]

    def _new_inode(self) -> int:
        self._next_inode += 1
        return self._next_inode - 1

    def open(self, path: str, *, create: bool = False) -> "RecordingFile":
        directory, name, inode = self._find(path)
        if inode is None:
            if not create:
                raise FileNotFoundError(errno.ENOENT, "no such file", path)
            inode = self._new_inode()
            self._do(Link(directory, name, inode, is_directory=False))
        if inode in self.image.names:
            raise IsADirectoryError(errno.EISDIR, "is a directory", path)
        return RecordingFile(self, path, inode)

    def read_file(self, path: str) -> bytes:
        inode = self._find(path)[2]
        if inode is None:
            raise FileNotFoundError(errno.ENOENT, "no such file", path)
        return bytes(self.image.contents[inode])

    def replace_file(self, path: str, data: bytes, *, sync: bool = True) -> None:
        self._temporary += 1
        temporary = f"{path}.{self._temporary}.tmp"
        file = self.open(temporary, create=True)
        file.append([data])
        if sync:
            self.sync_file_of_checkpoint(file)
        self.rename(temporary, path)
        if sync:
            self.sync_directory(path.rpartition("/")[0])

    def sync_file_of_checkpoint(self, file: "RecordingFile") -> None:
        """Sync a temporary file before it gets its name."""
        file.sync()

    def rename(self, source: str, target: str) -> None:
        directory, name, inode = self._find(source)
        if inode is None:
            raise FileNotFoundError(errno.ENOENT, "no such file", source)
        target_directory, target_name, _ = self._find(target)
        self._do(Move(directory, name, target_directory, target_name))

    def remove(self, path: str) -> None:
        directory, name, inode = self._find(path)
        if inode is None:
            raise FileNotFoundError(errno.ENOENT, "no such file", path)
        self._do(Unlink(directory, name))

    def remove_tree(self, path: str) -> None:
        directory, name, inode = self._find(path)
        if inode is None:
            raise FileNotFoundError(errno.ENOENT, "no such directory", path)
        for child in list(self.image.names.get(inode, {})):
            self.remove_tree(f"{path}/{child}")
        self._do(Unlink(directory, name))

    def make_directory(self, path: str) -> None:
        parent = path.rpartition("/")[0]
        if parent and self._find_or_none(parent) is None:
            self.make_directory(parent)
        directory, name, inode = self._find(path)
        if inode is None:
            self._do(Link(directory, name, self._new_inode(), is_directory=True))
        elif inode not in self.image.names:
            raise FileExistsError(errno.EEXIST, "is a file", path)

    def _find_or_none(self, path: str) -> int | None:
        try:
            return self._find(path)[2]
        except FileNotFoundError:
            return None

    def list(self, path: str) -> list[str]:
        inode = self._find(path)[2]
        if inode is None:
            raise FileNotFoundError(errno.ENOENT, "no such directory", path)
        return sorted(self.image.names[inode])

    def exists(self, path: str) -> bool:
        return self._find_or_none(path) is not None

    def sync_directory(self, path: str) -> None:
        inode = self._find(path)[2]
        assert inode is not None, f"{path} is no directory"
        self._do(SyncDirectory(inode))

    def free_bytes(self, path: str) -> int:
        return 1 << 40

    def lock(self, path: str) -> "RecordingLock":
        if path in self._locks:
            raise BlockingIOError(errno.EAGAIN, "locked", path)
        self._locks.add(path)
        return RecordingLock(self._locks, path)

    def run_later(self, work: Callable[[], Any], done: Callable[[Any], None]) -> None:
        self._later.append((work, done))

    def cache_memory_bytes(self) -> int:
        return self.memory_bytes

    def boot_id(self) -> str:
        return self.boot


class RecordingLock:
    """A lock that lives as long as its disk object: another machine's boot has none."""

    def __init__(self, locks: set[str], path: str) -> None:
        self._locks = locks
        self._path = path

    def identity(self) -> str:
        return "original"

    def release(self) -> None:
        self._locks.discard(self._path)


class RecordingFile:
    """A File over an inode; it stays usable when its name goes."""

    def __init__(self, disk: RecordingDisk, path: str, inode: int) -> None:
        self.path = path
        self.inode = inode
        # Hints: the size at each start of write-out, and the positions before which pages may go.
        self.written_out: list[int] = []
        self.is_complete = False
        self.dropped_before: list[int] = []
        # Planted faults: raised by the next append (after so many bytes went in), sync, or truncation.
        self.append_fault: tuple[int, OSError] | None = None
        self.sync_fault: OSError | None = None
        self.is_resident = True
        self._disk = disk
        self._is_closed = False
        self._is_broken = False

    @property
    def size_bytes(self) -> int:
        return len(self._disk.image.contents[self.inode])

    def _check_open(self) -> None:
        if self._is_closed:
            raise OSError(errno.EBADF, "the file was closed", self.path)

    def append(self, parts: Sequence[bytes]) -> None:
        self._check_open()
        if self._is_broken:
            raise BrokenFileError(errno.EIO, "an earlier append failed half-way", self.path)
        data = b"".join(parts)
        size = self.size_bytes
        if self.append_fault is not None:
            (written, error), self.append_fault = self.append_fault, None
            self._disk._do(Write(self.inode, size, data[:written]))
            self._disk._do(Truncate(self.inode, size))
            raise error
        self._disk._do(Write(self.inode, size, data))

    def hot_range(self, position: int, size: int) -> None:
        """No kernel could send from here."""

    def read_resident(self, position: int, size: int) -> bytes | None:
        self._check_open()
        data = self._disk.image.contents[self.inode][position : position + size]
        if not self.is_resident or len(data) < size:
            return None
        return bytes(data)

    def read(self, position: int, size: int, residency: Residency | None = None) -> bytes:
        self._check_open()
        if residency is not None:
            residency.resident_bytes = size if self.is_resident else 0
        return bytes(self._disk.image.contents[self.inode][position : position + size])

    def read_later(
        self, position: int, size: int, done: Callable[[Any], None], residency: Residency | None = None
    ) -> None:
        self._disk.run_later(lambda: self.read(position, size, residency), done)

    def expect_jumps(self) -> None:
        self._check_open()

    def truncate(self, size: int) -> None:
        self._check_open()
        self._disk._do(Truncate(self.inode, size))

    def sync(self) -> None:
        self._check_open()
        if self.sync_fault is not None:
            error, self.sync_fault = self.sync_fault, None
            raise error
        self._disk._do(Sync(self.inode))

    def sync_later(self, done: Callable[[Any], None]) -> None:
        self._disk.run_later(self.sync, done)

    def write_out(self, *, is_last: bool = False) -> None:
        self.written_out.append(self.size_bytes)
        self.is_complete = is_last

    def drop_before(self, position: int) -> int:
        self.dropped_before.append(position)
        return position

    def drop_cached(self, position: int, size: int) -> None:
        self._disk.dropped.append((position, size))

    def close(self) -> None:
        self._is_closed = True
