# ruff: noqa: N802 -- Spark calls these methods by their Java-style names.
"""Spark data source "syncline": topics as DataFrames, batch and streaming, from any Kafka-compatible brokers.

Spark runs this code in several Python processes: one plans a batch, one lives as long as a stream and keeps a
connection, and each task fetches its own offset ranges directly from the partitions' leaders and yields Arrow record
batches. So no new object here holds a connection: Spark pickles it into the next process.

`.schema("offset long, value binary")` selects columns; others are not decoded. Names are
case-insensitive, as in Spark, and keep the user's spelling. The source never accepts pushed filters, because Spark 4.3
keeps those of one query for the next one on the same DataFrame and then returns wrong rows; use offsets and timestamps
in the options instead.

A batch query plans its offsets once, when Spark first needs them: two actions on one DataFrame see the same records;
another `load()` also sees later ones.

Units: offsets count records; ends are exclusive.
"""

import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from syncline.model.ids import TopicPartition
from syncline.pipeline.client.cluster import Cluster, Whereabouts
from syncline.pipeline.errors import OptionError
from syncline.pipeline.sink.spark import BatchSink, StreamSink, batch_sink, stream_sink
from syncline.pipeline.slots import Slots, noted_slots
from syncline.pipeline.source.data_loss import Gap, gap_rows
from syncline.pipeline.source.gathering import gather, task_count
from syncline.pipeline.source.offsets import StreamOffset
from syncline.pipeline.source.options import SourceOptions, optional_columns
from syncline.pipeline.source.planning import Batch, whole_batch
from syncline.pipeline.source.ranges import OffsetRange
from syncline.pipeline.source.reading import read
from syncline.pipeline.source.stream import Stream
from syncline.pipeline.tracebacks import plainly

log = logging.getLogger(__name__)

_HEADERS: Final = ArrayType(StructType([StructField("key", StringType()), StructField("value", BinaryType())]))
_TYPES: Final[Mapping[str, DataType]] = {
    "key": BinaryType(),
    "value": BinaryType(),
    "topic": StringType(),
    "partition": IntegerType(),
    "offset": LongType(),
    "timestamp": TimestampType(),
    "timestampType": IntegerType(),
    "headers": _HEADERS,
    "leaderEpoch": IntegerType(),
    "producerId": LongType(),
    "batchBytes": IntegerType(),
    "isTransactional": BooleanType(),
    "gap": StructType([StructField("end", LongType()), StructField("reason", StringType())]),
}
_BY_LOWER_NAME: Final = {name.lower(): name for name in _TYPES}
_DEFAULT_COLUMNS: Final = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType")


@dataclass
class WorkPartition(InputPartition):  # type: ignore[misc]  # Spark's class is untyped
    """One task's work: topics, partitions, first offsets and ends; where the leaders were, and the topics' ids.

    `gaps` are those that planning found.
    """

    ranges: tuple[tuple[str, int, int, int], ...]
    whereabouts: Whereabouts
    topic_ids: Mapping[str, str]
    gaps: tuple[Gap, ...] = ()


class SynclineSource(DataSource):  # type: ignore[misc]  # Spark's class is untyped
    """`format("syncline")` of `spark.read`, `spark.readStream`, and of the writers (`sink.spark`)."""

    @classmethod
    def name(cls) -> str:
        """Return the format's name."""
        return "syncline"

    @plainly()
    def schema(self) -> StructType:
        """Return the columns of a query that names none: those of Spark's Kafka connector."""
        names = (*_DEFAULT_COLUMNS, *optional_columns(self.options))
        return StructType([StructField(name, _TYPES[name]) for name in names])

    @plainly()
    def reader(self, schema: StructType) -> "BatchReader":
        """Return the reader of a batch query."""
        return BatchReader(_parsed(self.options, schema, streaming=False), schema)

    @plainly()
    def streamReader(self, schema: StructType) -> "StreamReader":
        """Return the reader of a streaming query."""
        return StreamReader(self.options, schema)

    @plainly()
    def writer(self, schema: StructType, overwrite: bool) -> BatchSink:
        """Return the writer of a batch query."""
        return batch_sink(self.options, schema, overwrite=overwrite)

    @plainly()
    def streamWriter(self, schema: StructType, overwrite: bool) -> StreamSink:
        """Return the writer of a streaming query."""
        return stream_sink(self.options, schema)


