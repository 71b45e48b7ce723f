"""Files and directories that were renamed for deletion, and when they may be removed.

One hard idea: a deleted file loses its name at once and its bytes later, so
that a reader that has it open can finish. After a crash the names alone show
what to remove, so nothing here is stored.
"""

import contextlib
from collections.abc import Callable
from itertools import count
from typing import Final

from syncline.storage.disk import Disk
from syncline.storage.recovery.aside import NAME_CHARACTERS_MAX

DELETE_SUFFIX: Final = "-delete"


class Graveyard:
    """Renamed paths and their due times."""

    __slots__ = ("_due_ms", "_prepared")

    def __init__(self) -> None:
        self._due_ms: dict[str, int] = {}
        # What was due the last time, and has waited since.
        self._prepared: list[str] = []

    def __len__(self) -> int:
        return len(self._due_ms) + len(self._prepared)

    def add(self, path: str, due_ms: int) -> None:
        """Schedule `path` for removal at `due_ms`."""
        self._due_ms[path] = due_ms

    def remove_files(self, disk: Disk, now_ms: int) -> None:
        """Remove the files that are due. Raises OSError; those that are left stay due."""
        for path in [path for path, due_ms in self._due_ms.items() if due_ms <= now_ms]:
            # An operator who needs room may have removed it already.
            with contextlib.suppress(FileNotFoundError):
                disk.remove(path)
            del self._due_ms[path]

    def take_due(self, now_ms: int, prepare: Callable[[], bool]) -> list[str]:
        """Return the paths that are due, in the order in which they were added, and forget them.

        `prepare` begins what has to be done before they are removed, and returns whether there is anything: then they
        wait for the next call, and no longer. What could not be done, for want of room, must not keep what takes it.
        """
        ready, self._prepared = self._prepared, []
        due = [path for path, due_ms in self._due_ms.items() if due_ms <= now_ms]
        for path in due:
            del self._due_ms[path]
        if due and prepare():
            self._prepared = due
        else:
            ready += due
        return ready


def name_for_deletion(disk: Disk, directory: str) -> str:
    """Return a free path beside a directory to which it can be renamed; a long name loses its end."""
    parent, _, name = directory.rpartition("/")
    for number in count():
        tail = f".{number}{DELETE_SUFFIX}"
        path = f"{parent}/{name[: NAME_CHARACTERS_MAX - len(tail)]}{tail}"
        if not disk.exists(path):
            return path
    raise AssertionError("numbers do not end")
