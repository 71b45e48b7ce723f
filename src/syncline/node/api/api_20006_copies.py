"""Copies (private key 20006), version 0, between brokers only.

A broker whose log is damaged asks what this one has of the records that it lacks
(`hosting.copies` has the format): in its log, served or not, and in logs that it
has set aside. The answer is their bytes; nothing if it has none.
"""

from typing import TYPE_CHECKING, Protocol

from syncline.node.hosting.copies import CopyRequest
from syncline.wire.api import ApiKey

if TYPE_CHECKING:
    from syncline.node.hosting.replicas import HostedReplicas
    from syncline.node.serving.request import Request

    class Host(Protocol):
        """What this handler uses of its broker."""

        @property
        def replicas(self) -> HostedReplicas:
            """Return the hosted replicas."""


KEY = ApiKey.COPIES


def handle(broker: "Host", request: "Request") -> None:
    """Have a worker look for the records, and answer with what it finds."""
    asked = CopyRequest.decode(request.body, request.position)

    def done(outcome: bytes | Exception) -> None:
        if not request.is_done:
            request.reply_parts((b"" if isinstance(outcome, Exception) else outcome,))

    broker.replicas.mender.offer(asked, done)
