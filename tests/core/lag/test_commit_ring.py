"""The window of commits, as Burrow keeps it: late, repeated, frequent and expired ones; and the slab that is smaller.

The ring is also compared with a transcription of Burrow's pointers and slots, which is ugly, and obviously the same.
"""

import random
from dataclasses import dataclass
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from syncline.core.lag.commit_ring import EXPIRE_MS, Commit, CommitRing, last_moved_ms
from syncline.core.lag.commit_slab import CommitSlab

S = 1_000


def window(ring: CommitRing) -> list[Commit]:
    """Return the commits without blanks."""
    ring.check_invariants()
    return [commit for commit in ring.commits() if commit is not None]


def test_ring_keeps_the_last_commits_behind_its_blanks() -> None:
    """Three of four: one blank first. Six of four: the oldest two are gone."""
    ring = CommitRing(4)
    for order in range(3):
        ring.add(offset=10 * order, order=order, commit_ms=order * S, observed_ms=order * S + 7, end=100)
    three = ring.commits()
    for order in range(3, 6):
        ring.add(offset=10 * order, order=order, commit_ms=order * S, observed_ms=order * S, end=45)

    assert three == [None, *(Commit(10 * order, order, order * S, order * S, 100 - 10 * order) for order in range(3))]
    assert [(commit.offset, commit.lag) for commit in window(ring)] == [(20, 80), (30, 15), (40, 5), (50, 0)]


def test_l30_commits_in_quick_succession_keep_the_time_of_the_first() -> None:
    """A commit each second for 30 s with a distance of 5 s: six or seven entries, five seconds apart."""
    ring = CommitRing(10, min_distance_ms=5 * S)
    for second in range(31):
        ring.add(offset=second, order=second, commit_ms=second * S, observed_ms=second * S, end=1_000)

    commits = window(ring)

    assert [commit.commit_ms for commit in commits] == [0, 5_000, 10_000, 15_000, 20_000, 25_000, 30_000]
    assert [commit.offset for commit in commits] == [4, 9, 14, 19, 24, 29, 30]


def test_l31_late_commit_takes_its_place_without_a_lag_and_a_repeated_one_none() -> None:
    """Nobody knows where the log ended when a late commit was made."""
    ring = CommitRing(5)
    for order in (10, 20, 30):
        ring.add(offset=order, order=order, commit_ms=order * S, observed_ms=100 * S, end=100)
    ring.add(offset=25, order=25, commit_ms=25 * S, observed_ms=101 * S, end=100)
    ring.add(offset=99, order=20, commit_ms=20 * S, observed_ms=101 * S, end=100)
    ring.add(offset=5, order=5, commit_ms=5 * S, observed_ms=101 * S, end=100)

    assert [(commit.order, commit.offset, commit.lag) for commit in window(ring)] == [
        (5, 5, None),
        (10, 10, 90),
        (20, 20, 80),
        (25, 25, None),
        (30, 30, 70),
    ]


def test_commit_older_than_a_full_window_is_dropped() -> None:
    """There is no blank left that it could take."""
    ring = CommitRing(2)
    for order in (10, 20):
        ring.add(offset=order, order=order, commit_ms=order * S, observed_ms=order * S, end=100)
    before = ring.commits()
    ring.add(offset=5, order=5, commit_ms=5 * S, observed_ms=30 * S, end=100)

    assert ring.commits() == before


def test_commits_without_an_end_and_expired_ones_are_dropped() -> None:
    """Burrow waits until it knows where a topic ends, and ignores what is a week old."""
    ring = CommitRing(3)
    ring.add(offset=1, order=1, commit_ms=0, observed_ms=0, end=None)
    ring.add(offset=2, order=2, commit_ms=0, observed_ms=EXPIRE_MS + S, end=10)
    ring.add(offset=3, order=3, commit_ms=0, observed_ms=EXPIRE_MS + S - 1, end=10)

    assert [commit.order for commit in window(ring)] == [3]


@dataclass
class Slot:
    """A slot of Burrow's ring: blank while `commit` is None."""

    commit: Commit | None = None


