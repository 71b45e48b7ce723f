"""Which topic and partition each row goes to.

The option topic decides before the column `topic`, and the column `partition` before the key. Rows keep their order
within a partition.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from syncline.model.ids import TopicPartition
from syncline.pipeline.encoding.partitioning import Spread, murmur2
from syncline.pipeline.encoding.rows import Rows
from syncline.pipeline.encoding.varints import Ints
from syncline.pipeline.errors import PipelineError


@dataclass(slots=True)
class Placing:
    """The choice of partitions by one task; `spread_from` is where rows without a key begin."""

    topic: str | None
    partition_count: Callable[[str], int]
    spread_from: int = 0
    _spreads: dict[str, Spread] = field(default_factory=dict)

    def place(self, batch: pa.RecordBatch, rows: Rows) -> dict[TopicPartition, Rows]:
        """Return the rows by partition; `rows` are those of the batch, which may name topics and partitions.

        Raises `PipelineError` for a row without a topic and for a partition that does not exist.
        """
        names, topic_indexes = self._topics(batch)
        wanted = batch.column("partition") if "partition" in batch.schema.names else None
        partitions = np.empty(len(rows), np.int64)
        for index, topic in enumerate(names):
            chosen = np.flatnonzero(topic_indexes == index)
            everything = len(chosen) == len(rows)
            some = rows if everything else rows.take(chosen)
            given = wanted if wanted is None or everything else wanted.take(pa.array(chosen))
            partitions[chosen] = self._partitions(topic, some, given)
        return _grouped(names, topic_indexes, partitions, rows)

    def _topics(self, batch: pa.RecordBatch) -> tuple[list[str], Ints]:
        if self.topic is not None:
            return [self.topic], np.zeros(len(batch), np.int64)
        column = batch.column("topic")
        if column.null_count:
            raise PipelineError("a row has no topic: fill the column topic, or set the option topic for all rows")
        encoded = column.dictionary_encode()
        return encoded.dictionary.to_pylist(), encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)

    def _partitions(self, topic: str, rows: Rows, wanted: pa.Array | None) -> Ints:
        count = self.partition_count(topic)
        found = np.full(len(rows), -1, np.int64)
        is_open = np.ones(len(rows), np.bool_)
        if wanted is not None:
            is_open = wanted.is_null().to_numpy(zero_copy_only=False)
            found = wanted.fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
            outside = found[(found < 0) | (found >= count)]
            if len(outside):
                raise PipelineError(
                    f"topic {topic} has no partition {int(outside[0])}: its partitions are 0 to {count - 1}; "
                    "correct the column partition, or leave it null"
                )
        is_keyed = rows.keys.is_valid().to_numpy(zero_copy_only=False)
        by_key = np.flatnonzero(is_open & is_keyed)
        if len(by_key):
            found[by_key] = murmur2(rows.keys.take(pa.array(by_key))) % count
        by_turn = np.flatnonzero(is_open & ~is_keyed)
        if len(by_turn):
            spread = self._spreads.setdefault(topic, Spread.beginning_at(self.spread_from % count))
            found[by_turn] = spread.place(rows.record_bytes_max[by_turn], count)
        return found


def _grouped(names: list[str], topic_indexes: Ints, partitions: Ints, rows: Rows) -> dict[TopicPartition, Rows]:
    codes = (topic_indexes << 32) | partitions
    order = np.argsort(codes, kind="stable")
    ordered = codes[order]
    starts = np.flatnonzero(np.diff(ordered, prepend=-1))
    ends = np.append(starts[1:], len(ordered))
    moved = rows if len(starts) == 1 else rows.take(order)
    return {
        TopicPartition(names[int(ordered[start]) >> 32], int(ordered[start]) & 0xFFFFFFFF): moved.between(
            int(start), int(end)
        )
        for start, end in zip(starts, ends, strict=True)
    }
