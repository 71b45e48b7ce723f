"""The append times of one segment, in memory and in the file beside it.

One hard idea: append times are hints, so they never take a log offline. What the disk refuses waits for the next try;
after any other error the segment has no append times any more, and no file that could speak for other records later.

Units: as in `append_times.py`. Failure: methods that write raise OSError only if the disk refuses.
"""

import contextlib
from collections.abc import Sequence

from syncline.model.ids import Offset
from syncline.storage.arrivals.append_time_search import AppendTimesBetween, AppendTimeSearch
from syncline.storage.arrivals.append_times import (
    RECENT_MAX,
    AppendTimes,
    CopiedTime,
    Entry,
    Found,
    Matching,
    StoredTimes,
    Unsaved,
)
from syncline.storage.disk import Disk


class KeptTimes:
    """What is known of when a segment's batches were appended."""

    __slots__ = ("_base_offset", "_disk", "_log_path", "_path", "_under_way", "recent")

    def __init__(self, disk: Disk, path: str, log_path: str, base_offset: Offset) -> None:
        self._disk = disk
        self._path = path
        self._log_path = log_path
        self._base_offset = base_offset
        # None: only on the disk, if anywhere.
        self.recent: AppendTimes | None = AppendTimes(base_offset)
        # What a worker writes at this moment.
        self._under_way: Unsaved | None = None

    def __repr__(self) -> str:
        return f"KeptTimes({self._path}, {self.recent!r})"

    def begin_after(self, older: "KeptTimes") -> None:
        """Note no time before the last one of the segment before."""
        assert not self.recent, f"{self._path} has append times already: {self.recent!r}"
        if older.recent is not None:
            self.recent = AppendTimes(self._base_offset, older.recent.last_append_ms, older.recent.latest_ms)

    def find(self, offset: Offset) -> Found | AppendTimeSearch | None:
        """Return what is known of `offset`, or what a worker needs to look it up; None: nothing is known."""
        recent = self.recent
        if recent is not None:
            found = recent.at_offset(offset)
            if found is not None or not recent.needs_file:
                return found
        return AppendTimeSearch(self._disk, self._path, self._log_path, self._base_offset, offset)

    def between(
        self, start: int, end: int, *, with_floor: bool, by_offset: bool = False
    ) -> list[CopiedTime] | AppendTimesBetween:
        """Return the entries of batches at positions from `start` to `end`, or what a worker needs to find them.

        `by_offset`: these are offsets.
        """
        found = None
        if self.recent is not None:
            found = self.recent.between(start, end, with_floor=with_floor, by_offset=by_offset)
        if found is not None:
            return found
        return AppendTimesBetween(
            self._disk, self._path, self._log_path, self._base_offset, start, end, with_floor, by_offset
        )

    def fill(self, gap_offset: Offset, entries: Sequence[Entry]) -> bool:
        """Put entries in the place of a gap; return False if they do not fit, or a worker writes the file."""
        return self.recent is not None and self._under_way is None and self.recent.fill(gap_offset, entries)

    @property
    def is_being_saved(self) -> bool:
        """Whether a worker writes the file at this moment."""
        return self._under_way is not None

    def begin_saving(self) -> Unsaved | None:
        """Return what a worker has to write and sync, None if nothing; nobody else writes until `end_saving`."""
        assert self._under_way is None, f"{self._path} is written twice at the same time"
        if self.recent is not None:
            self._under_way = self.recent.unsaved(self._path, for_good=True)
        return self._under_way

    def end_saving(self, *, is_sound: bool) -> None:
        """Record how that ended; `is_sound`: all of it is safe, and nothing was cut off meanwhile."""
        unsaved, self._under_way = self._under_way, None
        if unsaved is None or self.recent is None:
            return
        if is_sound:
            self.recent.saved(unsaved, is_synced=True)
        else:
            self.recent.doubt_file()

    def save(self, *, for_good: bool) -> bool:
        """Bring the file up to date, and sync it if `for_good`; return whether that took a write."""
        if self._under_way is not None:
            return False
        recent = self.recent
        unsaved = None if recent is None else recent.unsaved(self._path, for_good=for_good)
        if recent is None or unsaved is None:
            return False
        if unsaved.write(self._disk, sync=for_good):
            recent.saved(unsaved, is_synced=for_good)
            return True
        self.lose()
        return False

    def lose(self) -> None:
        """Forget everything: the file cannot be written."""
        if self.recent is not None:
            self.recent.lose()
        with contextlib.suppress(OSError):
            self._disk.remove(self._path)

    def cut(self, end_offset: Offset) -> None:
        """Forget what is cut off, in the file as well, before the batches go; may be repeated if it was refused."""
        if self.recent is None:
            # To find out which of them stay, the file would have to be read.
            is_whole = not self._disk.exists(self._path)
            self.recent = AppendTimes.of_file(self._base_offset, (), older_count=0, is_whole=is_whole)
        self.recent.cut(end_offset)
        if not self.recent.is_saved:
            self.save(for_good=True)

    def release(self) -> None:
        """Forget what can be read again."""
        if self.recent is not None and self.recent.is_saved:
            self.recent = None

    # At a start: these may wait for the disk, and raise OSError.

    def load(self, end_offset: Offset, size_bytes: int) -> None:
        """Read the newest entries of a segment of this end and size; after a clean stop they can be trusted."""
        stored = StoredTimes.read(self._disk, self._path, self._base_offset, newest=RECENT_MAX // 2)
        self.recent = stored.below(self._base_offset, end_offset, size_bytes)

    def leave_on_disk(self) -> None:
        """Read nothing yet: a look-up checks what it finds."""
        self.recent = None

    def compare(self) -> Matching:
        """Return what the file holds, to be shown the batches that are there."""
        return Matching(self._base_offset, StoredTimes.read(self._disk, self._path, self._base_offset))

    def take(self, matching: Matching) -> None:
        """Keep what was right."""
        self.recent = matching.result()
