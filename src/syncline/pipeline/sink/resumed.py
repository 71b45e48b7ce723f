"""Exactly once without transactions: an attempt finds what earlier ones have written, and continues after it.

For brokers that have no transaction coordinator. One hard idea: the producer id is a function of query, task and
micro-batch, so that every attempt is the same producer to the brokers.

1. Who wrote which batch can be read in the log, at no cost to the records.
2. An attempt that goes on continues the sequence. A partition takes each sequence once: of two attempts that are alive,
   one learns that its batch is already there, or is refused; both are never stored.

Before its first batch for a partition, an attempt commits a mark: the partition's end and the micro-batch's number, as
an offset of a group named after the task. A later attempt that finds marks of its micro-batch reads the partitions from
there on, and leaves out the rows that it finds under the common producer id: by content, as rows may come in another
order. A mark that is written late, by an attempt that slept, begins no later than the rows: each attempt looks at the
ends first, then at the marks, and only then writes its own.

Rows are visible at once, not when the micro-batch ends. Rows that differ between attempts are written again: never
lost, and perhaps twice.

Brokers hand out producer ids from 0 and accept any other; these begin at 2^62.
Source: KIP-98 (sequences, duplicates); `docs/adr/`.
"""

import hashlib
import logging
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa

from syncline.model.ids import TopicPartition
from syncline.pipeline.client.cluster import Cluster
from syncline.pipeline.client.coordinators import Coordinator
from syncline.pipeline.client.marks import Mark, read_marks, write_marks
from syncline.pipeline.client.offsets import LATEST
from syncline.pipeline.client.producing import OutOfOrderError, Producer
from syncline.pipeline.decoding.chunks import decode
from syncline.pipeline.decoding.headers import Part
from syncline.pipeline.encoding.batches import ProducerId
from syncline.pipeline.encoding.rows import Rows
from syncline.pipeline.errors import BrokerError
from syncline.pipeline.sink.delivery import Task, refuse_the_past
from syncline.pipeline.sink.options import SinkOptions
from syncline.pipeline.sink.sending import Sender

log = logging.getLogger(__name__)

_FIRST_ID: Final = 1 << 62
_COLUMNS: Final = ("key", "value", "headers", "producerId")

# Topic, key, value, headers; not the time, which may be that of writing.
Content: TypeAlias = tuple[Any, ...]


def producer_id_of(task: Task) -> int:
    """Return the producer id of all attempts at a task: between 2^62 and 2^63."""
    digest = hashlib.sha256(f"{task.query_id}/{task.partition}/{task.batch_id}".encode()).digest()
    return _FIRST_ID | int.from_bytes(digest[:8]) >> 2


@dataclass(slots=True)
class Resumed:
    """One task's writing, begun by this attempt or by an earlier one."""

    cluster: Cluster
    options: SinkOptions
    task: Task
    _group: Coordinator | None = field(default=None)
    _sender: Sender | None = field(default=None)
    _marked: set[TopicPartition] = field(default_factory=set)
    _written: Counter[Content] = field(default_factory=Counter)

    def begin(self) -> None:
        """Find what earlier attempts have written."""
        self._group = Coordinator(self.cluster, "group", self.task.name)
        producer_id = producer_id_of(self.task)
        self._sender = Sender(
            Producer(self.cluster, self.options.request_bytes_max), ProducerId(producer_id, 0), self.options.codec
        )
        for place, start in self._marks().items():
            found = list(self._found(place, start, producer_id))
            self._written.update(found)
            self._sender.sequences[place] = len(found)
            self._marked.add(place)

    def unwritten(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the rows that were not found."""
        if not self._written:
            return batch
        wanted = np.ones(len(batch), np.bool_)
        for row, content in enumerate(_contents(batch, self.options.topic)):
            if self._written[content]:
                self._written[content] -= 1
                wanted[row] = False
        return batch.filter(pa.array(wanted))

    def send(self, parts: Mapping[TopicPartition, Rows]) -> None:
        """Write rows, to partitions that are marked."""
        assert self._sender is not None, "begin comes first"
        self._mark(parts.keys() - self._marked)
        self._sender.send(parts)

    def finish(self) -> None:
        """Report rows of earlier attempts that this one does not have."""
        left = sum(self._written.values())
        if left:
            log.warning(
                "an earlier attempt at task %d of micro-batch %d wrote %d rows that this one does not have: they stay "
                "and may be duplicates; the number of tasks has changed, or the query is not deterministic",
                self.task.partition,
                self.task.batch_id,
                left,
            )

    def give_up(self) -> None:
        """Do nothing: the next attempt finds what was written."""

    def _marks(self) -> dict[TopicPartition, int]:
        """Return where this micro-batch begins in the partitions that attempts at it have marked."""
        assert self._group is not None, "begin comes first"
        marks = read_marks(self._group)
        refuse_the_past(self.task, max((int(mark.text) for mark in marks.values()), default=-1))
        return {place: mark.offset for place, mark in marks.items() if int(mark.text) == self.task.batch_id}

    def _mark(self, places: Iterable[TopicPartition]) -> None:
        new = sorted(places)
        if not new:
            return
        assert self._group is not None, "begin comes first"
        ends = self.cluster.offsets(dict.fromkeys(new, LATEST))
        begun = self._marks().keys() & set(new)
        if begun:
            raise OutOfOrderError(
                f"another attempt at the same task has begun to write to {min(begun)}: "
                "restart the query, which continues after it"
            )
        write_marks(self._group, {place: Mark(ends[place], str(self.task.batch_id)) for place in new})
        self._marked.update(new)

    def _found(self, place: TopicPartition, start: int, producer_id: int) -> Iterable[Content]:
        """Yield this producer's records in a partition, in order."""
        end = self.cluster.offsets({place: LATEST})[place]
        position, moved_at = start, time.monotonic()
        while position < end:
            fetched = self.cluster.fetch(place, position)
            part = Part(*place, fetched.start, fetched.end, position, end)
            following = fetched.next_offset(position)
            if following > position:
                position, moved_at = following, time.monotonic()
            elif time.monotonic() - moved_at > self.options.client.patience_ms / 1000:
                raise BrokerError(
                    f"{place} ends at offset {position}, but ended at {end} before: its log was cut, so what was "
                    "written is unknown; set the option deliveryGuarantee to at-least-once to write it again"
                )
            for decoded in decode(fetched.answer, [part], _COLUMNS):
                rows = pa.record_batch(dict(decoded.columns))
                ours = rows.filter(pa.array(rows.column("producerId").to_numpy() == producer_id))
                yield from _contents(ours, place.topic)


def _contents(batch: pa.RecordBatch, topic: str | None) -> Iterable[Content]:
    """Yield what makes a row the same row in another attempt."""
    names = batch.schema.names
    missing = [None] * len(batch)
    topics = [topic] * len(batch) if topic is not None else batch.column("topic").to_pylist()
    keys = batch.column("key").cast(pa.binary()).to_pylist() if "key" in names else missing
    values = batch.column("value").cast(pa.binary()).to_pylist()
    headers = batch.column("headers").to_pylist() if "headers" in names else missing
    for each_topic, key, value, pairs in zip(topics, keys, values, headers, strict=True):
        yield each_topic, key, value, tuple((pair["key"], pair["value"]) for pair in pairs or ())
