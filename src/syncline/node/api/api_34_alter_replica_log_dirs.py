"""AlterReplicaLogDirs (key 34), versions 1-2.

v2 flexible. A broker has one directory, so every replica is where it can be: a move there is done, a move to any other
directory is refused. Kafka's reassignment tool asks for this when a plan names directories, as those do that it prints
for a rollback, and asks again while the replica does not exist yet (KIP-113).
"""

from typing import TYPE_CHECKING, Protocol

from syncline.model.errors import ErrorCode
from syncline.model.ids import TopicPartition
from syncline.wire.api import ApiKey
from syncline.wire.rows import Rows

if TYPE_CHECKING:
    from syncline.node.hosting.replicas import HostedReplicas
    from syncline.node.serving.request import Request, Steps
    from syncline.node.views.parts import HasPartitions
    from syncline.node.views.values import HasImage
    from syncline.storage.log_directory import LogDirectory

    class Host(HasPartitions, HasImage, Protocol):
        """What this handler uses of its broker."""

        @property
        def logs(self) -> LogDirectory:
            """Return the log directory."""

        @property
        def replicas(self) -> HostedReplicas:
            """Return the hosted replicas."""


KEY = ApiKey.ALTER_REPLICA_LOG_DIRS


def handle(broker: "Host", request: "Request") -> "Steps":
    """Answer for each replica whether it is in the directory that was named; the last name of a replica counts."""
    asked = yield from request.decode_in_steps()
    offline = frozenset(broker.replicas.offline.assigned())
    wanted: dict[str, dict[int, ErrorCode]] = {}
    for directory in asked.dirs:
        is_ours = str(directory.path) == broker.logs.path
        for topic in directory.topics:
            yield
            for index in topic.partitions:
                key = TopicPartition(str(topic.name), int(index))
                wanted.setdefault(key.topic, {})[key.partition] = (
                    _outcome(broker, offline, key) if is_ours else ErrorCode.LOG_DIR_NOT_FOUND
                )
                yield
    results = Rows(
        wanted.items(),
        lambda each: {
            "topic_name": each[0],
            "partitions": Rows(each[1].items(), lambda row: {"partition_index": row[0], "error_code": row[1]}),
        },
        lambda each: each[1],
    )
    request.answer({"throttle_time": 0, "results": results})


def _outcome(broker: "Host", offline: frozenset[TopicPartition], key: TopicPartition) -> ErrorCode:
    """Return what a move to this broker's own directory comes to."""
    if key in broker.partitions:
        return ErrorCode.NONE
    if key in offline:
        return ErrorCode.KAFKA_STORAGE_ERROR
    if broker.image.partition(*key) is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return ErrorCode.REPLICA_NOT_AVAILABLE
