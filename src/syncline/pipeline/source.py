# ruff: noqa: N802 -- Spark calls these methods by their Java-style names.
"""Spark data source "syncline": topics as DataFrames, batch and streaming, from any Kafka-compatible brokers.

Spark runs this code in several Python processes: one plans a batch, one lives as long as a stream and keeps a
connection, and each task fetches its own offset range directly from the partition's leader and yields Arrow record
batches. So no new object here holds a connection: Spark pickles it into the next process.

`.schema("offset long, value binary")` selects columns; others are not decoded. The source never accepts pushed
filters, because Spark 4.3 keeps those of one query for the next one on the same DataFrame and then returns wrong rows;
use offsets and timestamps in the options instead.

A batch query plans its offsets once, when Spark first needs them: two actions on one DataFrame see the same records;
another `load()` also sees later ones.

Units: offsets count records; ends are exclusive.
"""

import logging
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, TypeAlias

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from syncline.model.ids import TopicPartition
from syncline.pipeline.broker_client import EARLIEST, LATEST, BrokerClient, OffsetOutOfRangeError
from syncline.pipeline.decode import decode
from syncline.pipeline.options import EveryPartition, OptionError, Place, SourceOptions, includes_headers
from syncline.pipeline.ranges import OffsetRange, divide, limit

log = logging.getLogger(__name__)

StreamOffset: TypeAlias = dict[str, dict[str, int]]

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
}
_DEFAULT_COLUMNS: Final = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType")


class DataLossError(Exception):
    """Records that the query should read are gone; the message names them, and how to continue without them."""


@dataclass
class RangePartition(InputPartition):  # type: ignore[misc]  # Spark's class is untyped
    """One task's work."""

    topic: str
    partition: int
    start: int
    end: int


class SynclineSource(DataSource):  # type: ignore[misc]  # Spark's class is untyped
    """`spark.read.format("syncline")` and `spark.readStream.format("syncline")`."""

    @classmethod
    def name(cls) -> str:
        """Return the format's name."""
        return "syncline"

    def schema(self) -> StructType:
        """Return the columns of a query that names none: those of Spark's Kafka connector."""
        names = (*_DEFAULT_COLUMNS, "headers") if includes_headers(self.options) else _DEFAULT_COLUMNS
        return StructType([StructField(name, _TYPES[name]) for name in names])

    def reader(self, schema: StructType) -> "BatchReader":
        """Return the reader of a batch query."""
        return BatchReader(SourceOptions.parse(self.options, streaming=False), schema)

    def streamReader(self, schema: StructType) -> "StreamReader":
        """Return the reader of a streaming query."""
        return StreamReader(SourceOptions.parse(self.options, streaming=True), schema)


