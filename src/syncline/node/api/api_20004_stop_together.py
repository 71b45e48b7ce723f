"""StopTogether (private key 20004), version 0, between brokers only.

While a whole cluster stops, a broker reports that it has appended its last record
and its followers have everything (`controller.private_messages` has the format).
The answer comes when all brokers have reported this, and allows each to stop.
"""

from typing import TYPE_CHECKING

from syncline.model.errors import ErrorCode
from syncline.node.controller.private_messages import decode_stop, encode_error
from syncline.wire.api import ApiKey

if TYPE_CHECKING:
    from syncline.node.serving.request import Request
    from syncline.node.views.parts import MayBeController

KEY = ApiKey.STOP_TOGETHER


def handle(broker: "MayBeController", request: "Request") -> None:
    """Record that a broker is ready to stop, and answer when all are."""
    active = broker.controller.active
    broker_id, broker_epoch = decode_stop(request.body, request.position)

    def answer(error: ErrorCode) -> None:
        request.reply_parts((encode_error(error),))

    if active is None or not active.registrations.is_current(broker_id, request.connection):
        answer(ErrorCode.NOT_CONTROLLER)
    else:
        active.stop_together(broker_id, broker_epoch, answer)
