"""DeleteTopics (key 20), versions 1-6.

V5 messages, v6 by topic id (KIP-516).
Decided by the controller (`controller.admin`), to which any broker forwards it.
"""

from typing import TYPE_CHECKING

from syncline.wire.api import ApiKey

if TYPE_CHECKING:
    from syncline.node.broker import Broker
    from syncline.node.request import Request

KEY = ApiKey.DELETE_TOPICS


def handle(broker: "Broker", request: "Request") -> None:
    """Hand the request to the controller, once it is known to be well formed."""
    request.decode()
    broker.controller.forward(request)
