"""Produce (key 0), versions 3-11 (0-2 are advertised for old clients and closed, KAFKA-18659).

v3 transactional id (ignored: transactions are not offered), v5 log start offset,
v8 record errors (KIP-467), v10 leader hints (KIP-951).

A batch is validated, stamped and written inside the receive buffer: no record is
decoded (`records.body_check` looks at lengths), no batch is copied. One append per
partition and request.
Ignored: topic compression (`compression.type` other than `producer`).
"""

from collections.abc import Generator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from syncline.core.producer_state import Accepted, Duplicate, Refused, Verdict
from syncline.model.errors import ErrorCode
from syncline.model.ids import INTERNAL_TOPICS, TopicPartition
from syncline.node.counting.counters import TopicCounters
from syncline.node.loop.parts import in_parts
from syncline.node.partitions.partition import Partition
from syncline.node.producing.pending_produce import PendingProduce, Producing
from syncline.node.serving.stepping import failed as report_failure
from syncline.records.batch import BatchHeader
from syncline.records.validate import OPENED_RECORDS_MAX, InvalidBatch, NeedsOpening, admit, prepare
from syncline.storage.errors import StorageError
from syncline.wire.api import ApiKey
from syncline.wire.produce import (
    LongProduce,
    PartitionRecords,
    ProducedPartition,
    ProduceRequest,
    parse_produce,
    parse_produce_in_steps,
)

if TYPE_CHECKING:
    from syncline.node.serving.request import Request, Steps

# A named tuple's own constructor takes three times as long.
_make: Final = tuple.__new__

KEY = ApiKey.PRODUCE
# A request with more partitions is handled in steps: an append takes some 20 microseconds.
PARTITIONS_AT_ONCE: Final = 100
PARTITIONS_PER_STEP: Final = 10
_ACKS_ALL: Final = -1
_HINT_VERSION: Final = 10
_ABORTABLE_VERSION: Final = 11
_TOO_MANY: Final = f"The records of a request are opened up to the {OPENED_RECORDS_MAX}th. Send fewer at a time."
_BEHIND: Final = (
    "An earlier batch of this producer was refused with this error. Send it and those behind it again, in order."
)
# After these a client sends the batch again.
_SENT_AGAIN: Final = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.KAFKA_STORAGE_ERROR,
    }
)
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


class Host(Protocol):
    """What this handler uses of its broker."""

    @property
    def producing(self) -> "Producing":
        """Return what produce requests use."""


def handle(broker: Host, request: "Request") -> "Steps | None":
    """Append the valid batches; answer now, or when acks=all is satisfied."""
    try:
        produce = parse_produce(request.body, request.version, request.position)
    except LongProduce:
        return _read(broker.producing, request)
    producing = broker.producing
    pending = PendingProduce(producing, request, len(request.body))
    topics, partition_count = _last_of_each(produce)
    if partition_count > PARTITIONS_AT_ONCE:
        return _in_steps(producing, request, produce, pending, topics)
    closed: list[ClosedBatch] = []
    refused: Refusal | None = None
    for topic_index, (topic, partitions) in enumerate(topics):
        rows = pending.add_topic(topic)
        refusal = _append_all(producing, request, produce, pending, topic_index, topic, partitions, rows, closed)
        refused = refused or refusal
    if closed or not produce.acks:
        _finish(producing, request, produce, pending, closed, refused)
    else:
        pending.park(produce.timeout_ms)
    return None


def _read(producing: Producing, request: "Request") -> "Steps":
    """Do the same with a request that is too long to be read in one go."""
    produce = yield from parse_produce_in_steps(request.body, request.version, request.position)
    pending = PendingProduce(producing, request, len(request.body))
    topics = yield from _last_of_many(produce)
    yield from _in_steps(producing, request, produce, pending, topics)


def _in_steps(
    producing: Producing,
    request: "Request",
    produce: ProduceRequest,
    pending: PendingProduce,
    topics: list[tuple[str, list[PartitionRecords]]],
) -> "Steps":
    """Do the same with many partitions, some at a time."""
    closed: list[ClosedBatch] = []
    refused: Refusal | None = None
    for topic_index, (topic, partitions) in enumerate(topics):
        rows = pending.add_topic(topic)
        for some in in_parts(partitions, PARTITIONS_PER_STEP):
            refusal = _append_all(producing, request, produce, pending, topic_index, topic, some, rows, closed)
            refused = refused or refusal
            yield
    _finish(producing, request, produce, pending, closed, refused)


