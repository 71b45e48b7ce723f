"""AlterConfigs (key 33), versions 0-2.

Replaces all configurations of each resource.
Decided by the controller (`controller.admin`), to which any broker forwards it.
"""

from typing import TYPE_CHECKING

from syncline.wire.api import ApiKey

if TYPE_CHECKING:
    from syncline.node.broker import Broker
    from syncline.node.request import Request

KEY = ApiKey.ALTER_CONFIGS


def handle(broker: "Broker", request: "Request") -> None:
    """Hand the request to the controller, once it is known to be well formed."""
    request.decode()
    broker.controller.forward(request)
