"""Exactly once by transactions: a task's rows and the mark that it wrote them become visible together.

Each task of a micro-batch is one transaction of an id that all its attempts share. Within it, beside the rows, goes a
mark: the batch's number, committed as an offset of a group of that name. A kill has three outcomes:

1. Before the commit, nothing is visible, and the broker aborts. The next attempt writes.
2. After it, rows and mark are there. The next attempt finds the mark, and aborts what it writes.
3. During it, the broker knows which. Beginning a transaction waits until the last one of its id has ended.

Beginning also fences earlier attempts that are still alive (zombies, speculative tasks): the broker refuses whatever
they send from then on, their commits included.

Which rows belong to a task is Spark's choice, and may change between attempts with the number of tasks. The mark
therefore holds count and fingerprint of the rows. If they differ, the rows are written, perhaps for the second time,
and the log says so: better twice than not at all.

Source: KIP-98, KIP-447; `docs/adr/`.
"""

import logging
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field

import pyarrow as pa

from syncline.model.ids import TopicPartition
from syncline.pipeline.client.cluster import Cluster
from syncline.pipeline.client.coordinators import Coordinator
from syncline.pipeline.client.marks import Mark, read_marks
from syncline.pipeline.client.producing import Producer
from syncline.pipeline.client.transactions import Transaction
from syncline.pipeline.encoding.batches import ProducerId
from syncline.pipeline.encoding.fingerprint import fingerprint
from syncline.pipeline.encoding.rows import Rows
from syncline.pipeline.errors import PipelineError
from syncline.pipeline.sink.delivery import Task, refuse_the_past
from syncline.pipeline.sink.options import SinkOptions
from syncline.pipeline.sink.sending import Sender

log = logging.getLogger(__name__)


@dataclass(slots=True)
class Transactional:
    """One task's transaction."""

    cluster: Cluster
    options: SinkOptions
    task: Task
    _transaction: Transaction | None = field(default=None)
    _sender: Sender | None = field(default=None)
    _earlier: Mark | None = field(default=None)
    _topics: set[str] = field(default_factory=set)
    _row_count: int = 0
    _fingerprint: int = 0

    def begin(self) -> None:
        """Fence earlier attempts, and learn what they wrote."""
        name = self.task.name
        transaction = Transaction.begin(self.cluster, name, self.options.transaction_timeout_ms)
        # Only now: no earlier attempt can write a mark any more.
        marks = read_marks(Coordinator(self.cluster, "group", name)).values()
        self._earlier = max(marks, default=None)
        if self._earlier is not None:
            refuse_the_past(self.task, self._earlier.offset)
        self._transaction = transaction
        self._sender = Sender(
            Producer(self.cluster, self.options.request_bytes_max, name),
            ProducerId(*transaction.identity, is_transactional=True),
            self.options.codec,
        )

    def unwritten(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return all rows: whether they are needed is known at the end."""
        return batch

    def send(self, parts: Mapping[TopicPartition, Rows]) -> None:
        """Write rows that no reader sees yet."""
        assert self._transaction is not None, "begin comes first"
        assert self._sender is not None, "begin comes first"
        for rows in parts.values():
            self._row_count += len(rows)
            self._fingerprint += fingerprint(rows)
        self._topics.update(place.topic for place in parts)
        self._transaction.add(parts)
        self._sender.send(parts)

    def finish(self) -> None:
        """Commit rows and mark, or abort if an earlier attempt has committed them."""
        if self._transaction is None:
            return
        text = f"{self._row_count} rows, {self._fingerprint % (1 << 64):016x}"
        if self._earlier is not None and self._earlier.offset == self.task.batch_id:
            if self._earlier.text == text:
                self._transaction.end(commit=False)
                return
            log.warning(
                "task %d of micro-batch %d has other rows (%s) than when it was written before (%s): they are written, "
                "and some may be duplicates; the number of tasks has changed, or the query is not deterministic",
                self.task.partition,
                self.task.batch_id,
                text,
                self._earlier.text,
            )
        # Partition 0 of a topic always exists; marks of other topics are older, and the newest counts.
        place = TopicPartition(min(self._topics), 0)
        self._transaction.mark(self.task.name, place, Mark(self.task.batch_id, text))
        self._transaction.end(commit=True)

    def give_up(self) -> None:
        """Abort, so that readers of committed records need not wait for the transaction's timeout."""
        if self._transaction is not None:
            with suppress(PipelineError, OSError):
                self._transaction.end(commit=False)
