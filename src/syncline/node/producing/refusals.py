"""Refusals of batches: what is counted, and what is remembered for the batches behind them."""

from typing import TYPE_CHECKING, Final

from syncline.model.errors import ErrorCode
from syncline.model.ids import TopicPartition
from syncline.node.counting.counters import TopicCounters
from syncline.node.producing.serving import Producing
from syncline.records.validate import InvalidBatch, admit

if TYPE_CHECKING:
    from syncline.node.serving.request import Request

# After these a client sends the batch again.
_SENT_AGAIN: Final = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.KAFKA_STORAGE_ERROR,
    }
)
# Refusals that any client may get; others count as failures of this broker, as in Kafka.
_EXPECTED: Final = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.MESSAGE_TOO_LARGE,
        ErrorCode.RECORD_LIST_TOO_LARGE,
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.KAFKA_STORAGE_ERROR,
    }
)


def count_refusal(counters: TopicCounters, code: ErrorCode, size_bytes: int) -> None:
    """Count a refused batch of so many bytes among those of its topic."""
    if code == ErrorCode.MESSAGE_TOO_LARGE:
        counters.bytes_rejected += size_bytes
    if code not in _EXPECTED:
        counters.failed_produces += 1


def note_head(
    producing: Producing, request: "Request", key: TopicPartition, code: ErrorCode, start: int, end: int
) -> None:
    """Note a batch that its client will send again, so that those behind it are refused with it."""
    if code not in _SENT_AGAIN:
        return
    try:
        header = admit(request.body, start, end, request.version)
    except InvalidBatch:
        return
    producing.refused_heads.refused(key, header, code, producing.clock.mono_ms())
