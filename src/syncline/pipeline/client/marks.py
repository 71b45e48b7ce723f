"""Marks that outlive a task: offsets with a short text, committed for a group that has no members.

OffsetFetch 7 and OffsetCommit 8, which every broker from Apache Kafka 2.8 to 4.x serves. A mark that a transaction has
written counts from its end on (KIP-447).
"""

from collections.abc import Mapping
from itertools import groupby
from typing import Final, NamedTuple

from syncline.model.ids import TopicPartition
from syncline.pipeline.client.coordinators import Coordinator, check
from syncline.pipeline.client.messages import Api, decoded, encoded

OFFSET_COMMIT: Final = Api(8, 8, is_flexible=True)
OFFSET_FETCH: Final = Api(9, 7, is_flexible=True)


class Mark(NamedTuple):
    """An offset, and what it means to its writer."""

    offset: int
    text: str


def read_marks(group: Coordinator) -> dict[TopicPartition, Mark]:
    """Return all marks of a group."""
    from kio.schema.offset_fetch.v7 import request as q
    from kio.schema.offset_fetch.v7 import response as a
    from kio.schema.types import GroupId

    def read(view: memoryview) -> dict[TopicPartition, Mark]:
        told = decoded(a.OffsetFetchResponse, view)
        check(int(told.error_code), f"group {group.key}")
        found: dict[TopicPartition, Mark] = {}
        for topic in told.topics:
            for each in topic.partitions:
                check(int(each.error_code), f"group {group.key}")
                if each.committed_offset >= 0:
                    place = TopicPartition(topic.name, int(each.partition_index))
                    found[place] = Mark(int(each.committed_offset), each.metadata or "")
        return found

    question = q.OffsetFetchRequest(group_id=GroupId(group.key), topics=None, require_stable=True)
    return group.ask(f"read the marks of {group.key}", OFFSET_FETCH, encoded(question), read)


def write_marks(group: Coordinator, marks: Mapping[TopicPartition, Mark]) -> None:
    """Keep marks, outside of any transaction; they are durable when this returns."""
    from kio.schema.offset_commit.v8 import request as q
    from kio.schema.offset_commit.v8 import response as a
    from kio.schema.types import GroupId, TopicName
    from kio.static.primitive import i32, i64

    def read(view: memoryview) -> None:
        for topic in decoded(a.OffsetCommitResponse, view).topics:
            for each in topic.partitions:
                check(int(each.error_code), f"mark of {group.key} at {topic.name}:{each.partition_index}")

    question = q.OffsetCommitRequest(
        group_id=GroupId(group.key),
        member_id="",
        topics=tuple(
            q.OffsetCommitRequestTopic(
                name=TopicName(topic),
                partitions=tuple(
                    q.OffsetCommitRequestPartition(
                        partition_index=i32(place.partition),
                        committed_offset=i64(marks[place].offset),
                        committed_metadata=marks[place].text,
                    )
                    for place in places
                ),
            )
            for topic, places in groupby(sorted(marks), key=lambda place: place.topic)
        ),
    )
    group.ask(f"write the marks of {group.key}", OFFSET_COMMIT, encoded(question), read)
