"""DescribeQuorum (key 55), versions 0-2.

Kafka keeps its metadata in a Raft log, and this describes its quorum (KIP-595, KIP-836, v2 KIP-853). Here the holder
of the controller lease is the leader, registered brokers are the voters, and offsets are metadata versions.
Answered by the controller (`controller.quorum`), to which any broker forwards it.
"""

from typing import TYPE_CHECKING

from syncline.wire.api import ApiKey

if TYPE_CHECKING:
    from syncline.node.broker import Broker
    from syncline.node.request import Request

KEY = ApiKey.DESCRIBE_QUORUM


def handle(broker: "Broker", request: "Request") -> None:
    """Hand the request to the controller, once it is known to be well formed."""
    request.decode()
    broker.controller.forward(request)
