"""GroupRows (private key 20009), version 0, between brokers only.

A broker that shows the groups of the whole cluster asks each coordinator for its own
(`lag.row_messages` has the format), page by page.
"""

from typing import TYPE_CHECKING, Protocol

from syncline.node.lag.row_messages import decode_request
from syncline.wire.api import ApiKey

if TYPE_CHECKING:
    from syncline.node.lag.on_demand import LagOnDemand
    from syncline.node.serving.request import Request, Steps

    class Host(Protocol):
        """What this handler uses of its broker."""

        @property
        def lag(self) -> LagOnDemand:
            """Return what knows the commits of groups."""


KEY = ApiKey.GROUP_ROWS


def handle(broker: "Host", request: "Request") -> "Steps":
    """Answer with one page of groups."""
    asked = decode_request(request.body, request.position)
    body = yield from broker.lag.rows.page(asked)
    request.reply_parts((body,))
