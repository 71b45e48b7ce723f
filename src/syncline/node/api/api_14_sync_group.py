"""SyncGroup (key 14), versions 0-5.

v1 throttle time, v3 static members (KIP-345), v4 flexible, v5 protocol type and
name (KIP-559). The answer waits until the leader's assignment is stored.
"""

from typing import TYPE_CHECKING, Final

from syncline.core.groups.messages import SyncReply, SyncRequest
from syncline.model.errors import ErrorCode
from syncline.wire.api import ApiKey
from syncline.wire.codec import response_type
from syncline.wire.entities import build

if TYPE_CHECKING:
    from syncline.node.serving.request import Request, Steps
    from syncline.node.views.parts import HasGroups

KEY = ApiKey.SYNC_GROUP
PROTOCOL_VERSION: Final = 5


def handle(broker: "HasGroups", request: "Request") -> "Steps":
    """Pass the leader's assignment, or a member's request for its own, to the group, which answers."""
    asked = yield from request.decode_in_steps()

    def answer(reply: SyncReply) -> None:
        fields = {
            "throttle_time": 0,
            "error_code": reply.error,
            "protocol_type": reply.protocol_type,
            "protocol_name": reply.protocol_name,
            "assignment": reply.assignment,
        }
        request.reply(build(response_type(KEY, request.version), fields))

    if request.version >= PROTOCOL_VERSION and None in (asked.protocol_type, asked.protocol_name):
        # Nullable on the wire, required all the same.
        answer(SyncReply(error=ErrorCode.INCONSISTENT_GROUP_PROTOCOL))
        return
    broker.groups.sync(
        str(asked.group_id),
        SyncRequest(
            member_id=asked.member_id,
            group_instance_id=getattr(asked, "group_instance_id", None),
            generation=int(asked.generation_id),
            protocol_type=getattr(asked, "protocol_type", None),
            protocol_name=getattr(asked, "protocol_name", None),
            assignments={each.member_id: each.assignment for each in asked.assignments},
        ),
        answer,
    )
    # The group counts what it keeps of the assignments.
    request.park(0)
