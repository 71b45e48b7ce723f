"""OffsetCommit (key 8), versions 2-9.

v2-4 a retention time set by the client, v3 throttle time, v6 leader epoch,
v7 static members (KIP-345), v8 flexible, v9 the errors of KIP-848. A commit is
acknowledged when the offsets topic has it on every in-sync replica. Partitions
that do not exist are refused one by one; the others of the request are stored.
"""

from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final, Protocol

from syncline.core.groups.messages import CommitReply, CommitRequest, OffsetToCommit
from syncline.model.errors import ErrorCode
from syncline.model.ids import NONE, Offset
from syncline.wire.api import ApiKey
from syncline.wire.codec import response_type
from syncline.wire.entities import build

if TYPE_CHECKING:
    from syncline.node.part_views import HasGroups
    from syncline.node.request import Request
    from syncline.node.views import HasClock, HasImage

    class Host(HasClock, HasGroups, HasImage, Protocol):
        """What this handler uses of its broker."""


KEY = ApiKey.OFFSET_COMMIT
GROUP_ID_NOT_FOUND_VERSION: Final = 9
_MILLISECOND: Final = timedelta(milliseconds=1)


def handle(broker: "Host", request: "Request") -> None:
    """Pass the partitions that exist to the coordinator; refuse the others."""
    asked = request.decode()
    offsets: list[OffsetToCommit] = []
    expire_timestamp_ms = _expire_timestamp_ms(asked, broker.clock.wall_ms())
    for topic in asked.topics:
        for each in topic.partitions:
            if broker.image.partition(str(topic.name), int(each.partition_index)) is None:
                continue
            offsets.append(
                OffsetToCommit(
                    topic=str(topic.name),
                    partition=int(each.partition_index),
                    offset=Offset(int(each.committed_offset)),
                    leader_epoch=int(getattr(each, "committed_leader_epoch", NONE)),
                    metadata=each.committed_metadata or "",
                    expire_timestamp_ms=expire_timestamp_ms,
                )
            )

    def answer(reply: CommitReply) -> None:
        request.reply(build(response_type(KEY, request.version), _response(asked, reply)))

    broker.groups.commit(
        str(asked.group_id),
        CommitRequest(
            member_id=asked.member_id,
            group_instance_id=getattr(asked, "group_instance_id", None),
            generation=int(asked.generation_id_or_member_epoch),
            offsets=tuple(offsets),
            knows_group_id_not_found=request.version >= GROUP_ID_NOT_FOUND_VERSION,
        ),
        answer,
    )


def _expire_timestamp_ms(asked: Any, now_ms: int) -> int:
    retention = getattr(asked, "retention_time", None)
    if retention is None or retention < timedelta(0):
        return NONE
    return now_ms + int(retention // _MILLISECOND)


def _response(asked: Any, reply: CommitReply) -> dict[str, Any]:
    topics = [
        {
            "name": topic.name,
            "partitions": [
                {
                    "partition_index": each.partition_index,
                    "error_code": reply.errors.get(
                        (topic.name, each.partition_index), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                    ),
                }
                for each in topic.partitions
            ],
        }
        for topic in asked.topics
    ]
    return {"throttle_time": 0, "topics": topics}
