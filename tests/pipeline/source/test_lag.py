"""The lag of a position in records, bytes and time, from real brokers."""

import json
from dataclasses import replace
from types import SimpleNamespace

import pytest

from syncline.model.ids import TopicPartition
from syncline.pipeline.client.cluster import Cluster
from syncline.pipeline.source.lag import Since, Wait, lag_of
from syncline.pipeline.source.listener import QueryLag
from syncline.pipeline.source.offsets import Position
from syncline.pipeline.source.options import SourceOptions

pytestmark = pytest.mark.process

T0 = 1_600_000_000_000


@pytest.fixture
def cluster(bootstrap: str):
    """Return a client that asks for little at a time."""
    client = SourceOptions.parse({"bootstrap": bootstrap, "subscribe": "any"}, streaming=True).client
    with Cluster(replace(client, fetch_bytes_max=1_000)) as found:
        yield found


def test_next_record_waits_since_its_own_time_also_in_the_middle_of_a_batch(broker, cluster) -> None:
    """The time of the record at the position, not that of its batch; nothing waits where all is read."""
    topic = broker.topic(partitions=2)
    broker.produce(topic, [(0, None, b"v" * 100, T0 + 1_000 * n, ()) for n in range(5)])
    places = [TopicPartition(topic, 0), TopicPartition(topic, 1)]

    first, second = lag_of(cluster, Position({places[0]: 3, places[1]: 0}), T0 + 10_000)

    assert first.wait == Wait(7_000, Since.EVENT)
    assert (first.lag_records, second.lag_records) == (2, 0)
    assert second.wait is None


def test_wait_is_never_negative(broker, cluster) -> None:
    """A producer's clock may be ahead of ours."""
    topic = broker.topic()
    broker.produce(topic, [(0, None, b"v", T0, ())])

    (lag,) = lag_of(cluster, Position({TopicPartition(topic, 0): 0}), T0 - 5_000)

    assert lag.wait == Wait(0, Since.EVENT)


def test_next_record_is_the_first_that_is_left(broker, cluster) -> None:
    """Guards: one expired position, and nothing was told of any partition."""
    topic = broker.topic(partitions=2)
    broker.produce(topic, [(p, None, b"v", T0 + 1_000 * n, ()) for p in (0, 1) for n in range(5)])
    broker.delete_records(topic, 0, 3)
    places = [TopicPartition(topic, 0), TopicPartition(topic, 1)]

    first, second = lag_of(cluster, Position(dict.fromkeys(places, 1)), T0 + 10_000)

    assert first.wait == Wait(7_000, Since.EVENT)
    assert second.wait == Wait(9_000, Since.EVENT)


def test_nothing_waits_at_a_position_that_lost_all_that_followed(broker, cluster) -> None:
    """All of the log expired, and none of its records waits."""
    topic = broker.topic()
    broker.produce(topic, [(0, None, b"v", T0, ())] * 5)
    broker.delete_records(topic, 0, 5)

    (lag,) = lag_of(cluster, Position({TopicPartition(topic, 0): 1}), T0)

    assert (lag.lag_records, lag.wait) == (4, None)


def test_time_that_the_broker_set_is_said_to_be_its_own(broker, cluster) -> None:
    """Of topics with LogAppendTime."""
    topic = broker.topic(**{"message.timestamp.type": "LogAppendTime"})
    broker.produce(topic, [(0, None, b"v", T0, ())])

    (lag,) = lag_of(cluster, Position({TopicPartition(topic, 0): 0}), T0 + 10**12)

    assert lag.wait is not None
    assert lag.wait.since is Since.APPEND
    assert lag.wait.ms < 10**12


def test_listener_follows_its_own_topics_among_several_sources(broker, bootstrap) -> None:
    """Guards: the position of another source of the query was committed to this one's group."""
    mine, other = broker.topic(), broker.topic()
    broker.produce(mine, [(0, None, b"v", T0, ())] * 3)
    listener = QueryLag({"bootstrap": bootstrap, "subscribe": mine}, query="q")
    ends = [SimpleNamespace(endOffset=json.dumps(each)) for each in ({mine: {"0": 1}}, {other: {"0": 0}}, None)]
    listener.onQueryProgress(SimpleNamespace(progress=SimpleNamespace(name="q", id="1", sources=ends)))
    listener.onQueryTerminated(SimpleNamespace())

    assert [(each.place.topic, each.lag_records) for each in listener.lag] == [(mine, 2)]


@pytest.mark.parametrize(
    ("options", "chosen"),
    [
        ({"subscribe": "a,b"}, {"a-0", "a-1", "b-0"}),
        ({"subscribePattern": "a|c"}, {"a-0", "a-1", "c-0"}),
        ({"assign": '{"a": [1]}'}, {"a-1"}),
    ],
)
def test_topics_choose_by_name_pattern_or_partition(options: dict[str, str], chosen: set[str]) -> None:
    """Whatever exists."""
    topics = SourceOptions.parse({"bootstrap": "a:1", **options}, streaming=True).topics
    places = [TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0), TopicPartition("c", 0)]

    assert {f"{each.topic}-{each.partition}" for each in places if topics.chooses(each)} == chosen
