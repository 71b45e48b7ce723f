"""A snapshot: options with which every query reads the same records, from real brokers."""

import json

import pytest

from syncline.pipeline.client.cluster import Cluster
from syncline.pipeline.errors import DataLossError, OptionError
from syncline.pipeline.source.options import SourceOptions
from syncline.pipeline.source.planning import whole_batch
from syncline.pipeline.source.snapshot import snapshot


def _records(count: int, partition: int = 0):
    return [(partition, None, b"v", 1_600_000_000_000 + n, ()) for n in range(count)]


def _planned(given: dict[str, str]) -> list[tuple[str, int, int, int]]:
    options = SourceOptions.parse(given, streaming=False)
    with Cluster(options.client) as cluster:
        return [(*item.place, item.start, item.end) for item in whole_batch(cluster, options).ranges]


@pytest.mark.process
def test_snapshot_reads_the_same_records_whatever_arrives_later(broker, bootstrap: str) -> None:
    """New records, and new partitions, are not in it; as text it is the same."""
    topic = broker.topic(partitions=2)
    broker.produce(topic, _records(5) + _records(3, partition=1))
    fixed = json.loads(json.dumps(snapshot({"bootstrap": bootstrap, "subscribe": topic, "minPartitions": "1"})))
    broker.produce(topic, _records(4))
    broker.add_partitions(topic, 3)

    assert _planned(fixed) == [(topic, 0, 0, 5), (topic, 1, 0, 3)]
    assert fixed["minPartitions"] == "1"
    assert not {"subscribe", "startingTimestamp"} & fixed.keys()


@pytest.mark.process
def test_snapshot_keeps_its_places_by_time(broker, bootstrap: str) -> None:
    """Times become offsets; an empty range stays one."""
    topic = broker.topic(partitions=2)
    broker.produce(topic, _records(5))
    given = {"bootstrap": bootstrap, "subscribe": topic, "startingTimestamp": "1600000000002"}
    fixed = snapshot({**given, "startingOffsetsByTimestampStrategy": "latest"})

    assert json.loads(fixed["startingOffsets"]) == {topic: {"0": 2, "1": 0}}
    assert _planned(fixed) == [(topic, 0, 2, 5)]


@pytest.mark.process
def test_snapshot_of_a_topic_that_was_created_again_fails_or_says_so(broker, bootstrap: str) -> None:
    """Its offsets are those of another topic; the sentence has both ids."""
    topic = broker.topic()
    broker.produce(topic, _records(5))
    fixed = snapshot({"bootstrap": bootstrap, "subscribe": topic})
    broker.recreate(topic)
    broker.produce(topic, _records(9))

    with pytest.raises(DataLossError, match=rf"topic {topic} was deleted and created again: its id is"):
        _planned(fixed)
    options = SourceOptions.parse({**fixed, "includeGaps": "true"}, streaming=False)
    with Cluster(options.client) as cluster:
        batch = whole_batch(cluster, options)
    assert batch.ranges == ()
    assert [(gap.start, gap.end, gap.reason.value) for gap in batch.gaps] == [(0, 5, "topic gone")]


@pytest.mark.process
def test_snapshot_whose_records_expired_fails(broker, bootstrap: str) -> None:
    """It promised records that are gone."""
    topic = broker.topic()
    broker.produce(topic, _records(5))
    fixed = snapshot({"bootstrap": bootstrap, "subscribe": topic})
    broker.delete_records(topic, 0, 2)

    with pytest.raises(DataLossError, match=r"startingOffsets names offset 0 of .*from 2 below 5"):
        _planned(fixed)


@pytest.mark.process
def test_snapshot_of_nothing_is_refused(bootstrap: str) -> None:
    """A pattern may match no topic."""
    with pytest.raises(OptionError, match="there is nothing to read"):
        snapshot({"bootstrap": bootstrap, "subscribePattern": "no-such-.*"})


@pytest.mark.parametrize(
    ("written", "sentence"),
    [("flights", "option topicIds cannot be 'flights'"), ('{"flights": 1}', "write topics with their ids")],
)
def test_topic_ids_are_checked(written: str, sentence: str) -> None:
    """Text that is not what a snapshot has."""
    with pytest.raises(OptionError, match=sentence):
        SourceOptions.parse({"bootstrap": "h:1", "subscribe": "flights", "topicIds": written}, streaming=False)


def test_topic_ids_are_not_for_streams() -> None:
    """A stream has the ids in its checkpoint."""
    with pytest.raises(OptionError, match="topicIds"):
        SourceOptions.parse({"bootstrap": "h:1", "subscribe": "t", "topicIds": '{"t": "x"}'}, streaming=True)


@pytest.mark.process
@pytest.mark.parametrize("becomes", ["deleted", "smaller"])
def test_snapshot_whose_topic_or_partition_is_gone_fails_or_says_so(broker, bootstrap: str, becomes: str) -> None:
    """Guards: advice to create the topic, or to correct an option that nobody wrote; and no rows of gaps."""
    topic, kept = broker.topic(partitions=2), broker.topic()
    broker.produce(topic, _records(5) + _records(3, partition=1))
    broker.produce(kept, _records(2))
    fixed = snapshot({"bootstrap": bootstrap, "subscribe": f"{topic},{kept}"})
    broker.delete(topic) if becomes == "deleted" else broker.recreate(topic)

    with pytest.raises(DataLossError, match=rf"topic {topic} was deleted.*set the option failOnDataLoss"):
        _planned(fixed)
    options = SourceOptions.parse({**fixed, "includeGaps": "true"}, streaming=False)
    with Cluster(options.client) as cluster:
        batch = whole_batch(cluster, options)
    assert [(*item.place, item.start, item.end) for item in batch.ranges] == [(kept, 0, 0, 2)]
    assert [(*gap.place, gap.start, gap.end, gap.reason.value) for gap in batch.gaps] == [
        (topic, 0, 0, 5, "topic gone"),
        (topic, 1, 0, 3, "topic gone"),
    ]


@pytest.mark.process
def test_gap_of_another_topic_has_no_end_where_the_options_say_none(broker, bootstrap: str) -> None:
    """Guards: offsets of the topic that has the name now were told as those of the one that is gone."""
    topic = broker.topic()
    broker.produce(topic, _records(5))
    given = {"bootstrap": bootstrap, "subscribe": topic, "topicIds": f'{{"{topic}": "AAAAAAAAAAAAAAAAAAAAAQ"}}'}
    options = SourceOptions.parse({**given, "includeGaps": "true"}, streaming=False)
    with Cluster(options.client) as cluster:
        batch = whole_batch(cluster, options)

    assert batch.ranges == ()
    assert [(gap.start, gap.end, gap.reason.value) for gap in batch.gaps] == [(0, None, "topic gone")]
