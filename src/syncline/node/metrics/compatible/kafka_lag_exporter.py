"""The metrics of kafka-lag-exporter, with its own estimate of lag in seconds (`core/lag/interpolation.py`).

It polls, and shows what the last poll has found. Here a scrape polls, but not sooner than one interval after the last
poll, so that the points of a partition lie as far apart as the original's. Without scrapes there are no polls.

Units: offsets; seconds; polls in Unix ms of this broker.
Source: kafka-lag-exporter 0.8.2.
"""

import asyncio
from math import isnan, nan
from typing import Final

from syncline.core.lag.interpolation import LookupTable, lag_seconds, worst
from syncline.model.ids import TopicPartition
from syncline.model.metadata import MetadataImage
from syncline.node.lag.cluster_groups import ClusterState
from syncline.node.lag.row_messages import CoordinatedGroup
from syncline.node.metrics.table import GAUGE, PARTITION_LABELS, Family
from syncline.node.metrics.text import Page, labels_text

_CLUSTER: Final = ("cluster_name",)
_PARTITION: Final = (*_CLUSTER, *PARTITION_LABELS)
_GROUP: Final = (*_CLUSTER, "group")
_ROW: Final = (*_GROUP, *PARTITION_LABELS, "member_host", "consumer_id", "client_id")

LATEST: Final = Family("kafka_partition_latest_offset", GAUGE, "1", "Where a partition ends.", _PARTITION)
EARLIEST: Final = Family("kafka_partition_earliest_offset", GAUGE, "1", "Where it begins.", _PARTITION)
OFFSET: Final = Family("kafka_consumergroup_group_offset", GAUGE, "1", "What a group has committed.", _ROW)
LAG: Final = Family("kafka_consumergroup_group_lag", GAUGE, "1", "From the commit to the end.", _ROW)
LAG_SECONDS: Final = Family(
    "kafka_consumergroup_group_lag_seconds", GAUGE, "1", "The same in seconds, estimated between polls.", _ROW
)
MAX_LAG: Final = Family("kafka_consumergroup_group_max_lag", GAUGE, "1", "The largest lag of a group.", _GROUP)
MAX_LAG_SECONDS: Final = Family(
    "kafka_consumergroup_group_max_lag_seconds", GAUGE, "1", "The largest estimate of a group.", _GROUP
)
SUM_LAG: Final = Family("kafka_consumergroup_group_sum_lag", GAUGE, "1", "Of all partitions of a group.", _GROUP)
TOPIC_SUM_LAG: Final = Family(
    "kafka_consumergroup_group_topic_sum_lag", GAUGE, "1", "Of a topic's partitions.", (*_GROUP, "topic")
)
POLL_TIME: Final = Family("kafka_consumergroup_poll_time_ms", GAUGE, "1", "How long the last poll took.", _CLUSTER)

FAMILIES: Final = (
    LATEST,
    EARLIEST,
    OFFSET,
    LAG,
    LAG_SECONDS,
    MAX_LAG,
    MAX_LAG_SECONDS,
    SUM_LAG,
    TOPIC_SUM_LAG,
    POLL_TIME,
)
# Rows that are written before the loop is freed.
_ROWS_PER_TURN: Final = 100
_NO_MEMBER: Final = ("", "", "")


class KafkaLagExporter:
    """Where partitions ended at the last polls."""

    def __init__(self) -> None:
        self._tables: dict[TopicPartition, LookupTable] = {}

    async def write(self, page: Page, image: MetadataImage, state: ClusterState, took_ms: int) -> None:
        """Take a poll of the cluster into the tables, and write the page; the poll took `took_ms`."""
        cluster = image.cluster_id
        await self._take(state)
        for topic, ends in state.ends.items():
            for number, known in ends.items():
                page.add(LATEST, known.high_watermark, cluster, topic, number)
                page.add(EARLIEST, known.log_start, cluster, topic, number)
                if number % _ROWS_PER_TURN == 0:
                    await asyncio.sleep(0)
        for _, group in state.groups:
            await self._add_group(page, cluster, group, state)
        page.add(POLL_TIME, took_ms, cluster)

    async def _take(self, state: ClusterState) -> None:
        """Add a point to each partition that a group reads, and forget the others."""
        tables: dict[TopicPartition, LookupTable] = {}
        for _, group in state.groups:
            for topic, rows in group.topics.items():
                for count, row in enumerate(rows, start=1):
                    if count % _ROWS_PER_TURN == 0:
                        await asyncio.sleep(0)
                    key = TopicPartition(topic, row.partition)
                    if key in tables:
                        continue
                    table = tables[key] = self._tables.get(key) or LookupTable()
                    known = state.ends.get(topic, {}).get(row.partition)
                    if known is not None:
                        table.add(known.high_watermark, state.at_ms)
                await asyncio.sleep(0)
        self._tables = tables

    async def _add_group(self, page: Page, cluster: str, group: CoordinatedGroup, state: ClusterState) -> None:
        lags: list[int] = []
        estimates: list[float] = []
        for topic, rows in group.topics.items():
            first = len(lags)
            for count, row in enumerate(rows, start=1):
                known = state.ends.get(topic, {}).get(row.partition)
                if known is None:
                    continue
                committed = None if row.committed < 0 else row.committed
                lag = nan if committed is None else max(0, known.high_watermark - committed)
                seconds = lag_seconds(self._tables[TopicPartition(topic, row.partition)], committed, state.at_ms)
                member = _NO_MEMBER if row.member < 0 else group.members[row.member]
                host, member_id, client_id = (member[2], member[0], member[1])
                labels = labels_text(_ROW, (cluster, group.group_id, topic, row.partition, host, member_id, client_id))
                page.lines(OFFSET).append(f"{OFFSET.name}{labels} {nan if committed is None else committed}\n")
                page.lines(LAG).append(f"{LAG.name}{labels} {lag}\n")
                page.lines(LAG_SECONDS).append(f"{LAG_SECONDS.name}{labels} {_text(seconds)}\n")
                if committed is not None:
                    lags.append(int(lag))
                estimates.append(seconds)
                if count % _ROWS_PER_TURN == 0:
                    await asyncio.sleep(0)
            if len(lags) > first:
                page.add(TOPIC_SUM_LAG, sum(lags[first:]), cluster, group.group_id, topic)
            await asyncio.sleep(0)
        if lags:
            page.add(MAX_LAG, max(lags), cluster, group.group_id)
            page.add(SUM_LAG, sum(lags), cluster, group.group_id)
            page.lines(MAX_LAG_SECONDS).append(
                f"{MAX_LAG_SECONDS.name}{labels_text(_GROUP, (cluster, group.group_id))} {_text(worst(estimates))}\n"
            )


def _text(seconds: float) -> str:
    """Return a value as Prometheus reads it."""
    if isnan(seconds):
        return "NaN"
    return str(seconds).replace("inf", "+Inf").replace("-+", "-")
