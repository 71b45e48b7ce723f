"""Files and directories that were renamed for deletion, and when they may be removed.

One hard idea: a deleted file loses its name at once and its bytes later, so
that a reader that has it open can finish. After a crash the names alone show
what to remove, so nothing here is stored.
"""

import contextlib

from syncline.storage.disk import Disk


class Graveyard:
    """Renamed paths and their due times."""

    __slots__ = ("_due_ms",)

    def __init__(self) -> None:
        self._due_ms: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._due_ms)

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

    def take_due(self, now_ms: int) -> list[str]:
        """Return the paths that are due, in the order in which they were added, and forget them."""
        due = [path for path, due_ms in self._due_ms.items() if due_ms <= now_ms]
        for path in due:
            del self._due_ms[path]
        return due
