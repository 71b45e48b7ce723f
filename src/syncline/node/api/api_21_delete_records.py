"""DeleteRecords (key 21), versions 0-2 (KIP-107).

The leader's log start rises at once; the answer waits until it has risen on every
live replica, which followers report with their next fetch.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final, Protocol

from syncline.model.errors import ErrorCode, RequestError
from syncline.model.ids import INTERNAL_TOPICS, JOURNAL_TOPIC, Offset, TopicPartition
from syncline.node.loop.gather import Gather
from syncline.storage.errors import StorageError
from syncline.wire.api import ApiKey
from syncline.wire.rows import Rows

if TYPE_CHECKING:
    from syncline.node.partitions.low_watermarks import LowWatermarks
    from syncline.node.serving.request import Request, Steps
    from syncline.node.views.parts import HasPartitions
    from syncline.node.views.values import HasImage

    class Host(HasImage, HasPartitions, Protocol):
        """What this handler uses of its broker."""

        @property
        def low_watermarks(self) -> LowWatermarks:
            """Return the DeleteRecords requests that wait for followers."""


KEY = ApiKey.DELETE_RECORDS
HIGH_WATERMARK: Final = -1
# What a partition takes while the request waits for followers.
WANTED_BYTES: Final = 300

Row = tuple[ErrorCode, int]


def handle(broker: "Host", request: "Request") -> "Steps":
    """Raise log starts, and answer when the low watermarks have reached them."""
    asked = yield from request.decode_in_steps()
    wanted: dict[TopicPartition, int] = {}
    for topic in asked.topics:
        yield
        for each in topic.partitions:
            wanted[TopicPartition(str(topic.name), int(each.partition_index))] = int(each.offset)
            yield

    def answer(rows: list[Row]) -> None:
        request.connection.step(request, _answer(request, wanted, rows))

    timeout_ms = int(asked.timeout.total_seconds() * 1000)
    gather = Gather[Row](answer)
    for key, offset in wanted.items():
        slot = gather.slot()
        try:
            target = _raise_log_start(broker, key, offset)
        except (RequestError, StorageError) as error:
            slot((error.code, -1))
        else:
            broker.low_watermarks.wait(broker.partitions[key], target, timeout_ms, slot)
        yield
    gather.close()
    request.park(len(wanted) * WANTED_BYTES)


def _answer(request: "Request", wanted: Iterable[TopicPartition], rows: list[Row]) -> "Steps":
    topics: dict[str, list[tuple[int, Row]]] = {}
    for key, row in zip(wanted, rows, strict=True):
        topics.setdefault(key.topic, []).append((key.partition, row))
        yield
    by_topic = Rows(
        topics.items(), lambda each: {"name": each[0], "partitions": Rows(each[1], _row)}, lambda each: each[1]
    )
    request.answer({"throttle_time": 0, "topics": by_topic})


def _row(found: tuple[int, Row]) -> dict[str, object]:
    partition, (code, low_watermark) = found
    return {"partition_index": partition, "low_watermark": low_watermark, "error_code": code}


def _raise_log_start(broker: "Host", key: TopicPartition, offset: int) -> Offset:
    """Return the log start to wait for."""
    partition = broker.partitions.get(key)
    if key.topic in INTERNAL_TOPICS or key.topic == JOURNAL_TOPIC:
        raise RequestError(ErrorCode.INVALID_TOPIC_EXCEPTION)
    if partition is None:
        is_elsewhere = broker.image.partition(key.topic, key.partition) is not None
        raise RequestError(ErrorCode.NOT_LEADER_OR_FOLLOWER if is_elsewhere else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    if not partition.is_leader:
        raise RequestError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    policy = partition.config.cleanup_policy
    if "compact" in policy and "delete" not in policy:
        raise RequestError(ErrorCode.POLICY_VIOLATION)
    target = partition.high_watermark if offset == HIGH_WATERMARK else Offset(offset)
    if target < 0:
        raise RequestError(ErrorCode.OFFSET_OUT_OF_RANGE)
    if partition.log.raise_log_start(target):
        partition.watchers.log_start_moved()
    return target
