"""The last commits of a group in a partition, kept exactly as Burrow keeps them.

One hard idea: a window is a number of commits, not a time. So what enters the window decides how long it is, and three
rules decide what enters. A commit that arrives late, by its order in the offsets topic, is put in its place, but
without a lag: where the log ended then is not known. A commit too soon after its predecessor replaces it and keeps the
predecessor's time; otherwise a group that commits all the time would never begin a new entry. A commit that is older
than a full window is dropped.

Three consequences are easily missed. With a distance of 0, a commit whose time lies *before* its predecessor's still
replaces it, so times do not fall while commits come in order. A late commit that is merged takes its predecessor's lag
away. And one that belongs behind the oldest commit of a full window takes that one's slot, however close they are.

This module is the readable form, for comparisons; `commit_slab` keeps the same in few bytes.
Units: offsets; order is the position in the offsets topic; times in ms.
Invariants: blanks come first; orders rise.
Source: Burrow, in-memory storage.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import Final, NamedTuple

INTERVALS: Final = 10
# Burrow ignores commits that are a week old.
EXPIRE_MS: Final = 604_800_000


class Commit(NamedTuple):
    """One commit of a window."""

    offset: int
    order: int
    commit_ms: int
    observed_ms: int
    """When it was seen, in whole seconds, as Burrow shows it."""
    lag: int | None
    """Distance to the newest known end when it was added; None if it was not the newest commit then."""


def last_moved_ms(window: Sequence[Commit | None]) -> int | None:
    """Return when a group last committed another offset than before, as far as its window shows; None without any."""
    commits = [commit for commit in window if commit is not None]
    if not commits:
        return None
    moves = (later.commit_ms for earlier, later in pairwise(commits) if later.offset != earlier.offset)
    return max(moves, default=commits[0].commit_ms)


class CommitRing:
    """The last `intervals` commits of one group in one partition."""

    __slots__ = ("_commits", "_expire_ms", "_intervals", "_min_distance_ms")

    def __init__(self, intervals: int = INTERVALS, min_distance_ms: int = 0, expire_ms: int = EXPIRE_MS) -> None:
        assert intervals >= 1, f"a window of {intervals} commits"
        assert min_distance_ms >= 0, f"commits {min_distance_ms} ms apart"
        self._intervals = intervals
        self._min_distance_ms = min_distance_ms
        self._expire_ms = expire_ms
        # Oldest first, without blanks.
        self._commits: list[Commit] = []

    def commits(self) -> Sequence[Commit | None]:
        """Return the window, oldest first; None stands for a blank, and blanks come first."""
        return [*[None] * (self._intervals - len(self._commits)), *self._commits]

    def add(self, offset: int, order: int, commit_ms: int, observed_ms: int, end: int | None) -> None:
        """Add a commit that was seen at `observed_ms`, when the log's newest known end was `end`.

        A commit is dropped when no end is known yet, when it has expired, when its order is in the window already, and
        when the window is full of newer ones.
        """
        observed_ms = observed_ms // 1_000 * 1_000
        if end is None or commit_ms < observed_ms - self._expire_ms:
            return
        commits = self._commits
        place = len(commits)
        while place and commits[place - 1].order > order:
            place -= 1
        is_newest = place == len(commits)
        is_full = len(commits) == self._intervals
        if (place and commits[place - 1].order == order) or (is_full and not place):
            return
        commit = Commit(offset, order, commit_ms, observed_ms, max(0, end - offset) if is_newest else None)
        # A late commit that can only take the oldest one's slot is never merged with it.
        may_merge = is_newest or not is_full or place > 1
        before = commits[place - 1] if place and may_merge else None
        if before is not None and commit_ms - before.commit_ms < self._min_distance_ms:
            commits[place - 1] = commit._replace(commit_ms=before.commit_ms)
            return
        commits.insert(place, commit)
        if is_full:
            del commits[0]

    def check_invariants(self) -> None:
        """Assert the order of the window."""
        assert len(self._commits) <= self._intervals, f"{len(self._commits)} commits of {self._intervals}"
        for before, after in pairwise(self._commits):
            assert before.order < after.order, f"{after} behind {before}"
