"""The lag of groups as samples: a thousand groups with fifty partitions each within a second.

Leaders get a third of a second to answer: a scrape never waits longer for other brokers. What is known of a partition
from before is shown meanwhile, and `syncline_group_lag_age_seconds` says how old it is.

Units: as the names of the metrics say; those of rows are offsets, bytes and ms.
"""

import asyncio
from collections.abc import Sequence
from typing import Final

from syncline.core.lag.commit_slab import CommitSlab
from syncline.node.clock import Clock
from syncline.node.lag.standings import Standing, Standings
from syncline.node.lag.survey import SurveyedRow, Surveys
from syncline.node.metrics import lag_table
from syncline.node.metrics.text import Page, labels_text

PATIENCE_MS: Final = 300
# Groups and rows that are written before the loop is freed.
ITEMS_PER_TURN: Final = 250


class _Sums:
    """A group, or one topic of it."""

    __slots__ = ("at_ms", "event_lag_ms", "lag_bytes", "lag_hw", "lag_leo", "lag_lso", "staleness_ms", "unknown")

    def __init__(self) -> None:
        self.lag_hw = self.lag_lso = self.lag_leo = 0
        # None where no leader has told of any partition.
        self.lag_bytes: int | None = None
        self.staleness_ms: int | None = None
        self.event_lag_ms: int | None = None
        # Of the oldest answer.
        self.at_ms: int | None = None
        self.unknown = 0

    @property
    def is_known(self) -> bool:
        """Whether any row was added: a lag that nobody knows is no lag of 0."""
        return self.at_ms is not None

    def add(self, rows: Sequence[SurveyedRow]) -> None:
        """Add rows to the sums."""
        if not rows:
            return
        briefs = [row.brief for row in rows]
        self.lag_hw += sum(each.lag_hw for each in briefs)
        self.lag_lso += sum(each.lag_lso for each in briefs)
        self.lag_leo += sum(each.lag_leo for each in briefs)
        sizes = [each.lag_bytes for each in briefs if each.lag_bytes is not None]
        if sizes:
            self.lag_bytes = (self.lag_bytes or 0) + sum(sizes)
        self.staleness_ms = _larger(self.staleness_ms, [each.staleness_ms for each in briefs])
        self.event_lag_ms = _larger(self.event_lag_ms, [each.event_lag_ms for each in briefs])
        oldest_ms = min(row.ends.at_ms for row in rows)
        self.at_ms = oldest_ms if self.at_ms is None else min(self.at_ms, oldest_ms)


class GroupSamples:
    """Writes the groups of one broker to a page; `detail` is `lag.metrics.detail`."""

    def __init__(self, page: Page, clock: Clock, detail: str) -> None:
        self._page = page
        self._clock = clock
        self._detail = detail
        self._offsets = page.lines(lag_table.GROUP_LAG_OFFSETS)
        self._bytes = page.lines(lag_table.GROUP_LAG_BYTES)
        self._staleness = page.lines(lag_table.GROUP_STALENESS)

    async def write(self, surveys: Surveys, standings: Standings) -> None:
        """Write all groups, some at a time."""
        survey = await surveys.take(patience_ms=PATIENCE_MS)
        items = 0
        for group_id, slab in survey.groups():
            sums = _Sums()
            topics: dict[str, _Sums] = {}
            for rows, unknown in survey.batches(group_id):
                sums.add(rows)
                sums.unknown += unknown
                if self._detail == "topic" and rows:
                    topics.setdefault(rows[0].key.topic, _Sums()).add(rows)
                elif self._detail == "partition" and rows:
                    self._add_partitions(group_id, rows)
                for row in rows:
                    survey.keep_place(slab, row)
                items += 1 + len(rows)
                if items >= ITEMS_PER_TURN:
                    items = 0
                    await asyncio.sleep(0)
            for topic, of_topic in topics.items():
                self._add_sums(of_topic, labels_text(("group", "topic"), (group_id, topic)))
            if self._detail == "group":
                self._add_sums(sums, labels_text(("group",), (group_id,)))
            self._add_group(group_id, slab, sums, standings.get(group_id))
        await survey.forget()

    def _add_partitions(self, group_id: str, rows: Sequence[SurveyedRow]) -> None:
        """Write rows of one topic, which are in the order of their partitions."""
        begin = labels_text(("group", "topic"), (group_id, rows[0].key.topic))[:-1]
        # One piece of text for many samples takes less room than many pieces.
        self._offsets.append(
            "".join(
                f'syncline_group_lag_offsets{begin},partition="{row.key.partition}",end="hw"}} {row.brief.lag_hw}\n'
                for row in rows
            )
        )
        self._bytes.append(
            "".join(
                f'syncline_group_lag_bytes{begin},partition="{row.key.partition}"}} {row.brief.lag_bytes}\n'
                for row in rows
                if row.brief.lag_bytes is not None
            )
        )
        self._staleness.append(
            "".join(
                f'syncline_group_staleness_seconds{begin},partition="{row.key.partition}"}}'
                f" {row.brief.staleness_ms / 1_000}\n"
                for row in rows
                if row.brief.staleness_ms is not None
            )
        )

    def _add_sums(self, sums: _Sums, labels: str) -> None:
        if sums.is_known:
            self._offsets.append(f'syncline_group_lag_offsets{labels[:-1]},end="hw"}} {sums.lag_hw}\n')
        if sums.lag_bytes is not None:
            self._bytes.append(f"syncline_group_lag_bytes{labels} {sums.lag_bytes}\n")
        if sums.staleness_ms is not None:
            self._staleness.append(f"syncline_group_staleness_seconds{labels} {sums.staleness_ms / 1_000}\n")

    def _add_group(self, group_id: str, slab: CommitSlab, sums: _Sums, standing: Standing | None) -> None:
        page, labels = self._page, labels_text(("group",), (group_id,))
        if sums.is_known:
            self._offsets.append(
                f'syncline_group_lag_offsets{labels[:-1]},end="lso"}} {sums.lag_lso}\n'
                f'syncline_group_lag_offsets{labels[:-1]},end="leo"}} {sums.lag_leo}\n'
            )
        values = {
            lag_table.GROUP_EVENT_LAG: None if sums.event_lag_ms is None else sums.event_lag_ms / 1_000,
            lag_table.GROUP_COMMITS: slab.commit_count,
            lag_table.GROUP_LAG_AGE: None if sums.at_ms is None else max(0, self._clock.wall_ms() - sums.at_ms) / 1_000,
            lag_table.GROUP_UNKNOWN: sums.unknown,
        }
        if standing is not None:
            values |= {
                lag_table.GROUP_STATUS: int(standing.status),
                lag_table.GROUP_CATCH_UP: standing.catch_up_s,
                lag_table.GROUP_RETENTION_MARGIN: standing.retention_margin_s,
                lag_table.GROUP_LOST: standing.lost_total,
            }
        for family, value in values.items():
            if value is not None:
                page.lines(family).append(f"{family.name}{labels} {number_text(value)}\n")


def number_text(value: float) -> str:
    """Return a value as Prometheus reads it."""
    return "+Inf" if value == float("inf") else str(value)


def _larger(before: int | None, values: Sequence[int | None]) -> int | None:
    return max((each for each in (before, *values) if each is not None), default=None)
