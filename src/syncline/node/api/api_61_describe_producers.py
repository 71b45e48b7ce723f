"""DescribeProducers (key 61), version 0.

The idempotent producers that a replica remembers: which sequence number each wrote last, and when (KIP-664). Any
replica answers, as its log holds. Syncline has no transactions, so none is open and no coordinator has an epoch.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, Protocol

from syncline.core.cluster.topic_names import what_is_wrong
from syncline.core.producer_state import ProducerState
from syncline.model.errors import ErrorCode
from syncline.model.ids import NONE, TopicPartition
from syncline.wire.api import ApiKey
from syncline.wire.rows import ROWS_AT_ONCE, Rows

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
    answer = _Answer(broker)
    request.answer({"throttle_time": 0, "topics": Rows(asked.topics, answer.topic, answer.rows_of)})


class _Answer:
    """Makes the rows of one answer in their order, each when it is written, and counts the producers in them."""

    def __init__(self, broker: "Host") -> None:
        self._broker = broker
        self._left = DESCRIBED_MAX

    def topic(self, topic: Any) -> dict[str, Any]:
        """Return the row of a topic."""
        name = str(topic.name)
        partitions = Rows(topic.partition_indexes, lambda index: self._partition(TopicPartition(name, int(index))))
        return {"name": name, "partitions": partitions}

    def rows_of(self, topic: Any) -> range:
        """Return as many items as the row of a topic has rows inside, or more than are written in one call."""
        keys = (TopicPartition(str(topic.name), int(index)) for index in topic.partition_indexes[: ROWS_AT_ONCE + 1])
        return range(sum(1 + len(_find(self._broker, key)[2]) for key in keys))

    def _partition(self, key: TopicPartition) -> dict[str, Any]:
        code, message, producers = _find(self._broker, key)
        if len(producers) > self._left:
            code, message, producers = ErrorCode.INVALID_REQUEST, _TOO_MANY, {}
        self._left -= len(producers)
        return {
            "partition_index": key.partition,
            "error_code": code,
            "error_message": message,
            # Others may write between two steps.
            "active_producers": Rows(list(producers.items()), _row),
        }


def _find(broker: "Host", key: TopicPartition) -> tuple[ErrorCode, str | None, Mapping[int, ProducerState]]:
    problem = what_is_wrong(key.topic)
    if problem is not None:
        return ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic name is invalid: {problem}", {}
    if key.topic not in broker.image.topics:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, _NOT_HERE, {}
    partition = broker.partitions.get(key)
    if partition is None:
        is_elsewhere = broker.image.partition(key.topic, key.partition) is not None
        code = ErrorCode.NOT_LEADER_OR_FOLLOWER if is_elsewhere else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return code, None, {}
    if partition.is_offline:
        return ErrorCode.KAFKA_STORAGE_ERROR, None, {}
    return ErrorCode.NONE, None, partition.log.producers.entries


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
