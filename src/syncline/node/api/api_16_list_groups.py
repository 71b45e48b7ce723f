"""ListGroups (key 16), versions 0-5.

v1 throttle time, v3 flexible, v4 filter by state (KIP-518), v5 filter by type
(KIP-848). Lists only the groups that this broker coordinates. Filters ignore
case; an unknown state or type matches nothing.
"""

from collections.abc import Generator, Sequence
from typing import TYPE_CHECKING, Any, Final

from syncline.core.groups.messages import GroupState
from syncline.model.errors import RequestError
from syncline.wire.api import ApiKey

if TYPE_CHECKING:
    from syncline.node.serving.request import Request, Steps
    from syncline.node.views.parts import HasGroups

KEY = ApiKey.LIST_GROUPS
CLASSIC_TYPE: Final = "classic"
_STATES: Final = frozenset(state.value.lower() for state in GroupState)
_TYPES: Final = frozenset({CLASSIC_TYPE})


def handle(broker: "HasGroups", request: "Request") -> "Steps":
    """List the groups from their committed state."""
    asked = yield from request.decode_in_steps()
    states = yield from _wanted(getattr(asked, "states_filter", ()), _STATES)
    types = yield from _wanted(getattr(asked, "types_filter", ()), _TYPES)
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
        if group.state.value.lower() in states and CLASSIC_TYPE in types
    ]
    request.answer(fields)


def _wanted(names: Sequence[str], known: frozenset[str]) -> Generator[None, None, frozenset[str]]:
    """Return which of the known names are wanted; without any names all of them."""
    found: set[str] = set()
    for name in names:
        lower = name.lower()
        if lower in known:
            found.add(lower)
        yield
    return frozenset(found) if names else known
