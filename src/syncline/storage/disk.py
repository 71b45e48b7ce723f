"""The Disk port: everything that storage needs of the outside world.

One hard idea: a write is not a promise. What `append`, `rename`, `remove` and
`open(create=True)` did may be undone by a power cut, in any order, until `sync`
(contents of a file) and `sync_directory` (names in a directory) have returned.
A process that dies loses nothing.

All calls come from one thread (the loop's), except that `work` given to
`run_later` runs beside it and may use `File.read`, `File.sync`, `open`,
`read_file`, `replace_file` and `remove_tree`. `done` is always called on the loop. A file may be closed while
such work uses it; the work then ends with an OSError or its result.

Units: positions and sizes are bytes. Paths are text with "/" between names.
Errors are OSError with an errno; a failed `sync` is final, since a second one
may succeed without the pages.
"""

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

from syncline.records.buffers import Buffer

Result = TypeVar("Result")


class BrokenFileError(OSError):
    """An append failed and what it left behind could not be cut off: the file's contents are unknown."""


class File(Protocol):
    """An open file that grows at its end."""

    @property
    def path(self) -> str:
        """Where the file is, or was when it was opened."""

    @property
    def size_bytes(self) -> int:
        """How long the file is."""

    @property
    def hit_bytes(self) -> int:
        """How much `read_resident` has returned."""

    @property
    def miss_bytes(self) -> int:
        """How much callers have wanted of `read_later`."""

    def append(self, parts: Sequence[Buffer]) -> None:
        """Write `parts` at the end, as one write.

        If that fails, the file has its former size again and the OSError says
        why; BrokenFileError when not even that could be had.
        """

    def read_resident(self, position: int, size: int) -> Buffer | None:
        """Return `size` bytes if they are in memory and exist, else None; never waits for the disk."""

    def read(self, position: int, size: int) -> Buffer:
        """Return up to `size` bytes, fewer only at the end of the file; may wait for the disk."""

    def read_later(self, position: int, size: int, done: Callable[[Buffer | OSError], None]) -> None:
        """Read without waiting; `done` gets what `read` would have returned or raised."""

    def truncate(self, size: int) -> None:
        """Cut the file to `size` bytes."""

    def sync(self) -> None:
        """Return when the contents are safe from a power cut."""

    def sync_later(self, done: Callable[[OSError | None], None]) -> None:
        """Sync without waiting; `done` gets None or the error."""

    def recycle(self, keep_bytes: int) -> None:
        """Hint: start to write out what is new, and give back memory of all but the last `keep_bytes`."""

    def close(self) -> None:
        """Give the descriptor back; closing twice is fine."""


class Lock(Protocol):
    """A lock file that dies with its process."""

    def identity(self) -> str:
        """Return, in one word, which file this is: it stays the same while the file does, and no copy of it has it."""

    def release(self) -> None:
        """Let others in."""


class Disk(Protocol):
    """One disk of one broker."""

    def open(self, path: str, *, create: bool = False) -> File:
        """Open a file for reading and appending; FileNotFoundError unless it exists or `create` is set."""

    def read_file(self, path: str) -> bytes:
        """Return the whole file; FileNotFoundError if there is none."""

    def replace_file(self, path: str, data: Buffer, *, sync: bool = True) -> None:
        """Make `path` hold `data`: any reader sees the old contents or the new ones.

        With `sync` that is also true after a power cut, and the new ones are safe on return.
        """

    def rename(self, source: str, target: str) -> None:
        """Give a file or directory another name; an existing file is replaced."""

    def remove(self, path: str) -> None:
        """Remove a file; FileNotFoundError if there is none."""

    def remove_tree(self, path: str) -> None:
        """Remove a directory and all below it."""

    def make_directory(self, path: str) -> None:
        """Make a directory and its parents; an existing one is fine."""

    def list(self, path: str) -> list[str]:
        """Return the names in a directory, sorted."""

    def exists(self, path: str) -> bool:
        """Return whether a file or directory has this name."""

    def sync_directory(self, path: str) -> None:
        """Return when the names in a directory are safe from a power cut."""

    def free_bytes(self, path: str) -> int:
        """Return how much room is left where `path` lies."""

    def lock(self, path: str) -> Lock:
        """Take the lock file `path`; BlockingIOError if another process has it."""

    def run_later(self, work: Callable[[], Result], done: Callable[[Result | Exception], None]) -> None:
        """Run `work` off the loop; `done` gets its result or what it raised."""

    def boot_id(self) -> str:
        """Return what changes when the machine starts anew, "" if that cannot be known.

        The same id as before means that no power cut lies between: whatever a
        dead process had written is still there.
        """
