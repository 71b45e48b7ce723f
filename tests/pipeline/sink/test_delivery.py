"""Rows are written once for each query, task and micro-batch, whatever attempt was killed where.

An attempt that is killed is one whose `write` ends by an exception that no `give_up` follows; `tests.pipeline.kills`
kills real processes.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace

import pyarrow as pa
import pytest

from syncline.model.ids import TopicPartition
from syncline.pipeline.client.cluster import Cluster
from syncline.pipeline.client.offsets import LATEST
from syncline.pipeline.decoding.chunks import decode
from syncline.pipeline.decoding.headers import Part
from syncline.pipeline.errors import PipelineError
from syncline.pipeline.sink.delivery import Task
from syncline.pipeline.sink.options import SinkOptions
from syncline.pipeline.sink.writing import write
from tests.patience import eventually

pytestmark = pytest.mark.process

HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


class Killed(BaseException):
    """What ends an attempt in the midst of its work; nothing handles it, as with SIGKILL."""


def options_of(bootstrap: str, topic: str | None, *, streaming: bool = True, **given: str) -> SinkOptions:
    """Return a sink's options."""
    named = {"topic": topic} if topic else {}
    return SinkOptions.parse(
        {"bootstrap": bootstrap, "kafka.delivery.timeout.ms": "30000", **named, **given}, streaming=streaming
    )


def batches_of(values: list[bytes], size: int = 10) -> Iterator[pa.RecordBatch]:
    """Yield rows as Spark does, some at a time; keys decide the partition."""
    for start in range(0, len(values), size):
        some = values[start : start + size]
        yield pa.record_batch({"key": pa.array(some, pa.binary()), "value": pa.array(some, pa.binary())})


def values_in(bootstrap: str, topic: str) -> list[bytes]:
    """Return all values of a topic that readers of committed records see, sorted."""
    found: list[bytes] = []
    settings = options_of(bootstrap, topic).client
    with Cluster(settings) as open_too, Cluster(replace(settings, read_committed=True)) as cluster:
        latest = dict.fromkeys(cluster.partitions([topic]), LATEST)
        # A commit holds when it is answered, and is seen when its markers are written.
        ends = eventually(lambda: cluster.offsets(latest), lambda ends: ends == open_too.offsets(latest))
        for place, end in ends.items():
            position = 0
            while position < end:
                fetched = cluster.fetch(place, position)
                part = Part(*place, fetched.start, fetched.end, position, end, fetched.aborted)
                for decoded in decode(fetched.answer, [part], ("value",)):
                    found += decoded.columns["value"].to_pylist()
                position = fetched.next_offset(position)
    return sorted(found)


@pytest.fixture
def topics(broker, bootstrap) -> Callable[..., str]:
    """Return a function that makes a topic; all brokers know it when it returns."""

    def make(partitions: int = 1) -> str:
        topic = broker.topic(partitions)
        with Cluster(options_of(bootstrap, topic).client) as cluster:
            assert eventually(lambda: topic in cluster.describe(None), bool)
        return topic

    return make


@pytest.fixture
def small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let each of Spark's batches be sent on its own, as large ones are."""
    monkeypatch.setattr("syncline.pipeline.sink.writing._COLLECTED_BYTES", 1)


def test_rows_arrive_with_all_columns_where_they_say(topics, bootstrap) -> None:
    """Topic, partition, time, key, value and headers are those of the row; nulls are the sink's choice."""
    one, two = topics(partitions=3), topics(partitions=2)
    rows = pa.record_batch(
        {
            "topic": [one, two, one, one],
            "partition": pa.array([2, 1, None, 2], pa.int32()),
            "key": ["a", None, "key", "c"],
            "value": [b"1", b"2", b"3", None],
            "headers": pa.array([[("h", b"x"), ("h", None)], None, [], None], HEADERS),
            "timestamp": pa.array([1_000_000, 2_000_000, 3_000_000, 4_000_000], pa.timestamp("us", tz="UTC")),
        }
    )

    assert write(options_of(bootstrap, None, streaming=False), [rows], None) == 4

    from confluent_kafka import Consumer

    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "g", "auto.offset.reset": "earliest"})
    from confluent_kafka import TopicPartition as Place

    consumer.assign([Place(topic, index, 0) for topic, count in ((one, 3), (two, 2)) for index in range(count)])
    read = [consumer.poll(10) for _ in range(4)]
    consumer.close()
    found = sorted((m.topic(), m.partition(), m.key(), m.value(), m.headers(), m.timestamp()[1]) for m in read)
    # murmur2 of "key", modulo 3, as Kafka's producers have it
    assert found == sorted(
        [
            (one, 2, b"a", b"1", [("h", b"x"), ("h", None)], 1_000),
            (two, 1, None, b"2", None, 2_000),
            (one, 1, b"key", b"3", None, 3_000),
            (one, 2, b"c", None, None, 4_000),
        ]
    )


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_rows_keep_their_order_within_a_partition_with_codec(topics, bootstrap, codec: str) -> None:
    """Many batches, cut by the size of a request, follow each other; brokers take each codec."""
    topic = topics()
    sent = [b"%06d" % number + bytes(300) for number in range(2_000)]
    options = options_of(
        bootstrap, topic, streaming=False, **{"kafka.max.request.size": "100000", "kafka.compression.type": codec}
    )

    write(options, batches_of(sent, size=700), None)

    with Cluster(options.client) as cluster:
        place = TopicPartition(topic, 0)
        assert cluster.offsets({place: LATEST}) == {place: len(sent)}
    assert values_in(bootstrap, topic) == sent


