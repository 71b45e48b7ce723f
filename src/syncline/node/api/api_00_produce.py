"""Produce (key 0), versions 3-11 (0-2 are advertised for old clients and closed, KAFKA-18659).

v3 transactional id (ignored: transactions are not offered), v5 log start offset,
v8 record errors (KIP-467), v10 leader hints (KIP-951).

A batch is validated, stamped and written inside the receive buffer: no record is
decoded (`records.body_check` looks at lengths), no batch is copied. One append per
partition and request.
Ignored: topic compression (`compression.type` other than `producer`).
"""

from typing import TYPE_CHECKING, Final, Protocol

from syncline.core.producer_state import Accepted, Duplicate, Refused
from syncline.model.errors import ErrorCode
from syncline.model.ids import INTERNAL_TOPICS, TopicPartition
from syncline.node.counters import TopicCounters
from syncline.node.partition import Partition
from syncline.node.pending_produce import PendingProduce, Producing
from syncline.records.validate import InvalidBatch, admit, prepare
from syncline.storage.errors import StorageError
from syncline.wire.api import ApiKey
from syncline.wire.produce import ProducedPartition, ProduceRequest, parse_produce

if TYPE_CHECKING:
    from syncline.node.request import Request

    class Host(Protocol):
        """What this handler uses of its broker."""

        @property
        def producing(self) -> Producing:
            """Return what produce requests use."""


KEY = ApiKey.PRODUCE
_ACKS_ALL: Final = -1
_HINT_VERSION: Final = 10
_ABORTABLE_VERSION: Final = 11
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


def handle(broker: "Host", request: "Request") -> None:
    """Append the valid batches; answer now, or when acks=all is satisfied."""
    produce = parse_produce(request.body, request.version, request.position)
    producing = broker.producing
    pending = PendingProduce(producing, request, len(request.body))
    waiting: list[tuple[Partition, int, int, int]] = []
    refused: tuple[TopicPartition, ProducedPartition] | None = None
    for topic_index, (topic, partitions) in enumerate(_last_of_each(produce)):
        rows = pending.add_topic(topic)
        counters = producing.counters.of(topic)
        counters.produces += len(partitions)
        for index, start, end in partitions:
            row, partition, required_offset = _append(
                producing, request, produce, TopicPartition(topic, index), start, end
            )
            if row.error_code:
                refused = refused or (TopicPartition(topic, index), row)
                _count_refusal(counters, row.error_code, 0 if end is None else end - start)
            if row.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER and request.version >= _HINT_VERSION:
                leader, endpoint = producing.cluster.leader_hint(topic, index, ErrorCode.NOT_LEADER_OR_FOLLOWER)
                row = row._replace(current_leader=leader)
                if endpoint is not None:
                    pending.point_to_leader(endpoint)
            if partition is not None and produce.acks == _ACKS_ALL:
                pending.wait_for(topic_index, len(rows))
                waiting.append((partition, required_offset, topic_index, len(rows)))
            rows.append(row)
    if produce.acks == 0:
        if refused is not None:
            producing.unanswered.note(request, refused[0], refused[1].error_code, refused[1].error_message)
            request.close()
        else:
            request.reply_nothing()
        return
    for partition, required_offset, topic_index, row_index in waiting:
        partition.wait(required_offset, pending, topic_index, row_index)
    pending.park(produce.timeout_ms)


def _last_of_each(produce: ProduceRequest) -> list[tuple[str, list[tuple[int, int, int | None]]]]:
    """Return each topic and partition once; of duplicates, the last entry."""
    if len(produce.topics) == 1 and len(produce.topics[0][1]) == 1:
        return produce.topics
    merged: dict[str, dict[int, tuple[int, int, int | None]]] = {}
    for topic, partitions in produce.topics:
        entries = merged.setdefault(topic, {})
        for entry in partitions:
            entries[entry[0]] = entry
    return [(topic, list(entries.values())) for topic, entries in merged.items() if entries]


