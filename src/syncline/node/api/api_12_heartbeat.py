"""Heartbeat (key 12), versions 0-4.

v1 throttle time, v3 static members (KIP-345), v4 flexible.
"""

from typing import TYPE_CHECKING

from syncline.core.groups.messages import HeartbeatReply
from syncline.wire.api import ApiKey
from syncline.wire.codec import response_type
from syncline.wire.entities import build

if TYPE_CHECKING:
    from syncline.node.serving.request import Request
    from syncline.node.views.parts import HasGroups

KEY = ApiKey.HEARTBEAT


def handle(broker: "HasGroups", request: "Request") -> None:
    """Extend the member's session; the answer shows whether the group rebalances."""
    asked = request.decode()

    def answer(reply: HeartbeatReply) -> None:
        fields = {"throttle_time": 0, "error_code": reply.error}
        request.reply(build(response_type(KEY, request.version), fields))

    broker.groups.heartbeat(
        str(asked.group_id),
        member_id=asked.member_id,
        group_instance_id=getattr(asked, "group_instance_id", None),
        generation=int(asked.generation_id),
        answer=answer,
    )