class BatchReader(DataSourceReader):  # type: ignore[misc]  # Spark's class is untyped
    """Plans one batch query's ranges and reads them."""

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        _check_columns(schema)
        self._options = options
        self._schema = schema

    def partitions(self) -> list[RangePartition]:
        """Return the ranges, one per task."""
        with BrokerClient(self._options.client) as client:
            places = _places(client, self._options)
            starts = _resolve(client, self._options, places, self._options.starting, "starting")
            ends = _resolve(client, self._options, places, self._options.ending, "ending")
        for place in places:
            # By time, both ends may lie beyond the last record: then there is nothing to read, and no error.
            if starts[place] > ends[place] and not (self._options.starting.by_time or self._options.ending.by_time):
                raise OptionError(
                    f"{place} would be read from offset {starts[place]} to {ends[place]}: "
                    "endingOffsets must not be below startingOffsets"
                )
        return _tasks(self._options, starts, ends)

    def read(self, partition: RangePartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of one range."""
        return _read(self._options, self._schema, partition)


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):  # type: ignore[misc]  # Spark's classes are untyped
    """Follows partitions through the life of a streaming query; its offsets are JSON, topic by partition by offset."""

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        _check_columns(schema)
        self._options = options
        self._schema = schema
        self._target: dict[TopicPartition, int] | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Return what the tasks need; the connection stays in the planning process."""
        return {name: value for name, value in self.__dict__.items() if name != "_client"}

    @cached_property
    def _client(self) -> BrokerClient:
        return BrokerClient(self._options.client)

    def initialOffset(self) -> StreamOffset:
        """Return where a new query starts."""
        places = _places(self._client, self._options)
        return _as_json(_resolve(self._client, self._options, places, self._options.starting, "starting"))

    def getDefaultReadLimit(self) -> ReadLimit:
        """Return the limit of one trigger: maxOffsetsPerTrigger, if it was given."""
        records_max = self._options.offsets_per_trigger_max
        return ReadAllAvailable() if records_max is None else ReadMaxRows(records_max)

    def prepareForTriggerAvailableNow(self) -> None:
        """Remember the current ends: the query stops there, whatever arrives later."""
        self._target = self._ends()

    def latestOffset(self, start: StreamOffset, limit_: ReadLimit) -> StreamOffset:
        """Return the end of the next micro-batch."""
        ends = self._ends() if self._target is None else self._target
        begun = _from_json(start)
        starts = self._starts(begun, ends)
        if isinstance(limit_, ReadMaxRows):
            ends = limit(starts, ends, limit_.max_rows)
        # A partition that vanished, or that ends below its place, keeps its place: offsets never go back.
        return _as_json({**begun, **{place: max(end, starts[place]) for place, end in ends.items()}})

    def reportLatestOffset(self) -> StreamOffset:
        """Return the ends of the log, for the query's progress."""
        return _as_json(self._ends())

    def partitions(self, start: StreamOffset, end: StreamOffset) -> list[RangePartition]:
        """Return the ranges of one micro-batch, one per task."""
        ends = _from_json(end)
        return _tasks(self._options, self._starts(_from_json(start), ends), ends)

    def read(self, partition: RangePartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of one range."""
        return _read(self._options, self._schema, partition)

    def stop(self) -> None:
        """Close the connections of the planning process."""
        self._client.close()

    def _ends(self) -> dict[TopicPartition, int]:
        places = _places(self._client, self._options)
        return self._client.offsets(dict.fromkeys(places, LATEST))

    def _starts(
        self, begun: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, int]:
        """Return where each partition continues; a new one begins at its earliest record."""
        added = [place for place in ends if place not in begun]
        earliest = self._client.offsets(dict.fromkeys(added, EARLIEST)) if added else {}
        for place, end in ends.items():
            if place in begun and end < begun[place]:
                self._lost(f"{place} ends at offset {end} but was already read to {begun[place]}")
        for place in begun.keys() - ends.keys():
            self._lost(f"{place} was read to offset {begun[place]} and no longer exists")
        return {**{place: begun[place] for place in ends if place in begun}, **earliest}

    def _lost(self, what: str) -> None:
        _report_loss(self._options, f"{what}; was the topic deleted and created again?")


def _check_columns(schema: StructType) -> None:
    for column in schema.fields:
        wanted = _TYPES.get(column.name)
        if wanted is None:
            raise OptionError(f"there is no column {column.name}: .schema(...) may name {', '.join(_TYPES)}")
        if column.dataType != wanted:
            raise OptionError(
                f"column {column.name} is {wanted.simpleString()}, not {column.dataType.simpleString()}: "
                "write that type in .schema(...) and cast in the query"
            )
        if not column.nullable:
            raise OptionError(f"column {column.name} may be null: remove NOT NULL from .schema(...)")


def _places(client: BrokerClient, options: SourceOptions) -> tuple[TopicPartition, ...]:
    """Return the partitions to read, sorted."""
    topics = options.topics
    if topics.pattern is not None:
        names: Sequence[str] = [name for name in client.topics() if re.fullmatch(topics.pattern, name)]
        return client.partitions(names) if names else ()
    if topics.names:
        return client.partitions(topics.names)
    existing = set(client.partitions(place.topic for place in topics.assigned))
    for place in topics.assigned:
        if place not in existing:
            raise OptionError(f"option assign names {place}, which does not exist: remove it or correct the number")
    return topics.assigned


def _resolve(
    client: BrokerClient, options: SourceOptions, places: Sequence[TopicPartition], wanted: Place, side: str
) -> dict[TopicPartition, int]:
    """Return the offset of each partition for the starting or ending place that the options name."""
    if isinstance(wanted, EveryPartition):
        values = dict.fromkeys(places, wanted.value)
    else:
        given, needed = set(wanted.values), set(places)
        if given != needed:
            missing = ", ".join(map(str, sorted(needed - given))) or "none"
            unknown = ", ".join(map(str, sorted(given - needed))) or "none"
            raise OptionError(
                f"the {side} offsets must name exactly the partitions that are read; "
                f"missing: {missing}; not read: {unknown}"
            )
        values = dict(wanted.values)
    asked = {place: value for place, value in values.items() if wanted.by_time or value < 0}
    found = client.offsets(asked) if asked else {}
    late = [place for place, offset in found.items() if offset < 0]
    if late:
        if side == "starting" and options.when_no_time_matches == "error":
            raise OptionError(
                f"{', '.join(map(str, late))} has no record at or after the starting timestamp: "
                "set startingOffsetsByTimestampStrategy to latest, or choose an earlier time"
            )
        found |= client.offsets(dict.fromkeys(late, LATEST))
    return {**values, **found}


def _tasks(
    options: SourceOptions, starts: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]
) -> list[RangePartition]:
    whole = [OffsetRange(place, starts[place], ends[place]) for place in sorted(ends)]
    pieces = divide(whole, partitions_min=options.partitions_min, records_max=options.records_per_partition_max)
    return [RangePartition(*piece.place, piece.start, piece.end) for piece in pieces]


def _read(
    options: SourceOptions, schema: StructType, task: RangePartition | InputPartition
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of one range, one Arrow batch for each fetch."""
    if not isinstance(task, RangePartition):
        return  # Spark's stand-in for "no partitions at all".
    arrow_schema = to_arrow_schema(schema, timezone="UTC")
    place = TopicPartition(task.topic, task.partition)
    position, moved_at = task.start, time.monotonic()
    with BrokerClient(options.client) as client:
        while position < task.end:
            try:
                fetched = client.fetch(place, position)
            except OffsetOutOfRangeError:
                position = _after_loss(client, options, place, position, task.end)
                continue
            decoded = decode(
                fetched.records,
                topic=task.topic,
                partition=task.partition,
                first_offset=position,
                end_offset=task.end,
                columns=arrow_schema.names,
                aborted=fetched.aborted,
            )
            if decoded.next_offset > position:
                position, moved_at = decoded.next_offset, time.monotonic()
            elif time.monotonic() - moved_at > options.client.timeout_ms / 1000:
                # A new leader may need a moment to learn how far its log is committed, but not this long.
                _report_loss(
                    options, f"{place} ends at offset {position}, before {task.end}, where it ended when planned"
                )
                return
            if decoded.row_count:
                yield pa.RecordBatch.from_arrays(list(decoded.columns.values()), schema=arrow_schema)


def _after_loss(client: BrokerClient, options: SourceOptions, place: TopicPartition, position: int, end: int) -> int:
    """Return where to continue when the log no longer holds `position`; raise if `failOnDataLoss` is set."""
    earliest = client.offsets({place: EARLIEST})[place]
    going_on = min(earliest, end) if earliest > position else end
    _report_loss(options, f"{place} no longer holds offsets {position} to {going_on - 1}")
    return going_on


def _report_loss(options: SourceOptions, what: str) -> None:
    if options.fail_on_data_loss:
        raise DataLossError(f"{what}; set the option failOnDataLoss to false to go on without them")
    log.warning("records are lost to this query: %s", what)


def _as_json(offsets: Mapping[TopicPartition, int]) -> StreamOffset:
    """Return offsets as Spark stores them; sorted, because Spark compares the text."""
    content: StreamOffset = {}
    for place in sorted(offsets):
        content.setdefault(place.topic, {})[str(place.partition)] = offsets[place]
    return content


def _from_json(content: StreamOffset) -> dict[TopicPartition, int]:
    return {
        TopicPartition(topic, int(partition)): offset
        for topic, partitions in content.items()
        for partition, offset in partitions.items()
    }
