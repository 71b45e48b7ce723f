"""ListOffsets (key 2), versions 1-9.

v2 isolation level, v4 leader epochs (KIP-320), v7 timestamp -3, the largest
(KIP-734), v8 -4, the first local offset (KIP-405), v9 -5, the last tiered one.
Nothing is tiered here: -4 is the log start, -5 finds nothing.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol

from syncline.core.replication.truncation import check_leader_epoch
from syncline.model.errors import ErrorCode
from syncline.model.ids import LeaderEpoch, Offset, TopicPartition
from syncline.node.loop.gather import Gather
from syncline.node.loop.list_parts import dropped_in_steps, made_in_steps
from syncline.node.partitions.partition import Partition
from syncline.storage.errors import StorageError
from syncline.storage.segments.times import TimestampedOffset
from syncline.wire.api import ApiKey
from syncline.wire.rows import Rows

if TYPE_CHECKING:
    from syncline.node.serving.request import Request, Steps
    from syncline.node.views.parts import HasPartitions
    from syncline.node.views.values import HasImage

    class Host(HasImage, HasPartitions, Protocol):
        """What this handler uses of its broker."""


KEY = ApiKey.LIST_OFFSETS

# Replica ids that are no broker's: a consumer, which sees what is committed, and a tool that looks into any replica.
CONSUMER: Final = -1
DEBUGGER: Final = -2

LATEST: Final = -1
EARLIEST: Final = -2
MAX_TIMESTAMP: Final = -3
EARLIEST_LOCAL: Final = -4
LATEST_TIERED: Final = -5
# The first version that allows each special timestamp.
_SINCE: Final = {LATEST: 1, EARLIEST: 1, MAX_TIMESTAMP: 7, EARLIEST_LOCAL: 8, LATEST_TIERED: 9}
_OFFSET_NOT_AVAILABLE_VERSION: Final = 5
_ISOLATION_LEVELS: Final = (0, 1)

Found = tuple[ErrorCode, int, int, int]
NOTHING: Final[Found] = (ErrorCode.NONE, -1, -1, -1)


def handle(broker: "Host", request: "Request") -> "Steps":
    """Answer once every partition's offset is known; look-ups by time may have to read the disk."""
    asked = yield from request.decode_in_steps()
    topics = yield from made_in_steps(asked.topics, lambda topic: (str(topic.name), topic.partitions))
    times: dict[TopicPartition, int] = {}
    for name, partitions in topics:
        yield
        for each in partitions:
            key = TopicPartition(name, int(each.partition_index))
            times[key] = times.get(key, 0) + 1
            yield
    is_isolation_known = int(getattr(asked, "isolation_level", 0)) in _ISOLATION_LEVELS

    def answer(found: list[Found]) -> None:
        request.connection.step(request, _answer(request, topics, found, is_merged=is_isolation_known))

    gather = Gather[Found](answer)
    for name, partitions in topics:
        yield
        for each in partitions:
            key = TopicPartition(name, int(each.partition_index))
            slot = gather.slot()
            if not is_isolation_known:
                slot((ErrorCode.UNKNOWN_SERVER_ERROR, -1, -1, -1))
            elif times[key] > 1:
                slot((ErrorCode.INVALID_REQUEST, -1, -1, -1))
            else:
                _find(broker, request.version, asked, key, each, slot)
            yield
    keys = list(times)
    del times
    yield from dropped_in_steps(keys)
    gather.close()


def _find(
    broker: "Host", version: int, asked: Any, key: TopicPartition, each: Any, slot: Callable[[Found], None]
) -> None:
    timestamp = int(each.timestamp)
    replica_id = int(asked.replica_id)
    if timestamp < 0 and _SINCE.get(timestamp, version + 1) > version:
        slot((ErrorCode.UNSUPPORTED_VERSION, -1, -1, -1))
        return
    partition = broker.partitions.get(key)
    error = _refusal(broker, key, partition, int(getattr(each, "current_leader_epoch", -1)), replica_id)
    if error or partition is None:
        slot((error, -1, -1, -1))
        return
    if timestamp in (EARLIEST, EARLIEST_LOCAL):
        slot((ErrorCode.NONE, -1, partition.log.log_start, _epoch_at(partition, partition.log.log_start)))
    elif timestamp == LATEST_TIERED:
        slot(NOTHING)
    elif timestamp == LATEST:
        slot(_latest(partition, version, is_consumer=replica_id == CONSUMER))
    else:
        try:
            _search(partition, version, replica_id, timestamp, slot)
        except StorageError as refusal:
            slot((refusal.code, -1, -1, -1))