def _append(
    producing: Producing,
    request: "Request",
    produce: ProduceRequest,
    key: TopicPartition,
    start: int,
    end: int | None,
) -> tuple[ProducedPartition, Partition | None, int]:
    """Return the row of one partition and, if its records are in the log, the partition and the offset to wait for."""
    index = key.partition
    if produce.acks not in (-1, 0, 1):
        return ProducedPartition(index, ErrorCode.INVALID_REQUIRED_ACKS), None, -1
    partition = producing.partitions.get(key)
    if key.topic in INTERNAL_TOPICS and request.listener == "client":
        exists = producing.cluster.image.partition(key.topic, index) is not None
        code = ErrorCode.INVALID_TOPIC_EXCEPTION if exists else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return ProducedPartition(index, code), None, -1
    if partition is None and producing.cluster.image.partition(key.topic, index) is None:
        return ProducedPartition(index, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION), None, -1
    try:
        if end is None:
            raise InvalidBatch(ErrorCode.INVALID_RECORD, "The records of this partition are null.")
        header = admit(request.body, start, end, request.version)
        if header.is_transactional:
            return ProducedPartition(index, _transactional_refusal(produce, request.version)), None, -1
        leader = partition.leader if partition is not None else None
        if partition is None or leader is None:
            return ProducedPartition(index, ErrorCode.NOT_LEADER_OR_FOLLOWER), None, -1
        if partition.is_offline:
            return ProducedPartition(index, ErrorCode.KAFKA_STORAGE_ERROR), None, -1
        refusal = leader.check_append(produce.acks)
        if refusal:
            log_start = partition.log.log_start if refusal is ErrorCode.NOT_ENOUGH_REPLICAS else -1
            return ProducedPartition(index, refusal, log_start_offset=log_start), None, -1
        header = prepare(request.body, start, header, partition.rules, producing.clock.wall_ms())
    except InvalidBatch as invalid:
        producing.counters.invalid_batches[invalid.fault] += 1
        has_start = invalid.fills_log_start and partition is not None
        return (
            ProducedPartition(
                index,
                invalid.code,
                log_start_offset=partition.log.log_start if has_start and partition is not None else -1,
                record_errors=invalid.record_errors,
                error_message=invalid.message,
            ),
            None,
            -1,
        )
    verdict = partition.log.producers.check(header) if header.producer_id >= 0 else None
    if isinstance(verdict, Refused):
        row = ProducedPartition(
            index, verdict.code, log_start_offset=partition.log.log_start, error_message=verdict.message
        )
        return row, None, -1
    if isinstance(verdict, Duplicate):
        # Kafka fills the append time of a retry with the stored batch's time, whatever the topic's time type.
        row = ProducedPartition(
            index,
            ErrorCode.NONE,
            base_offset=verdict.base_offset,
            log_append_time_ms=verdict.timestamp_ms,
            log_start_offset=partition.log.log_start,
        )
        return row, partition, verdict.last_offset + 1
    assert verdict is None or isinstance(verdict, Accepted)
    try:
        base_offset = partition.append(request.body, start, header)
    except StorageError as error:
        return ProducedPartition(index, error.code, error_message=str(error)), None, -1
    append_time_ms = header.max_timestamp if header.is_append_time else -1
    row = ProducedPartition(
        index,
        ErrorCode.NONE,
        base_offset=base_offset,
        log_append_time_ms=append_time_ms,
        log_start_offset=partition.log.log_start,
    )
    return row, partition, base_offset + header.last_offset_delta + 1


def _count_refusal(counters: TopicCounters, code: int, size_bytes: int) -> None:
    if code == ErrorCode.MESSAGE_TOO_LARGE:
        counters.bytes_rejected += size_bytes
    if code not in _EXPECTED:
        counters.failed_produces += 1


def _transactional_refusal(produce: ProduceRequest, version: int) -> ErrorCode:
    """Return why a transactional batch is refused: no transaction can be open here."""
    if produce.transactional_id is None:
        return ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    return ErrorCode.TRANSACTION_ABORTABLE if version >= _ABORTABLE_VERSION else ErrorCode.INVALID_TXN_STATE
