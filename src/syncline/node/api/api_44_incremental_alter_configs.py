"""IncrementalAlterConfigs (key 44), versions 0-1.

Sets, deletes, appends and subtracts (KIP-339).
Decided by the controller (`controller.admin`), to which any broker forwards it.
"""

from typing import TYPE_CHECKING

from syncline.wire.api import ApiKey

if TYPE_CHECKING:
    from syncline.node.broker import Broker
    from syncline.node.request import Request

KEY = ApiKey.INCREMENTAL_ALTER_CONFIGS


def handle(broker: "Broker", request: "Request") -> None:
    """Hand the request to the controller, once it is known to be well formed."""
    request.decode()
    broker.controller.forward(request)
