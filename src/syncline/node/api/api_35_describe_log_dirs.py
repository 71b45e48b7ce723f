"""DescribeLogDirs (key 35), versions 1-4.

v3 top-level error, v4 total and usable bytes (KIP-827). `offset_lag` is what this
replica lacks up to its leader's high watermark, as of the last answer to its
fetch; Kafka compares with the replica's own mark, which is never above its log.
A replica whose log failed is a directory of its own, with an error; so is a log that was set aside.
"""

from typing import TYPE_CHECKING, Protocol

from syncline.model.errors import ErrorCode
from syncline.model.ids import TopicPartition
from syncline.wire.api import ApiKey
from syncline.wire.codec import response_type
from syncline.wire.entities import build

if TYPE_CHECKING:
    from syncline.node.hosting.replicas import HostedReplicas
    from syncline.node.part_views import HasPartitions
    from syncline.node.request import Request
    from syncline.storage.log_directory import LogDirectory

    class Host(HasPartitions, Protocol):
        """What this handler uses of its broker."""

        @property
        def logs(self) -> LogDirectory:
            """Return the log directory."""

        @property
        def replicas(self) -> HostedReplicas:
            """Return the hosted replicas."""

        def disk_space(self) -> tuple[int, int]:
            """Return (bytes used by logs and free, bytes free) of the log directory."""


KEY = ApiKey.DESCRIBE_LOG_DIRS


def handle(broker: "Host", request: "Request") -> None:
    """Describe the log directory of this broker, and its failed replicas."""
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
                "offset_lag": partition.offset_lag,
                "is_future_key": False,
            }
        )
    total_bytes, usable_bytes = broker.disk_space()
    result = {
        "error_code": ErrorCode.NONE,
        "log_dir": broker.logs.path,
        "topics": [{"name": name, "partitions": rows} for name, rows in topics.items()],
        "total_bytes": total_bytes,
        "usable_bytes": usable_bytes,
    }
    failed = [
        {
            "error_code": ErrorCode.KAFKA_STORAGE_ERROR,
            "log_dir": path,
            "topics": (),
            "total_bytes": total_bytes,
            "usable_bytes": -1,
        }
        for path, total_bytes in (
            *((f"{broker.logs.path}/{key}", -1) for key in broker.replicas.offline.assigned()),
            *((aside.path, aside.size_bytes) for aside in broker.logs.aside),
        )
    ]
    request.reply(
        build(
            response_type(KEY, request.version),
            {"throttle_time": 0, "error_code": ErrorCode.NONE, "results": [result, *failed]},
        )
    )
