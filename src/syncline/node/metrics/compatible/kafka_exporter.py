"""The metrics of kafka_exporter: brokers, topics, and the lag of groups in offsets.

Two differences. A group that has committed nothing in a partition has no sample there: the original says -1, which
spoils sums. And no lag is negative, because commits are read before ends.

Source: kafka_exporter 1.9 (names, labels), dashboard 7589.
"""

import asyncio
from typing import Final

from syncline.model.metadata import MetadataImage, Topic
from syncline.node.lag.cluster_groups import ClusterState
from syncline.node.lag.row_messages import CoordinatedGroup
from syncline.node.metrics.table import GAUGE, PARTITION_LABELS, Family
from syncline.node.metrics.text import Page

_TOPIC: Final = ("topic",)
_ROW: Final = ("consumergroup", *PARTITION_LABELS)
_SUM: Final = ("consumergroup", "topic")

BROKERS: Final = Family("kafka_brokers", GAUGE, "1", "Brokers that are not fenced.")
BROKER_INFO: Final = Family("kafka_broker_info", GAUGE, "1", "Where a broker is.", ("id", "address"))
PARTITIONS: Final = Family("kafka_topic_partitions", GAUGE, "1", "Partitions of a topic.", _TOPIC)
CURRENT: Final = Family(
    "kafka_topic_partition_current_offset", GAUGE, "1", "Where a partition ends for consumers.", PARTITION_LABELS
)
OLDEST: Final = Family("kafka_topic_partition_oldest_offset", GAUGE, "1", "Where it begins.", PARTITION_LABELS)
IN_SYNC: Final = Family("kafka_topic_partition_in_sync_replica", GAUGE, "1", "Replicas in sync.", PARTITION_LABELS)
LEADER: Final = Family("kafka_topic_partition_leader", GAUGE, "1", "Which broker leads.", PARTITION_LABELS)
IS_PREFERRED: Final = Family(
    "kafka_topic_partition_leader_is_preferred", GAUGE, "1", "Whether its first replica leads.", PARTITION_LABELS
)
REPLICAS: Final = Family("kafka_topic_partition_replicas", GAUGE, "1", "Replicas.", PARTITION_LABELS)
UNDER_REPLICATED: Final = Family(
    "kafka_topic_partition_under_replicated_partition", GAUGE, "1", "Whether replicas are missing.", PARTITION_LABELS
)
GROUP_OFFSET: Final = Family("kafka_consumergroup_current_offset", GAUGE, "1", "What a group has committed.", _ROW)
GROUP_OFFSETS: Final = Family("kafka_consumergroup_current_offset_sum", GAUGE, "1", "Of a topic's partitions.", _SUM)
LAG: Final = Family("kafka_consumergroup_lag", GAUGE, "1", "From the commit to where the partition ends.", _ROW)
LAGS: Final = Family("kafka_consumergroup_lag_sum", GAUGE, "1", "Of a topic's partitions.", _SUM)
MEMBERS: Final = Family("kafka_consumergroup_members", GAUGE, "1", "Members of a group.", ("consumergroup",))

FAMILIES: Final = (
    BROKERS,
    BROKER_INFO,
    PARTITIONS,
    CURRENT,
    OLDEST,
    IN_SYNC,
    LEADER,
    IS_PREFERRED,
    REPLICAS,
    UNDER_REPLICATED,
    GROUP_OFFSET,
    GROUP_OFFSETS,
    LAG,
    LAGS,
    MEMBERS,
)
# Samples that are written before the loop is freed.
_SAMPLES_PER_TURN: Final = 400


async def write(page: Page, image: MetadataImage, state: ClusterState) -> None:
    """Write the page of a cluster."""
    brokers = [record for record in image.brokers.values() if not record.fenced]
    page.add(BROKERS, len(brokers))
    for record in brokers:
        page.add(BROKER_INFO, 1, record.broker_id, f"{record.host}:{record.port}")
    for topic in image.topics.values():
        await _add_topic(page, topic, state)
    for _, group in state.groups:
        await _add_group(page, group, state)


async def _add_topic(page: Page, topic: Topic, state: ClusterState) -> None:
    page.add(PARTITIONS, len(topic.partitions), topic.name)
    for record in topic.partitions:
        labels = (topic.name, record.partition)
        if record.has_leader:
            page.add(LEADER, record.leader, *labels)
        page.add(IS_PREFERRED, int(record.leader == record.replicas[0]), *labels)
        page.add(REPLICAS, len(record.replicas), *labels)
        page.add(IN_SYNC, len(record.isr), *labels)
        page.add(UNDER_REPLICATED, int(len(record.isr) < len(record.replicas)), *labels)
        ends = state.ends.get(topic.name, {}).get(record.partition)
        if ends is not None:
            page.add(CURRENT, ends.high_watermark, *labels)
            page.add(OLDEST, ends.log_start, *labels)
        if record.partition % (_SAMPLES_PER_TURN // 8) == 0:
            await asyncio.sleep(0)


async def _add_group(page: Page, group: CoordinatedGroup, state: ClusterState) -> None:
    page.add(MEMBERS, len(group.members), group.group_id)
    for topic, rows in group.topics.items():
        ends = state.ends.get(topic, {})
        offsets = lags = written = 0
        for row in rows:
            known = ends.get(row.partition)
            if row.committed < 0 or known is None:
                continue
            lag = max(0, known.high_watermark - row.committed)
            page.add(GROUP_OFFSET, row.committed, group.group_id, topic, row.partition)
            page.add(LAG, lag, group.group_id, topic, row.partition)
            offsets += row.committed
            lags += lag
            written += 1
            if written % (_SAMPLES_PER_TURN // 2) == 0:
                await asyncio.sleep(0)
        if written:
            page.add(GROUP_OFFSETS, offsets, group.group_id, topic)
            page.add(LAGS, lags, group.group_id, topic)
        await asyncio.sleep(0)
