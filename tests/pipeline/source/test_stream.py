"""A stream against real brokers, asked in the order in which Spark asks, without Spark."""

import itertools
import json
from collections.abc import Callable, Iterator
from types import SimpleNamespace

import pytest

from syncline.model.ids import TopicPartition
from syncline.pipeline.client.cluster import Cluster
from syncline.pipeline.errors import BrokerError, DataLossError
from syncline.pipeline.source.offsets import StreamOffset
from syncline.pipeline.source.options import SourceOptions
from syncline.pipeline.source.planning import Batch
from syncline.pipeline.source.stream import Stream

pytestmark = pytest.mark.process

T0 = 1_600_000_000_000


def _records(count: int, partition: int = 0):
    return [(partition, None, b"v" * 100, T0 + n, ()) for n in range(count)]


@pytest.fixture
def stream(bootstrap: str) -> Iterator[Callable[..., Stream]]:
    """Return a function that makes a stream from options: what one driver process holds."""
    clusters: list[Cluster] = []

    def make(**given: str) -> Stream:
        given = {"kafka.bootstrap.servers": bootstrap, "startingOffsets": "earliest", **given}
        options = SourceOptions.parse(given, streaming=True)
        clusters.append(Cluster(options.client))
        return Stream(options, clusters[-1])

    yield make
    for cluster in clusters:
        cluster.close()


@pytest.fixture(autouse=True)
def no_broker_is_late(monkeypatch: pytest.MonkeyPatch) -> None:
    """These tests wait until all brokers know of a deletion; the stream need not."""
    monkeypatch.setattr("syncline.pipeline.source.presence._LATE_METADATA_MS_MAX", 200)


def _spans(batch: Batch) -> dict[TopicPartition, tuple[int, int]]:
    return {item.place: (item.start, item.end) for item in batch.ranges}


def _through_spark(offset: StreamOffset) -> StreamOffset:
    return json.loads(json.dumps(offset))


def _first(query: Stream) -> tuple[StreamOffset, Batch]:
    """Return the end and the ranges of a new query's first batch, asked for as Spark does."""
    end = _through_spark(query.latest(_through_spark(query.initial()), everything=False))
    return end, query.batch(_through_spark(query.initial()), end)


def _next(query: Stream, start: StreamOffset) -> tuple[StreamOffset, Batch]:
    end = _through_spark(query.latest(start, everything=False))
    return end, query.batch(start, end)


def test_stream_reports_a_topic_that_was_deleted_and_created_again(broker, stream) -> None:
    """Guards: 1,000 records, then 1,500 in a new topic of that name: an error by default, else all 1,500."""
    topic = broker.topic()
    broker.produce(topic, _records(1000))
    end, batch = _first(stream(subscribe=topic))
    assert _spans(batch) == {TopicPartition(topic, 0): (0, 1000)}
    broker.recreate(topic)
    broker.produce(topic, _records(1500))

    with pytest.raises(DataLossError, match=f"topic {topic} was deleted and created again.*set the option failOn"):
        _next(stream(subscribe=topic), end)
    later, batch = _next(stream(subscribe=topic, failOnDataLoss="false"), end)

    assert _spans(batch) == {TopicPartition(topic, 0): (0, 1500)}
    assert later[topic]["id"] != end[topic]["id"]


def test_stream_reports_a_topic_that_was_created_again_before_a_batch_is_run_again(broker, stream) -> None:
    """A crash between planning and reading: the batch of the old topic cannot be read from the new one."""
    topic = broker.topic()
    broker.produce(topic, _records(10))
    query = stream(subscribe=topic)
    start, end = query.initial(), _first(query)[0]
    broker.recreate(topic)
    broker.produce(topic, _records(20))

    with pytest.raises(DataLossError, match="was deleted and created again"):
        stream(subscribe=topic).batch(start, end)
    assert stream(subscribe=topic, failOnDataLoss="false").batch(start, end).ranges == ()