def test_attempts_after_the_first_write_nothing_again(topics, bootstrap, small_steps) -> None:
    """A micro-batch that was written and not committed by Spark is replayed; the next one is written."""
    topic = topics(partitions=3)
    options = options_of(bootstrap, topic)
    first, second = [b"a%d" % n for n in range(50)], [b"b%d" % n for n in range(30)]

    for _ in range(3):
        write(options, batches_of(first), Task(topic, 0, 7))
    for _ in range(2):
        write(options, batches_of(second), Task(topic, 0, 8))

    assert values_in(bootstrap, topic) == sorted(first + second)


@pytest.mark.parametrize("killed_after", [1, 3, 5])
def test_attempt_that_was_killed_between_writing_and_its_end_is_completed(
    topics, bootstrap, small_steps, killed_after: int
) -> None:
    """Guards: each input exactly once, whatever is killed between write and commit (the short form of the kill tests).

    The next attempt gets its rows in another order, and in batches of another size.
    """
    topic = topics(partitions=3)
    options = options_of(bootstrap, topic)
    values = [b"%04d" % n for n in range(100)]

    def dying() -> Iterator[pa.RecordBatch]:
        for number, batch in enumerate(batches_of(values, size=20)):
            if number == killed_after:
                raise Killed
            yield batch
        raise Killed

    with pytest.raises(Killed):
        write(options, dying(), Task(topic, 0, 4))
    write(options, batches_of(values[::-1], size=7), Task(topic, 0, 4))

    assert values_in(bootstrap, topic) == values


def test_tasks_of_one_micro_batch_do_not_stand_for_each_other(topics, bootstrap) -> None:
    """Equal rows of two tasks are two rows, and so are equal rows of one task."""
    topic = topics(partitions=2)
    options = options_of(bootstrap, topic)

    for _ in range(2):
        for partition in range(2):
            write(options, batches_of([b"same", b"same"]), Task(topic, partition, 0))

    assert values_in(bootstrap, topic) == [b"same"] * 4


def test_attempt_that_sleeps_while_another_one_writes_stores_nothing_twice(topics, bootstrap, small_steps) -> None:
    """A zombie wakes up and sends its last batches, when the attempt after it is already done."""
    topic = topics()
    options = options_of(bootstrap, topic)
    values = [b"%04d" % n for n in range(60)]

    def interrupted() -> Iterator[pa.RecordBatch]:
        for number, batch in enumerate(batches_of(values, size=20)):
            if number == 2:
                write(options, batches_of(values, size=15), Task(topic, 0, 1))
            yield batch

    with pytest.raises(PipelineError, match="another attempt"):
        write(options, interrupted(), Task(topic, 0, 1))

    assert values_in(bootstrap, topic) == values


def test_micro_batch_before_the_latest_one_is_refused_in_a_sentence(topics, bootstrap) -> None:
    """A checkpoint that was moved back would lose or repeat rows without a word."""
    topic = topics()
    options = options_of(bootstrap, topic)
    write(options, batches_of([b"new"]), Task(topic, 0, 9))

    with pytest.raises(PipelineError, match=r"micro-batch 8 was written before: .* set the option deliveryGuarantee"):
        write(options, batches_of([b"old"]), Task(topic, 0, 8))
    write(options_of(bootstrap, topic, deliveryGuarantee="at-least-once"), batches_of([b"old"]), Task(topic, 0, 8))

    assert values_in(bootstrap, topic) == [b"new", b"old"]


def test_rows_that_differ_between_attempts_are_written_and_reported(topics, bootstrap, caplog) -> None:
    """The number of tasks has changed: rows are there twice, perhaps, and none is missing."""
    topic = topics()
    options = options_of(bootstrap, topic)

    write(options, batches_of([b"a", b"b"]), Task(topic, 0, 2))
    write(options, batches_of([b"b", b"c"]), Task(topic, 0, 2))

    assert set(values_in(bootstrap, topic)) == {b"a", b"b", b"c"}
    assert "the number of tasks has changed, or the query is not deterministic" in caplog.text


def test_what_cannot_be_written_is_refused_in_a_sentence(topics, bootstrap) -> None:
    """Each names the row's fault or the topic's, and what to do."""
    topic = topics(partitions=2)
    value = pa.array([b"v"])
    wrong = {
        r"has no partition 2: its partitions are 0 to 1": {"value": value, "partition": pa.array([2], pa.int32())},
        r"has no partition -1": {"value": value, "partition": pa.array([-1], pa.int32())},
        r"a time before 1970": {"value": value, "timestamp": pa.array([-1], pa.timestamp("us", tz="UTC"))},
    }

    for sentence, columns in wrong.items():
        with pytest.raises(PipelineError, match=sentence):
            write(options_of(bootstrap, topic), [pa.record_batch(columns)], Task(topic, 0, 0))
    with pytest.raises(PipelineError, match="a row has no topic: fill the column topic, or set the option topic"):
        write(
            options_of(bootstrap, None),
            [pa.record_batch({"value": value, "topic": pa.array([None], pa.string())})],
            Task(topic, 0, 1),
        )
    missing = (
        "topic no-such does not exist on .*: create it first, or correct its name in the option or the column topic"
    )
    with pytest.raises(PipelineError, match=missing):
        write(options_of(bootstrap, "no-such"), batches_of([b"v"]), Task(topic, 0, 2))
    assert values_in(bootstrap, topic) == []
