"""MetadataDeltas (private key 20000), version 0, between brokers only.

A broker asks for the changes after its version of the metadata; the answer waits
until there are some (`controller.private_messages` has the format).
"""

from typing import TYPE_CHECKING

from syncline.model.errors import ErrorCode
from syncline.node.controller.private_messages import decode_poll, encode_no_news
from syncline.wire.api import ApiKey

if TYPE_CHECKING:
    from syncline.node.serving.request import Request
    from syncline.node.views.parts import MayBeController

KEY = ApiKey.METADATA_DELTAS


def handle(broker: "MayBeController", request: "Request") -> None:
    """Have the controller answer when there are changes."""
    poll = decode_poll(request.body, request.position)
    active = broker.controller.active
    if active is None:
        request.reply_parts((encode_no_news(ErrorCode.NOT_CONTROLLER),))
        return
    active.poll(poll, lambda body: request.reply_parts((body,)))
