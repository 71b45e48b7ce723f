"""Control (private key 20002), version 0, on the internal listener only.

A verb with JSON fields from a tool on this machine; `node.control.verbs` has the format and the verbs.
"""

from typing import TYPE_CHECKING, Protocol

from syncline.node.control.verbs import ControlRefused, check_secret, encode_answer, parse_call, perform
from syncline.wire.api import ApiKey

if TYPE_CHECKING:
    from collections.abc import Callable

    from syncline.node.control import replica_view
    from syncline.node.control import verbs as control
    from syncline.node.control.verbs import Caller
    from syncline.node.faults import verbs
    from syncline.node.hosting import partition_status
    from syncline.node.lag import verbs as lag_verbs
    from syncline.node.observing import journal
    from syncline.node.serving.request import Request
    from syncline.node.views.parts import RunsTasks

    class Host(
        Caller,
        RunsTasks,
        control.Host,
        journal.Host,
        lag_verbs.Host,
        partition_status.Host,
        replica_view.Host,
        verbs.Host,
        Protocol,
    ):
        """What all the verbs together use of their broker."""


KEY = ApiKey.CONTROL


def handle(broker: "Host", request: "Request") -> None:
    """Refuse: without a secret, every user of the machine could break this broker."""
    guarded(None)(broker, request)


def guarded(secret: str | None) -> "Callable[[Host, Request], None]":
    """Return the handler that carries out the verbs of callers who know the secret."""

    def handle_call(broker: "Host", request: "Request") -> None:
        """Answer when the verb has been carried out."""
        try:
            verb, fields = parse_call(bytes(request.body[request.position :]))
            check_secret(fields, secret)
        except ControlRefused as refusal:
            request.reply_parts((encode_answer({"error": str(refusal)}),))
            return

        async def serve() -> None:
            request.reply_parts((encode_answer(await perform(broker, verb, fields)),))

        broker.spawn(serve())

    return handle_call
