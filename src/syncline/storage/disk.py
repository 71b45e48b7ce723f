"""The Disk port: everything that storage needs from the outside world.

One hard idea: a write is not a promise. A power cut may undo what `append`,
`rename`, `remove` and `open(create=True)` did, in any order, until `sync`
(contents of a file) and `sync_directory` (names in a directory) have returned.
A process that dies loses nothing.

All calls come from one thread (the loop's), except that `work` given to
`run_later` runs beside it and may use `File.read`, `File.sync`, `open`,
`read_file`, `replace_file`, `list`, `remove_tree` and `cache_memory_bytes`, and
whatever a file has that it opened itself. `done` is always called on the loop. A file may be closed
while such work uses it; the work then ends with an OSError or its result.

Units: positions and sizes are bytes. Paths are text with "/" between names.
Errors are OSError with an errno; a failed `sync` is final, since a second one
may succeed without the pages.
"""

from collections.abc import Callable, Sequence
from typing import Final, Protocol, TypeVar

from syncline.model.compiled import mypyc_attr
from syncline.records.buffers import Buffer, FileRange

Result = TypeVar("Result")

UNMEASURED: Final = -1


@mypyc_attr(native_class=False)
class BrokenFileError(OSError):
    """A file's contents are unknown: a failed append could not be cut off, or a sync failed."""


class Residency:
    """What a read found out about memory: the read fills it in."""

    __slots__ = ("ahead_bytes", "reads_ahead", "resident_bytes")

    def __init__(self, *, reads_ahead: bool = False) -> None:
        # Whether to have as much again brought into memory after waiting for the disk.
        self.reads_ahead = reads_ahead
        # How many of the bytes were in memory before anybody asked for them; UNMEASURED where that is not known.
        self.resident_bytes = UNMEASURED
        # How many of the bytes behind these were brought in that way.
        self.ahead_bytes = 0


class File(Protocol):
    """An open file that grows at its end."""

    @property
    def path(self) -> str:
        """The file's path when it was opened."""

    @property
    def size_bytes(self) -> int:
        """The size of the file."""

    def append(self, parts: Sequence[Buffer]) -> None:
        """Write `parts` at the end, as one write.

        If that fails, the file has its former size again and the OSError says
        why; BrokenFileError if the former size could not be restored.
        """

    def read_resident(self, position: int, size: int) -> Buffer | None:
        """Return `size` bytes if they are in memory and exist, else None; never waits for the disk."""

    def hot_range(self, position: int, size: int) -> FileRange | None:
        """Return `size` bytes that this process wrote a moment ago, to be sent unread.

        None if they are older than that, do not exist, or cannot be sent.
        """

    def read(self, position: int, size: int, residency: Residency | None = None) -> Buffer:
        """Return up to `size` bytes, fewer only at the end of the file; may wait for the disk.

        `residency` learns how much of it was in memory.
        """

    def read_later(
        self,
        position: int,
        size: int,
        done: Callable[[Buffer | OSError], None],
        residency: Residency | None = None,
    ) -> None:
        """Read without waiting; `done` gets what `read` would have returned or raised.

        If `read_resident` was asked for the same bytes just before, `residency` learns what that has found.
        """

    def expect_jumps(self) -> None:
        """Hint: the next reads come from anywhere, and want no more than they ask for."""

    def truncate(self, size: int) -> None:
        """Cut the file to `size` bytes."""

    def sync(self) -> None:
        """Return when the contents are safe from a power cut."""

    def sync_later(self, done: Callable[[OSError | None], None]) -> None:
        """Sync without waiting; `done` gets None or the error."""

    def write_out(self, *, is_last: bool = False) -> None:
        """Hint: start to write out what is new; does not wait. `is_last`: the file does not grow on."""

    def drop_before(self, position: int) -> int:
        """Hint: free the page cache of what lies before a position, once it is written out; does not wait.

        Returns the position up to which pages are gone, or soon will be; 0 if none are.
        """

    def drop_cached(self, position: int, size: int) -> None:
        """Hint: the page cache need not keep these bytes; may be called in any thread."""

    def close(self) -> None:
        """Close the descriptor; closing twice is fine."""


class Lock(Protocol):
    """A lock file that dies with its process."""

    def identity(self) -> str:
        """Return one word that identifies this file: it is stable while the file exists, and a copy has another."""

    def release(self) -> None:
        """Release the lock."""


class Disk(Protocol):
    """One disk of one broker."""

    def open(self, path: str, *, create: bool = False) -> File:
        """Open a file for reading and appending; FileNotFoundError unless it exists or `create` is set."""

    def read_file(self, path: str) -> bytes:
        """Return the whole file; FileNotFoundError if there is none."""

    def replace_file(self, path: str, data: Buffer, *, sync: bool = True) -> None:
        """Make `path` hold `data`: any reader sees the old contents or the new ones.

        With `sync` that also holds after a power cut, and the new contents are safe on return.
        """

    def rename(self, source: str, target: str) -> None:
        """Give a file or directory another name; an existing file is replaced."""

    def remove(self, path: str) -> None:
        """Remove a file; FileNotFoundError if there is none."""

    def remove_tree(self, path: str) -> None:
        """Remove a directory and all below it."""

    def make_directory(self, path: str) -> None:
        """Create a directory and its parents; an existing one is fine."""

    def list(self, path: str) -> list[str]:
        """Return the names in a directory, sorted."""

    def exists(self, path: str) -> bool:
        """Return whether a file or directory has this name."""

    def sync_directory(self, path: str) -> None:
        """Return when the names in a directory are safe from a power cut."""

    def free_bytes(self, path: str) -> int:
        """Return how much room is left on the file system of `path`."""

    def lock(self, path: str) -> Lock:
        """Take the lock file `path`; BlockingIOError if another process has it."""

    def run_later(self, work: Callable[[], Result], done: Callable[[Result | Exception], None]) -> None:
        """Run `work` off the loop; `done` gets its result or what it raised."""

    def cache_memory_bytes(self) -> int:
        """Return how much memory the pages of files may take; -1 where that is unknown."""

    def boot_id(self) -> str:
        """Return an id that changes when the machine reboots, "" if there is none.

        The same id as before means that there was no power cut in between:
        everything that a dead process had written is still there.
        """


def sync_for_good(file: File) -> None:
    """Sync a file; an error is a BrokenFileError whatever its number, because no later sync can prove anything."""
    try:
        file.sync()
    except OSError as error:
        raise BrokenFileError(error.errno, f"the sync failed: {error.strerror}", file.path) from error


def parent_of(path: str) -> str:
    """Return the directory that contains `path`."""
    return path.rpartition("/")[0] or ("/" if path.startswith("/") else ".")
