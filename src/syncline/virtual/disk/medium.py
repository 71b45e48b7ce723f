"""What is on a simulated disk, and what a power cut leaves of it.

Every file has two contents and every directory two sets of names: what the
machine sees (the page cache), and what would be there after a power cut. A
killed process loses nothing. Of what was not synced, a power cut keeps a random
part: for each file a prefix of its pending writes, the last of which may be torn
at any byte, or present in size but filled with zeros; of the pending changes of
names a prefix, or any subset of those that do not depend on a lost one. Only
`sync_directory` makes names safe (the strict model; the kind one, in which
syncing a file also keeps its name, would hide missing syncs).

Units: sizes and positions are bytes.
"""

import errno
import random
from collections.abc import Iterator
from typing import Final

from syncline.virtual.time.process import Process

ROOM_BYTES: Final = 1 << 40

_CHANGES: Final = frozenset({"append", "sync", "truncate", "rename", "remove", "make_directory"})
# Which operations a disk refuses that answers everything with an errno; what it does not refuse works as before.
REFUSED: Final = {
    errno.EIO: _CHANGES,
    errno.EROFS: _CHANGES | {"create"},
    errno.EMFILE: frozenset({"open", "list"}),
}


class Inode:
    """A file: its visible contents, its safe contents, and the pending changes between them."""

    __slots__ = ("data", "durable", "locked_by", "number", "pending")

    def __init__(self) -> None:
        self.data = bytearray()
        self.durable = bytearray()
        # Since the last sync, in order: (position, size) of a write, or (new size, -1) of a truncation.
        self.pending: list[tuple[int, int, bytes]] = []
        self.locked_by: Process | None = None
        # Set by the first lock; 0 before.
        self.number = 0

    def append(self, data: bytes) -> None:
        """Write at the end."""
        self.pending.append((len(self.data), len(data), data))
        self.data += data

    def truncate(self, size: int) -> None:
        """Cut to `size`, or extend with zeros."""
        if size <= len(self.data):
            del self.data[size:]
        else:
            self.data += bytes(size - len(self.data))
        self.pending.append((size, -1, b""))

    def sync(self) -> None:
        """Make all of it safe."""
        for change in self.pending:
            self._apply(change)
        self.pending.clear()

    def lose_power(self, rng: random.Random) -> None:
        """Keep what is safe and a random part of the rest."""
        kept = rng.choice((0, len(self.pending), rng.randint(0, len(self.pending))))
        for change in self.pending[:kept]:
            self._apply(change)
        if kept < len(self.pending) and self.pending[kept][1] > 0 and rng.random() < 0.5:
            position, size, data = self.pending[kept]
            torn = rng.choice((1, 7, 8, 512, 4096, size - 1, rng.randint(0, size)))
            if rng.random() < 0.3:
                data = bytes(size)  # the size reached the disk, the contents did not
            self._apply((position, min(torn, size), data[:torn]))
        self.pending.clear()
        self.data = bytearray(self.durable)
        self.locked_by = None

    def _apply(self, change: tuple[int, int, bytes]) -> None:
        position, size, data = change
        if size < 0:
            del self.durable[position:]
            self.durable += bytes(position - len(self.durable))
        else:
            self.durable += bytes(max(0, position - len(self.durable)))
            self.durable[position : position + size] = data


class Directory:
    """A directory: its visible names and its safe names."""

    __slots__ = ("durable", "names")

    def __init__(self) -> None:
        self.names: dict[str, Node] = {}
        self.durable: dict[str, Node] = {}


Node = Inode | Directory
# One atomic change of names: (directory, name, new node or None), ...
NameChange = tuple[tuple[Directory, str, Node | None], ...]


class Medium:
    """What is on one host's disk; it outlives processes and, in part, power cuts."""

    def __init__(self, host: str, rng: random.Random) -> None:
        self.host = host
        self.rng = rng
        self.root = Directory()
        self.room_bytes = ROOM_BYTES
        # The errno with which every operation fails that this errno can strike (`REFUSED`); 0 while none does.
        self.refusing = 0
        self.boots = 0
        self.numbers = 0
        self._pending: list[NameChange] = []

    def change(self, *parts: tuple[Directory, str, Node | None]) -> None:
        """Change names atomically."""
        for directory, name, node in parts:
            if node is None:
                directory.names.pop(name, None)
            else:
                directory.names[name] = node
        self._pending.append(parts)

    def sync_directory(self, directory: Directory) -> None:
        """Make the names in a directory safe, and the changes that were atomic with them."""
        rest: list[NameChange] = []
        for change in self._pending:
            if any(part[0] is directory for part in change):
                _make_durable(change)
            else:
                rest.append(change)
        self._pending = rest

    def lose_power(self) -> int:
        """Lose what a power cut takes; return how many bytes of files were lost."""
        before = sum(len(inode.data) for inode in self.inodes())
        kept = self.rng.choice((0, len(self._pending), self.rng.randint(0, len(self._pending))))
        skipped: list[Directory] = []
        for number, change in enumerate(self._pending):
            if number < kept or (self.rng.random() < 0.2 and not any(part[0] in skipped for part in change)):
                _make_durable(change)
            else:
                skipped.extend(part[0] for part in change)
        self._pending.clear()
        self._forget(self.root)
        self.boots += 1
        return before - sum(len(inode.data) for inode in self.inodes())

    def _forget(self, directory: Directory) -> None:
        directory.names = dict(directory.durable)
        for node in directory.names.values():
            if isinstance(node, Directory):
                self._forget(node)
            else:
                node.lose_power(self.rng)

    def inodes(self, directory: Directory | None = None) -> Iterator[Inode]:
        """Yield all files, ordered by path."""
        for node in (directory or self.root).names.values():
            if isinstance(node, Directory):
                yield from self.inodes(node)
            else:
                yield node

    def used_bytes(self) -> int:
        """Return how much room the files take."""
        return sum(len(inode.data) for inode in self.inodes())

    def release_locks(self, process: Process) -> None:
        """Release the locks of a dead process."""
        for inode in self.inodes():
            if inode.locked_by is process:
                inode.locked_by = None


def _make_durable(change: NameChange) -> None:
    for directory, name, node in change:
        if node is None:
            directory.durable.pop(name, None)
        else:
            directory.durable[name] = node
