"""LeaveGroup (key 13), versions 0-5.

v1 throttle time, v3 several members, by id or by instance (KIP-345), v4
flexible, v5 reason (KIP-800). Before v3 there is one member, whose error is
that of the whole answer.
"""

from typing import TYPE_CHECKING, Final

from syncline.core.groups.messages import LeaveReply, MemberIdentity
from syncline.wire.api import ApiKey
from syncline.wire.codec import response_type
from syncline.wire.entities import build

if TYPE_CHECKING:
    from syncline.node.part_views import HasGroups
    from syncline.node.request import Request

KEY = ApiKey.LEAVE_GROUP
MEMBERS_VERSION: Final = 3


def handle(broker: "HasGroups", request: "Request") -> None:
    """Remove the members from their group."""
    asked = request.decode()
    if request.version >= MEMBERS_VERSION:
        identities = [
            MemberIdentity(member_id=each.member_id, group_instance_id=each.group_instance_id) for each in asked.members
        ]
    else:
        identities = [MemberIdentity(member_id=asked.member_id, group_instance_id=None)]

    def answer(reply: LeaveReply) -> None:
        error = reply.error
        if request.version < MEMBERS_VERSION and reply.members:
            error = reply.members[0][1]
        members = [
            {
                "member_id": identity.member_id,
                "group_instance_id": identity.group_instance_id,
                "error_code": outcome,
            }
            for identity, outcome in reply.members
        ]
        fields = {"throttle_time": 0, "error_code": error, "members": members}
        request.reply(build(response_type(KEY, request.version), fields))

    broker.groups.leave(str(asked.group_id), identities, answer)
