"""JoinGroup (key 11), versions 0-9.

v1 rebalance timeout (KIP-62), v2 throttle time, v4 two steps (KIP-394), v5
static members (KIP-345), v6 flexible, v7 protocol type in the answer (KIP-559),
v8 reason (KIP-800), v9 skip_assignment (KIP-814). The answer waits for the end
of the rebalance.
"""

from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from syncline.core.groups.member_bytes import PROTOCOLS_MAX
from syncline.core.groups.messages import JoinReply, JoinRequest, Protocol
from syncline.wire.api import ApiKey
from syncline.wire.codec import response_type
from syncline.wire.entities import build

if TYPE_CHECKING:
    from syncline.node.serving.request import Request, Steps
    from syncline.node.views.parts import HasGroups

KEY = ApiKey.JOIN_GROUP
MEMBER_ID_REQUIRED_VERSION: Final = 4
NULL_PROTOCOL_VERSION: Final = 7
SKIP_ASSIGNMENT_VERSION: Final = 9
_MILLISECOND: Final = timedelta(milliseconds=1)


def handle(broker: "HasGroups", request: "Request") -> "Steps":
    """Pass the member to its group, which answers."""
    # One more than a member may offer is enough to refuse it.
    asked = yield from request.decode_in_steps({"protocols": PROTOCOLS_MAX + 1})
    session_timeout_ms = int(asked.session_timeout // _MILLISECOND)
    rebalance_timeout = getattr(asked, "rebalance_timeout", asked.session_timeout)

    def answer(reply: JoinReply) -> None:
        request.reply(build(response_type(KEY, request.version), _response(reply, request.version)))

    broker.groups.join(
        str(asked.group_id),
        JoinRequest(
            member_id=asked.member_id,
            group_instance_id=getattr(asked, "group_instance_id", None),
            client_id=request.client_id or "",
            client_host=request.client_host,
            session_timeout_ms=session_timeout_ms,
            rebalance_timeout_ms=int(rebalance_timeout // _MILLISECOND),
            protocol_type=asked.protocol_type,
            protocols=tuple(Protocol(each.name, each.metadata) for each in asked.protocols),
            is_member_id_required=request.version >= MEMBER_ID_REQUIRED_VERSION,
            can_skip_assignment=request.version >= SKIP_ASSIGNMENT_VERSION,
        ),
        answer,
    )


def _response(reply: JoinReply, version: int) -> dict[str, Any]:
    protocol_name = reply.protocol_name
    if protocol_name is None and version < NULL_PROTOCOL_VERSION:
        protocol_name = ""
    return {
        "throttle_time": 0,
        "error_code": reply.error,
        "generation_id": reply.generation,
        "protocol_type": reply.protocol_type,
        "protocol_name": protocol_name,
        "leader": reply.leader,
        "skip_assignment": reply.skip_assignment,
        "member_id": reply.member_id,
        "members": [
            {
                "member_id": member.member_id,
                "group_instance_id": member.group_instance_id,
                "metadata": member.metadata,
            }
            for member in reply.members
        ],
    }
