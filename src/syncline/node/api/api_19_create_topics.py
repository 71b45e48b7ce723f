"""CreateTopics (key 19), versions 2-7.

V4 numbers may be -1 (defaults), v5 the reply tells what was made (KIP-525), v7 topic ids.
Decided by the controller (`controller.admin`), to which any broker forwards it.
"""

from typing import TYPE_CHECKING

from syncline.wire.api import ApiKey

if TYPE_CHECKING:
    from syncline.node.broker import Broker
    from syncline.node.request import Request

KEY = ApiKey.CREATE_TOPICS


def handle(broker: "Broker", request: "Request") -> None:
    """Hand the request to the controller, once it is known to be well formed."""
    request.decode()
    broker.controller.forward(request)
