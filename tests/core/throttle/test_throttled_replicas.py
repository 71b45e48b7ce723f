"""Lists of throttled replicas: who throttles what."""

import pytest

from syncline.core.throttle.throttled_replicas import ListedPartitions, partitions_of
from syncline.model.broker_config import BrokerConfig
from syncline.model.config_types import ConfigError
from syncline.model.ids import BrokerId, TopicPartition
from syncline.model.topic_config import LEADER_THROTTLED, TopicConfig, validate_topic_config


def listed(broker_id: int, **topics: str) -> ListedPartitions:
    """Return what a broker throttles by these lists."""
    partitions = ListedPartitions(BrokerId(broker_id))
    for topic, items in topics.items():
        partitions.set_topic(topic, items.split(","))
    return partitions


@pytest.mark.parametrize(("broker_id", "throttled"), [(101, {0, 3}), (102, {0, 1}), (103, set())])
def test_t09_each_broker_keeps_the_items_that_name_itself(broker_id: int, throttled: set[int]) -> None:
    """In the leader list the broker is the one that sends."""
    partitions = listed(broker_id, t="0:101,0:102,1:102,3:101")

    assert throttled == {number for number in range(5) if TopicPartition("t", number) in partitions}
    assert bool(partitions) is bool(throttled)


def test_t10_the_wildcard_is_every_partition_of_its_topic_on_every_broker() -> None:
    """And of no other topic."""
    for broker_id in (1, 99):
        partitions = listed(broker_id, a="*")

        assert TopicPartition("a", 12_345) in partitions
        assert TopicPartition("b", 0) not in partitions


@pytest.mark.parametrize("text", ["0:101, 0:102", "", "*", " * ", " 0:102 ", ",0:101", "0:1,,1:1"])
def test_t11_lists_are_accepted(text: str) -> None:
    """With blanks, without items, and with empty ones."""
    validate_topic_config(LEADER_THROTTLED, text)


@pytest.mark.parametrize(
    "text",
    [
        *["0-101", "0:101,*", "*,0:101", "a:1", "0:", ":0", "**", "0:101:2", "-1:0", "+1:0", "0 : 1"],
        pytest.param(f"{'9' * 21}:1", id="21 digits of a partition"),
        pytest.param(f"1:{'0' * 20}1", id="21 digits of a broker"),
        pytest.param(f"0:1,{'9' * 5_000}:1", id="more digits than Python reads"),
    ],
)
def test_t11_lists_are_refused_by_name(text: str) -> None:
    """The message says how a list looks."""
    with pytest.raises(ConfigError, match="must be the literal '\\*' or a list of replicas in the following format"):
        validate_topic_config(LEADER_THROTTLED, text)


def test_a_stored_list_with_a_number_of_thousands_of_digits_stops_no_broker() -> None:
    """Brokers read lists that were stored before numbers had a bound: they skip what no replica can be called."""
    texts = {LEADER_THROTTLED: f"{'9' * 5_000}:1,3:1,4:{'0' * 5_000}1,{'9' * 5_000}:2"}
    stored = TopicConfig.resolve(texts, BrokerConfig()).leader_replication_throttled_replicas

    assert [{3}, set()] == [partitions_of(stored, BrokerId(broker)) for broker in (1, 2)]


def test_t12_empty_items_and_blanks_of_a_stored_list_mean_nothing() -> None:
    """Kafka's parser breaks on them, and throttles nothing."""
    for text in (",0:101", "0:101,", " 0:101 ", "1:102, 0:101"):
        stored = validate_topic_config(LEADER_THROTTLED, text)
        assert isinstance(stored, tuple)

        assert partitions_of(stored, BrokerId(101)) == {0}


def test_t13_a_new_list_replaces_the_one_before() -> None:
    """Nothing is merged; an empty list ends it."""
    partitions = listed(101, t="1:101")
    partitions.set_topic("t", ["2:101"])
    replaced = [number for number in range(4) if TopicPartition("t", number) in partitions]
    partitions.set_topic("t", [])

    assert [2] == replaced
    assert not partitions


def test_brokers_whose_number_ends_alike_are_told_apart() -> None:
    """However their numbers are written."""
    stored = validate_topic_config(LEADER_THROTTLED, "0:1,1:11,2:101, 3:01 ,4:001,5:10")
    assert isinstance(stored, tuple)

    found = [partitions_of(stored, BrokerId(broker)) for broker in (1, 11, 101, 10, 0)]

    assert found == [{0, 3, 4}, {1}, {2}, {5}, set()]
