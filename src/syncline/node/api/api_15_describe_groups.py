"""DescribeGroups (key 15), versions 0-6.

v1 throttle time, v3 authorized operations, v4 static members (KIP-345), v5
flexible, v6 an error for groups that do not exist (KIP-1043). A group of which
nothing is committed yet does not exist.
"""

from typing import TYPE_CHECKING, Any, Final

from syncline.core.groups.messages import GroupDescription, GroupState
from syncline.model.errors import ErrorCode, RequestError
from syncline.wire.api import ApiKey

if TYPE_CHECKING:
    from syncline.node.serving.request import Request, Steps
    from syncline.node.views.parts import HasGroups

KEY = ApiKey.DESCRIBE_GROUPS
NOT_FOUND_VERSION: Final = 6
# What members sent, in one answer: a short request may name a large group again and again.
DESCRIBED_BYTES_MAX: Final = 16 << 20
_TOO_MUCH: Final = f"The descriptions exceed {DESCRIBED_BYTES_MAX} bytes. Describe fewer groups per request."
# Without an authorizer everything is allowed: read, describe, delete, describe and alter configs, as a bit field.
GROUP_OPERATIONS: Final = 3_400
NOT_ASKED: Final = -2_147_483_648


def handle(broker: "HasGroups", request: "Request") -> "Steps":
    """Describe each requested group, in order, repetitions included."""
    asked = yield from request.decode_in_steps()
    is_asked = getattr(asked, "include_authorized_operations", False)
    groups: list[dict[str, Any]] = []
    described_bytes = 0
    for group_id in asked.groups:
        row = _group(broker, str(group_id), request.version, is_asked=is_asked)
        described_bytes += sum(len(each["member_metadata"]) + len(each["member_assignment"]) for each in row["members"])
        if described_bytes > DESCRIBED_BYTES_MAX:
            row |= {"error_code": ErrorCode.INVALID_REQUEST, "error_message": _TOO_MUCH, "members": []}
        groups.append(row)
        yield
    request.answer({"throttle_time": 0, "groups": groups})


def _group(broker: "HasGroups", group_id: str, version: int, *, is_asked: bool) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "group_id": group_id,
        "error_code": ErrorCode.NONE,
        "error_message": None,
        "group_state": "",
        "protocol_type": "",
        "protocol_data": "",
        "members": [],
        "authorized_operations": NOT_ASKED,
    }
    try:
        found = broker.groups.describe(group_id)
    except RequestError as error:
        return fields | {"error_code": error.code}
    if found is None:
        fields["group_state"] = GroupState.DEAD.value
        if version >= NOT_FOUND_VERSION:
            message = f"Group {group_id} not found."
            return fields | {"error_code": ErrorCode.GROUP_ID_NOT_FOUND, "error_message": message}
    if is_asked:
        fields["authorized_operations"] = GROUP_OPERATIONS
    return fields if found is None else fields | _described(found)


def _described(found: GroupDescription) -> dict[str, Any]:
    return {
        "group_state": found.state.value,
        "protocol_type": found.protocol_type,
        "protocol_data": found.protocol_name,
        "members": [
            {
                "member_id": member.member_id,
                "group_instance_id": member.group_instance_id,
                "client_id": member.client_id,
                "client_host": member.client_host,
                "member_metadata": member.metadata,
                "member_assignment": member.assignment,
            }
            for member in found.members
        ],
    }