def _append_all(
    producing: Producing,
    request: "Request",
    produce: ProduceRequest,
    pending: PendingProduce,
    topic_index: int,
    topic: str,
    partitions: Sequence[PartitionRecords],
    rows: list[ProducedPartition],
    closed: list["ClosedBatch"],
) -> "Refusal | None":
    """Append the batches of some partitions of the request's latest topic; return the first refusal.

    Adds a row for each to `rows`, and batches that must be opened to `closed`.
    """
    refused: Refusal | None = None
    waiting: list[tuple[Partition, int, int]] = []
    producing.counters.of(topic).produces += len(partitions)
    for index, start, end in partitions:
        try:
            row, partition, required_offset = _append(
                producing, request, produce, TopicPartition(topic, index), start, end
            )
        except NeedsOpening:
            assert end is not None, "no records need no opening"
            closed.append(ClosedBatch(TopicPartition(topic, index), start, end, topic_index, len(rows)))
            row, partition, required_offset = ProducedPartition(index, ErrorCode.NONE), None, -1
        if row.error_code:
            refused = refused or Refusal(TopicPartition(topic, index), row)
            row = _refused(producing, request, pending, topic, row, start, end)
        if partition is not None and produce.acks == _ACKS_ALL:
            pending.wait_for(topic_index, len(rows))
            waiting.append((partition, required_offset, len(rows)))
        rows.append(row)
    for partition, required_offset, row_index in waiting:
        partition.wait(required_offset, pending, topic_index, row_index)
    return refused


def _finish(
    producing: Producing,
    request: "Request",
    produce: ProduceRequest,
    pending: PendingProduce,
    closed: list["ClosedBatch"],
    refused: "Refusal | None",
) -> None:
    if closed:
        request.connection.wait_for(request)
        OpenedProduce(producing, request, produce, pending, closed, refused).go_on()
    else:
        _answer(producing, request, produce, pending, refused)


def _answer(
    producing: Producing,
    request: "Request",
    produce: ProduceRequest,
    pending: PendingProduce,
    refused: "Refusal | None",
) -> None:
    if produce.acks:
        pending.park(produce.timeout_ms)
    elif refused is not None:
        producing.unanswered.note(request, refused.key, refused.row.error_code, refused.row.error_message)
        request.close()
    else:
        request.reply_nothing()


