"""What a task does when the topic is no longer what was planned: read without Spark, from real brokers."""

from collections.abc import Callable

import pyarrow as pa
import pytest

from syncline.model.ids import TopicPartition
from syncline.pipeline.client.cluster import Cluster
from syncline.pipeline.errors import DataLossError, OptionError
from syncline.pipeline.source.options import SourceOptions
from syncline.pipeline.source.planning import Batch, whole_batch
from syncline.pipeline.source.ranges import OffsetRange
from syncline.pipeline.source.reading import read

pytestmark = pytest.mark.process


@pytest.fixture(autouse=True)
def no_broker_is_late(monkeypatch: pytest.MonkeyPatch) -> None:
    """These tests wait until all brokers know of a deletion; the client need not."""
    monkeypatch.setattr("syncline.pipeline.client.retrying._LATE_METADATA_MS_MAX", 200)


@pytest.fixture
def plan(bootstrap: str) -> Callable[..., Callable[[], list[int]]]:
    """Return a function that plans a query and returns what reads its offsets later."""

    def make(**given: str) -> Callable[[], list[int]]:
        options = SourceOptions.parse({"bootstrap": bootstrap, **given}, streaming=False)
        with Cluster(options.client) as cluster:
            batch: Batch = whole_batch(cluster, options)
            known = cluster.whereabouts(item.place for item in batch.ranges)
        schema = pa.schema([("offset", pa.int64())])

        def offsets() -> list[int]:
            return [
                offset
                for rows in read(options, schema, batch.ranges, known, batch.ids)
                for offset in rows.column("offset").to_pylist()
            ]

        return offsets

    return make


def _records(count: int):
    return [(0, None, b"v", 1_600_000_000_000, ()) for _ in range(count)]


def test_reading_fails_or_goes_on_when_records_were_deleted_after_planning(broker, plan) -> None:
    """The sentence names the offsets; without failOnDataLoss the rest is read."""
    topic = broker.topic()
    broker.produce(topic, _records(10))
    strict, lenient = plan(subscribe=topic), plan(subscribe=topic, failOnDataLoss="false")
    broker.delete_records(topic, 0, 6)

    with pytest.raises(
        DataLossError,
        match="no longer holds offsets 0 to 5; set the option failOnDataLoss to false to continue without the lost",
    ):
        strict()
    assert lenient() == [6, 7, 8, 9]


def test_reading_never_takes_a_topic_that_was_created_again_for_the_one_that_was_planned(broker, plan) -> None:
    """The new topic holds all planned offsets, so that nothing is out of range; only its id tells."""
    topic = broker.topic()
    broker.produce(topic, _records(3))
    strict, lenient = plan(subscribe=topic), plan(subscribe=topic, failOnDataLoss="false")
    broker.recreate(topic)
    broker.produce(topic, _records(5))

    with pytest.raises(DataLossError, match=f"topic {topic} was deleted and created again.*set the option"):
        strict()
    assert lenient() == []


def test_reading_says_that_a_topic_was_deleted_after_planning(broker, plan) -> None:
    """Guards: a task that waits two minutes for a topic that is gone."""
    topic = broker.topic()
    broker.produce(topic, _records(3))
    strict = plan(subscribe=topic)
    broker.delete(topic)

    with pytest.raises(DataLossError, match=f"partition {topic}-0 no longer exists, before .* was read to 3"):
        strict()


@pytest.mark.parametrize("is_recreated", [True, False], ids=["created again", "deleted"])
def test_reading_goes_on_with_the_other_topics_of_a_task(broker, plan, is_recreated: bool) -> None:
    """One task reads many topics; what is gone of one takes no row of the others with it."""
    gone, kept = sorted([broker.topic(3), broker.topic(3)])
    for topic in (gone, kept):
        broker.produce(topic, [(n, None, b"v", 1, ()) for n in range(3) for _ in range(4)])
    strict, lenient = (plan(subscribe=f"{gone},{kept}", failOnDataLoss=flag) for flag in ("true", "false"))
    broker.recreate(gone, 3) if is_recreated else broker.delete(gone)

    with pytest.raises(DataLossError, match=rf"{gone}.*before {gone}-0 was read to 4, and 2 more partitions"):
        strict()
    assert sorted(lenient()) == sorted([0, 1, 2, 3] * 3)


def test_planning_refuses_to_end_past_the_end_and_never_waits_for_it(broker, plan) -> None:
    """Guards: ending offsets past the end wait two minutes instead of failing in planning."""
    topic = broker.topic()
    broker.produce(topic, _records(10))
    beyond = f'{{"{topic}": {{"0": 11}}}}'

    with pytest.raises(DataLossError, match=r"endingOffsets names offset 11 of .* from 0 below 10; set the option"):
        plan(subscribe=topic, endingOffsets=beyond)
    assert plan(subscribe=topic, endingOffsets=beyond, failOnDataLoss="false")() == list(range(10))


def test_planning_says_which_starting_places_cannot_be(broker, plan) -> None:
    """Times that no record has reached, and offsets of partitions that are not read."""
    topic = broker.topic()
    broker.produce(topic, _records(2))

    with pytest.raises(OptionError, match=f"there is no record at or after the starting timestamp in {topic}-0"):
        plan(subscribe=topic, startingTimestamp="1600000000099")
    with pytest.raises(OptionError, match="missing: none; not read"):
        plan(assign=f'{{"{topic}": [0]}}', startingOffsets=f'{{"{topic}": {{"0": 0, "9": 0}}}}')


def test_planning_matches_no_internal_topics(broker, bootstrap: str) -> None:
    """Guards: `subscribePattern=".*"` takes internal topics."""
    from confluent_kafka import Consumer
    from confluent_kafka import TopicPartition as Place

    topic = broker.topic()
    broker.produce(topic, _records(1))
    member = Consumer({"bootstrap.servers": bootstrap, "group.id": "makes-offsets-topic"})
    member.commit(offsets=[Place(topic, 0, 1)], asynchronous=False)
    member.close()
    options = SourceOptions.parse({"bootstrap": bootstrap, "subscribePattern": ".*"}, streaming=False)
    with Cluster(options.client) as cluster:
        assert "__consumer_offsets" in cluster.describe(None)

        planned = whole_batch(cluster, options)

    assert OffsetRange(TopicPartition(topic, 0), 0, 1) in planned.ranges
    assert "__consumer_offsets" not in planned.ids


def test_batch_is_weighed_by_the_bytes_of_its_partitions(broker, bootstrap: str) -> None:
    """Guards: a partition of large records gets more tasks. Few records are not worth the question."""
    topic = broker.topic(partitions=2)
    broker.produce(topic, [(0, None, b"v" * 10, 1_600_000_000_000, ())] * 400)
    broker.produce(topic, [(1, None, b"v" * 4_000, 1_600_000_000_000, ())] * 400)

    def planned(**given: str) -> Batch:
        options = SourceOptions.parse({"bootstrap": bootstrap, "subscribe": topic, **given}, streaming=False)
        with Cluster(options.client) as cluster:
            return whole_batch(cluster, options)

    cut = planned(minPartitions="20")
    counts = [sum(item.place.partition == number for item in cut.ranges) for number in (0, 1)]

    assert counts[0] <= 2
    assert counts[1] >= 18
    assert planned().record_bytes == {}

    broker.produce(topic, [(1, None, b"v" * 4_000, 1_600_000_000_000, ())] * 1_200)
    sizes = planned().record_bytes

    assert 0 < 20 * sizes[TopicPartition(topic, 0)] < sizes[TopicPartition(topic, 1)]
