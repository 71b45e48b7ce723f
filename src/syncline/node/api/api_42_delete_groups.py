"""DeleteGroups (key 42), versions 0-2.

v1 throttle time, v2 flexible. Deletes each group that has no members, with its
offsets; the answer waits until this is committed. A group named twice is
answered once.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from syncline.core.groups.messages import DeleteReply
from syncline.model.errors import ErrorCode
from syncline.node.gather import Gather
from syncline.wire.api import ApiKey
from syncline.wire.codec import response_type
from syncline.wire.entities import build

if TYPE_CHECKING:
    from syncline.node.part_views import HasGroups
    from syncline.node.request import Request

KEY = ApiKey.DELETE_GROUPS


def handle(broker: "HasGroups", request: "Request") -> None:
    """Delete each group, and answer when all are decided."""
    group_ids = [str(group_id) for group_id in dict.fromkeys(request.decode().groups_names)]

    def answer(errors: list[ErrorCode]) -> None:
        results = [
            {"group_id": group_id, "error_code": error} for group_id, error in zip(group_ids, errors, strict=True)
        ]
        request.reply(build(response_type(KEY, request.version), {"throttle_time": 0, "results": results}))

    gather = Gather[ErrorCode](answer)
    for group_id in group_ids:
        broker.groups.delete_group(group_id, _into(gather.slot()))
    gather.close()


def _into(slot: Callable[[ErrorCode], None]) -> Callable[[DeleteReply], None]:
    return lambda reply: slot(reply.error)
