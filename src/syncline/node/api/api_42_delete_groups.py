"""DeleteGroups (key 42), versions 0-2.

v1 throttle time, v2 flexible. Deletes each group that has no members, with its
offsets; the answer waits until this is committed. A group named twice is
answered once.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from syncline.core.groups.messages import DeleteReply
from syncline.model.errors import ErrorCode
from syncline.node.loop.gather import Gather
from syncline.node.loop.list_parts import made_in_steps
from syncline.wire.api import ApiKey
from syncline.wire.rows import Rows

if TYPE_CHECKING:
    from syncline.node.serving.request import Request, Steps
    from syncline.node.views.parts import HasGroups

KEY = ApiKey.DELETE_GROUPS


def handle(broker: "HasGroups", request: "Request") -> "Steps":
    """Delete each group, and answer when all are decided."""
    asked = yield from request.decode_in_steps()
    group_ids = yield from made_in_steps(dict.fromkeys(asked.groups_names), str)

    def answer(errors: list[ErrorCode]) -> None:
        outcomes = list(zip(group_ids, errors, strict=True))
        results = Rows(outcomes, lambda each: {"group_id": each[0], "error_code": each[1]})
        request.answer({"throttle_time": 0, "results": results})

    gather = Gather[ErrorCode](answer)
    for group_id in group_ids:
        broker.groups.delete_group(group_id, _into(gather.slot()))
        yield
    gather.close()


def _into(slot: Callable[[ErrorCode], None]) -> Callable[[DeleteReply], None]:
    return lambda reply: slot(reply.error)
