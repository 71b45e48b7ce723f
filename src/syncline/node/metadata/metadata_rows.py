"""Metadata rows: the encoded partitions of each topic, kept while they are valid.

A client that often asks for all topics costs a copy of these rows and no encoding. A row depends on the topic, on
which brokers are unfenced and on the version of the answer; it is encoded again when one of these objects was replaced.
The row of a topic with many partitions is encoded in steps: while they move, it is another one for each request.
"""

from collections.abc import Callable, Generator, Iterator
from typing import Any, Final

from syncline.model.errors import ErrorCode
from syncline.model.ids import INTERNAL_TOPICS, JOURNAL_TOPIC, BrokerId
from syncline.model.metadata import MetadataImage, PartitionRecord, Topic
from syncline.model.tables import shrink
from syncline.node.loop.list_parts import in_parts
from syncline.wire.api import CLIENT_VERSIONS, ApiKey
from syncline.wire.metadata import (
    MetadataPartition,
    MetadataTopic,
    encode_partition_count,
    encode_partition_rows,
)
from syncline.wire.rows import Countable

# Topics that only brokers write to, or that exist for brokers: answers mark them as internal.
INTERNAL: Final = INTERNAL_TOPICS | {JOURNAL_TOPIC}
# Partitions that are encoded in one step; each takes some microseconds.
PARTITIONS_PER_STEP: Final = 20

# A row that is made in steps, which yield None.
RowInSteps = Generator[None, None, MetadataTopic]


class TopicsInSteps:
    """The topics of an answer: for each item its row, and None for each step that this row takes."""

    def __init__(self, items: Countable, make: Callable[[Any], RowInSteps]) -> None:
        self._items = items
        self._make = make

    def __len__(self) -> int:
        return len(self._items)

    def __iter__(self) -> Iterator[MetadataTopic | None]:
        for item in self._items:
            yield (yield from self._make(item))


class MetadataRows:
    """The rows of one broker's Metadata answers, by topic and version."""

    def __init__(self) -> None:
        # Per topic: the topic and the brokers from which the rows were encoded, and the rows by version.
        self._cached: dict[str, tuple[Topic, object, dict[int, MetadataTopic]]] = {}

    def __len__(self) -> int:
        return len(self._cached)

    def row(self, image: MetadataImage, topic: Topic, version: int) -> RowInSteps:
        """Return a topic of `image` as an answer of this version shows it."""
        assert version in CLIENT_VERSIONS[ApiKey.METADATA], f"no client is offered Metadata version {version}"
        cached = self._cached.get(topic.name)
        if cached is None or cached[0] is not topic or cached[1] is not image.brokers:
            cached = self._cached[topic.name] = (topic, image.brokers, {})
        rows = cached[2]
        row = rows.get(version)
        if row is None:
            encoded = [encode_partition_count(version, len(topic.partitions))]
            for some in in_parts(topic.partitions, PARTITIONS_PER_STEP):
                if len(encoded) > 1:
                    yield
                encoded.append(encode_partition_rows(version, [_partition(image, each, version) for each in some]))
            # If the topic has changed meanwhile, this row is kept by nobody: `rows` was replaced.
            row = rows[version] = MetadataTopic(
                ErrorCode.NONE, topic.name, topic.topic_id.bytes, topic.name in INTERNAL, b"".join(encoded)
            )
        return row

    def drop(self, topic: str) -> None:
        """Forget a deleted topic, in every version."""
        self._cached.pop(topic, None)
        shrink(self._cached)


def _partition(image: MetadataImage, record: PartitionRecord, version: int) -> MetadataPartition:
    offline = offline_replicas(image, record)
    code = ErrorCode.NONE if record.has_leader else ErrorCode.LEADER_NOT_AVAILABLE
    replicas: tuple[int, ...] | list[int] = record.replicas
    if version == 0 and offline:
        replicas = [broker_id for broker_id in record.replicas if broker_id not in offline]
        if record.has_leader:
            code = ErrorCode.REPLICA_NOT_AVAILABLE
    return MetadataPartition(
        code, record.partition, record.leader, record.leader_epoch, list(replicas), list(record.isr), offline
    )


def offline_replicas(image: MetadataImage, record: PartitionRecord) -> list[BrokerId]:
    """Return which replicas of a partition are on brokers that are fenced or unknown."""
    return [broker_id for broker_id in record.replicas if not _is_online(image, broker_id)]


def _is_online(image: MetadataImage, broker_id: BrokerId) -> bool:
    record = image.brokers.get(broker_id)
    return record is not None and not record.fenced
