"""OffsetForLeaderEpoch (key 23), versions 2-4.

v2 current leader epoch (KIP-320), v3 replica id, v4 flexible. The answer is where
an epoch of this leader's history ends, so that a client or follower finds out
where its own may differ. Only the leader answers.
"""

from typing import TYPE_CHECKING, Any, Protocol

from syncline.core.replication.truncation import check_leader_epoch
from syncline.model.errors import ErrorCode
from syncline.model.ids import LeaderEpoch, TopicPartition
from syncline.wire.api import ApiKey
from syncline.wire.rows import Rows

if TYPE_CHECKING:
    from syncline.node.serving.request import Request, Steps
    from syncline.node.views.parts import HasPartitions
    from syncline.node.views.values import HasImage

    class Host(HasImage, HasPartitions, Protocol):
        """What this handler uses of its broker."""


KEY = ApiKey.OFFSET_FOR_LEADER_EPOCH


def handle(broker: "Host", request: "Request") -> "Steps":
    """Answer every partition at once: the epoch history is in memory."""
    asked = yield from request.decode_in_steps()
    topics = Rows(asked.topics, lambda topic: _topic(broker, topic), lambda topic: topic.partitions)
    request.answer({"throttle_time": 0, "topics": topics})


def _topic(broker: "Host", topic: Any) -> dict[str, Any]:
    name = str(topic.topic)
    rows = Rows(topic.partitions, lambda each: _answer(broker, TopicPartition(name, int(each.partition)), each))
    return {"topic": topic.topic, "partitions": rows}


def _answer(broker: "Host", key: TopicPartition, each: Any) -> dict[str, Any]:
    partition = broker.partitions.get(key)
    row = {"partition": each.partition, "error_code": ErrorCode.NONE, "leader_epoch": -1, "end_offset": -1}
    if partition is None:
        is_elsewhere = broker.image.partition(key.topic, key.partition) is not None
        row["error_code"] = ErrorCode.NOT_LEADER_OR_FOLLOWER if is_elsewhere else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return row
    error = check_leader_epoch(LeaderEpoch(int(each.current_leader_epoch)), LeaderEpoch(partition.leader_epoch))
    if partition.is_offline:
        error = ErrorCode.KAFKA_STORAGE_ERROR
    elif not error and not partition.is_leader:
        error = ErrorCode.NOT_LEADER_OR_FOLLOWER
    if error:
        row["error_code"] = error
        return row
    end = partition.log.epochs.end_offset_for(LeaderEpoch(int(each.leader_epoch)), partition.log.log_end)
    row["leader_epoch"], row["end_offset"] = end.leader_epoch, end.end_offset
    return row
