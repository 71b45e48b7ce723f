"""The metrics of KMinion, without those of its end-to-end probe, for which it produces and consumes itself.

Source: KMinion 2 (docs/metrics.md), dashboards 14012 to 14014.
"""

import asyncio
from collections.abc import Callable
from typing import Final

from syncline import __version__
from syncline.model.metadata import MetadataImage, Topic
from syncline.node.lag.cluster_groups import ClusterState, GatheredGroup
from syncline.node.lag.row_messages import CoordinatedGroup
from syncline.node.metrics.table import COUNTER, GAUGE, Family
from syncline.node.metrics.text import Page

_TOPIC: Final = ("topic_name",)
_PARTITION: Final = ("topic_name", "partition_id")
_GROUP: Final = ("group_id",)
_GROUP_TOPIC: Final = ("group_id", "topic_name")
_BROKER: Final = ("address", "broker_id", "port", "rack_id")

UP: Final = Family("kminion_exporter_up", GAUGE, "1", "Whether all brokers have answered.", ("version",))
CONSUMED: Final = Family(
    "kminion_exporter_offset_consumer_records_consumed_total", COUNTER, "1", "Commits that coordinators know of."
)
CLUSTER_INFO: Final = Family(
    "kminion_kafka_cluster_info",
    GAUGE,
    "1",
    "The cluster.",
    ("broker_count", "cluster_id", "cluster_version", "controller_id"),
)
BROKER_INFO: Final = Family("kminion_kafka_broker_info", GAUGE, "1", "A broker.", (*_BROKER, "is_controller"))
BROKER_BYTES: Final = Family(
    "kminion_kafka_broker_log_dir_size_total_bytes", GAUGE, "1", "Of the logs that a broker hosts.", _BROKER
)
TOPIC_BYTES: Final = Family(
    "kminion_kafka_topic_log_dir_size_total_bytes", GAUGE, "1", "Of a topic's logs, on all brokers.", _TOPIC
)
TOPIC_INFO: Final = Family(
    "kminion_kafka_topic_info",
    GAUGE,
    "1",
    "A topic.",
    ("cleanup_policy", "partition_count", "replication_factor", *_TOPIC),
)
LOW: Final = Family("kminion_kafka_topic_partition_low_water_mark", GAUGE, "1", "Where a log begins.", _PARTITION)
LOWS: Final = Family("kminion_kafka_topic_low_water_mark_sum", GAUGE, "1", "Of a topic's partitions.", _TOPIC)
HIGH: Final = Family(
    "kminion_kafka_topic_partition_high_water_mark", GAUGE, "1", "Where a log ends for consumers.", _PARTITION
)
HIGHS: Final = Family("kminion_kafka_topic_high_water_mark_sum", GAUGE, "1", "Of a topic's partitions.", _TOPIC)
GROUP_INFO: Final = Family(
    "kminion_kafka_consumer_group_info",
    GAUGE,
    "1",
    "A group, 1 while it is stable.",
    ("coordinator_id", *_GROUP, "protocol", "protocol_type", "state"),
)
MEMBERS: Final = Family("kminion_kafka_consumer_group_members", GAUGE, "1", "Members of a group.", _GROUP)
EMPTY_MEMBERS: Final = Family(
    "kminion_kafka_consumer_group_empty_members", GAUGE, "1", "Members to which nothing is assigned.", _GROUP
)
TOPIC_MEMBERS: Final = Family(
    "kminion_kafka_consumer_group_topic_members", GAUGE, "1", "Members that read a topic.", _GROUP_TOPIC
)
ASSIGNED: Final = Family(
    "kminion_kafka_consumer_group_topic_assigned_partitions", GAUGE, "1", "Partitions of a topic.", _GROUP_TOPIC
)
OFFSETS: Final = Family(
    "kminion_kafka_consumer_group_topic_offset_sum", GAUGE, "1", "What a group has committed in a topic.", _GROUP_TOPIC
)
LAG: Final = Family(
    "kminion_kafka_consumer_group_topic_partition_lag",
    GAUGE,
    "1",
    "From the commit to the high water mark.",
    ("group_id", *_PARTITION),
)
LAGS: Final = Family("kminion_kafka_consumer_group_topic_lag", GAUGE, "1", "Of a topic's partitions.", _GROUP_TOPIC)
COMMITS: Final = Family(
    "kminion_kafka_consumer_group_offset_commits_total", COUNTER, "1", "Of single partitions.", _GROUP
)

