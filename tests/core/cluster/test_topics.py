"""Creating and deleting topics, and adding partitions: Kafka's checks in Kafka's words."""

from uuid import UUID

import pytest

from syncline.core.cluster.topics import (
    MorePartitions,
    NewTopic,
    TopicReference,
    TopicResult,
    create_partitions,
    create_topics,
    delete_topics,
)
from syncline.model.broker_config import BrokerConfig
from syncline.model.errors import ErrorCode
from syncline.model.metadata import MetadataImage
from tests.core.controller_world import TOPIC_ID, image, partition

NEW_ID = UUID(int=0xF00)


def create(start: MetadataImage, *topics: NewTopic) -> tuple[tuple[TopicResult, ...], MetadataImage]:
    """Create topics; return the results and the image afterwards."""
    decision = create_topics(start, topics, BrokerConfig(), below=lambda _: 0, new_topic_id=lambda: NEW_ID)
    return decision.answer, start.apply(decision.changes, start.version + 1)


def test_f01_active_replicas_are_in_sync_and_the_first_of_them_leads() -> None:
    """AR [3,1,2] with 3 fenced: ISR [1,2], leader 1, both epochs 0."""
    _, after = create(image(active=(1, 2), fenced=(3,)), NewTopic("n", assignments=((0, (3, 1, 2)),)))

    record = after.topics["n"].partitions[0]
    assert (record.replicas, record.isr, record.leader) == ((3, 1, 2), (1, 2), 1)
    assert (record.leader_epoch, record.partition_epoch) == (0, 0)


def test_created_topic_spreads_leaders_evenly_and_uses_defaults() -> None:
    """Numbers left at -1 are the broker's defaults; leaders rotate over the brokers."""
    (default, spread), after = create(image(), NewTopic("d"), NewTopic("n", 6, 3))

    assert (default.partitions, default.replication_factor) == (1, 1)
    assert (spread.partitions, spread.replication_factor, spread.topic_id) == (6, 3, NEW_ID)
    assert [record.leader for record in after.topics["n"].partitions] == [1, 2, 3, 1, 2, 3]
    assert all(len(set(record.replicas)) == 3 for record in after.topics["n"].partitions)


def test_fenced_brokers_are_used_when_there_are_too_few_others() -> None:
    """RF 3 with two alive is accepted; the fenced one is a replica and not in sync."""
    _, after = create(image(active=(1, 2), fenced=(3,)), NewTopic("n", 1, 3))

    record = after.topics["n"].partitions[0]
    assert (set(record.replicas), set(record.isr)) == ({1, 2, 3}, {1, 2})


LONG = "x" * 250


@pytest.mark.parametrize(
    ("topic", "code", "message"),
    [
        (NewTopic("t", 1, 1), 36, "Topic 't' already exists."),
        (NewTopic("n", 0, 1), 37, "Number of partitions was set to an invalid non-positive value."),
        (NewTopic("n", -2, 1), 37, "Number of partitions was set to an invalid non-positive value."),
        (NewTopic("n", 0, 0), 38, "Replication factor must be larger than 0, or -1 to use the default value."),
        (
            NewTopic("n", 1, 4),
            38,
            (
                "Unable to replicate the partition 4 time(s): The target replication factor of 4 cannot be reached"
                " because only 3 broker(s) are registered or some brokers have all their log directories cordoned."
            ),
        ),
        (NewTopic("", 1, 1), 17, "Topic name is invalid: the empty string is not allowed"),
        (NewTopic(".", 1, 1), 17, "Topic name is invalid: '.' is not allowed"),
        (
            NewTopic("a b", 1, 1),
            17,
            (
                "Topic name is invalid: 'a b' contains one or more characters other than ASCII alphanumerics, '.', '_'"
                " and '-'"
            ),
        ),
        (
            NewTopic(LONG, 1, 1),
            17,
            f"Topic name is invalid: the length of '{LONG}' is longer than the max allowed length 249",
        ),
        (NewTopic("__cluster_metadata", 1, 1), 42, "Creation of internal topic __cluster_metadata is prohibited."),
        (
            NewTopic("n", assignments=((0, (1, 1)),)),
            39,
            "The manual partition assignment includes the broker 1 more than once.",
        ),
        (
            NewTopic("n", assignments=((0, (1, 99)),)),
            39,
            "The manual partition assignment includes broker 99, but no such broker is registered.",
        ),
        (
            NewTopic("n", assignments=((1, (1,)),)),
            39,
            "partitions should be a consecutive 0-based integer sequence",
        ),
        (
            NewTopic("n", assignments=((0, (1,)), (0, (2,)))),
            39,
            "Found multiple manual partition assignments for partition 0",
        ),
        (
            NewTopic("n", assignments=((0, (1,)), (1, (1, 2)))),
            39,
            (
                "The manual partition assignment includes a partition with 2 replica(s), but this is not consistent"
                " with previous partitions, which have 1 replica(s)."
            ),
        ),
        (NewTopic("n", assignments=((0, ()),)), 39, "The manual partition assignment includes an empty replica list."),
        (
            NewTopic("n", 1, -1, assignments=((0, (1,)),)),
            42,
            "A manual partition assignment was specified, but numPartitions was not set to -1.",
        ),
        (
            NewTopic("n", -1, 1, assignments=((0, (1,)),)),
            42,
            "A manual partition assignment was specified, but replication factor was not set to -1.",
        ),
        (NewTopic("n", 1, 1, configs=(("x", "1"),)), 40, "Unknown topic config name: x"),
        (
            NewTopic("n", 1, 1, configs=(("retention.ms", "abc"),)),
            40,
            "Invalid value abc for configuration retention.ms: Not a number of type LONG",
        ),
        (
            NewTopic("n", 1, 1, configs=(("retention.ms", None),)),
            40,
            "Null value not supported for topic configs: retention.ms",
        ),
    ],
)
def test_create_refuses_in_kafkas_words(topic: NewTopic, code: int, message: str) -> None:
    """Each mistake has its code and text, and nothing is created."""
    start = image()

    (result,), after = create(start, topic)

    assert (int(result.error), result.message) == (code, message)
    assert after.topics == start.topics