def test_stream_goes_on_with_the_other_topic_when_one_is_gone(broker, stream) -> None:
    """Guards: failOnDataLoss=false dies when one of two topics is gone; true is a sentence that names it."""
    gone, kept = broker.topic(), broker.topic()
    for topic in (gone, kept):
        broker.produce(topic, _records(10))
    end, _ = _first(stream(subscribe=f"{gone},{kept}"))
    broker.delete(gone)
    broker.produce(kept, _records(5))

    with pytest.raises(DataLossError, match=f"topic {gone} no longer exists; set the option failOnDataLoss"):
        _next(stream(subscribe=f"{gone},{kept}"), end)
    query = stream(subscribe=f"{gone},{kept}", failOnDataLoss="false")
    end, batch = _next(query, end)

    assert _spans(batch) == {TopicPartition(kept, 0): (10, 15)}
    assert query.latest(end, everything=False) == end, "a topic that stays away makes no batches"


def test_stream_reads_the_same_first_batch_again_although_the_log_has_grown(broker, stream) -> None:
    """Begun at "latest", a batch that is run again after a crash must not begin at a later "latest"."""
    topic = broker.topic()
    broker.produce(topic, _records(10))
    query = stream(subscribe=topic, startingOffsets="latest")
    initial = query.initial()
    broker.produce(topic, _records(5))
    end = _through_spark(query.latest(initial, everything=False))
    broker.produce(topic, _records(3))
    assert query.initial() == initial, "Spark asks again after the first latestOffset"
    assert _spans(query.batch(initial, end)) == {TopicPartition(topic, 0): (10, 15)}

    restarted = stream(subscribe=topic, startingOffsets="latest")

    assert _spans(restarted.batch(restarted.initial(), end)) == {TopicPartition(topic, 0): (10, 15)}
    assert _spans(_next(restarted, end)[1]) == {TopicPartition(topic, 0): (15, 18)}


def test_stream_keeps_its_text_while_nothing_arrives(broker, stream) -> None:
    """Spark runs a batch whenever the text differs."""
    topic = broker.topic(partitions=2)
    broker.produce(topic, _records(4))
    query = stream(subscribe=topic)
    end, _ = _first(query)

    assert query.latest(end, everything=False) == end
    assert list(query.latest(end, everything=True)[topic]) == ["0", "1", "id", "from"]
    assert query.batch(end, end).ranges == ()


def test_stream_takes_ids_into_a_checkpoint_that_has_none(broker, stream) -> None:
    """Guards: offsets of earlier checkpoints are still read."""
    topic = broker.topic()
    broker.produce(topic, _records(10))

    end, batch = _next(stream(subscribe=topic), {topic: {"0": 4}})

    assert _spans(batch) == {TopicPartition(topic, 0): (4, 10)}
    assert end == {topic: {"0": 10, "id": end[topic]["id"]}}
    assert len(end[topic]["id"]) == 22


def test_stream_begins_new_partitions_at_their_beginning_in_a_limited_batch(broker, stream) -> None:
    """A partition that was added while the query ran is read from its first record, share by share."""
    topic = broker.topic()
    broker.produce(topic, _records(10))
    query = stream(subscribe=topic, maxOffsetsPerTrigger="4")
    end, _ = _first(query)
    broker.add_partitions(topic, 2)
    broker.produce(topic, _records(20, partition=1))

    spans: list[tuple[int, int]] = []
    while (step := _next(query, end))[0] != end:
        end = step[0]
        spans += [span for place, span in _spans(step[1]).items() if place.partition == 1]

    assert spans[0][0] == 0
    assert spans[-1][1] == 20
    assert all(one[1] == two[0] for one, two in itertools.pairwise(spans))


