"""OffsetDelete (key 47), version 0 (KIP-496).

Deletes committed offsets of partitions that no member of the group reads. The
coordinator knows members' subscriptions only for the consumer protocol, so it
refuses the whole request for a live group of another protocol.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, Protocol

from syncline.core.groups.messages import OffsetDeleteReply
from syncline.model.errors import ErrorCode
from syncline.node.groups.topic_rows import TopicRows
from syncline.node.loop.list_parts import decide_parts, in_parts
from syncline.wire.api import ApiKey
from syncline.wire.rows import Rows

if TYPE_CHECKING:
    from syncline.node.serving.request import Request, Steps
    from syncline.node.views.parts import HasGroups
    from syncline.node.views.values import HasImage

    class Host(HasGroups, HasImage, Protocol):
        """What this handler uses of its broker."""


KEY = ApiKey.OFFSET_DELETE
# Offsets of one decision and of one write; more are deleted in several.
OFFSETS_AT_ONCE: Final = 200


def handle(broker: "Host", request: "Request") -> "Steps":
    """Pass the partitions that exist to the coordinator; refuse the others."""
    asked = yield from request.decode_in_steps()
    places: dict[tuple[str, int], int] = {}
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
            else:
                rows.add(index, places.setdefault((name, index), len(places)))

    def delete(part: Sequence[tuple[str, int]], answer: Callable[[OffsetDeleteReply], None]) -> None:
        broker.groups.delete_offsets(str(asked.group_id), part, answer)

    def answered(replies: list[OffsetDeleteReply]) -> None:
        error = replies[-1].error
        topics: Rows | tuple[()] = ()
        if error is ErrorCode.NONE:
            errors: dict[tuple[str, int], ErrorCode] = {}
            for reply in replies:
                errors.update(reply.errors)
            topics = rows.answered([errors[place] for place in places])
        request.answer({"error_code": error, "throttle_time": 0, "topics": topics})

    parts = in_parts(list(places), OFFSETS_AT_ONCE)
    decide_parts(asyncio.get_running_loop(), parts, delete, answered, goes_on=lambda reply: not reply.error)
