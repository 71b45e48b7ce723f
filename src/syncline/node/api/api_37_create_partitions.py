"""CreatePartitions (key 37), versions 0-3.

V2 flexible.
Decided by the controller (`controller.admin`), to which any broker forwards it.
"""

from typing import TYPE_CHECKING

from syncline.wire.api import ApiKey

if TYPE_CHECKING:
    from syncline.node.broker import Broker
    from syncline.node.request import Request

KEY = ApiKey.CREATE_PARTITIONS


def handle(broker: "Broker", request: "Request") -> None:
    """Hand the request to the controller, once it is known to be well formed."""
    request.decode()
    broker.controller.forward(request)
