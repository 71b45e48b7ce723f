"""Shared reads: woken fetches that want the same records read them once.

An append wakes the fetches of all followers of a partition, and they mostly want the same bytes. While woken fetches
look, the last read stays here for the next look. `WokenFetches.settle` drops it at its end, so it is never stale.
"""

from syncline.records.buffers import Buffer
from syncline.storage.segments.reading import Search, Slice


class SharedReads:
    """The last read of the woken fetches that look just now."""

    __slots__ = ("_data", "_is_kept", "_plan")

    def __init__(self) -> None:
        self._is_kept = False
        self._plan: Slice | Search | None = None
        self._data: Buffer | None = None

    def begin(self) -> None:
        """Keep each read from now on, until the next one."""
        self._is_kept = True

    def end(self) -> None:
        """Forget the last read, and keep no other."""
        self._is_kept = False
        self._plan = self._data = None

    def read(self, plan: Slice | Search) -> Buffer | None:
        """Return the bytes if they are in memory, else None."""
        if not self._is_kept:
            return plan.read_resident()
        if self._data is not None and plan == self._plan:
            return self._data
        data = plan.read_resident()
        self._plan, self._data = plan, data
        return data
