"""The Spark source reads clients' records, in batch and streaming, and its errors name the problem."""

import json
from datetime import UTC, datetime, timedelta

import pytest

from syncline.pipeline.source.lag import PartitionLag
from syncline.pipeline.source.listener import QueryLag
from tests.patience import until

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


def _is_plain(error: BaseException) -> bool:
    """Return whether the error's text begins with the sentence: no frames, neither Python's nor the JVM's."""
    return "Traceback" not in str(error) and "\tat " not in str(error)


def test_source_reads_records_as_they_were_sent_with_each_codec(broker, load) -> None:
    """Key, value, time and headers come back, nulls included, whatever the producer compressed with."""
    topics = {codec: broker.topic() for codec in ("none", "gzip", "snappy", "lz4", "zstd")}
    sent = [
        (0, b"key", b"value" * 50, T0, [("trace", b"1"), ("empty", None)]),
        (0, None, b"", T0 + 1, []),
        (0, b"", None, T0 + 2, [("é", b"\xff")]),
    ]
    for codec, topic in topics.items():
        broker.produce(topic, sent, codec=codec)

    found = load(subscribe=",".join(topics.values()), includeHeaders="true").toArrow().to_pylist()

    for codec, topic in topics.items():
        rows = sorted((row for row in found if row["topic"] == topic), key=lambda row: row["offset"])
        assert [(row["key"], row["value"]) for row in rows] == [(key, value) for _, key, value, _, _ in sent], codec
        assert [row["offset"] for row in rows] == [0, 1, 2]
        assert [row["timestamp"] for row in rows] == [
            datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=T0 + n) for n in range(3)
        ]
        assert [row["headers"] for row in rows] == [
            [{"key": "trace", "value": b"1"}, {"key": "empty", "value": None}],
            None,
            [{"key": "é", "value": b"\xff"}],
        ]
        assert {(row["partition"], row["timestampType"]) for row in rows} == {(0, 0)}


def test_source_returns_the_columns_of_a_given_schema(broker, load) -> None:
    """What .schema() does not name is not read."""
    topic = broker.topic()
    broker.produce(topic, _numbered(3))

    frame = load("OFFSET long, timestamp timestamp, batchBytes int, isTransactional boolean", subscribe=topic)

    assert frame.columns == ["OFFSET", "timestamp", "batchBytes", "isTransactional"]
    rows = sorted(frame.collect())
    assert [row.OFFSET for row in rows] == [0, 1, 2]
    assert all(row.batchBytes > 61 and row.isTransactional is False for row in rows)


def test_source_reads_every_record_once_when_ranges_are_split(broker, load) -> None:
    """MinPartitions and maxRecordsPerPartition change the tasks, never the rows."""
    topic = broker.topic(partitions=2)
    broker.produce(topic, _numbered(500) + _numbered(20, partition=1), **{"batch.size": 2000})

    split = load(subscribe=topic, minPartitions="7")
    capped = load(subscribe=topic, maxRecordsPerPartition="90")

    assert split.rdd.getNumPartitions() >= 7
    assert _offsets(split, topic) == _offsets(capped, topic) == {0: list(range(500)), 1: list(range(20))}


def test_source_gathers_many_partitions_into_few_tasks(broker, load) -> None:
    """Guards: at most 4 x slots tasks a query unless minPartitions asks for more."""
    topic = broker.topic(partitions=40)
    broker.produce(topic, [record for p in range(40) for record in _numbered(3, partition=p)])

    gathered = load(subscribe=topic)

    assert gathered.rdd.getNumPartitions() == 2
    assert load(subscribe=topic, slots="10").rdd.getNumPartitions() == 10
    assert load(subscribe=topic, minPartitions="20").rdd.getNumPartitions() == 20
    assert _offsets(gathered, topic) == {p: [0, 1, 2] for p in range(40)}


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
        "there is no column ofset": load("ofset long", subscribe=topic),
        "column offset is bigint, not int": load("offset int", subscribe=topic),
    }

    for message, frame in wrong.items():
        with pytest.raises(Exception, match=message) as caught:
            frame.count()
        assert _is_plain(caught.value)


