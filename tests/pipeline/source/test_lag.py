"""The lag of a position in records, bytes and time, from real brokers."""

from dataclasses import replace

import pytest

from syncline.model.ids import TopicPartition
from syncline.pipeline.client.cluster import Cluster
from syncline.pipeline.source.lag import Since, Wait, lag_of
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
