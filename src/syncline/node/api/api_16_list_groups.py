"""ListGroups (key 16), versions 0-5.

v1 throttle time, v3 flexible, v4 filter by state (KIP-518), v5 filter by type
(KIP-848). Lists only the groups that this broker coordinates. Filters ignore
case; an unknown state or type matches nothing.
"""

from typing import TYPE_CHECKING, Any, Final

from syncline.model.errors import RequestError
from syncline.node.parts import made_in_steps
from syncline.wire.api import ApiKey

if TYPE_CHECKING:
    from syncline.node.part_views import HasGroups
    from syncline.node.request import Request, Steps

KEY = ApiKey.LIST_GROUPS
CLASSIC_TYPE: Final = "classic"


def handle(broker: "HasGroups", request: "Request") -> "Steps":
    """List the groups from their committed state."""
    asked = yield from request.decode_in_steps()
    states = set((yield from made_in_steps(getattr(asked, "states_filter", ()), str.lower)))
    types = set((yield from made_in_steps(getattr(asked, "types_filter", ()), str.lower)))
    fields: dict[str, Any] = {"throttle_time": 0, "error_code": 0, "groups": []}
    try:
        found = broker.groups.list_groups()
    except RequestError as error:
        fields["error_code"] = error.code
        found = ()
    fields["groups"] = [
        {
            "group_id": group.group_id,
            "protocol_type": group.protocol_type,
            "group_state": group.state.value,
            "group_type": CLASSIC_TYPE,
        }
        for group in found
        if (not states or group.state.value.lower() in states) and (not types or CLASSIC_TYPE in types)
    ]
    request.answer(fields)
