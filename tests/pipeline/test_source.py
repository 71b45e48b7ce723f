"""The Spark source reads clients' records, in batch and streaming, and its errors name the problem."""

import json
from datetime import UTC, datetime, timedelta

import pytest

pytestmark = [pytest.mark.spark, pytest.mark.process, pytest.mark.filterwarnings("ignore::ResourceWarning")]

EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 -- Spark returns instants in the session's zone, without saying so
T0 = 1_600_000_000_000


def _numbered(count: int, *, partition: int = 0, start: int = 0):
    return [(partition, b"k%d" % n, b"v%d" % n, T0 + n, ()) for n in range(start, start + count)]


def _offsets(frame, topic: str) -> dict[int, list[int]]:
    found: dict[int, list[int]] = {}
    for row in frame.where(frame.topic == topic).select("partition", "offset").toArrow().to_pylist():
        found.setdefault(row["partition"], []).append(row["offset"])
    return {partition: sorted(offsets) for partition, offsets in found.items()}


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_source_reads_records_as_they_were_sent_with_codec(broker, load, codec: str) -> None:
    """Key, value, time and headers come back, nulls included, whatever the producer compressed with."""
    topic = broker.topic()
    sent = [
        (0, b"key", b"value" * 50, T0, [("trace", b"1"), ("empty", None)]),
        (0, None, b"", T0 + 1, []),
        (0, b"", None, T0 + 2, [("é", b"\xff")]),
    ]
    broker.produce(topic, sent, codec=codec)

    rows = load(subscribe=topic, includeHeaders="true").orderBy("offset").toArrow().to_pylist()

    assert [(row["key"], row["value"]) for row in rows] == [(key, value) for _, key, value, _, _ in sent]
    assert [row["offset"] for row in rows] == [0, 1, 2]
    assert [row["timestamp"] for row in rows] == [
        datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=T0 + n) for n in range(3)
    ]
    assert [row["headers"] for row in rows] == [
        [{"key": "trace", "value": b"1"}, {"key": "empty", "value": None}],
        None,
        [{"key": "é", "value": b"\xff"}],
    ]
    assert {(row["topic"], row["partition"], row["timestampType"]) for row in rows} == {(topic, 0, 0)}


def test_source_returns_the_columns_of_a_given_schema(broker, load) -> None:
    """What .schema() does not name is not read."""
    topic = broker.topic()
    broker.produce(topic, _numbered(3))

    frame = load("offset long, timestamp timestamp", subscribe=topic)

    assert frame.columns == ["offset", "timestamp"]
    assert sorted(row.offset for row in frame.collect()) == [0, 1, 2]


def test_source_reads_every_record_once_when_ranges_are_split(broker, load) -> None:
    """MinPartitions and maxRecordsPerPartition change the tasks, never the rows."""
    topic = broker.topic(partitions=2)
    broker.produce(topic, _numbered(500) + _numbered(20, partition=1), **{"batch.size": 2000})

    split = load(subscribe=topic, minPartitions="7")
    capped = load(subscribe=topic, maxRecordsPerPartition="90")

    assert split.rdd.getNumPartitions() >= 7
    assert _offsets(split, topic) == _offsets(capped, topic) == {0: list(range(500)), 1: list(range(20))}


def test_source_reads_offsets_by_partition_as_asked(broker, load) -> None:
    """JSON offsets start and end each assigned partition; -2 is the earliest and -1 the latest."""
    topic = broker.topic(partitions=3)
    broker.produce(topic, [record for p in range(3) for record in _numbered(10, partition=p)])

    frame = load(
        assign=json.dumps({topic: [0, 2]}),
        startingOffsets=json.dumps({topic: {"0": 4, "2": -2}}),
        endingOffsets=json.dumps({topic: {"0": 7, "2": -1}}),
    )

    assert _offsets(frame, topic) == {0: [4, 5, 6], 2: list(range(10))}


def test_source_reads_between_timestamps(broker, load) -> None:
    """Times choose the first record that is not older; a partition without one is read to its end."""
    topic = broker.topic(partitions=2)
    broker.produce(topic, _numbered(10) + _numbered(5, partition=1))

    frame = load(
        subscribe=topic,
        startingTimestamp=str(T0 + 3),
        endingOffsetsByTimestamp=json.dumps({topic: {"0": T0 + 8, "1": T0 + 99}}),
    )

    assert _offsets(frame, topic) == {0: list(range(3, 8)), 1: [3, 4]}


