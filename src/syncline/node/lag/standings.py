"""The status of each group and what it risks, judged once per refresh: too much work for every scrape.

A group's standing is a few numbers, whatever the number of its partitions. What it lost is counted here: offsets that
retention deleted between two refreshes before the group had read them.

Units: seconds; offsets; ms of the node's clock.
"""

import asyncio
from typing import NamedTuple

from syncline.core.lag.burrow_status import partition_status
from syncline.core.lag.commit_slab import CommitSlab
from syncline.core.lag.forecast import catch_up_s, retention_margin_s
from syncline.core.lag.own_pauses import OwnPauses
from syncline.core.lag.rows import unread_records
from syncline.model.ids import Offset, TopicPartition
from syncline.model.lag import GroupStatus
from syncline.node.clock import Clock
from syncline.node.lag.leaders import PATIENCE_MS
from syncline.node.lag.survey import Survey, SurveyedRow, Surveys
from syncline.node.metadata.live_configs import LiveConfigs

# A row that is judged takes ten times as long as one that is only computed.
_JUDGED_PER_TURN = 30


class Standing(NamedTuple):
    """One group as of the last refresh."""

    status: GroupStatus
    catch_up_s: float | None
    """Of the partition that takes longest; infinite: never. None if no speed is known yet."""
    retention_margin_s: float | None
    """Of the partition whose next record goes first; infinite: none goes. None if it is not known of any."""
    lost_total: int
    """Offsets that were deleted unread since this broker watches the group."""


class Standings:
    """The standings of all groups of one coordinator."""

    def __init__(self, *, clock: Clock, configs: LiveConfigs, surveys: Surveys, pauses: OwnPauses) -> None:
        self._clock = clock
        self._configs = configs
        self._surveys = surveys
        self._pauses = pauses
        self._standings: dict[str, Standing] = {}
        # Log starts at the last refresh.
        self._starts: dict[TopicPartition, Offset] = {}

    def get(self, group_id: str) -> Standing | None:
        """Return the standing of a group, None before the first refresh that has seen it."""
        return self._standings.get(group_id)

    async def refresh(self) -> None:
        """Judge all groups anew, and forget those that are gone."""
        survey = await self._surveys.take(patience_ms=PATIENCE_MS, is_whole=True)
        standings: dict[str, Standing] = {}
        starts: dict[TopicPartition, Offset] = {}
        for group_id, slab in survey.groups():
            standings[group_id] = await self._judge(group_id, slab, survey, starts)
        self._standings, self._starts = standings, starts
        await survey.forget()

    async def _judge(
        self, group_id: str, slab: CommitSlab, survey: Survey, starts: dict[TopicPartition, Offset]
    ) -> Standing:
        before = self._standings.get(group_id)
        lost = 0 if before is None else before.lost_total
        status = GroupStatus.OK
        needed_s: list[float] = []
        margins_s: list[float] = []
        judged = 0
        for rows, _ in survey.batches(group_id):
            for row in rows:
                starts[row.key] = row.ends.log_start
                if before is not None:
                    lost += self._newly_lost(row)
                if not row.brief.lag_leo:
                    # It waits for records, at whatever speed: OK by Burrow's first rule.
                    needed_s.append(0.0)
                    margins_s.append(float("inf"))
                    continue
                status = max(status, self._status(slab, row))
                _add(needed_s, _catch_up_s(slab, row))
                _add(margins_s, _margin_s(row))
                survey.keep_place(slab, row)
                judged += 1
                if judged % _JUDGED_PER_TURN == 0:
                    await asyncio.sleep(0)
            await asyncio.sleep(0)
        return Standing(min(status, GroupStatus.ERR), max(needed_s, default=None), min(margins_s, default=None), lost)

    def _newly_lost(self, row: SurveyedRow) -> int:
        """Return how many unread offsets were deleted since the last refresh."""
        start = self._starts.get(row.key)
        return 0 if start is None else max(0, row.ends.log_start - max(start, row.committed))

    def _status(self, slab: CommitSlab, row: SurveyedRow) -> GroupStatus:
        return partition_status(
            slab.commits(row.slot),
            row.seen.ring.offsets(),
            self._clock.wall_ms(),
            min_window_ms=self._configs.broker.lag_status_min_window_ms,
            unread=unread_records(row.committed, row.ends, row.place),
            pauses=self._pauses.last,
        ).status


def _catch_up_s(slab: CommitSlab, row: SurveyedRow) -> float | None:
    readable = unread_records(row.committed, row.ends, row.place)
    return catch_up_s(readable, slab.rate_per_s(row.slot), row.seen.produced_per_s)


def _margin_s(row: SurveyedRow) -> float | None:
    if row.committed >= row.ends.high_watermark:
        return float("inf")
    return None if row.place is None else retention_margin_s(row.place, row.ends, row.ends.at_ms)


def _add(values: list[float], value: float | None) -> None:
    if value is not None:
        values.append(value)
