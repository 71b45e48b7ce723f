"""The requests of a follower to its leader, as messages: for records, ends of epochs, and ends of logs.

The rules that decide what to ask are `core/fetching/fetcher.py` and `core/replication/follower.py`.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from syncline.core.fetching.fetcher import FetchRequestPlan
from syncline.core.replication.follower import EpochQuestion, FetchAsk
from syncline.model.broker_config import BrokerConfig
from syncline.model.errors import ErrorCode
from syncline.model.ids import BrokerEpoch, BrokerId, TopicPartition
from syncline.node.partitions.partition import Partition
from syncline.wire.api import ApiKey
from syncline.wire.codec import decode_response, request_type
from syncline.wire.entities import build
from syncline.wire.fetch import FetchPartition, FetchRequest

FETCH_VERSION: Final = 17
LIST_OFFSETS_VERSION: Final = 9
EPOCH_END_VERSION: Final = 4
READ_UNCOMMITTED: Final = 0
NO_RACK: Final = ""
LATEST: Final = -1
EARLIEST: Final = -2
# Larger answers do not replicate faster; they only exceed the processor's cache (data path measurements).
RESPONSE_BYTES_MAX: Final = 2 << 20

# A named tuple's own constructor takes three times as long.
_make: Final = tuple.__new__

# (topic id, partition): how fetches name partitions.
Key = tuple[bytes, int]


def fetch_request(
    plan: FetchRequestPlan[Key],
    config: BrokerConfig,
    broker_id: BrokerId,
    broker_epoch: BrokerEpoch,
    *,
    max_wait_ms: int | None = None,
) -> FetchRequest:
    """Return the Fetch request that a plan describes; it waits for data as long as configured, or shorter."""
    wait_ms = config.replica_fetch_wait_max_ms
    topics: dict[bytes, list[FetchPartition]] = {}
    for (topic_id, index), ask in plan.listed:
        topics.setdefault(topic_id, []).append(
            _make(
                FetchPartition,
                (
                    index,
                    ask.leader_epoch,
                    ask.fetch_offset,
                    ask.last_fetched_epoch,
                    ask.log_start,
                    ask.limit_bytes or config.replica_fetch_max_bytes,
                ),
            )
        )
    forgotten: dict[bytes, list[int]] = {}
    for topic_id, index in plan.forgotten:
        forgotten.setdefault(topic_id, []).append(index)
    return _make(
        FetchRequest,
        (
            broker_id,
            broker_epoch,
            wait_ms if max_wait_ms is None else min(wait_ms, max_wait_ms),
            config.replica_fetch_min_bytes,
            min(config.replica_fetch_response_max_bytes, RESPONSE_BYTES_MAX),
            READ_UNCOMMITTED,
            plan.session_id,
            plan.session_epoch,
            list(topics.items()),
            list(forgotten.items()),
            NO_RACK,
        ),
    )


def epochs_request(
    questions: Iterable[tuple[Key, EpochQuestion]], partitions: Mapping[Key, Partition], broker_id: BrokerId
) -> Any:
    """Return the request that asks where the last epochs of these logs end in the leader's logs."""
    topics: dict[str, list[dict[str, int]]] = {}
    for key, asked in questions:
        partition = partitions[key]
        row = {
            "partition": partition.key.partition,
            "current_leader_epoch": asked.leader_epoch,
            "leader_epoch": asked.epoch,
        }
        topics.setdefault(partition.key.topic, []).append(row)
    return build(
        request_type(ApiKey.OFFSET_FOR_LEADER_EPOCH, EPOCH_END_VERSION),
        {
            "replica_id": broker_id,
            "topics": [{"topic": topic, "partitions": rows} for topic, rows in topics.items()],
        },
    )


def epochs_answer(body: bytes) -> dict[TopicPartition, Any]:
    """Return the rows of the answer by partition; raises `DecodeError`."""
    response = decode_response(ApiKey.OFFSET_FOR_LEADER_EPOCH, EPOCH_END_VERSION, body)
    return {
        TopicPartition(str(topic.topic), int(row.partition)): row
        for topic in response.topics
        for row in topic.partitions
    }


def offset_request(key: TopicPartition, ask: FetchAsk, timestamp: int, broker_id: BrokerId) -> Any:
    """Return the request that asks where the leader's log ends (LATEST) or starts (EARLIEST)."""
    return build(
        request_type(ApiKey.LIST_OFFSETS, LIST_OFFSETS_VERSION),
        {
            "replica_id": broker_id,
            "isolation_level": 0,
            "topics": [
                {
                    "name": key.topic,
                    "partitions": [
                        {
                            "partition_index": key.partition,
                            "current_leader_epoch": ask.leader_epoch,
                            "timestamp": timestamp,
                        }
                    ],
                }
            ],
        },
    )


def offset_answer(response: Any) -> tuple[ErrorCode, int]:
    """Return (error, offset) of the answer to `offset_request`."""
    row = response.topics[0].partitions[0]
    return ErrorCode(int(row.error_code)), int(row.offset)