def test_source_fails_on_lost_records_unless_failondataloss_is_false(broker, load) -> None:
    """Deleted offsets are an error by default; failOnDataLoss=false reads what is left."""
    topic = broker.topic()
    broker.produce(topic, _numbered(10))
    broker.delete_records(topic, 0, 6)
    start = json.dumps({topic: {"0": 2}})

    told = "startingOffsets names offset 2 of .* from 6 below 10; set the option failOnDataLoss to false"
    with pytest.raises(Exception, match=told) as caught:
        load(subscribe=topic, startingOffsets=start).count()
    assert _is_plain(caught.value)
    assert _offsets(load(subscribe=topic, startingOffsets=start, failOnDataLoss="false"), topic) == {0: [6, 7, 8, 9]}


def test_stream_reads_all_that_is_there_in_limited_batches_and_goes_on_later(
    broker, spark, bootstrap, tmp_path, request
) -> None:
    """AvailableNow honours maxOffsetsPerTrigger; the next run starts where this one ended, new partitions included.

    Guards: the listener commits each finished batch, the last one included, and reports the lag of each partition.
    """
    topic = broker.topic(partitions=2)
    broker.produce(topic, _numbered(250) + _numbered(50, partition=1), **{"batch.size": 1000})
    options = {
        "kafka.bootstrap.servers": bootstrap,
        "subscribe": topic,
        "startingOffsets": "earliest",
        "maxOffsetsPerTrigger": "100",
        "commitOffsetsToGroup": "true",
        "kafka.group.id": f"follows-{topic}",
    }
    frame = spark.readStream.format("syncline").options(**options).load()
    lags: list[tuple[PartitionLag, ...]] = []
    listener = QueryLag(options, query=topic, report=lags.append)
    spark.streams.addListener(listener)
    request.addfinalizer(lambda: spark.streams.removeListener(listener))
    seen: list[list[tuple[int, int]]] = []

    def keep(batch, _number: int) -> None:
        seen.append([(row["partition"], row["offset"]) for row in batch.toArrow().to_pylist()])

    def run() -> None:
        writer = frame.writeStream.foreachBatch(keep).option("checkpointLocation", str(tmp_path / "checkpoint"))
        writer.queryName(topic).trigger(availableNow=True).start().awaitTermination()

    run()
    until(lambda: lags and not any(one.lag_records for one in lags[-1]), otherwise="no lag of the last batch")
    first_run = [place for batch in seen for place in batch]
    assert sorted(first_run) == [(0, n) for n in range(250)] + [(1, n) for n in range(50)]
    assert len(seen) >= 3
    assert max(len(batch) for batch in seen) <= 101
    assert [one.lag_records for one in lags[0]] == [167, 34]
    assert 167 * 10 < (lags[0][0].lag_bytes or 0) < 167 * 80
    assert broker.committed(f"follows-{topic}", topic, 2) == [250, 50]

    seen.clear()
    broker.add_partitions(topic, 3)
    broker.produce(topic, _numbered(5, start=250) + _numbered(7, partition=2))
    run()
    assert sorted(place for batch in seen for place in batch) == [(0, n) for n in range(250, 255)] + [
        (2, n) for n in range(7)
    ]


def test_stream_that_cannot_begin_says_why_in_one_sentence(spark, bootstrap, tmp_path) -> None:
    """The process that plans a stream hides the frames, too."""
    frame = spark.readStream.format("syncline").option("bootstrap", bootstrap).option("subscribe", "no-such").load()
    query = frame.writeStream.format("noop").option("checkpointLocation", str(tmp_path / "checkpoint")).start()

    with pytest.raises(Exception, match=r"topic no-such does not exist on .*: create it first") as caught:
        query.awaitTermination()
    assert _is_plain(caught.value)
