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

from syncline.model.errors import ErrorCode
from syncline.model.ids import TopicPartition
from syncline.node.counting.counters import TopicCounters
from syncline.node.loop.list_parts import in_parts
from syncline.node.partitions.partition import Partition
from syncline.node.producing.appending import append_batch
from syncline.node.producing.pending_produce import PendingProduce, Producing
from syncline.node.serving.stepping import failed as report_failure
from syncline.records.batch import BatchHeader
from syncline.records.validate import OPENED_RECORDS_MAX, InvalidBatch, NeedsOpening, admit, prepare
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

KEY = ApiKey.PRODUCE
# A request with more partitions is handled in steps: an append takes some 20 microseconds.
PARTITIONS_AT_ONCE: Final = 100
PARTITIONS_PER_STEP: Final = 10
_ACKS_ALL: Final = -1
_HINT_VERSION: Final = 10
_TOO_MANY: Final = f"The records of a request are opened up to the {OPENED_RECORDS_MAX}th. Send fewer at a time."
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
            row, partition, required_offset = append_batch(
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
        row, partition, required_offset = append_batch(
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


def _note_head(
    producing: Producing, request: "Request", key: TopicPartition, code: ErrorCode, start: int, end: int
) -> None:
    """Note a batch that its client will send again, so that those behind it are refused with it."""
    try:
        header = admit(request.body, start, end, request.version)
    except InvalidBatch:
        return
    producing.refused_heads.refused(key, header, code, producing.clock.mono_ms())


def _count_refusal(counters: TopicCounters, code: int, size_bytes: int) -> None:
    if code == ErrorCode.MESSAGE_TOO_LARGE:
        counters.bytes_rejected += size_bytes
    if code not in _EXPECTED:
        counters.failed_produces += 1
