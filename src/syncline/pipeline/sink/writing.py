"""Writing: one task's rows to their partitions' leaders.

Spark hands over Arrow batches of some ten thousand rows. The sink collects them to a few megabytes, so that each
partition gets batches worth their overhead, and orders them by partition.

Units: sizes are bytes, timestamps Unix milliseconds.
"""

import time
from collections.abc import Iterable, Iterator
from functools import cache
from typing import Final

import pyarrow as pa

from syncline.pipeline.client.cluster import Cluster
from syncline.pipeline.client.coordinators import offers_transactions
from syncline.pipeline.sink.columns import read_rows
from syncline.pipeline.sink.delivery import AtLeastOnce, Delivery, Task
from syncline.pipeline.sink.options import SinkOptions
from syncline.pipeline.sink.placing import Placing
from syncline.pipeline.sink.resumed import Resumed
from syncline.pipeline.sink.transactional import Transactional

_COLLECTED_BYTES: Final = 8 << 20


def write(options: SinkOptions, batches: Iterable[pa.RecordBatch], task: Task | None) -> int:
    """Write all rows and return their number; `task` says whose they are, where they shall be written exactly once."""
    row_count = 0
    with Cluster(options.client) as cluster:
        delivery: Delivery | None = None

        @cache
        def partition_count(topic: str) -> int:
            return len(cluster.partitions([topic]))

        # Small micro-batches without keys begin at one partition after the other.
        spread_from = 0 if task is None else task.partition + task.batch_id
        placing = Placing(options.topic, partition_count, spread_from)
        try:
            for batch in _collected(batches):
                if delivery is None:
                    delivery = _delivery(cluster, options, task)
                    delivery.begin()
                row_count += len(batch)
                rows = delivery.unwritten(batch)
                if len(rows):
                    delivery.send(placing.place(rows, read_rows(rows, int(time.time() * 1000))))
            if delivery is not None:
                delivery.finish()
        except Exception:
            if delivery is not None:
                delivery.give_up()
            raise
    return row_count


def _delivery(cluster: Cluster, options: SinkOptions, task: Task | None) -> Delivery:
    if task is None or not options.exactly_once:
        return AtLeastOnce(cluster, options)
    if offers_transactions(cluster):
        return Transactional(cluster, options, task)
    return Resumed(cluster, options, task)


def _collected(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the rows in batches of at least some megabytes, but for the last; none is empty."""
    waiting: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        if len(batch):
            waiting.append(batch)
            size += batch.nbytes
        if size >= _COLLECTED_BYTES:
            yield pa.concat_batches(waiting)
            waiting, size = [], 0
    if waiting:
        yield pa.concat_batches(waiting)