def test_source_reads_all_topics_that_match_a_pattern(broker, load) -> None:
    """A pattern must match the whole name."""
    one, two = broker.topic(), broker.topic()
    broker.produce(one, _numbered(2))
    broker.produce(two, _numbered(3))

    assert load(subscribePattern=f"{one}|{two}").count() == 5
    assert load(subscribePattern=one[1:]).count() == 0


def test_source_says_what_is_wrong_with_the_request(broker, load) -> None:
    """A user reads the option's name and what to do, not a traceback about sockets."""
    topic = broker.topic()
    broker.produce(topic, _numbered(2))
    wrong = {
        "does not exist": load(subscribe="no-such-topic"),
        "did you mean subscribe": load(subscrib=topic),
        "has no record at or after the starting timestamp": load(subscribe=topic, startingTimestamp=str(T0 + 99)),
        "missing: none; not read": load(
            assign=json.dumps({topic: [0]}), startingOffsets=json.dumps({topic: {"0": 0, "9": 0}})
        ),
        "there is no column ofset": load("ofset long", subscribe=topic),
        "column offset is bigint, not int": load("offset int", subscribe=topic),
    }

    for message, frame in wrong.items():
        with pytest.raises(Exception, match=message):
            frame.count()


def test_source_fails_on_lost_records_unless_failondataloss_is_false(broker, load) -> None:
    """Deleted offsets are an error by default; failOnDataLoss=false reads what is left."""
    topic = broker.topic()
    broker.produce(topic, _numbered(10))
    broker.delete_records(topic, 0, 6)
    start = json.dumps({topic: {"0": 2}})

    with pytest.raises(Exception, match="no longer holds offsets 2 to 5; set the option failOnDataLoss to false"):
        load(subscribe=topic, startingOffsets=start).count()
    assert _offsets(load(subscribe=topic, startingOffsets=start, failOnDataLoss="false"), topic) == {0: [6, 7, 8, 9]}


def test_stream_reads_all_that_is_there_in_limited_batches_and_goes_on_later(
    broker, spark, bootstrap, tmp_path
) -> None:
    """AvailableNow honours maxOffsetsPerTrigger; the next run starts where this one ended, new partitions included."""
    topic = broker.topic(partitions=2)
    broker.produce(topic, _numbered(250) + _numbered(50, partition=1), **{"batch.size": 1000})
    frame = (
        spark.readStream.format("syncline")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", "100")
        .load()
    )
    seen: list[list[tuple[int, int]]] = []

    def keep(batch, _number: int) -> None:
        seen.append([(row["partition"], row["offset"]) for row in batch.toArrow().to_pylist()])

    def run() -> None:
        writer = frame.writeStream.foreachBatch(keep).option("checkpointLocation", str(tmp_path / "checkpoint"))
        writer.trigger(availableNow=True).start().awaitTermination()

    run()
    first_run = [place for batch in seen for place in batch]
    assert sorted(first_run) == [(0, n) for n in range(250)] + [(1, n) for n in range(50)]
    assert len(seen) >= 3
    assert max(len(batch) for batch in seen) <= 101

    seen.clear()
    broker.add_partitions(topic, 3)
    broker.produce(topic, _numbered(5, start=250) + _numbered(7, partition=2))
    run()
    assert sorted(place for batch in seen for place in batch) == [(0, n) for n in range(250, 255)] + [
        (2, n) for n in range(7)
    ]


def test_stream_begins_at_the_latest_offset_by_default(broker, spark, bootstrap, tmp_path) -> None:
    """A new query that names no start reads what comes, not what was."""
    topic = broker.topic()
    broker.produce(topic, _numbered(5))
    frame = spark.readStream.format("syncline").option("bootstrap", bootstrap).option("subscribe", topic).load()
    counts: list[int] = []

    query = (
        frame.writeStream.foreachBatch(lambda batch, _number: counts.append(batch.count()))
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()

    assert sum(counts) == 0