def test_stream_waits_for_enough_records_but_not_for_ever(broker, stream, monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards: minOffsetsPerTrigger and maxTriggerDelay are missing. The stream's clock is the test's."""
    now_s = 1_000.0
    monkeypatch.setattr("syncline.pipeline.source.stream.time", SimpleNamespace(monotonic=lambda: now_s))
    topic = broker.topic()
    broker.produce(topic, _records(3))
    query = stream(subscribe=topic, minOffsetsPerTrigger="10", maxTriggerDelay="1500ms")
    end, first = _first(query)
    assert _spans(first) == {TopicPartition(topic, 0): (0, 3)}, "the first batch never waits"

    broker.produce(topic, _records(4))
    now_s += 1.4
    assert query.latest(end, everything=False) == end
    broker.produce(topic, _records(6))
    enough, batch = _next(query, end)
    assert _spans(batch) == {TopicPartition(topic, 0): (3, 13)}

    broker.produce(topic, _records(1))
    now_s += 1.4
    assert query.latest(enough, everything=False) == enough
    assert query.latest(enough, everything=True) != enough
    now_s += 1.6
    assert _spans(_next(query, enough)[1]) == {TopicPartition(topic, 0): (13, 14)}


def test_stream_that_stops_at_the_present_end_does_not_wait_for_more(broker, stream) -> None:
    """With trigger(availableNow=True) a rest below minOffsetsPerTrigger is read, too."""
    topic = broker.topic()
    broker.produce(topic, _records(7))
    query = stream(subscribe=topic, minOffsetsPerTrigger="5", maxOffsetsPerTrigger="5")
    query.stop_at_present_ends()
    end, first = _first(query)

    rest = _next(query, end)[1]

    assert _spans(first) == {TopicPartition(topic, 0): (0, 5)}
    assert _spans(rest) == {TopicPartition(topic, 0): (5, 7)}


def test_stream_reads_about_as_many_bytes_as_allowed(broker, stream) -> None:
    """MaxBytesPerTrigger counts bytes of the log: large records make smaller batches."""
    topic = broker.topic(partitions=2)
    large = [(1, None, b"x" * 10_000, T0, ())] * 100
    broker.produce(topic, _records(100) + large, **{"batch.size": 20_000})

    query = stream(subscribe=topic, maxBytesPerTrigger="200000")
    spans = _spans(_first(query)[1])

    records = {place.partition: end - start for place, (start, end) in spans.items()}
    estimated = records[0] * 110 + records[1] * 10_010
    assert 100_000 < estimated < 250_000


def test_stream_commits_to_the_group_of_the_option(broker, stream) -> None:
    """Guards: group-offset commits per finished batch, so that lag tools see the query."""
    topic = broker.topic(partitions=2)
    broker.produce(topic, _records(3) + _records(4, partition=1))
    query = stream(subscribe=topic, commitOffsetsToGroup="true", **{"kafka.group.id": f"group-of-{topic}"})
    end, _ = _first(query)

    query.commit(end)

    assert broker.committed(f"group-of-{topic}", topic, 2) == [3, 4]


def test_stream_does_not_begin_without_its_topic(stream) -> None:
    """At the beginning a missing topic is a mistake in the options, whatever failOnDataLoss says."""
    with pytest.raises(BrokerError, match=r"topic no-such does not exist on .*create it first"):
        stream(subscribe="no-such", failOnDataLoss="false").initial()


def test_stream_begins_at_the_latest_offset_by_default(broker, bootstrap: str) -> None:
    """A new query that names no start reads what comes, not what was."""
    topic = broker.topic()
    broker.produce(topic, _records(5))

    options = SourceOptions.parse({"bootstrap": bootstrap, "subscribe": topic}, streaming=True)
    with Cluster(options.client) as cluster:
        assert Stream(options, cluster).initial()[topic]["0"] == 5


@pytest.mark.parametrize(("offset", "kept"), [("2", 5), ("99", 10)])
def test_stream_begins_within_the_log(broker, stream, offset: str, kept: int) -> None:
    """Guards: starting offsets out of range fail in planning; with failOnDataLoss=false they are moved into the log."""
    topic = broker.topic()
    broker.produce(topic, _records(10))
    broker.delete_records(topic, 0, 5)
    written = json.dumps({topic: {"0": int(offset)}})

    with pytest.raises(DataLossError, match=f"startingOffsets names offset {offset} of .*from 5 below 10; set the"):
        stream(subscribe=topic, startingOffsets=written).initial()
    moved = stream(subscribe=topic, startingOffsets=written, failOnDataLoss="false").initial()

    assert moved[topic]["0"] == kept
