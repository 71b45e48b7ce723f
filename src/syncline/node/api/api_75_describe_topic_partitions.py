"""DescribeTopicPartitions (key 75), version 0.

What Metadata says of topics, in pages, with the eligible leader replicas of each partition (KIP-966): Kafka's own
tools show them from this answer. A partition without a leader is no error here, unlike in Metadata.
"""

from collections.abc import Generator
from typing import TYPE_CHECKING, Any, Protocol

from syncline.core.cluster.topic_names import what_is_wrong
from syncline.core.cluster.topic_pages import Place, Span, page
from syncline.model.errors import ErrorCode
from syncline.model.metadata import MetadataImage, PartitionRecord
from syncline.node.api.api_03_metadata import NOT_ASKED, TOPIC_OPERATIONS
from syncline.node.metadata.metadata_rows import INTERNAL, offline_replicas
from syncline.wire.api import ApiKey
from syncline.wire.rows import Rows

if TYPE_CHECKING:
    from syncline.node.serving.request import Request, Steps
    from syncline.node.views.values import HasConfig, HasImage

    class Host(HasConfig, HasImage, Protocol):
        """What this handler uses of its broker."""


KEY = ApiKey.DESCRIBE_TOPIC_PARTITIONS


def handle(broker: "Host", request: "Request") -> "Steps":
    """Describe one page of the topics that are named, or of all."""
    asked = yield from request.decode_in_steps()
    image, cursor = broker.image, asked.cursor
    first = None if cursor is None else Place(str(cursor.topic_name), int(cursor.partition_index))
    if first is not None and not (yield from _is_valid(first, asked.topics)):
        refused = Rows(asked.topics, lambda topic: _row(topic.name, ErrorCode.INVALID_REQUEST, operations=NOT_ASKED))
        request.answer({"throttle_time": 0, "topics": refused, "next_cursor": None})
        return
    names = (str(topic.name) for topic in asked.topics) if asked.topics else image.topics
    found = yield from page(
        image.topics,
        names,
        first=first,
        partitions_max=min(int(asked.response_partition_limit), broker.config.max_request_partition_size_limit),
    )
    if request.named is not None:
        # A hundred thousand spans that go at once hold the loop for some twenty milliseconds.
        request.named += found.spans
    following = (
        None if found.next is None else {"topic_name": found.next.topic, "partition_index": found.next.partition}
    )
    topics = Rows(found.spans, lambda span: _topic(image, span), _partitions)
    request.answer({"throttle_time": 0, "topics": topics, "next_cursor": following})


def _is_valid(first: Place, topics: Any) -> Generator[None, None, bool]:
    """Return whether a page may begin there: at a topic that is asked for."""
    if first.partition < 0:
        return False
    for topic in topics:
        if topic.name == first.topic:
            return True
        yield
    return not topics


def _partitions(span: Span) -> tuple[PartitionRecord, ...]:
    return () if span.topic is None else span.topic.partitions[span.start : span.end]


def _topic(image: MetadataImage, span: Span) -> dict[str, Any]:
    if span.topic is None:
        is_illegal = what_is_wrong(span.name) is not None
        code = ErrorCode.INVALID_TOPIC_EXCEPTION if is_illegal else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return _row(span.name, code, is_internal=span.name in INTERNAL)
    row = _row(span.name, ErrorCode.NONE, is_internal=span.name in INTERNAL)
    rows = Rows(_partitions(span), lambda record: _partition(image, record))
    return {**row, "topic_id": span.topic.topic_id, "partitions": rows}


def _row(
    name: str, code: ErrorCode, *, is_internal: bool = False, operations: int = TOPIC_OPERATIONS
) -> dict[str, Any]:
    """Return the row of a topic without partitions."""
    return {
        "error_code": code,
        "name": name,
        "topic_id": None,
        "is_internal": is_internal,
        "partitions": (),
        "topic_authorized_operations": operations,
    }


def _partition(image: MetadataImage, record: PartitionRecord) -> dict[str, Any]:
    return {
        "error_code": ErrorCode.NONE,
        "partition_index": record.partition,
        "leader_id": record.leader,
        "leader_epoch": record.leader_epoch,
        "replica_nodes": record.replicas,
        "isr_nodes": record.isr,
        "eligible_leader_replicas": record.elr,
        "last_known_elr": record.last_known_elr,
        "offline_replicas": offline_replicas(image, record),
    }
