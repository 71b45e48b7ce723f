"""Micro-batches in a Delta table: each once, also when Spark hands it over again."""

import datetime as dt
import shutil
from collections.abc import Callable
from types import SimpleNamespace

import pyarrow as pa
import pytest

from pyspark_syncline import delta_batches
from syncline.pipeline.errors import DataLossError, OptionError

deltalake = pytest.importorskip("deltalake")
DeltaTable, CommitFailedError = deltalake.DeltaTable, deltalake.exceptions.CommitFailedError


def _rows(table: str) -> list[dict]:
    return DeltaTable(table).to_pyarrow_table().to_pylist()


@pytest.mark.spark
@pytest.mark.process
@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_each_row_is_in_the_table_once_when_micro_batches_come_again(broker, spark, bootstrap, tmp_path) -> None:
    """The checkpoint loses its commits, as by a kill between the table's commit and Spark's."""
    topic, table, checkpoint = broker.topic(partitions=2), str(tmp_path / "table"), tmp_path / "checkpoint"

    def run(start: int) -> None:
        broker.produce(topic, [(n % 2, b"k", b"v%d" % n, 0, ()) for n in range(start, start + 50)])
        rows = spark.readStream.format("syncline").option("bootstrap", bootstrap).option("subscribe", topic)
        rows = rows.option("startingOffsets", "earliest").load()
        query = rows.selectExpr("partition", "cast(value as string) as value", "timestamp").writeStream
        query = query.foreachBatch(delta_batches(table, partition_by=["partition"]))
        query.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start().awaitTermination()

    run(0)
    shutil.rmtree(checkpoint / "commits")
    run(50)
    rows = _rows(table)

    assert sorted(row["value"] for row in rows) == sorted(f"v{n}" for n in range(100))
    assert {row["partition"] for row in rows} == {0, 1}
    # What Spark itself reads of the table needs no jar, and has the column that the files are divided by.
    read = spark.read.option("basePath", table).parquet(*DeltaTable(table).file_uris())
    assert read.count() == 100
    assert set(read.columns) == {"partition", "value", "timestamp"}


def test_checkpoint_that_was_moved_back_is_refused(tmp_path) -> None:
    """Its micro-batches have the numbers of others that the table has: leaving them out would lose their rows."""
    table = str(tmp_path / "table")
    append = delta_batches(table)
    for number in (0, 1, 2, 2):
        append(_Batch("q"), number)
    with pytest.raises(DataLossError, match="already has micro-batch 2 of query q, but this is number 1"):
        append(_Batch("q"), 1)
    append(_Batch("other"), 0)

    assert len(_rows(table)) == 4


def test_second_driver_of_a_query_cannot_write_a_batch_again(tmp_path) -> None:
    """It has looked at the table before the first one wrote."""
    table = str(tmp_path / "table")
    first, second = _Batch("q"), _Batch("q")
    append = delta_batches(table)
    append(first, 0)
    second.before = lambda: append(first, 1)
    with pytest.raises(CommitFailedError, match=r"[Cc]oncurrent"):
        append(second, 1)

    assert len(_rows(table)) == 2


class _Batch:
    """A micro-batch of one row, as `foreachBatch` hands it over; `before` is called when its rows are asked for."""

    def __init__(self, query: str) -> None:
        self.sparkSession = SimpleNamespace(
            sparkContext=SimpleNamespace(getLocalProperty={"sql.streaming.queryId": query}.get)
        )
        self.before: Callable[[], None] = lambda: None

    def toArrow(self) -> pa.Table:  # noqa: N802 - Spark's name
        """Return the row."""
        self.before()
        return pa.table({"x": pa.array([1], pa.int64()), "y": ["row"]})


def test_column_to_divide_by_may_be_one_name(tmp_path) -> None:
    """A text is no list of letters."""
    table = str(tmp_path / "table")
    delta_batches(table, partition_by="x")(_Batch("q"), 0)

    assert DeltaTable(table).metadata().partition_columns == ["x"]


@pytest.mark.spark
def test_batch_outside_of_a_stream_is_refused(spark, tmp_path) -> None:
    """No query has given it a number."""
    with pytest.raises(OptionError, match="foreachBatch"):
        delta_batches(str(tmp_path / "table"))(spark.range(1), 0)


@pytest.mark.spark
def test_moments_stay_the_same_whatever_the_session_calls_them(spark, tmp_path) -> None:
    """Delta has UTC alone; times without a zone stay as they are, and so do those within structures."""
    table = str(tmp_path / "table")
    zone = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "Europe/Berlin")
    try:
        batch = spark.sql(
            "select timestamp'2026-11-28 01:00:00' as at, timestamp_ntz'2026-11-28 01:00:00' as plain,"
            " struct(timestamp'2026-11-28 01:00:00' as at) as inner"
        )
        held = _Batch("q")
        held.toArrow = batch.toArrow
        delta_batches(table)(held, 0)
    finally:
        spark.conf.set("spark.sql.session.timeZone", zone)
    (row,) = _rows(table)

    moment = dt.datetime(2026, 11, 28, tzinfo=dt.UTC)
    assert row == {"at": moment, "plain": dt.datetime(2026, 11, 28, 1), "inner": {"at": moment}}  # noqa: DTZ001
