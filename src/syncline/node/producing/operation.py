"""A produce request, from its first batch to its answer.

    append_all ──> one append per partition; batches that must be opened are put aside
        └── closed batches: a worker opens one after the other (`node.producing.closed_batches`)
    ──> acks=0: no answer, or a closed connection; acks=1: the answer; acks=all: it waits

One object per request, whatever the number of its partitions. With acks=all, each undecided partition refers to it in a
queue ordered by required offset. When the last one is decided, or the time-out passes, the answer is sent.
Source: `ReplicaManager.appendRecords` and `DelayedProduce` of Apache Kafka; KIP-679 for acks=all as default.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from syncline.model.errors import ErrorCode
from syncline.model.ids import TopicPartition
from syncline.node.loop.list_parts import in_parts
from syncline.node.producing.appending import append_batch
from syncline.node.producing.closed_batches import ClosedBatch, ClosedBatches
from syncline.node.producing.refusals import count_refusal, note_head
from syncline.node.producing.serving import Producing
from syncline.records.batch import BatchHeader
from syncline.records.validate import InvalidBatch, NeedsOpening
from syncline.wire.endpoints import NodeEndpoint
from syncline.wire.produce import PartitionRecords, ProducedPartition, ProduceRequest, encode_produce_response

if TYPE_CHECKING:
    from syncline.node.serving.request import Request, Steps

PARTITIONS_PER_STEP: Final = 2
_ACKS_ALL: Final = -1
_HINT_VERSION: Final = 10
# A named tuple's own constructor takes twice as long.
_make: Final = tuple.__new__

Topic: TypeAlias = tuple[str, list[PartitionRecords]]


class Refusal(NamedTuple):
    """What was refused first, which the log names where the client gets no answer."""

    key: TopicPartition
    row: ProducedPartition


class ProduceOperation:
    """A produce request without an answer."""

    __slots__ = (
        "_bucket",
        "_closed",
        "_endpoints",
        "_parked_ms",
        "_produce",
        "_producing",
        "_refused",
        "_request",
        "_rows",
        "_size_bytes",
        "_undecided",
    )

    def __init__(self, producing: Producing, request: "Request", produce: ProduceRequest) -> None:
        self._producing = producing
        self._request = request
        self._produce = produce
        self._size_bytes = len(request.body)
        # Of each topic, the rows of the answer.
        self._rows: list[tuple[str, list[ProducedPartition]]] = []
        # Brokers that the answer names, by their ids.
        self._endpoints: dict[int, NodeEndpoint] = {}
        # (index of the topic, index of the row) of successes that are not committed yet.
        self._undecided: dict[tuple[int, int], None] = {}
        self._closed: list[ClosedBatch] = []
        self._refused: Refusal | None = None
        self._bucket = -1
        self._parked_ms = 0

    def append_all(self, topics: Sequence[Topic]) -> None:
        """Append the valid batches; answer now, or when acks=all is satisfied."""
        for topic, partitions in topics:
            self._rows.append((topic, []))
            self._append(topic, partitions)
        self._appended()

    def append_in_steps(self, topics: Sequence[Topic]) -> "Steps":
        """Do the same with many partitions, some at a time."""
        for topic, partitions in topics:
            self._rows.append((topic, []))
            for some in in_parts(partitions, PARTITIONS_PER_STEP):
                self._append(topic, some)
                yield
        self._appended()

    @property
    def undecided_count(self) -> int:
        """How many partitions the answer waits for."""
        return len(self._undecided)

    def decided(self, topic_index: int, row_index: int, code: ErrorCode) -> None:
        """Take the verdict on one row."""
        if self._undecided.pop((topic_index, row_index), False) is False:
            return
        if code:
            topic, rows = self._rows[topic_index]
            leader = self._leader_hint(topic, rows[row_index].partition, code)
            rows[row_index] = rows[row_index]._replace(error_code=code, current_leader=leader)
        if not self._undecided and self._bucket >= 0:
            self._producing.deadlines.forget(self, self._bucket)
            self._waited()
            self._answer()

    def expired(self, now_ms: int) -> None:
        """Answer REQUEST_TIMED_OUT for what is undecided; its records stay and may still be committed."""
        if not self._undecided:
            return
        for topic_index, row_index in self._undecided:
            topic, rows = self._rows[topic_index]
            rows[row_index] = rows[row_index]._replace(error_code=ErrorCode.REQUEST_TIMED_OUT)
            self._producing.counters.produce_expired(TopicPartition(topic, rows[row_index].partition))
        self._undecided.clear()
        if self._bucket >= 0:
            self._waited()
        self._answer()

    def _append(self, topic: str, partitions: Sequence[PartitionRecords]) -> None:
        """Append the batches of some partitions of the latest topic."""
        producing, request, produce = self._producing, self._request, self._produce
        topic_index = len(self._rows) - 1
        rows = self._rows[topic_index][1]
        producing.counters.of(topic).produces += len(partitions)
        for index, start, end in partitions:
            key = _make(TopicPartition, (topic, index))
            row_index = len(rows)
            try:
                row, partition, required_offset = append_batch(producing, request, produce, key, start, end)
            except NeedsOpening:
                assert end is not None, "no records need no opening"
                self._closed.append(ClosedBatch(key, start, end, topic_index, row_index))
                row, partition, required_offset = ProducedPartition(index, ErrorCode.NONE), None, -1
            if row.error_code:
                row = self._refuse(key, row, start, end)
            rows.append(row)
            if partition is not None and produce.acks == _ACKS_ALL:
                self._undecided[topic_index, row_index] = None
                partition.wait(required_offset, self, topic_index, row_index)

    def _append_opened(self, batch: ClosedBatch, content: BatchHeader | InvalidBatch) -> None:
        """Append what was found to be good, unless the partition has changed, and put its row into the answer."""
        key, start, end, topic_index, row_index = batch
        row, partition, required_offset = append_batch(
            self._producing, self._request, self._produce, key, start, end, content
        )
        if row.error_code:
            row = self._refuse(key, row, start, end)
        rows = self._rows[topic_index][1]
        assert rows[row_index].partition == row.partition, f"{row} is put in the place of {rows[row_index]}"
        rows[row_index] = row
        if partition is not None and self._produce.acks == _ACKS_ALL:
            self._undecided[topic_index, row_index] = None
            partition.wait(required_offset, self, topic_index, row_index)

    def _refuse(self, key: TopicPartition, row: ProducedPartition, start: int, end: int | None) -> ProducedPartition:
        """Count a refusal; return its row, with what the client needs to know about the leader."""
        if self._refused is None:
            self._refused = Refusal(key, row)
        code = ErrorCode(row.error_code)
        count_refusal(self._producing.counters.of(key.topic), code, 0 if end is None else end - start)
        if end is not None:
            note_head(self._producing, self._request, key, code, start, end)
        if code != ErrorCode.NOT_LEADER_OR_FOLLOWER or self._request.version < _HINT_VERSION:
            return row
        return row._replace(current_leader=self._leader_hint(key.topic, key.partition, code))

    def _leader_hint(self, topic: str, partition: int, code: ErrorCode) -> tuple[int, int] | None:
        """Return the leader that the client should have asked, and add its address to the answer (KIP-951)."""
        leader, endpoint = self._producing.cluster.leader_hint(topic, partition, code)
        if endpoint is not None:
            self._endpoints[endpoint.node_id] = endpoint
        return leader

    def _appended(self) -> None:
        """Answer, after what must be opened has been."""
        if self._closed:
            request, producing = self._request, self._producing
            request.connection.wait_for(request)
            ClosedBatches(producing, request, self._closed, append=self._append_opened, ended=self._conclude).go_on()
        else:
            self._conclude()

    def _conclude(self) -> None:
        """Answer as the producer has asked for it, now or when everything is decided."""
        acks, request, refused = self._produce.acks, self._request, self._refused
        if acks:
            self._park(self._produce.timeout_ms)
        elif refused is not None:
            self._producing.unanswered.note(request, refused.key, refused.row.error_code, refused.row.error_message)
            request.close()
        else:
            request.reply_nothing()

    def _park(self, timeout_ms: int) -> None:
        """Answer now if everything is decided; else wait, at most `timeout_ms`."""
        if not self._undecided:
            self._answer()
        elif timeout_ms <= 0:
            self.expired(0)
        else:
            # Lists of what it brought take more memory than its bytes, and only those are counted while it waits.
            self._produce.topics.clear()
            self._closed.clear()
            self._request.connection.hold(self._size_bytes)
            now_ms = self._parked_ms = self._producing.clock.mono_ms()
            self._bucket = self._producing.deadlines.park(self, now_ms + timeout_ms, timeout_ms)

    def _waited(self) -> None:
        """Count the wait that ends, of clients only: brokers write the journal, in which it is shown."""
        connection, producing = self._request.connection, self._producing
        connection.release(self._size_bytes)
        if connection.listener == "client":
            producing.counters.acknowledgement_waits.note(producing.clock.mono_ms() - self._parked_ms)

    def _answer(self) -> None:
        request = self._request
        if not request.is_done:
            endpoints = tuple(self._endpoints.values()) if self._endpoints else ()
            request.reply_parts((encode_produce_response(request.version, self._rows, 0, endpoints),))
