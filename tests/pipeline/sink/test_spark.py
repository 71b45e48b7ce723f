"""Spark's batch and streaming writers reach the sink, and micro-batches that are replayed; mistakes are sentences."""

import shutil

import pytest

from syncline.pipeline.client.cluster import Cluster
from syncline.pipeline.client.offsets import LATEST
from tests.pipeline.sink.test_delivery import options_of, values_in

pytestmark = [pytest.mark.spark, pytest.mark.process, pytest.mark.filterwarnings("ignore::ResourceWarning")]


def test_batch_query_writes_all_rows(broker, spark, bootstrap) -> None:
    """Strings and bytes alike, from several tasks; rows without a key are spread over the partitions."""
    topic = broker.topic(partitions=3)
    frame = spark.range(0, 5_000, 1, 2).selectExpr("cast(id as string) as value")

    frame.write.format("syncline").mode("append").option("bootstrap", bootstrap).option("topic", topic).save()

    assert values_in(bootstrap, topic) == sorted(b"%d" % number for number in range(5_000))
    with Cluster(options_of(bootstrap, topic).client) as cluster:
        ends = cluster.offsets(dict.fromkeys(cluster.partitions([topic]), LATEST))
    assert min(ends.values()) > 0


def test_stream_writes_each_row_once_when_its_last_micro_batch_is_replayed(broker, spark, bootstrap, tmp_path) -> None:
    """Guards: exactly once per (query, partition, batch). The checkpoint loses commits, as by a kill before them."""
    source, target = broker.topic(partitions=2), broker.topic(partitions=3)
    checkpoint = tmp_path / "checkpoint"

    def produce(start: int) -> None:
        broker.produce(source, [(n % 2, b"k%d" % n, b"v%d" % n, 0, ()) for n in range(start, start + 100)])

    def run() -> None:
        rows = spark.readStream.format("syncline").option("bootstrap", bootstrap).option("subscribe", source)
        rows = rows.option("startingOffsets", "earliest").load().select("key", "value")
        query = rows.writeStream.format("syncline").option("bootstrap", bootstrap).option("topic", target)
        query = query.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()
        query.awaitTermination()

    produce(0)
    run()
    shutil.rmtree(checkpoint / "commits")
    produce(100)
    run()

    assert values_in(bootstrap, target) == sorted(b"v%d" % n for n in range(200))


def test_writers_say_what_is_wrong_with_the_request(broker, spark, bootstrap) -> None:
    """Guards: what the connector refuses is refused. A user reads what is wrong and what to do, without a traceback."""
    topic = broker.topic()
    rows = spark.range(1).selectExpr("cast(id as string) as value")
    given = {"bootstrap": bootstrap, "topic": topic}
    misspelled = {"bootstrap": bootstrap, "topik": topic}
    wrong = {
        "a topic cannot be overwritten": rows.write.mode("overwrite").options(**given),
        "did you mean topic": rows.write.mode("append").options(**misspelled),
        "column valeu cannot be written": rows.selectExpr("value as valeu").write.mode("append").options(**given),
        "cannot be written in the .Ignore. mode": rows.write.mode("ignore").options(**given),
        "cannot be written in the .ErrorIfExists. mode": rows.write.options(**given),
        "partition": rows.write.mode("append").partitionBy("value").options(**given),
    }

    for message, writer in wrong.items():
        with pytest.raises(Exception, match=f"(?i){message}") as caught:
            writer.format("syncline").save()
        assert "Traceback" not in str(caught.value), message
    assert values_in(bootstrap, topic) == []
