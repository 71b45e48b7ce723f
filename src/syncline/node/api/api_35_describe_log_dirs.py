"""DescribeLogDirs (key 35), versions 1-4.

v3 top-level error, v4 total and usable bytes (KIP-827). `offset_lag` is what this
replica lacks up to its leader's high watermark, as of the last answer to its
fetch; Kafka compares with the replica's own mark, which is never above its log.
A replica whose log failed is a directory of its own, with an error; so is a log that was set aside.
While moves run, v4 also tells when this broker last received and sent something for them (`wire.describe_log_dirs_v4`):
who asks twice within a moment cannot know whether nothing came because nothing was due.
"""

from typing import TYPE_CHECKING, Any, Protocol

from syncline.model.errors import ErrorCode
from syncline.model.ids import TopicPartition
from syncline.wire.api import ApiKey
from syncline.wire.rows import Rows

if TYPE_CHECKING:
    from syncline.node.counting.counters import Counters
    from syncline.node.hosting.replicas import HostedReplicas
    from syncline.node.partitions.partition import Partition
    from syncline.node.serving.request import Request, Steps
    from syncline.node.views.parts import HasPartitions
    from syncline.node.views.values import HasClock, HasImage
    from syncline.storage.log_directory import LogDirectory

    class Host(HasClock, HasImage, HasPartitions, Protocol):
        """What this handler uses of its broker."""

        @property
        def counters(self) -> Counters:
            """Return what this broker counts."""

        @property
        def logs(self) -> LogDirectory:
            """Return the log directory."""

        @property
        def replicas(self) -> HostedReplicas:
            """Return the hosted replicas."""

        def disk_space(self) -> tuple[int, int]:
            """Return (bytes used by logs and free, bytes free) of the log directory."""


KEY = ApiKey.DESCRIBE_LOG_DIRS


def handle(broker: "Host", request: "Request") -> "Steps":
    """Describe the log directory of this broker, and its failed replicas."""
    asked = yield from request.decode_in_steps()
    keys: dict[TopicPartition, None]
    if asked.topics is None:
        keys = dict.fromkeys(sorted(broker.partitions))
    else:
        keys = {}
        for topic in asked.topics:
            yield
            for index in topic.partitions:
                keys[TopicPartition(str(topic.topic), int(index))] = None
                yield
    topics: dict[str, list[Partition]] = {}
    for key in keys:
        partition = broker.partitions.get(key)
        if partition is not None:
            topics.setdefault(key.topic, []).append(partition)
        yield
    total_bytes, usable_bytes = broker.disk_space()
    result = {
        "error_code": ErrorCode.NONE,
        "log_dir": broker.logs.path,
        "topics": Rows(
            topics.items(), lambda each: {"name": each[0], "partitions": Rows(each[1], _row)}, lambda each: each[1]
        ),
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
    request.answer(
        {"throttle_time": 0, "error_code": ErrorCode.NONE, "results": [result, *failed], **_moved_ago(broker)}
    )


def _moved_ago(broker: "Host") -> dict[str, int]:
    """Return for how long this broker has received and sent nothing for a move; nothing if none runs.

    The time before the last of the moves began is no part of it.
    """
    moves = broker.image.moves.values()
    if not moves:
        return {}
    running_ms = max(0, broker.clock.wall_ms() - max(move.started_ms for move in moves))
    replication, now_ms = broker.counters.replication, broker.clock.mono_ms()
    return {
        "nothing_received_ms": min(running_ms, now_ms - replication.moved_in_at_ms),
        "nothing_sent_ms": min(running_ms, now_ms - replication.moved_out_at_ms),
    }


def _row(partition: "Partition") -> dict[str, Any]:
    return {
        "partition_index": partition.key.partition,
        "partition_size": partition.log.size_bytes,
        "offset_lag": partition.offset_lag,
        "is_future_key": False,
    }
