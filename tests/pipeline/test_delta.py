"""Micro-batches in a Delta table: each once, also when Spark hands it over again."""

import datetime as dt
import shutil

import pyarrow as pa
import pytest

from syncline.pipeline.delta import delta_batches, in_utc
from syncline.pipeline.errors import OptionError

pytest.importorskip("deltalake")


def _rows(table: str) -> list[dict]:
    from deltalake import DeltaTable

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
    # What Spark itself reads of the table needs no jar.
    from deltalake import DeltaTable

    assert spark.read.parquet(*DeltaTable(table).file_uris()).count() == 100


@pytest.mark.spark
def test_batch_outside_of_a_stream_is_refused(spark, tmp_path) -> None:
    """It has no query that would make it one of a kind."""
    with pytest.raises(OptionError, match="foreachBatch"):
        delta_batches(str(tmp_path / "table"))(spark.range(1), 0)


def test_moments_are_in_utc_and_stay_the_same() -> None:
    """Delta has no other zone; times without a zone stay as they are."""
    moment = dt.datetime(2026, 11, 28, 1, tzinfo=dt.UTC)
    plain = moment.replace(tzinfo=None)
    rows = pa.table(
        {"at": pa.array([moment], pa.timestamp("us", "Europe/Berlin")), "plain": pa.array([plain], pa.timestamp("us"))}
    )
    there = in_utc(rows)

    assert [str(each) for each in there.schema.types] == ["timestamp[us, tz=UTC]", "timestamp[us]"]
    assert there.to_pylist() == [{"at": moment, "plain": plain}]
