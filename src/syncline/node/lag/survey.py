"""How far all groups of one coordinator are behind, at one moment: for scrapes, and for the statuses of groups.

One hard idea: fifty thousand groups and partitions are looked at within a second, in a few bytes each. A survey first
writes down which offset each group has committed (8 bytes each), then asks the leaders, and computes rows only when
they are read, some at a time. The order is that of `group_lag`: commits first, then ends, so no lag is negative.

Leaders have as long as the caller gives them. Of a partition whose leader was not quick enough, what it said last
counts, and its row tells how old that is (`SurveyedRow.ends.at_ms`).

Units: offsets; bytes; ms; `at_ms` is the leader's wall clock.
"""

import asyncio
from array import array
from collections.abc import Iterator
from typing import Final, NamedTuple

from syncline.core.lag.brief import Brief, brief
from syncline.core.lag.commit_slab import CommitSlab, KeptPlace, NewestCommit
from syncline.model.ids import Offset, TopicPartition
from syncline.model.lag import OffsetPlace, PartitionEnds
from syncline.node.clock import Clock
from syncline.node.lag.commits import Commits
from syncline.node.lag.ends import KnownEnds, SeenEnds
from syncline.node.lag.leaders import Answers, Leaders
from syncline.node.metadata.cluster_view import ClusterView

_make: Final = tuple.__new__
# Rows that are computed before the loop is freed, a millisecond or two.
ROWS_PER_TURN: Final = 200
# Places that are freed in one turn, with their offsets.
FREED_PER_TURN: Final = 2_000


class SurveyedRow(NamedTuple):
    """One group in one partition, as far as its leader has ever told."""

    key: TopicPartition
    slot: int
    committed: Offset
    ends: PartitionEnds
    seen: SeenEnds
    brief: Brief
    place: OffsetPlace | None
    """What the leader said in this survey of the next record; None if it was not asked, or did not say."""


class Survey:
    """All groups with commits, as of one moment; groups that were deleted since are left out."""

    def __init__(self, cluster: ClusterView, commits: Commits, ends: KnownEnds) -> None:
        self._cluster = cluster
        self._commits = commits
        self._ends = ends
        self.answers = Answers()
        # The newest offset by slot, as it was before leaders were asked.
        self._offsets: dict[str, tuple[CommitSlab, array[int]]] = {}

    def write_down(self, group_id: str, slab: CommitSlab) -> None:
        """Record what a group has committed until now."""
        self._offsets[group_id] = (slab, slab.offsets())

    def groups(self) -> Iterator[tuple[str, CommitSlab]]:
        """Yield the groups that still have the commits of which note was taken."""
        for group_id, (slab, _) in self._offsets.items():
            if self._commits.slab(group_id) is slab:
                yield group_id, slab

    def batches(self, group_id: str) -> Iterator[tuple[list[SurveyedRow], int]]:
        """Yield the rows of a group, some partitions of one topic at once, and how many more no leader ever told of."""
        slab, offsets = self._offsets[group_id]
        for batch in slab.batches(ROWS_PER_TURN):
            rows = []
            unknown = 0
            for newest in batch:
                # A slot that is new since was empty, or is not there: its group had no commit here.
                committed = offsets[newest.slot] if newest.slot < len(offsets) else -1
                if committed < 0 or self._cluster.image.partition(*newest.key) is None:
                    continue
                row = self._row(newest, Offset(committed))
                if row is None:
                    unknown += 1
                else:
                    rows.append(row)
            yield rows, unknown

    async def forget(self) -> None:
        """Free what leaders told, some at a time: fifty thousand places at once would hold the loop for 20 ms."""
        places, count = self.answers.places, 0
        while places:
            _, (_, by_offset) = places.popitem()
            while by_offset:
                by_offset.popitem()
                count += 1
                if count % FREED_PER_TURN == 0:
                    await asyncio.sleep(0)

    def _row(self, newest: NewestCommit, committed: Offset) -> SurveyedRow | None:
        key = newest.key
        answered = self.answers.ends.get(key)
        seen = self._ends.get(key) if answered is None else answered.seen
        if seen is None or seen.last is None:
            return None
        ends = seen.last if answered is None else answered.ends
        namespace = seen.namespace if answered is None else answered.namespace
        told = self.answers.place(key, committed)
        if told is not None and told.offset < ends.log_start:
            # Deleted between two answers of the leader.
            told = None
        kept = newest.place
        if kept is not None and (
            newest.offset != committed or kept.namespace != namespace or committed < ends.log_start
        ):
            kept = None
        place: OffsetPlace | KeptPlace | None = kept if told is None else told
        return _make(SurveyedRow, (key, newest.slot, committed, ends, seen, brief(committed, ends, place), told))

    def keep_place(self, slab: CommitSlab, row: SurveyedRow) -> None:
        """Keep the place that the leader told, beside its commit: what is estimated may be known better later."""
        place = row.place
        if place is not None and not place.is_estimated and place.offset == row.committed:
            slab.set_place(row.slot, place, self.answers.ends[row.key].namespace)


class Surveys:
    """Makes surveys for one broker."""

    def __init__(
        self, *, clock: Clock, cluster: ClusterView, commits: Commits, ends: KnownEnds, leaders: Leaders
    ) -> None:
        self._clock = clock
        self._cluster = cluster
        self._commits = commits
        self._ends = ends
        self._leaders = leaders

    async def take(self, *, patience_ms: int, is_whole: bool = False) -> Survey:
        """Return a survey; leaders are asked for `patience_ms` at most.

        `is_whole`: for the place of every commit with a lag, also those that are kept: retention comes nearer.
        """
        survey = Survey(self._cluster, self._commits, self._ends)
        questions: dict[TopicPartition, dict[Offset, None]] = {}
        # Partitions that some group had read to the end, with that end: they have no next record to ask for.
        read: dict[TopicPartition, Offset] = {}
        count = 0
        for group_id, slab in self._commits.groups():
            survey.write_down(group_id, slab)
            for batch in slab.batches(ROWS_PER_TURN):
                for newest in batch:
                    if self._cluster.image.partition(*newest.key) is not None:
                        self._question(newest, questions, read, is_whole=is_whole)
                count += 1 + len(batch)
                if count >= ROWS_PER_TURN:
                    count = 0
                    await asyncio.sleep(0)
        deadline_ms = self._clock.mono_ms() + patience_ms
        await self._leaders.ask(questions, survey.answers, is_exact=False, patience_ms=patience_ms)
        again = {
            key: (end,)
            for key, end in read.items()
            if (answered := survey.answers.ends.get(key)) is not None and answered.ends.log_end > end
        }
        if again:
            left_ms = max(0, deadline_ms - self._clock.mono_ms())
            await self._leaders.ask(again, survey.answers, is_exact=False, patience_ms=left_ms)
        return survey

    def _question(
        self,
        newest: NewestCommit,
        questions: dict[TopicPartition, dict[Offset, None]],
        read: dict[TopicPartition, Offset],
        *,
        is_whole: bool,
    ) -> None:
        """Ask for the ends of a partition, and for the place of a commit unless it is likely to be known."""
        key, offset = newest.key, Offset(newest.offset)
        wanted = questions.setdefault(key, {})
        seen = self._ends.get(key)
        if seen is None or seen.last is None:
            wanted[offset] = None
        elif offset == seen.last.log_end:
            read[key] = offset
        elif (
            is_whole or newest.place is None or newest.place.namespace != seen.namespace or offset < seen.last.log_start
        ):
            wanted[offset] = None