FAMILIES: Final = (
    UP,
    CONSUMED,
    CLUSTER_INFO,
    BROKER_INFO,
    BROKER_BYTES,
    TOPIC_BYTES,
    TOPIC_INFO,
    LOW,
    LOWS,
    HIGH,
    HIGHS,
    GROUP_INFO,
    MEMBERS,
    EMPTY_MEMBERS,
    TOPIC_MEMBERS,
    ASSIGNED,
    OFFSETS,
    LAG,
    LAGS,
    COMMITS,
)
# Samples that are written before the loop is freed.
_SAMPLES_PER_TURN: Final = 400


async def write(page: Page, image: MetadataImage, state: ClusterState, cleanup_policy: Callable[[str], str]) -> None:
    """Write the page of a cluster; `cleanup_policy` returns that of a topic."""
    page.add(UP, int(state.is_whole), __version__)
    page.add(CONSUMED, sum(group.commit_count for _, group in state.groups))
    _add_brokers(page, image, state)
    for topic in image.topics.values():
        policy = cleanup_policy(topic.name)
        page.add(TOPIC_INFO, 1, policy, len(topic.partitions), topic.partitions[0].complete_size, topic.name)
        await _add_marks(page, topic, state)
    for gathered in state.groups:
        _add_group(page, gathered)
        await _add_lags(page, gathered.group, state)


def _add_brokers(page: Page, image: MetadataImage, state: ClusterState) -> None:
    brokers = [record for record in image.brokers.values() if not record.fenced]
    page.add(CLUSTER_INFO, 1, len(brokers), image.cluster_id, __version__, image.controller_id)
    for record in brokers:
        labels = (record.host, record.broker_id, record.port, record.rack or "")
        page.add(BROKER_INFO, 1, *labels, str(record.broker_id == image.controller_id).lower())
        sizes = state.log_bytes.get(record.broker_id)
        if sizes is not None:
            page.add(BROKER_BYTES, sum(sizes.values()), *labels)
    by_topic: dict[str, int] = {}
    for sizes in state.log_bytes.values():
        for topic, size_bytes in sizes.items():
            by_topic[topic] = by_topic.get(topic, 0) + size_bytes
    for topic, size_bytes in by_topic.items():
        page.add(TOPIC_BYTES, size_bytes, topic)


async def _add_marks(page: Page, topic: Topic, state: ClusterState) -> None:
    ends = state.ends.get(topic.name, {})
    for number, known in ends.items():
        page.add(LOW, known.log_start, topic.name, number)
        page.add(HIGH, known.high_watermark, topic.name, number)
        if number % (_SAMPLES_PER_TURN // 2) == 0:
            await asyncio.sleep(0)
    if ends:
        page.add(LOWS, sum(known.log_start for known in ends.values()), topic.name)
        page.add(HIGHS, sum(known.high_watermark for known in ends.values()), topic.name)
    await asyncio.sleep(0)


def _add_group(page: Page, gathered: GatheredGroup) -> None:
    coordinator, group = gathered
    labels = (coordinator, group.group_id, group.protocol, group.protocol_type, group.state)
    page.add(GROUP_INFO, int(group.state == "Stable"), *labels)
    readers = {row.member for rows in group.topics.values() for row in rows} - {-1}
    page.add(MEMBERS, len(group.members), group.group_id)
    page.add(EMPTY_MEMBERS, len(group.members) - len(readers), group.group_id)
    page.add(COMMITS, group.commit_count, group.group_id)


async def _add_lags(page: Page, group: CoordinatedGroup, state: ClusterState) -> None:
    for topic, rows in group.topics.items():
        ends = state.ends.get(topic, {})
        assigned = [row.member for row in rows if row.member >= 0]
        if assigned:
            page.add(TOPIC_MEMBERS, len(set(assigned)), group.group_id, topic)
            page.add(ASSIGNED, len(assigned), group.group_id, topic)
        offsets = lags = written = 0
        for row in rows:
            known = ends.get(row.partition)
            if row.committed < 0 or known is None:
                continue
            lag = max(0, known.high_watermark - row.committed)
            page.add(LAG, lag, group.group_id, topic, row.partition)
            offsets += row.committed
            lags += lag
            written += 1
            if written % _SAMPLES_PER_TURN == 0:
                await asyncio.sleep(0)
        if written:
            page.add(OFFSETS, offsets, group.group_id, topic)
            page.add(LAGS, lags, group.group_id, topic)
        await asyncio.sleep(0)
