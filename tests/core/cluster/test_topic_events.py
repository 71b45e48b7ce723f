"""What the journal is told when topics are created, get partitions and are deleted."""

from typing import Any

from syncline.core.cluster.decision import Decision
from syncline.core.cluster.decision_events import events_of, replaced_by
from syncline.core.cluster.topics import (
    MorePartitions,
    NewTopic,
    TopicReference,
    create_partitions,
    create_topics,
    delete_topics,
)
from syncline.model.broker_config import BrokerConfig
from syncline.model.events import Election, Event, Reassignment, TopicChange
from syncline.model.ids import BrokerId, uuid_text
from syncline.model.metadata import MetadataImage
from tests.core.controller_world import TOPIC_ID, image, partition

CREATED_ID = uuid_text(TOPIC_ID)


def told(before: MetadataImage, decision: Decision[Any]) -> list[Event]:
    """Return the journal's events about a decision."""
    return list(
        events_of(
            replaced_by(decision.changes, before),
            decision.changes,
            why=decision.why,
            proposed_by_leader=False,
            writer=BrokerId(9),
            ts_ms=1,
        )
    )


def test_a_new_topic_comes_before_its_partitions() -> None:
    """A reader knows the topic when it reads of its first leaders."""
    before = image()
    wanted = [NewTopic("n", 2, 1)]
    events = told(
        before, create_topics(before, wanted, BrokerConfig(), below=lambda _: 0, new_topic_id=lambda: TOPIC_ID)
    )

    assert events[0] == TopicChange(
        ts_ms=1, broker=BrokerId(9), topic="n", topic_id=CREATED_ID, change="created", partitions=2
    )
    assert [(type(each), each.topic) for each in events[1:] if isinstance(each, Election)] == [(Election, "n")] * 2


def test_more_partitions_are_told_with_their_new_number() -> None:
    """Only the new partitions have first leaders."""
    before = image()
    events = told(before, create_partitions(before, [MorePartitions("t", 3)], below=lambda _: 0))

    assert isinstance(events[0], TopicChange)
    assert (events[0].topic_id, events[0].change, events[0].partitions) == (CREATED_ID, "grown", 3)
    assert [each.partition for each in events[1:] if isinstance(each, Election)] == [1, 2]


def test_a_deletion_is_told_after_what_it_cancels() -> None:
    """Its reassignments end first; of its partitions there is no other event."""
    before = image(partition(replicas=(4, 1, 2, 3), adding=(4,), original=(1, 2, 3)))
    cancelled, deleted = told(before, delete_topics(before, [TopicReference("t")]))

    assert isinstance(cancelled, Reassignment)
    assert cancelled.phase == "cancelled"
    assert isinstance(deleted, TopicChange)
    assert (deleted.topic_id, deleted.change, deleted.partitions) == (CREATED_ID, "deleted", 1)
