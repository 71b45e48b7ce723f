"""`df.write.format("syncline")` and `df.writeStream.format("syncline")`, for Spark's Arrow writers.

Spark pickles a writer into its tasks, and makes a new one for each phase of a micro-batch, so no writer holds a
connection. Each task makes its own rows count; nothing is left to do when Spark commits the micro-batch.
"""

import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from syncline.pipeline.errors import OptionError
from syncline.pipeline.sink.columns import check_columns
from syncline.pipeline.sink.delivery import Task
from syncline.pipeline.sink.options import SinkOptions
from syncline.pipeline.sink.writing import write
from syncline.pipeline.tracebacks import plainly

log = logging.getLogger(__name__)

# Spark sets these for the tasks of a micro-batch, though the writer's interface has neither.
_QUERY_ID: Final = "sql.streaming.queryId"
_BATCH_ID: Final = "streaming.sql.batchId"


@dataclass
class Written(WriterCommitMessage):  # type: ignore[misc]  # Spark's class is untyped
    """What a task reports."""

    row_count: int


class BatchSink(DataSourceArrowWriter):  # type: ignore[misc]  # Spark's class is untyped
    """Writes the rows of a batch query, at least once."""

    def __init__(self, options: SinkOptions) -> None:
        self._options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        """Write one task's rows."""
        with plainly():
            return Written(write(self._options, iterator, None))


class StreamSink(DataSourceStreamArrowWriter):  # type: ignore[misc]  # Spark's class is untyped
    """Writes the rows of a streaming query, exactly once unless the options say otherwise."""

    def __init__(self, options: SinkOptions) -> None:
        self._options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        """Write one task's rows of one micro-batch."""
        with plainly():
            return Written(write(self._options, iterator, _task()))


def batch_sink(options: Mapping[str, str], schema: StructType, *, overwrite: bool) -> BatchSink:
    """Return the writer of a batch query."""
    if overwrite:
        raise OptionError("a topic cannot be overwritten: records are only ever appended; use .mode('append')")
    return BatchSink(_checked(options, schema, streaming=False))


def stream_sink(options: Mapping[str, str], schema: StructType) -> StreamSink:
    """Return the writer of a streaming query; in complete mode each micro-batch appends the whole result."""
    return StreamSink(_checked(options, schema, streaming=True))


def _checked(options: Mapping[str, str], schema: StructType, *, streaming: bool) -> SinkOptions:
    parsed = SinkOptions.parse(options, streaming=streaming)
    check_columns(to_arrow_schema(schema, timezone="UTC"), has_topic=parsed.topic is not None)
    return parsed


def _task() -> Task | None:
    context = TaskContext.get()
    query_id = context.getLocalProperty(_QUERY_ID) if context else None
    batch_id = context.getLocalProperty(_BATCH_ID) if context else None
    if context is None or query_id is None or batch_id is None:
        log.warning("Spark does not tell the task its query and micro-batch: rows are written at least once")
        return None
    return Task(query_id, context.partitionId(), int(batch_id))