class BatchReader(DataSourceReader):  # type: ignore[misc]  # Spark's class is untyped
    """Plans one batch query's ranges and reads them."""

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        self._options = options
        self._schema = schema

    @plainly()
    def partitions(self) -> list[WorkPartition]:
        """Return what each task reads."""
        _log_ignored(self._options)
        with Cluster(self._options.client) as cluster:
            batch = whole_batch(cluster, self._options)
            leaders = cluster.whereabouts(item.place for item in batch.ranges).leaders
            return _inputs(cluster, self._options, batch, leaders)

    def read(self, partition: WorkPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of one task."""
        return _rows(self._options, self._schema, partition)


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):  # type: ignore[misc]  # Spark's classes are untyped
    """Follows partitions through the life of a streaming query; `offsets` describes its offsets.

    Options and columns are checked when they are first used: Spark 4.3 replaces an error that comes earlier with one
    about a variable of its own, so that the user would not see the sentence.
    """

    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        self._given = options
        self._schema = schema

    def __getstate__(self) -> dict[str, Any]:
        """Return what the tasks need; the connection stays in the planning process."""
        return {name: value for name, value in self.__dict__.items() if name != "_stream"}

    @cached_property
    def _options(self) -> SourceOptions:
        return _parsed(self._given, self._schema, streaming=True)

    @cached_property
    def _stream(self) -> Stream:
        _log_ignored(self._options)
        return Stream(self._options, Cluster(self._options.client))

    @plainly()
    def initialOffset(self) -> StreamOffset:
        """Return where a new query starts."""
        return self._stream.initial()

    @plainly()
    def getDefaultReadLimit(self) -> ReadLimit:
        """Return the limit of one trigger; Spark knows one at a time, `latestOffset` applies all that were given."""
        limits = self._options.trigger
        if limits.offsets_max is not None:
            return ReadMaxRows(limits.offsets_max)
        if limits.bytes_max is not None:
            return ReadMaxBytes(limits.bytes_max)
        return ReadAllAvailable() if limits.offsets_min is None else ReadMinRows(limits.offsets_min)

    @plainly()
    def prepareForTriggerAvailableNow(self) -> None:
        """Remember the current ends: the query stops there, whatever arrives later."""
        self._stream.stop_at_present_ends()

    @plainly()
    def latestOffset(self, start: StreamOffset, limit_: ReadLimit) -> StreamOffset:
        """Return the end of the next micro-batch."""
        return self._stream.latest(start, everything=isinstance(limit_, ReadAllAvailable))

    @plainly()
    def reportLatestOffset(self) -> StreamOffset:
        """Return the ends of the log, for the query's progress."""
        return self._stream.ends()

    @plainly()
    def partitions(self, start: StreamOffset, end: StreamOffset) -> list[WorkPartition]:
        """Return what each task of one micro-batch reads."""
        # A sink knows by the task what it has written, so a micro-batch that is planned once more is divided as before,
        # although leaders may have moved.
        return _inputs(self._stream.cluster, self._options, self._stream.batch(start, end), {})

    @plainly()
    def commit(self, end: StreamOffset) -> None:
        """Record that a batch is done; Spark says so when it plans the next one."""
        self._stream.commit(end)

    @plainly()
    def read(self, partition: WorkPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of one task."""
        return _rows(self._options, self._schema, partition)

    def stop(self) -> None:
        """Close the connections of the planning process, if there are any."""
        if "_stream" in self.__dict__:
            self._stream.cluster.close()


def _log_ignored(options: SourceOptions) -> None:
    if options.ignored:
        log.warning("options without effect on this query: %s", ", ".join(options.ignored))


def _inputs(
    cluster: Cluster, options: SourceOptions, batch: Batch, leaders: Mapping[TopicPartition, int]
) -> list[WorkPartition]:
    slots = Slots(options.slots) if options.slots else noted_slots()
    works = gather(
        batch.ranges,
        tasks=task_count(batch.ranges, slots=slots, partitions_min=options.partitions_min),
        records_max=options.records_per_partition_max,
        leaders=leaders,
        record_bytes=batch.record_bytes,
    )
    inputs = [
        WorkPartition(
            tuple((*item.place, item.start, item.end) for item in work),
            cluster.whereabouts(item.place for item in work),
            {item.place.topic: batch.ids.get(item.place.topic, "") for item in work},
        )
        for work in works
    ]
    if batch.gaps and options.include_gaps:
        inputs.append(WorkPartition((), Whereabouts({}, {}), {}, batch.gaps))
    return inputs


def _rows(options: SourceOptions, schema: StructType, task: WorkPartition | InputPartition) -> Iterator[pa.RecordBatch]:
    if not isinstance(task, WorkPartition):
        return  # Spark's stand-in for "no partitions at all".
    wanted = [OffsetRange(TopicPartition(topic, partition), start, end) for topic, partition, start, end in task.ranges]
    # The options for retries are those of planning, as in the connector.
    client = replace(options.client, retry_count_min=0, retry_interval_ms=None)
    asked = to_arrow_schema(schema, timezone="UTC")
    ours = pa.schema([column.with_name(_BY_LOWER_NAME[column.name.lower()]) for column in asked])
    with plainly():
        if task.gaps:
            yield gap_rows(task.gaps, ours).rename_columns(asked.names)
        if not wanted:
            return
        for batch in read(replace(options, client=client), ours, wanted, task.whereabouts, task.topic_ids):
            yield batch if ours == asked else pa.RecordBatch.from_arrays(batch.columns, schema=asked)


def _parsed(given: Mapping[str, str], schema: StructType, *, streaming: bool) -> SourceOptions:
    """Return the options of a query; raise `OptionError` for one that is wrong, or does not suit its columns."""
    options = SourceOptions.parse(given, streaming=streaming)
    _check_columns(schema)
    has_gaps = any(column.name.lower() == "gap" for column in schema.fields)
    if has_gaps and not options.include_gaps:
        raise OptionError("column gap needs the option includeGaps: set it to true")
    if options.include_gaps and not has_gaps:
        raise OptionError(
            "option includeGaps needs the column gap, or its rows would look like records: "
            "add gap struct<end: bigint, reason: string> to .schema(...)"
        )
    return options


def _check_columns(schema: StructType) -> None:
    named: set[str] = set()
    for column in schema.fields:
        name = _BY_LOWER_NAME.get(column.name.lower())
        if name is None:
            raise OptionError(f"there is no column {column.name}: .schema(...) may name {', '.join(_TYPES)}")
        if name in named:
            raise OptionError(f"column {column.name} is named twice in .schema(...): remove one of the two")
        named.add(name)
        wanted = _TYPES[name]
        if column.dataType != wanted:
            raise OptionError(
                f"column {column.name} is {wanted.simpleString()}, not {column.dataType.simpleString()}: "
                "write that type in .schema(...) and cast in the query"
            )
        if not column.nullable:
            raise OptionError(f"column {column.name} may be null: remove NOT NULL from .schema(...)")
