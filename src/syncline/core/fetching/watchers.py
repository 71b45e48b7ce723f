"""Fetch watch: which partitions of which fetch sessions changed.

One hard idea: a fetch must cost in proportion to changes, not to partitions. A
follower's session may cover thousands of idle partitions. A request does not
read them all: each partition that changes marks its entries in the sessions
that hold it, and a session looks at marked entries only.

Appends mark and wake followers. Watermarks mark all readers and wake consumers
only: a follower gets the watermark with its next answer (KAFKA-9731, KAFKA-9952).

Invariants: an entry whose session is gone is never marked, and is dropped once as many
entries were added again.
Source: KIP-227.
"""

from syncline.core.fetching.session import SessionPartition


class PartitionWatchers:
    """The sessions that hold one partition."""

    __slots__ = ("_consumers", "_followers", "_sweep_at")

    def __init__(self) -> None:
        self._followers: list[SessionPartition] = []
        self._consumers: list[SessionPartition] = []
        # A sweep at every addition would cost quadratic time with thousands of readers.
        self._sweep_at = 1

    def __len__(self) -> int:
        return len(self._followers) + len(self._consumers)

    def add(self, entry: SessionPartition) -> None:
        """Mark `entry` from now on; occasionally sweep out entries whose session ended."""
        watchers = self._followers if entry.is_follower else self._consumers
        if len(self) >= self._sweep_at:
            for each in (self._followers, self._consumers):
                each[:] = [known for known in each if not known.is_gone]
            self._sweep_at = max(2 * len(self), 1)
        watchers.append(entry)

    def check_invariants(self) -> None:
        """Assert that watchers are sorted by kind, and that ended ones do not accumulate."""
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

    def throttle_changed(self) -> None:
        """Mark and wake those that a throttle holds back: it may be another one now, or none."""
        for entry in self._followers:
            if entry.gate is not None:
                entry.changed(wakes=True, frees=True)

    def role_changed(self) -> None:
        """Mark and wake all: the partition changed its leadership, vanished or failed."""
        for entry in (*self._followers, *self._consumers):
            entry.changed(wakes=True, frees=True)
