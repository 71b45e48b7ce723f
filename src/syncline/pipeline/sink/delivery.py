"""How often a row is written: at least once, or exactly once for each query, task and micro-batch.

A delivery is one task's: it begins with its first row, so that a task without rows costs nothing, and ends with
`finish`, after which the task counts as done whatever happens to it. `sink.transactional` and `sink.resumed` are
the two ways to exactly once; here is the one without it, for batch queries and for those that ask for no more.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

import pyarrow as pa

from syncline.model.ids import TopicPartition
from syncline.pipeline.client.cluster import Cluster
from syncline.pipeline.client.producing import Producer
from syncline.pipeline.client.transactions import new_producer
from syncline.pipeline.encoding.batches import ProducerId
from syncline.pipeline.encoding.rows import Rows
from syncline.pipeline.errors import PipelineError
from syncline.pipeline.sink.options import SinkOptions
from syncline.pipeline.sink.sending import Sender


class Task(NamedTuple):
    """One task's part of a micro-batch: the same in every attempt at it, and in no other one."""

    query_id: str
    partition: int
    batch_id: int

    @property
    def name(self) -> str:
        """Return the name of the group that keeps this task's marks, and of its transactions."""
        return f"syncline-sink-{self.query_id}-{self.partition}"


class Delivery(Protocol):
    """One task's writing."""

    def begin(self) -> None:
        """Prepare to write; called before the first row."""

    def unwritten(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the rows that no earlier attempt has written."""

    def send(self, parts: Mapping[TopicPartition, Rows]) -> None:
        """Write rows."""

    def finish(self) -> None:
        """Make all rows count."""

    def give_up(self) -> None:
        """Take back what can be taken back, after an error; raises nothing."""


@dataclass(slots=True)
class AtLeastOnce:
    """Rows as they come. What is sent again within this attempt is written once; another attempt writes all again."""

    cluster: Cluster
    options: SinkOptions
    _sender: Sender | None = field(default=None)

    def begin(self) -> None:
        """Ask for a producer id."""
        identity = ProducerId(*new_producer(self.cluster))
        self._sender = Sender(Producer(self.cluster, self.options.request_bytes_max), identity, self.options.codec)

    def unwritten(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return all rows."""
        return batch

    def send(self, parts: Mapping[TopicPartition, Rows]) -> None:
        """Write rows."""
        assert self._sender is not None, "begin comes first"
        self._sender.send(parts)

    def finish(self) -> None:
        """Do nothing: each row counts since its broker acknowledged it."""

    def give_up(self) -> None:
        """Do nothing: what was written stays."""


def refuse_the_past(task: Task, newest_batch_id: int) -> None:
    """Raise `PipelineError` when a later micro-batch of this task was written already."""
    if newest_batch_id > task.batch_id:
        raise PipelineError(
            f"micro-batch {task.batch_id} was written before: this query has already written micro-batch "
            f"{newest_batch_id}, so its checkpoint was moved back; start with a new checkpoint, or set the option "
            "deliveryGuarantee to at-least-once to write it again"
        )
