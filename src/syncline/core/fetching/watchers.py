"""Fetch watch: which partitions of which fetch sessions changed.

One hard idea: the cost of a fetch must follow what happened, not what exists. A
follower's session may cover thousands of idle partitions; instead of reading
them all on each request, each partition marks its entries in the sessions that
hold it when something moved, and a session looks at those only.

Marked are followers by every append and watermark, consumers by watermarks
only. Woken are followers by data, consumers by the watermark. A watermark
alone wakes no follower; it travels with the next answer (KAFKA-9731, KAFKA-9952).

Invariants: an entry whose session is gone is marked no more, and dropped when as many were
added again.
Source: KIP-227.
"""

from syncline.core.fetching.session import SessionPartition


class PartitionWatchers:
    """The sessions that hold one partition."""

    __slots__ = ("_consumers", "_followers", "_sweep_at")

    def __init__(self) -> None:
        self._followers: list[SessionPartition] = []
        self._consumers: list[SessionPartition] = []
        # To look for those that ended at every addition would cost thousands of readers the square of their number.
        self._sweep_at = 1

    def __len__(self) -> int:
        return len(self._followers) + len(self._consumers)

    def add(self, entry: SessionPartition) -> None:
        """Mark `entry` from now on; now and then forget those whose session ended."""
        watchers = self._followers if entry.is_follower else self._consumers
        if len(self) >= self._sweep_at:
            for each in (self._followers, self._consumers):
                each[:] = [known for known in each if not known.is_gone]
            self._sweep_at = max(2 * len(self), 1)
        watchers.append(entry)

    def check_invariants(self) -> None:
        """Assert that watchers are sorted by kind, and that those that are gone do not pile up."""
        for entry in self._followers:
            assert entry.is_follower, f"{entry!r} is woken by data, as followers are"
        for entry in self._consumers:
            assert not entry.is_follower, f"{entry!r} is woken by the watermark, as consumers are"
        assert len(self) <= self._sweep_at, f"{len(self)} watchers, to be swept at {self._sweep_at}"

    def log_end_moved(self) -> None:
        """Mark and wake followers: records were appended."""
        for entry in self._followers:
            entry.changed(wakes=True)

    def high_watermark_moved(self) -> None:
        """Mark all, and wake consumers: the watermark moved."""
        for entry in self._followers:
            entry.changed(wakes=False)
        for entry in self._consumers:
            entry.changed(wakes=True)

    def log_start_moved(self) -> None:
        """Mark all and wake none: the log start moved."""
        for entry in (*self._followers, *self._consumers):
            entry.changed(wakes=False)

    def role_changed(self) -> None:
        """Mark and wake all: the partition changed its leadership, vanished or failed."""
        for entry in (*self._followers, *self._consumers):
            entry.changed(wakes=True)