def test_collision_with_an_existing_topic_is_refused_but_not_within_a_request() -> None:
    """'a_b' and 'a.b' in one request both succeed; later the other one collides."""
    (first, second), after = create(image(), NewTopic("a.b", 1, 1), NewTopic("a_b", 1, 1))
    (third,), _ = create(image(), NewTopic("a_b", 1, 1))
    start = MetadataImage(brokers=after.brokers, topics={"a.b": after.topics["a.b"]})
    (fourth,), _ = create(start, NewTopic("a_b", 1, 1))

    assert (first.error, second.error, third.error) == (ErrorCode.NONE,) * 3
    assert (fourth.error, fourth.message) == (17, "Topic 'a_b' collides with existing topic: a.b")


def test_topic_named_twice_is_answered_once() -> None:
    """One entry, refused; the others of the request are created."""
    results, after = create(image(), NewTopic("n", 1, 1), NewTopic("n", 2, 1), NewTopic("m", 1, 1))

    assert [(result.name, int(result.error)) for result in results] == [("n", 42), ("m", 0)]
    assert "n" not in after.topics


def test_last_of_two_equal_configs_wins_and_values_are_trimmed() -> None:
    """A configuration given twice is no error."""
    _, after = create(image(), NewTopic("n", 1, 1, configs=(("retention.ms", "1"), ("retention.ms", " 2 "))))

    assert after.topic_configs("n") == {"retention.ms": "2"}


def test_conflicting_compaction_lags_are_refused() -> None:
    """min.compaction.lag.ms above max.compaction.lag.ms."""
    configs = (("min.compaction.lag.ms", "10"), ("max.compaction.lag.ms", "5"))

    (result,), _ = create(image(), NewTopic("n", 1, 1, configs=configs))

    assert result.message == "conflict topic config setting min.compaction.lag.ms (10) > max.compaction.lag.ms (5)"


def test_delete_by_name_and_by_id() -> None:
    """The topic goes with its configurations."""
    start = image(configs={"retention.ms": "1"})

    for reference in (TopicReference("t"), TopicReference(topic_id=TOPIC_ID)):
        decision = delete_topics(start, [reference])
        after = start.apply(decision.changes, 201)

        assert decision.answer == (TopicResult("t", topic_id=TOPIC_ID),)
        assert (after.topics, after.topic_configs("t")) == ({}, {})


@pytest.mark.parametrize(
    ("references", "expected"),
    [
        ([TopicReference("x")], [(3, "This server does not host this topic-partition.")]),
        ([TopicReference(topic_id=NEW_ID)], [(100, "This server does not host this topic ID.")]),
        ([TopicReference("t"), TopicReference("t")], [(42, "Duplicate topic name.")]),
        ([TopicReference(topic_id=TOPIC_ID)] * 2, [(42, "Duplicate topic id.")]),
        (
            [TopicReference("t"), TopicReference(topic_id=TOPIC_ID)],
            [(42, "The provided topic name maps to an ID that was already supplied.")],
        ),
        ([TopicReference("t", TOPIC_ID)], [(42, "You may not specify both topic name and topic id.")]),
        ([TopicReference()], [(42, "Neither topic name nor id were specified.")]),
    ],
)
def test_delete_refuses(references: list[TopicReference], expected: list[tuple[int, str]]) -> None:
    """Each mistake has its code; nothing is deleted."""
    decision = delete_topics(image(), references)

    assert [(int(result.error), result.message) for result in decision.answer] == expected
    assert decision.changes == ()


def test_added_partitions_have_the_topics_replication_factor() -> None:
    """New partitions follow the old ones, all active replicas in sync."""
    start = image()
    decision = create_partitions(start, [MorePartitions("t", 3)], below=lambda _: 0)
    after = start.apply(decision.changes, 201)

    added = after.topics["t"].partitions[1:]
    assert [(record.partition, len(record.replicas), len(record.isr)) for record in added] == [(1, 3, 3), (2, 3, 3)]


@pytest.mark.parametrize(
    ("wanted", "code", "message"),
    [
        (MorePartitions("t", 2), 37, "Topic already has 2 partition(s)."),
        (MorePartitions("t", 1), 37, "The topic t currently has 2 partition(s); 1 would not be an increase."),
        (MorePartitions("x", 3), 3, None),
        (
            MorePartitions("t", 4, ((1, 2, 3),)),
            39,
            "Attempted to add 2 additional partition(s), but only 1 assignment(s) were specified.",
        ),
        (
            MorePartitions("t", 3, ((1, 2),)),
            39,
            (
                "The manual partition assignment includes a partition with 2 replica(s), but this is not consistent"
                " with previous partitions, which have 3 replica(s)."
            ),
        ),
    ],
)
def test_create_partitions_refuses(wanted: MorePartitions, code: int, message: str | None) -> None:
    """Each mistake has its code and text."""
    decision = create_partitions(image(partition(), partition(partition=1)), [wanted], below=lambda _: 0)

    (result,) = decision.answer
    assert (int(result.error), result.message) == (code, message)
    assert decision.changes == ()