def _refused(
    producing: Producing,
    request: "Request",
    pending: PendingProduce,
    topic: str,
    row: ProducedPartition,
    start: int,
    end: int | None,
) -> ProducedPartition:
    """Count a refusal; return its row, with what the client needs to know about the leader."""
    _count_refusal(producing.counters.of(topic), row.error_code, 0 if end is None else end - start)
    if row.error_code in _SENT_AGAIN and end is not None:
        _note_head(producing, request, TopicPartition(topic, row.partition), ErrorCode(row.error_code), start, end)
    if row.error_code != ErrorCode.NOT_LEADER_OR_FOLLOWER or request.version < _HINT_VERSION:
        return row
    leader, endpoint = producing.cluster.leader_hint(topic, row.partition, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    if endpoint is not None:
        pending.point_to_leader(endpoint)
    return row._replace(current_leader=leader)


class Refusal(NamedTuple):
    """What was refused first, which the log names where the client gets no answer."""

    key: TopicPartition
    row: ProducedPartition


class ClosedBatch(NamedTuple):
    """A batch that must be opened: its partition, its bytes in the request's body, and the place of its row."""

    key: TopicPartition
    start: int
    end: int
    topic_index: int
    row_index: int


class OpenedProduce:
    """A request with batches that must be opened (`node.producing.opening`), one by one; then it is answered."""

    def __init__(
        self,
        producing: Producing,
        request: "Request",
        produce: ProduceRequest,
        pending: PendingProduce,
        closed: list[ClosedBatch],
        refused: Refusal | None,
    ) -> None:
        self._producing = producing
        self._request = request
        self._produce = produce
        self._pending = pending
        self._closed = closed[::-1]
        self._refused = refused
        # A client's body stays in the receive buffer until the answer; other brokers go on to send requests.
        self._body = request.body if request.listener == "client" else memoryview(bytearray(request.body))
        # How many records of this request may still be opened.
        self._records_left = OPENED_RECORDS_MAX

    def go_on(self) -> None:
        """Have the next batch opened; answer after the last one."""
        while self._closed:
            batch = self._closed[-1]
            partition = self._producing.partitions.get(batch.key)
            header = BatchHeader.parse(self._body, batch.start)
            self._records_left -= header.record_count
            if self._records_left < 0:
                self._take(InvalidBatch(ErrorCode.RECORD_LIST_TOO_LARGE, _TOO_MANY))
            elif partition is None:
                self._take(InvalidBatch(ErrorCode.NOT_LEADER_OR_FOLLOWER, ""))
            else:
                rules, now_ms, body = partition.rules, self._producing.clock.wall_ms(), self._body
                self._producing.opening.submit(partial(prepare, body, batch.start, header, rules, now_ms), self._opened)
                return
        _answer(self._producing, self._request, self._produce, self._pending, self._refused)

    def _opened(self, result: BatchHeader | Exception) -> None:
        request = self._request
        if request.connection.transport is None:
            return
        if isinstance(result, BatchHeader | InvalidBatch):
            self._take(result)
            self.go_on()
        else:
            report_failure(request, result)

    def _take(self, content: BatchHeader | InvalidBatch) -> None:
        """Append what was found to be good, unless the partition has changed, and put its row into the answer."""
        batch = self._closed.pop()
        request, pending = self._request, self._pending
        request.body = self._body
        row, partition, required_offset = _append(
            self._producing, request, self._produce, batch.key, batch.start, batch.end, content
        )
        if row.error_code:
            self._refused = self._refused or Refusal(batch.key, row)
            row = _refused(self._producing, request, pending, batch.key.topic, row, batch.start, batch.end)
        pending.replace(batch.topic_index, batch.row_index, row)
        if partition is not None and self._produce.acks == _ACKS_ALL:
            pending.wait_for(batch.topic_index, batch.row_index)
            partition.wait(required_offset, pending, batch.topic_index, batch.row_index)


def _last_of_each(produce: ProduceRequest) -> tuple[list[tuple[str, list[PartitionRecords]]], int]:
    """Return each topic and partition once, of duplicates the last entry; and the number of partitions."""
    if len(produce.topics) == 1 and len(produce.topics[0][1]) == 1:
        return produce.topics, 1
    merging = _last_of_many(produce)
    while True:
        try:
            next(merging)
        except StopIteration as merged:
            topics: list[tuple[str, list[PartitionRecords]]] = merged.value
            return topics, sum(len(partitions) for _, partitions in topics)


def _last_of_many(produce: ProduceRequest) -> Generator[None, None, list[tuple[str, list[PartitionRecords]]]]:
    merged: dict[str, dict[int, PartitionRecords]] = {}
    for topic, partitions in produce.topics:
        entries = merged.setdefault(topic, {})
        for entry in partitions:
            entries[entry[0]] = entry
        yield
    topics: list[tuple[str, list[PartitionRecords]]] = []
    for topic, entries in merged.items():
        if entries:
            topics.append((topic, list(entries.values())))
        yield
    return topics


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


def _append(
    producing: Producing,
    request: "Request",
    produce: ProduceRequest,
    key: TopicPartition,
    start: int,
    end: int | None,
    content: BatchHeader | InvalidBatch | None = None,
) -> tuple[ProducedPartition, Partition | None, int]:
    """Return the row of one partition and, if its records are in the log, the partition and the offset to wait for.

    `content` is what a worker found out about the batch, None if it has not been opened. Raises NeedsOpening.
    """
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
        if partition.log.is_offline:
            return ProducedPartition(index, ErrorCode.KAFKA_STORAGE_ERROR), None, -1
        refusal = leader.check_append(produce.acks)
        if refusal:
            log_start = partition.log.log_start if refusal is ErrorCode.NOT_ENOUGH_REPLICAS else -1
            return ProducedPartition(index, refusal, log_start_offset=log_start), None, -1
        wall_ms = producing.clock.wall_ms()
        if content is None:
            header = prepare(request.body, start, header, partition.rules, wall_ms, is_busy=True)
        elif isinstance(content, InvalidBatch):
            # Raised here, it and this frame would keep each other, and what the worker held, for good.
            return _invalid(producing, index, partition, content), None, -1
        else:
            header = content
    except InvalidBatch as invalid:
        return _invalid(producing, index, partition, invalid), None, -1
    verdict = partition.log.producers.check(header) if header.producer_id >= 0 else None
    if producing.refused_heads.heads and verdict is not None:
        behind = _refusal_behind(producing, partition, header, verdict)
        if behind is not None:
            return ProducedPartition(index, behind, error_message=_BEHIND), None, -1
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
        base_offset = partition.append(request.body, start, header, wall_ms)
    except StorageError as error:
        return ProducedPartition(index, error.code, error_message=str(error)), None, -1
    append_time_ms = header.max_timestamp if header.is_append_time else -1
    # No errors of records, no message and no hint at another leader.
    row = _make(
        ProducedPartition,
        (index, ErrorCode.NONE, base_offset, append_time_ms, partition.log.log_start, (), None, None),
    )
    return row, partition, base_offset + header.last_offset_delta + 1


def _note_head(
    producing: Producing, request: "Request", key: TopicPartition, code: ErrorCode, start: int, end: int
) -> None:
    """Note a batch that its client will send again, so that those behind it are refused with it."""
    try:
        header = admit(request.body, start, end, request.version)
    except InvalidBatch:
        return
    producing.refused_heads.refused(key, header, code, producing.clock.mono_ms())


def _refusal_behind(
    producing: Producing, partition: Partition, header: BatchHeader, verdict: Verdict
) -> ErrorCode | None:
    """Return why a batch behind a refused one must be refused, too; None if there is no such batch."""
    producers = partition.log.producers.entries
    # A log that does not know the producer takes any sequence, the second batch before the first one, too.
    continues = isinstance(verdict, Duplicate) or (isinstance(verdict, Accepted) and header.producer_id in producers)
    now_ms = producing.clock.mono_ms()
    return producing.refused_heads.refusal_behind(partition.key, header, now_ms, continues=continues)


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
