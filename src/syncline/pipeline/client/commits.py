"""Offsets of a consumer group that has no members: the requests FindCoordinator 3 and OffsetCommit 8.

Every broker from Apache Kafka 2.8 to 4.x serves them. A group with members refuses commits from outside.

Units: the committed offset is the next one to read.
"""

from collections.abc import Mapping
from itertools import groupby
from typing import Final

from syncline.model.errors import ErrorCode
from syncline.model.ids import TopicPartition
from syncline.pipeline.client.cluster import Cluster
from syncline.pipeline.client.messages import Api, decoded, encoded
from syncline.pipeline.client.refusals import RetriableError, is_fine, name_of
from syncline.pipeline.client.settings import Address

FIND_COORDINATOR: Final = Api(10, 3, is_flexible=True)
OFFSET_COMMIT: Final = Api(8, 8, is_flexible=True)


_MOVING: Final = (
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
)


def commit(cluster: Cluster, group: str, offsets: Mapping[TopicPartition, int]) -> None:
    """Commit the offsets of a consumer group that has no members; raise `BrokerError` if that is refused."""

    def attempt() -> None:
        code, coordinator = coordinator_answer(cluster.ask_any(FIND_COORDINATOR, coordinator_request(group)))
        _check(code, f"group {group}")
        for place, refusal in answer(cluster.ask(coordinator, OFFSET_COMMIT, request(group, offsets))).items():
            _check(refusal, f"offset of {place} for group {group}")

    cluster.persist(f"commit the offsets of group {group}", attempt)


def _check(code: int, subject: str) -> None:
    if code in _MOVING or not is_fine(code, subject):
        raise RetriableError(f"{subject}: {name_of(code)}")


def coordinator_request(group: str) -> bytes:
    """Return the question after the broker that keeps a group's offsets."""
    from kio.schema.find_coordinator.v3 import request as v3

    return encoded(v3.FindCoordinatorRequest(key=group))


def coordinator_answer(view: memoryview) -> tuple[int, Address]:
    """Return an error code and the broker; raise `RetriableError` if the answer cannot be read."""
    from kio.schema.find_coordinator.v3 import response as v3

    message = decoded(v3.FindCoordinatorResponse, view)
    return int(message.error_code), (message.host, int(message.port))


def request(group: str, offsets: Mapping[TopicPartition, int]) -> bytes:
    """Return the request to commit offsets."""
    from kio.schema.offset_commit.v8 import request as v8
    from kio.schema.types import GroupId, TopicName
    from kio.static.primitive import i32, i64

    return encoded(
        v8.OffsetCommitRequest(
            group_id=GroupId(group),
            generation_id_or_member_epoch=i32(-1),
            member_id="",
            group_instance_id=None,
            topics=tuple(
                v8.OffsetCommitRequestTopic(
                    name=TopicName(topic),
                    partitions=tuple(
                        v8.OffsetCommitRequestPartition(
                            partition_index=i32(place.partition),
                            committed_offset=i64(offsets[place]),
                            committed_metadata=None,
                        )
                        for place in places
                    ),
                )
                for topic, places in groupby(sorted(offsets), key=lambda place: place.topic)
            ),
        )
    )


def answer(view: memoryview) -> dict[TopicPartition, int]:
    """Return the error code of each partition; raise `RetriableError` if the answer cannot be read."""
    from kio.schema.offset_commit.v8 import response as v8

    return {
        TopicPartition(topic.name, int(partition.partition_index)): int(partition.error_code)
        for topic in decoded(v8.OffsetCommitResponse, view).topics
        for partition in topic.partitions
    }
