"""Doubt (private key 20005), version 0, between brokers only.

A follower has refused the same records twice, and asks its leader to check its log
(`replication.doubts` has the format). There is no answer: what the leader finds
shows in the metadata.
"""

from typing import TYPE_CHECKING, Protocol

from syncline.node.replication.doubts import Doubt
from syncline.wire.api import ApiKey

if TYPE_CHECKING:
    from syncline.node.hosting.replicas import HostedReplicas
    from syncline.node.serving.request import Request

    class Host(Protocol):
        """What this handler uses of its broker."""

        @property
        def replicas(self) -> HostedReplicas:
            """Return the hosted replicas."""


KEY = ApiKey.DOUBT


def handle(broker: "Host", request: "Request") -> None:
    """Check the place in the log that a follower cannot copy."""
    broker.replicas.doubted.doubt(Doubt.decode(request.body, request.position))
    request.reply_nothing()
