"""What all administrative requests share: their form, and how a long one is decided.

The broker that received such a request forwards it to this one (FORWARD). `core` decides; `admin` and `reassignments`
translate fields.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias, TypeVar

from syncline.core.cluster.decision import Decision
from syncline.model.ids import BrokerId
from syncline.model.metadata import MetadataImage
from syncline.node.controller.active import ActiveController
from syncline.node.loop.list_parts import decide_parts
from syncline.wire.api import ApiKey

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")

Fields: TypeAlias = dict[str, Any]
# Called with the fields of the reply (see `wire.entities.build`), or None when this broker is not the controller.
Reply: TypeAlias = Callable[[Fields | None], None]


class AdminRequest(NamedTuple):
    """A decoded request, and the broker that the client sent it to."""

    key: ApiKey
    version: int
    receiver: BrokerId
    entity: Any
    # Called before a request is decided in parts: others need not wait for it.
    takes_long: Callable[[], None]


def decide_in_parts(
    controller: ActiveController,
    requested: AdminRequest,
    parts: Sequence[Sequence[_Item]],
    decide: Callable[[Sequence[_Item], MetadataImage], Decision[tuple[_Result, ...]]],
    answered: Callable[[list[_Result] | None], None],
) -> None:
    """Decide and commit the parts of a request one after the other; `answered` gets the results of all, or None."""

    def decide_part(part: Sequence[_Item], take: Callable[[tuple[_Result, ...] | None], None]) -> None:
        controller.decide(lambda image, _version: decide(part, image), take)

    def all_answered(replies: list[tuple[_Result, ...] | None]) -> None:
        results: list[_Result] = []
        for each in replies:
            if each is None:
                answered(None)
                return
            results.extend(each)
        answered(results)

    if len(parts) > 1:
        requested.takes_long()
    loop = asyncio.get_running_loop()
    decide_parts(loop, parts, decide_part, all_answered, goes_on=lambda results: results is not None)


def is_over(request: Any) -> bool:
    """Return whether the request's time-out leaves no time; then it has no effect."""
    return bool(request.timeout.total_seconds() <= 0)
