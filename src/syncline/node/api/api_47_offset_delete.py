"""OffsetDelete (key 47), version 0 (KIP-496).

Deletes committed offsets of partitions that no member of the group reads. The
coordinator knows members' subscriptions only for the consumer protocol, so it
refuses the whole request for a live group of another protocol.
"""

from typing import TYPE_CHECKING, Protocol

from syncline.core.groups.messages import OffsetDeleteReply
from syncline.model.errors import ErrorCode
from syncline.wire.api import ApiKey
from syncline.wire.codec import response_type
from syncline.wire.entities import build

if TYPE_CHECKING:
    from syncline.node.part_views import HasGroups
    from syncline.node.request import Request
    from syncline.node.views import HasImage

    class Host(HasGroups, HasImage, Protocol):
        """What this handler uses of its broker."""


KEY = ApiKey.OFFSET_DELETE


def handle(broker: "Host", request: "Request") -> None:
    """Pass the partitions that exist to the coordinator; refuse the others."""
    asked = request.decode()
    places = [
        (str(topic.name), int(each.partition_index))
        for topic in asked.topics
        for each in topic.partitions
        if broker.image.partition(str(topic.name), int(each.partition_index)) is not None
    ]

    def answer(reply: OffsetDeleteReply) -> None:
        topics = []
        for topic in asked.topics if reply.error is ErrorCode.NONE else ():
            partitions = [
                {
                    "partition_index": each.partition_index,
                    "error_code": reply.errors.get(
                        (topic.name, each.partition_index), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                    ),
                }
                for each in topic.partitions
            ]
            topics.append({"name": topic.name, "partitions": partitions})
        fields = {"error_code": reply.error, "throttle_time": 0, "topics": topics}
        request.reply(build(response_type(KEY, request.version), fields))

    broker.groups.delete_offsets(str(asked.group_id), list(dict.fromkeys(places)), answer)
