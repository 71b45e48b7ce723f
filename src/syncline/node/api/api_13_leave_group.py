"""LeaveGroup (key 13), versions 0-5.

v1 throttle time, v3 several members, by id or by instance (KIP-345), v4
flexible, v5 reason (KIP-800). Before v3 there is one member, whose error is
that of the whole answer.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

from syncline.core.groups.messages import LeaveReply, MemberIdentity
from syncline.model.errors import ErrorCode
from syncline.node.loop.list_parts import decide_parts, in_parts, made_in_steps
from syncline.wire.api import ApiKey
from syncline.wire.rows import Rows

if TYPE_CHECKING:
    from syncline.node.serving.request import Request, Steps
    from syncline.node.views.parts import HasGroups

KEY = ApiKey.LEAVE_GROUP
MEMBERS_VERSION: Final = 3
# Members of one decision; more leave in several.
MEMBERS_AT_ONCE: Final = 200


def handle(broker: "HasGroups", request: "Request") -> "Steps":
    """Remove the members from their group."""
    asked = yield from request.decode_in_steps()
    if request.version >= MEMBERS_VERSION:
        identities = yield from made_in_steps(
            asked.members,
            lambda each: MemberIdentity(member_id=each.member_id, group_instance_id=each.group_instance_id),
        )
    else:
        identities = [MemberIdentity(member_id=asked.member_id, group_instance_id=None)]

    def leave(part: Sequence[MemberIdentity], answer: Callable[[LeaveReply], None]) -> None:
        broker.groups.leave(str(asked.group_id), part, answer)

    def answered(replies: list[LeaveReply]) -> None:
        error = replies[-1].error
        members = [member for reply in replies for member in reply.members]
        if request.version < MEMBERS_VERSION and members:
            error = members[0][1]
        request.answer({"throttle_time": 0, "error_code": error, "members": Rows(members, _row)})

    parts = in_parts(identities, MEMBERS_AT_ONCE)
    decide_parts(asyncio.get_running_loop(), parts, leave, answered, goes_on=lambda reply: not reply.error)


def _row(member: tuple[MemberIdentity, ErrorCode]) -> dict[str, Any]:
    identity, outcome = member
    return {
        "member_id": identity.member_id,
        "group_instance_id": identity.group_instance_id,
        "error_code": outcome,
    }