class BurrowsRing:
    """Burrow's storage with its pointer, for comparison: find a destination, merge, shift, write."""

    def __init__(self, intervals: int, min_distance_ms: int) -> None:
        self.slots = [Slot() for _ in range(intervals)]
        self.pointer = 0
        self.min_distance_ms = min_distance_ms

    def before(self, index: int) -> int:
        """Return the slot in front of one."""
        return (index - 1) % len(self.slots)

    def at(self, index: int) -> Commit | None:
        """Return what a slot holds."""
        return self.slots[index].commit

    def destination(self, order: int) -> tuple[int | None, int | None] | None:
        """Return (where to insert, where to extend); None to drop."""
        oldest, newest = self.at(self.pointer), self.at(self.before(self.pointer))
        if newest is not None:
            if oldest is not None and oldest.order >= order:
                return None
            if newest.order >= order:
                slot = self.pointer
                while True:
                    back = self.before(slot)
                    found = self.at(back)
                    if found is None or back == self.pointer:
                        return back, None
                    if found.order < order:
                        return slot, self.pointer
                    if found.order == order:
                        return None
                    slot = back
        return None, self.pointer

    def add(self, offset: int, order: int, commit_ms: int, observed_ms: int, end: int) -> None:
        """Add a commit as Burrow does."""
        destination = self.destination(order)
        if destination is None:
            return
        insert, extend = destination
        lag = max(0, end - offset) if insert is None else None
        target = extend if insert is None else insert
        assert target is not None
        previous = self.at(self.before(target))
        if previous is not None and previous.order < order and commit_ms - previous.commit_ms < self.min_distance_ms:
            commit_ms, insert, extend = previous.commit_ms, self.before(target), None
            target = insert
        if insert is not None and extend is not None:
            slot = extend
            while slot != insert:
                self.slots[slot].commit = self.at(self.before(slot))
                slot = self.before(slot)
        self.slots[target].commit = Commit(offset, order, commit_ms, observed_ms // S * S, lag)
        if extend is not None:
            self.pointer = (extend + 1) % len(self.slots)

    def commits(self) -> list[Commit | None]:
        """Return the window, oldest first."""
        return [self.at((self.pointer + index) % len(self.slots)) for index in range(len(self.slots))]


arrivals = st.lists(
    st.tuples(st.integers(0, 60), st.integers(0, 30), st.integers(0, 40), st.integers(0, 80)), max_size=40
)


@settings(max_examples=400, deadline=None)
@given(arrivals, st.integers(1, 6), st.sampled_from([0, 3, 20]))
def test_ring_equals_burrows_slots_for_commits_in_any_order(
    commits: list[tuple[int, int, int, int]], intervals: int, min_distance_ms: int
) -> None:
    """Late, repeated and merged commits in windows of every fill."""
    ring, burrows = CommitRing(intervals, min_distance_ms), BurrowsRing(intervals, min_distance_ms)
    for offset, order, commit_ms, end in commits:
        ring.add(offset, order, commit_ms, 5_500, end)
        burrows.add(offset, order, commit_ms, 5_500, end)

        assert ring.commits() == burrows.commits()
        ring.check_invariants()


# The slab


steps = st.lists(st.tuples(st.integers(-5, 2_000), st.integers(-3_000, 9_000), st.integers(0, 2_500)), max_size=40)


@settings(max_examples=300, deadline=None)
@given(steps, st.integers(1, 12), st.sampled_from([0, 1_000, 5_000]))
def test_slab_equals_the_ring_for_commits_in_order(
    commits: list[tuple[int, int, int]], intervals: int, min_distance_ms: int
) -> None:
    """Offsets jump to and fro, even below 0, and times go back now and then, as after a change of coordinator."""
    slab, ring = CommitSlab(intervals, min_distance_ms), CommitRing(intervals, min_distance_ms)
    slot, commit_ms = slab.slot("t", 0), 1_700_000_000_000
    for order, (offset, later_ms, end) in enumerate(commits):
        commit_ms += later_ms
        slab.add(slot, offset, commit_ms, end)
        ring.add(offset, order, commit_ms, commit_ms, end)

        assert [seen(commit) for commit in slab.commits(slot)] == [seen(commit) for commit in ring.commits()]
        assert slab.newest(slot) == (offset, window(ring)[-1].commit_ms)
    slab.check_invariants()


def seen(commit: Commit | None) -> tuple[int, int, int | None] | None:
    """Return what slab and ring have in common."""
    return None if commit is None else (commit.offset, commit.commit_ms, commit.lag)


def test_slab_keeps_partitions_apart() -> None:
    """A thousand commits to forty partitions of three topics, dropped and used again."""
    draw, slab = random.Random(5), CommitSlab()
    rings: dict[tuple[str, int], CommitRing] = {}
    for order in range(1_000):
        key = (draw.choice("abc"), draw.randrange(14))
        if draw.random() < 0.03:
            slab.drop(*key)
            rings.pop(key, None)
            continue
        offset = draw.randrange(1_000)
        rings.setdefault(key, CommitRing()).add(offset, order, order, order, 2_000)
        slab.add(slab.slot(*key), offset, order, 2_000)
    slab.check_invariants()

    assert len(rings) > 30
    for (topic, partition), ring in rings.items():
        slot = slab.find(topic, partition)
        assert slot is not None
        assert [seen(commit) for commit in slab.commits(slot)] == [seen(commit) for commit in ring.commits()]
    assert slab.find("a", 99) is None
    assert slab.find("d", 0) is None


def test_slab_takes_at_most_200_bytes_per_partition() -> None:
    """A thousand groups of fifty partitions are 10 MB, and half a million commits."""
    slab = CommitSlab()
    for partition in range(50):
        slab.add(slab.slot("topic", partition), 1, 1, 2)

    assert slab.size_bytes / 50 < 190


def test_slab_never_sees_a_rewind_where_there_was_none() -> None:
    """A jump over ten billion offsets exceeds what a window can tell apart, and the newest offset stays exact."""
    slab, far = CommitSlab(4), 10_000_000_000
    slot = slab.slot("t", 0)
    for step, offset in enumerate((5, far, far + 1, far + 1, far + 2, far + 3, far + 4)):
        slab.add(slot, offset, step * S, 2 * far)

        offsets = [commit.offset for commit in slab.commits(slot) if commit is not None]
        assert slab.newest(slot) == (offset, step * S)
        assert offsets[-1] == offset
        assert all(before <= after for before, after in pairwise(offsets))


def test_slab_gives_replayed_commits_the_lag_that_burrow_would_give_them() -> None:
    """Burrow measures replayed commits by the end of today: lags fall as offsets rise, which is no warning."""
    slab = CommitSlab(4)
    slot = slab.slot("t", 0)
    for step in range(3):
        slab.add(slot, 10 * step, step * S, None)
    unknown = [commit.lag for commit in slab.commits(slot) if commit is not None]
    slab.end_known(slot, 25)
    slab.add(slot, 30, 3 * S, 40)
    slab.end_known(slot, 99)

    assert unknown == [None, None, None]
    assert [commit.lag for commit in slab.commits(slot) if commit is not None] == [25, 15, 5, 10]


@pytest.mark.parametrize(("intervals", "days"), [(3, 60), (10, 20)])
def test_slab_keeps_rare_commits_in_order(intervals: int, days: int) -> None:
    """Times that are too long ago to be kept move up to the oldest that can be; the newest is exact."""
    slab = CommitSlab(intervals)
    slot = slab.slot("t", 0)
    for step in range(1, intervals + 4):
        slab.add(slot, step, step * days * 86_400_000, step + 1)

        assert slab.newest(slot) == (step, step * days * 86_400_000)
        slab.check_invariants()


def test_group_moved_when_it_committed_another_offset() -> None:
    """Commits of the same offset are no progress; a window of one offset tells no more than its oldest commit."""

    def window(*offsets: int) -> list[Commit | None]:
        return [None, *(Commit(offset, -1, 100 * number, -1, None) for number, offset in enumerate(offsets, start=1))]

    assert last_moved_ms(window(5, 6, 6, 6)) == 200
    assert last_moved_ms(window(5, 6, 5)) == 300
    assert last_moved_ms(window(5, 5, 5)) == 100
    assert last_moved_ms([None, None]) is None
