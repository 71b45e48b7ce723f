"""Appending one batch of a produce request: checks in Kafka's order, then one write.

First comes what can be refused without the batch, then its form, then whether this broker leads and the in-sync set is
large enough, then the batch's checksum and content, then what the log knows of its producer. Nothing is written before
all of it has passed.
"""

from typing import TYPE_CHECKING, Final, TypeAlias

from syncline.core.producer_state import Accepted, Duplicate, Refused, Verdict
from syncline.model.errors import NO_ERROR, ErrorCode
from syncline.model.ids import INTERNAL_TOPICS, TopicPartition
from syncline.node.partitions.partition import Partition
from syncline.node.producing.serving import Producing
from syncline.records.batch import APPEND_TIME_BIT, TRANSACTIONAL_BIT, BatchHeader
from syncline.records.validate import InvalidBatch, admit, prepare
from syncline.storage.errors import StorageError
from syncline.wire.produce import ProducedPartition, ProduceRequest

if TYPE_CHECKING:
    from syncline.node.serving.request import Request

# A named tuple's own constructor takes three times as long.
_make: Final = tuple.__new__

# The row of one partition and, if its records are in the log, the partition and the offset to wait for.
Appended: TypeAlias = tuple[ProducedPartition, Partition | None, int]

_ABORTABLE_VERSION: Final = 11
_BEHIND: Final = (
    "An earlier batch of this producer was refused with this error. Send it and those behind it again, in order."
)


def append_batch(
    producing: Producing,
    request: "Request",
    produce: ProduceRequest,
    key: TopicPartition,
    start: int,
    end: int | None,
    content: BatchHeader | InvalidBatch | None = None,
) -> Appended:
    """Append the batch from `start` to `end` of the request's body, unless it is refused.

    `content` is what a worker found out about the batch, None if it has not been opened. Raises NeedsOpening.
    """
    index = key.partition
    partition = producing.partitions.get(key)
    if partition is None or key.topic in INTERNAL_TOPICS:
        code = _misdirected(producing, key, is_client=request.listener == "client")
        if code:
            return ProducedPartition(index, code), None, -1
    wall_ms = producing.clock.wall_ms()
    try:
        checked = _checked(producing, request, produce, index, partition, start, end, content, wall_ms)
    except InvalidBatch as invalid:
        return _invalid(producing, index, partition, invalid), None, -1
    if isinstance(checked, ProducedPartition):
        return checked, None, -1
    assert partition is not None, f"a batch passed that is for {key}, which is not hosted"
    if checked.producer_id >= 0:
        answered = _refused_or_repeated(producing, partition, checked)
        if answered is not None:
            return answered
    try:
        base_offset = partition.append(request.body, start, checked, wall_ms)
    except StorageError as error:
        return ProducedPartition(index, error.code, error_message=str(error)), None, -1
    append_time_ms = checked.max_timestamp if checked.attributes & APPEND_TIME_BIT else -1
    # No errors of records, no message and no hint at another leader.
    row = _make(
        ProducedPartition,
        (index, NO_ERROR, base_offset, append_time_ms, partition.log.log_start, (), None, None),
    )
    return row, partition, base_offset + checked.last_offset_delta + 1


