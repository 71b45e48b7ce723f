"""DescribeProducers (key 61), version 0.

The idempotent producers that a replica remembers: which sequence number each wrote last, and when (KIP-664). Any
replica answers, as its log holds. Syncline has no transactions, so none is open and no coordinator has an epoch.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol

from syncline.core.cluster.topic_names import what_is_wrong
from syncline.core.producer_state import ProducerState
from syncline.model.errors import ErrorCode
from syncline.model.ids import NONE, TopicPartition
from syncline.wire.api import ApiKey
from syncline.wire.rows import Rows

if TYPE_CHECKING:
    from syncline.node.serving.request import Request, Steps
    from syncline.node.views.parts import HasPartitions
    from syncline.node.views.values import HasImage

    class Host(HasImage, HasPartitions, Protocol):
        """What this handler uses of its broker."""


KEY = ApiKey.DESCRIBE_PRODUCERS
# In one answer, which then has four megabytes.
DESCRIBED_MAX: Final = 100_000

_NOT_HERE: Final = "This server does not host this topic-partition."
_TOO_MANY: Final = f"The answer would describe more than {DESCRIBED_MAX} producers. Ask for fewer partitions at once."


def handle(broker: "Host", request: "Request") -> "Steps":
    """Describe the producers of each partition."""
    asked = yield from request.decode_in_steps()
    topics, left = [], DESCRIBED_MAX
    for topic in asked.topics:
        name, rows = str(topic.name), []
        for index in topic.partition_indexes:
            code, message, producers = _find(broker, TopicPartition(name, int(index)), left)
            left -= len(producers)
            rows.append(
                {
                    "partition_index": index,
                    "error_code": code,
                    "error_message": message,
                    "active_producers": Rows(producers, _row),
                }
            )
            yield
        topics.append({"name": name, "partitions": rows})
        yield
    request.answer({"throttle_time": 0, "topics": topics})


def _find(
    broker: "Host", key: TopicPartition, producers_max: int
) -> tuple[ErrorCode, str | None, Sequence[tuple[int, ProducerState]]]:
    problem = what_is_wrong(key.topic)
    if problem is not None:
        return ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic name is invalid: {problem}", ()
    if key.topic not in broker.image.topics:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, _NOT_HERE, ()
    partition = broker.partitions.get(key)
    if partition is None:
        is_elsewhere = broker.image.partition(key.topic, key.partition) is not None
        code = ErrorCode.NOT_LEADER_OR_FOLLOWER if is_elsewhere else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return code, None, ()
    if partition.is_offline:
        return ErrorCode.KAFKA_STORAGE_ERROR, None, ()
    producers = partition.log.producers.entries
    if len(producers) > producers_max:
        return ErrorCode.INVALID_REQUEST, _TOO_MANY, ()
    return ErrorCode.NONE, None, list(producers.items())


def _row(producer: tuple[int, ProducerState]) -> dict[str, Any]:
    producer_id, state = producer
    return {
        "producer_id": producer_id,
        "producer_epoch": state.producer_epoch,
        "last_sequence": state.last_sequence,
        "last_timestamp": state.last_timestamp_ms,
        "coordinator_epoch": NONE,
        "current_txn_start_offset": state.transaction_start,
    }
