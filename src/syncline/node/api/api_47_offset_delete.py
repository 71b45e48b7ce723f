"""OffsetDelete (key 47), version 0 (KIP-496).

Deletes committed offsets of partitions that no member of the group reads. The
coordinator knows members' subscriptions only for the consumer protocol, so it
refuses the whole request for a live group of another protocol.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol

from syncline.core.groups.messages import OffsetDeleteReply
from syncline.model.errors import ErrorCode
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
    places: dict[tuple[str, int], None] = {}
    for topic in asked.topics:
        yield
        for each in topic.partitions:
            yield
            if broker.image.partition(str(topic.name), int(each.partition_index)) is not None:
                places[str(topic.name), int(each.partition_index)] = None

    def delete(part: Sequence[tuple[str, int]], answer: Callable[[OffsetDeleteReply], None]) -> None:
        broker.groups.delete_offsets(str(asked.group_id), part, answer)

    def answered(replies: list[OffsetDeleteReply]) -> None:
        error = replies[-1].error
        errors: dict[tuple[str, int], ErrorCode] = {}
        for reply in replies:
            errors.update(reply.errors)

        def row(topic: Any) -> dict[str, Any]:
            def outcome(each: Any) -> dict[str, Any]:
                code = errors.get((topic.name, each.partition_index), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
                return {"partition_index": each.partition_index, "error_code": code}

            return {"name": topic.name, "partitions": Rows(topic.partitions, outcome)}

        topics = Rows(asked.topics if error is ErrorCode.NONE else (), row, lambda topic: topic.partitions)
        request.answer({"error_code": error, "throttle_time": 0, "topics": topics})

    parts = in_parts(list(places), OFFSETS_AT_ONCE)
    decide_parts(asyncio.get_running_loop(), parts, delete, answered, goes_on=lambda reply: not reply.error)
