"""Forward (private key 20001), version 0, between brokers only.

A client's administrative request, forwarded by the broker that received it
(`controller.private_messages` has the format). The client's reply goes back
unchanged; an error around it means that this broker could not decide. A request
from a connection that its broker has replaced is not carried out: the client may
have sent other requests meanwhile, which the delayed one would undo.
"""

import logging
from typing import TYPE_CHECKING, Any

from syncline.model.errors import ErrorCode
from syncline.node.controller.admin import AdminRequest, serve
from syncline.node.controller.private_messages import decode_forward, encode_forward_error
from syncline.wire.api import ApiKey
from syncline.wire.codec import decode_request, encode_response
from syncline.wire.errors import DecodeError

if TYPE_CHECKING:
    from syncline.node.part_views import MayBeController
    from syncline.node.request import Request

log = logging.getLogger("syncline.node")

KEY = ApiKey.FORWARD


def handle(broker: "MayBeController", request: "Request") -> None:
    """Decide as controller, and answer when the decision is committed."""
    forwarded = decode_forward(request.body, request.position)
    active = broker.controller.active
    if active is None or not active.registrations.is_current(forwarded.receiver, request.connection):
        request.reply_parts((encode_forward_error(ErrorCode.NOT_CONTROLLER),))
        return

    def reply(entity: Any) -> None:
        if entity is None:
            request.reply_parts((encode_forward_error(ErrorCode.NOT_CONTROLLER),))
        else:
            request.reply_parts((encode_forward_error(ErrorCode.NONE), encode_response(entity)))

    try:
        key = ApiKey(forwarded.key)
        asked = AdminRequest(
            key, forwarded.version, forwarded.receiver, decode_request(key, forwarded.version, forwarded.body)
        )
        served = serve(active, asked, reply)
    except (DecodeError, ValueError):
        served = False
    except Exception:
        # Closing this connection would disconnect a broker, which would send the same request again.
        log.exception("forwarded request failed: API key %s version %s", forwarded.key, forwarded.version)
        served = False
    if not served:
        request.reply_parts((encode_forward_error(ErrorCode.INVALID_REQUEST),))
