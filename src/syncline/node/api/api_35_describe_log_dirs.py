"""DescribeLogDirs (key 35), versions 1-4.

v3 top-level error, v4 total and usable bytes (KIP-827). `offset_lag` is what this
replica lacks up to its own high watermark, as in Kafka.
"""

from typing import TYPE_CHECKING

from syncline.model.errors import ErrorCode
from syncline.model.ids import TopicPartition
from syncline.wire.api import ApiKey
from syncline.wire.codec import response_type
from syncline.wire.entities import build

if TYPE_CHECKING:
    from syncline.node.broker import Broker
    from syncline.node.request import Request

KEY = ApiKey.DESCRIBE_LOG_DIRS


def handle(broker: "Broker", request: "Request") -> None:
    """Describe the one log directory of this broker."""
    asked = request.decode()
    keys: dict[TopicPartition, None]
    if asked.topics is None:
        keys = dict.fromkeys(sorted(broker.partitions))
    else:
        keys = {
            TopicPartition(str(topic.topic), int(index)): None for topic in asked.topics for index in topic.partitions
        }
    topics: dict[str, list[dict[str, object]]] = {}
    for key in keys:
        partition = broker.partitions.get(key)
        if partition is None:
            continue
        topics.setdefault(key.topic, []).append(
            {
                "partition_index": key.partition,
                "partition_size": partition.log.size_bytes,
                "offset_lag": max(0, partition.high_watermark - partition.log.log_end),
                "is_future_key": False,
            }
        )
    total_bytes, usable_bytes = broker.disk_space()
    result = {
        "error_code": ErrorCode.NONE,
        "log_dir": broker.log_directory_path,
        "topics": [{"name": name, "partitions": rows} for name, rows in topics.items()],
        "total_bytes": total_bytes,
        "usable_bytes": usable_bytes,
    }
    request.reply(
        build(
            response_type(KEY, request.version),
            {"throttle_time": 0, "error_code": ErrorCode.NONE, "results": [result]},
        )
    )