def _misdirected(producing: Producing, key: TopicPartition, *, is_client: bool) -> ErrorCode:
    """Return why this client may not write to the partition at all; NONE: the batch decides."""
    exists = producing.cluster.image.partition(key.topic, key.partition) is not None
    if is_client and key.topic in INTERNAL_TOPICS:
        return ErrorCode.INVALID_TOPIC_EXCEPTION if exists else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if key in producing.partitions or exists:
        return ErrorCode.NONE
    return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def _checked(
    producing: Producing,
    request: "Request",
    produce: ProduceRequest,
    index: int,
    partition: Partition | None,
    start: int,
    end: int | None,
    content: BatchHeader | InvalidBatch | None,
    wall_ms: int,
) -> BatchHeader | ProducedPartition:
    """Return the header of a batch that this leader may take, or the row that refuses it.

    Raises InvalidBatch if the batch itself is at fault, NeedsOpening if its records must be read to know.
    """
    if end is None:
        raise InvalidBatch(ErrorCode.INVALID_RECORD, "The records of this partition are null.")
    header = admit(request.body, start, end, request.version)
    if header.attributes & TRANSACTIONAL_BIT:
        return ProducedPartition(index, _transactional_refusal(produce, request.version))
    if produce.acks not in (-1, 0, 1):
        return ProducedPartition(index, ErrorCode.INVALID_REQUIRED_ACKS)
    leader = partition.leader if partition is not None else None
    if partition is None or leader is None:
        return ProducedPartition(index, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    if partition.log.is_offline:
        return ProducedPartition(index, ErrorCode.KAFKA_STORAGE_ERROR)
    refusal = leader.check_append(produce.acks)
    if refusal:
        log_start = partition.log.log_start if refusal is ErrorCode.NOT_ENOUGH_REPLICAS else -1
        return ProducedPartition(index, refusal, log_start_offset=log_start)
    if content is None:
        return prepare(request.body, start, header, partition.rules, wall_ms, is_busy=True)
    if isinstance(content, InvalidBatch):
        # Raised here, it and this frame would keep each other, and what the worker held, for good.
        return _invalid(producing, index, partition, content)
    return content


def _refused_or_repeated(producing: Producing, partition: Partition, header: BatchHeader) -> Appended | None:
    """Return the answer to a batch of an idempotent producer that is not appended; None if it is the next one."""
    index, log = partition.key.partition, partition.log
    verdict = log.producers.check(header)
    if producing.refused_heads.heads:
        behind = _refusal_behind(producing, partition, header, verdict)
        if behind is not None:
            return ProducedPartition(index, behind, error_message=_BEHIND), None, -1
    if isinstance(verdict, Refused):
        row = ProducedPartition(index, verdict.code, log_start_offset=log.log_start, error_message=verdict.message)
        return row, None, -1
    if isinstance(verdict, Duplicate):
        # Kafka fills the append time of a retry with the stored batch's time, whatever the topic's time type.
        row = ProducedPartition(
            index,
            ErrorCode.NONE,
            base_offset=verdict.base_offset,
            log_append_time_ms=verdict.timestamp_ms,
            log_start_offset=log.log_start,
        )
        return row, partition, verdict.last_offset + 1
    assert isinstance(verdict, Accepted), f"{partition!r}: {verdict}"
    return None


def _refusal_behind(
    producing: Producing, partition: Partition, header: BatchHeader, verdict: Verdict
) -> ErrorCode | None:
    """Return why a batch behind a refused one must be refused, too; None if there is no such batch."""
    producers = partition.log.producers.entries
    # A log that does not know the producer takes any sequence, the second batch before the first one, too.
    continues = isinstance(verdict, Duplicate) or (isinstance(verdict, Accepted) and header.producer_id in producers)
    now_ms = producing.clock.mono_ms()
    return producing.refused_heads.refusal_behind(partition.key, header, now_ms, continues=continues)


def _invalid(producing: Producing, index: int, partition: Partition | None, invalid: InvalidBatch) -> ProducedPartition:
    """Count an invalid batch; return its row."""
    producing.counters.invalid_batches[invalid.fault] += 1
    has_start = invalid.fills_log_start and partition is not None
    return ProducedPartition(
        index,
        invalid.code,
        log_start_offset=partition.log.log_start if has_start and partition is not None else -1,
        record_errors=invalid.record_errors,
        error_message=invalid.message,
    )


def _transactional_refusal(produce: ProduceRequest, version: int) -> ErrorCode:
    """Return why a transactional batch is refused: no transaction can be open here."""
    if produce.transactional_id is None:
        return ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    return ErrorCode.TRANSACTION_ABORTABLE if version >= _ABORTABLE_VERSION else ErrorCode.INVALID_TXN_STATE
