"""OffsetCommit (key 8), versions 2-9.

v2-4 a retention time set by the client, v3 throttle time, v6 leader epoch,
v7 static members (KIP-345), v8 flexible, v9 the errors of KIP-848. A commit is
acknowledged when the offsets topic has it on every in-sync replica. Partitions
that do not exist are refused one by one; the others of the request are stored.
"""

import asyncio
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final, Protocol

from syncline.core.groups.messages import CommitReply, CommitRequest, OffsetToCommit
from syncline.model.ids import NONE, Offset
from syncline.node.groups.topic_rows import TopicRows
from syncline.node.loop.list_parts import decide_parts, in_parts
from syncline.wire.api import ApiKey

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
    rows = TopicRows()
    for topic in asked.topics:
        yield
        name = str(topic.name)
        rows.begin(name, exists=name in broker.image.topics)
        for each in topic.partitions:
            yield
            index = int(each.partition_index)
            if broker.image.partition(name, index) is None:
                rows.add_unknown(index)
                continue
            rows.add(index, len(offsets))
            offsets.append(
                OffsetToCommit(
                    topic=name,
                    partition=index,
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
        codes = [code for reply in replies for code in reply.errors]
        request.answer({"throttle_time": 0, "topics": rows.answered(codes)})

    decide_parts(asyncio.get_running_loop(), in_parts(offsets, OFFSETS_AT_ONCE), commit, answered)


def _expire_timestamp_ms(asked: Any, now_ms: int) -> int:
    retention = getattr(asked, "retention_time", None)
    if retention is None or retention < timedelta(0):
        return NONE
    return now_ms + int(retention // _MILLISECOND)
