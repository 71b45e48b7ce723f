"""The last commits of every group that this broker coordinates, in few bytes, from the log of the offsets topic.

One term of a partition of that topic begins with nothing, hears of all commits that its log holds, and goes on with
those that are made. So a coordinator that takes over has the windows that its predecessor had, and one that loses the
partition keeps nothing that could be outdated. Where the log was renewed, it has only the last commit of each group and
partition from before that, so windows may be shorter until groups have committed again.

Units: offsets; Unix ms of the coordinator that received the commit.
"""

from collections.abc import Iterator
from typing import Protocol

from syncline.core.lag.commit_slab import CommitSlab


class KnowsEnds(Protocol):
    """Where logs end."""

    def newest(self, topic: str, partition: int, /) -> int | None:
        """Return the newest sampled end of a partition, None before the first sample."""


class TermCommits:
    """The groups of one term: a `CommitWatch`."""

    def __init__(self, ends: KnowsEnds, intervals: int, min_distance_ms: int) -> None:
        self._ends = ends
        self._intervals = intervals
        self._min_distance_ms = min_distance_ms
        self.slabs: dict[str, CommitSlab] = {}

    def stored(self, group_id: str, topic: str, partition: int, offset: int, commit_ms: int, /) -> None:
        """Add a commit to its window. Coordinators keep whatever a client commits; an offset below 0 is none."""
        if offset < 0:
            self.forgotten(group_id, topic, partition)
            return
        slab = self.slabs.get(group_id)
        if slab is None:
            slab = self.slabs[group_id] = CommitSlab(self._intervals, self._min_distance_ms)
        slab.add(slab.slot(topic, partition), offset, commit_ms, self._ends.newest(topic, partition))

    def forgotten(self, group_id: str, topic: str, partition: int, /) -> None:
        """Drop a window, and the group with its last one."""
        slab = self.slabs.get(group_id)
        if slab is None:
            return
        slab.drop(topic, partition)
        if next(slab.partitions(), None) is None:
            del self.slabs[group_id]


class Commits:
    """The commits of all terms of one broker."""

    def __init__(self, ends: KnowsEnds, *, intervals: int, min_distance_ms: int) -> None:
        self._ends = ends
        self._intervals = intervals
        self._min_distance_ms = min_distance_ms
        self._terms: dict[int, TermCommits] = {}

    def term_began(self, partition: int, /) -> TermCommits:
        """Return what hears of the commits of a new term of this partition of the offsets topic."""
        term = self._terms[partition] = TermCommits(self._ends, self._intervals, self._min_distance_ms)
        return term

    def term_ended(self, partition: int, /) -> None:
        """Forget the groups of a term."""
        self._terms.pop(partition, None)

    def slab(self, group_id: str) -> CommitSlab | None:
        """Return the windows of a group, None if it has committed nothing."""
        for term in self._terms.values():
            slab = term.slabs.get(group_id)
            if slab is not None:
                return slab
        return None

    def groups(self) -> Iterator[tuple[str, CommitSlab]]:
        """Yield all groups with commits, as they are now; groups may come and go meanwhile."""
        for term in tuple(self._terms.values()):
            yield from tuple(term.slabs.items())

    @property
    def size_bytes(self) -> int:
        """The bytes of all windows."""
        return sum(slab.size_bytes for term in self._terms.values() for slab in term.slabs.values())

    def check_invariants(self) -> None:
        """Assert that every window is well formed, and belongs to one group."""
        seen: dict[str, None] = {}
        for group_id, slab in self.groups():
            assert group_id not in seen, f"{group_id} is in two terms"
            seen[group_id] = None
            slab.check_invariants()