def _search(partition: Partition, version: int, replica_id: int, timestamp: int, slot: Callable[[Found], None]) -> None:
    """Look for a record by its time, in a worker. Raises StorageError if the log cannot be used now."""
    if timestamp == MAX_TIMESTAMP:
        partition.log.offset_of_max_timestamp_later(lambda found: slot(_by_time(partition, version, replica_id, found)))
    else:
        partition.log.offset_for_time_later(
            timestamp, lambda found: slot(_by_time(partition, version, replica_id, found, is_bounded=True))
        )


def _refusal(
    broker: "Host", key: TopicPartition, partition: Partition | None, current_epoch: int, replica_id: int
) -> ErrorCode:
    if partition is None:
        is_elsewhere = broker.image.partition(key.topic, key.partition) is not None
        return ErrorCode.NOT_LEADER_OR_FOLLOWER if is_elsewhere else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if partition.is_offline:
        return ErrorCode.KAFKA_STORAGE_ERROR
    error = check_leader_epoch(LeaderEpoch(current_epoch), LeaderEpoch(partition.leader_epoch))
    if error:
        return error
    if partition.leader is None and replica_id != DEBUGGER:
        return ErrorCode.NOT_LEADER_OR_FOLLOWER
    return ErrorCode.NONE


def _epoch_at(partition: Partition, offset: int) -> int:
    if offset >= partition.log.log_end:
        return -1 if not partition.log.epochs.entries else partition.log.epochs.latest_epoch
    entry = partition.log.epochs.entry_for_offset(Offset(offset))
    return entry.leader_epoch if entry is not None else -1


def _latest(partition: Partition, version: int, *, is_consumer: bool) -> Found:
    if not is_consumer:
        return (ErrorCode.NONE, -1, partition.log.log_end, partition.leader_epoch)
    if partition.leader is not None and not partition.leader.are_offsets_available:
        return (_not_available(version), -1, -1, -1)
    return (ErrorCode.NONE, -1, partition.high_watermark, partition.leader_epoch)


def _not_available(version: int) -> ErrorCode:
    if version >= _OFFSET_NOT_AVAILABLE_VERSION:
        return ErrorCode.OFFSET_NOT_AVAILABLE
    return ErrorCode.LEADER_NOT_AVAILABLE


def _by_time(
    partition: Partition,
    version: int,
    replica_id: int,
    found: TimestampedOffset | Exception | None,
    *,
    is_bounded: bool = False,
) -> Found:
    if isinstance(found, Exception):
        return (ErrorCode.KAFKA_STORAGE_ERROR, -1, -1, -1)
    if found is None:
        return NOTHING
    if is_bounded and replica_id == CONSUMER and found.offset >= partition.high_watermark:
        if partition.leader is not None and not partition.leader.are_offsets_available:
            return (_not_available(version), -1, -1, -1)
        return NOTHING
    return (ErrorCode.NONE, found.timestamp_ms, found.offset, found.leader_epoch)


def _answer(
    request: "Request", topics: Sequence[tuple[str, Sequence[Any]]], found: list[Found], *, is_merged: bool
) -> "Steps":
    """Answer: if merged, partitions listed more than once have one row, and topics without any have none.

    If the request was refused as a whole, everything that it lists has a row.
    """
    rows = iter(found)
    answered: list[tuple[str, list[tuple[int, Found]]]] = []
    row_of_name: dict[str, dict[int, Found]] = {}
    for name, partitions in topics:
        yield
        listed = []
        row_of = row_of_name.setdefault(name, {})
        for each in partitions:
            row = (int(each.partition_index), next(rows))
            listed.append(row)
            row_of[row[0]] = row[1]
            yield
        answered.append((name, listed))
    if is_merged:
        answered = []
        for name, row_of in row_of_name.items():
            if row_of:
                answered.append((name, list(row_of.items())))
            yield
    topics_answered = Rows(
        answered, lambda topic: {"name": topic[0], "partitions": Rows(topic[1], _row)}, lambda topic: topic[1]
    )
    request.answer({"throttle_time": 0, "topics": topics_answered})


def _row(found: tuple[int, Found]) -> dict[str, Any]:
    partition, (error, timestamp, offset, epoch) = found
    return {
        "partition_index": partition,
        "error_code": error,
        "timestamp": timestamp,
        "offset": offset,
        "leader_epoch": epoch,
    }
