"""OffsetCommit (key 8), versions 2-9.

v2-4 a retention time set by the client, v3 throttle time, v6 leader epoch,
v7 static members (KIP-345), v8 flexible, v9 the errors of KIP-848. A commit is
acknowledged when the offsets topic has it on every in-sync replica. Partitions
that do not exist are refused one by one; the others of the request are stored.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final, Protocol

from syncline.core.groups.messages import CommitReply, CommitRequest, OffsetToCommit
from syncline.model.errors import ErrorCode
from syncline.model.ids import NONE, Offset
from syncline.node.loop.list_parts import decide_parts, in_parts
from syncline.wire.api import ApiKey
from syncline.wire.rows import Rows

if TYPE_CHECKING:
    from syncline.node.serving.request import Request, Steps
    from syncline.node.views.parts import HasGroups
    from syncline.node.views.values import HasClock, HasImage

    class Host(HasClock, HasGroups, HasImage, Protocol):
        """What this handler uses of its broker."""


KEY = ApiKey.OFFSET_COMMIT
GROUP_ID_NOT_FOUND_VERSION: Final = 9
# Offsets of one decision and of one write; more are committed in several.
OFFSETS_AT_ONCE: Final = 200
_MILLISECOND: Final = timedelta(milliseconds=1)


def handle(broker: "Host", request: "Request") -> "Steps":
    """Pass the partitions that exist to the coordinator; refuse the others."""
    asked = yield from request.decode_in_steps()
    offsets: list[OffsetToCommit] = []
    expire_timestamp_ms = _expire_timestamp_ms(asked, broker.clock.wall_ms())
    for topic in asked.topics:
        yield
        for each in topic.partitions:
            yield
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

    def commit(part: Sequence[OffsetToCommit], answer: Callable[[CommitReply], None]) -> None:
        broker.groups.commit(
            str(asked.group_id),
            CommitRequest(
                member_id=asked.member_id,
                group_instance_id=getattr(asked, "group_instance_id", None),
                generation=int(asked.generation_id_or_member_epoch),
                offsets=tuple(part),
                knows_group_id_not_found=request.version >= GROUP_ID_NOT_FOUND_VERSION,
            ),
            answer,
        )

    def answered(replies: list[CommitReply]) -> None:
        errors: dict[tuple[str, int], ErrorCode] = {}
        for reply in replies:
            errors.update(reply.errors)
        request.answer(_response(asked, errors))

    decide_parts(asyncio.get_running_loop(), in_parts(offsets, OFFSETS_AT_ONCE), commit, answered)


def _expire_timestamp_ms(asked: Any, now_ms: int) -> int:
    retention = getattr(asked, "retention_time", None)
    if retention is None or retention < timedelta(0):
        return NONE
    return now_ms + int(retention // _MILLISECOND)


def _response(asked: Any, errors: Mapping[tuple[str, int], ErrorCode]) -> dict[str, Any]:
    def row(topic: Any) -> dict[str, Any]:
        def outcome(each: Any) -> dict[str, Any]:
            code = errors.get((topic.name, each.partition_index), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            return {"partition_index": each.partition_index, "error_code": code}

        return {"name": topic.name, "partitions": Rows(topic.partitions, outcome)}

    return {"throttle_time": 0, "topics": Rows(asked.topics, row, lambda topic: topic.partitions)}
