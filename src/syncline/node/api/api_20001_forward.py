"""Forward (private key 20001), version 0, between brokers only.

A client's administrative request, forwarded by the broker that received it
(`controller.private_messages` has the format). The client's reply goes back
unchanged; an error around it means that this broker could not decide. A request
from a connection that its broker has replaced is not carried out: the client may
have sent other requests meanwhile, which the delayed one would undo. A request that
takes long is answered out of turn, so that heartbeats are not answered late.
"""

import logging
from collections.abc import Generator
from typing import TYPE_CHECKING

from syncline.model.errors import ErrorCode
from syncline.node.controller.admin import serve
from syncline.node.controller.admin_requests import AdminRequest, Fields
from syncline.node.controller.private_messages import decode_forward, encode_forward_error
from syncline.node.serving.request import DECODED_AT_ONCE_BYTES
from syncline.wire.api import ApiKey
from syncline.wire.codec import decode_request_in_steps, encode_fields
from syncline.wire.errors import DecodeError

if TYPE_CHECKING:
    from syncline.node.serving.request import Request, Steps
    from syncline.node.views.parts import MayBeController

log = logging.getLogger("syncline.node")

KEY = ApiKey.FORWARD


def handle(broker: "MayBeController", request: "Request") -> "Steps":
    """Decide as controller, and answer when the decision is committed."""
    forwarded = decode_forward(request.body, request.position)
    active = broker.controller.active
    if active is None or not active.registrations.is_current(forwarded.receiver, request.connection):
        request.reply_parts((encode_forward_error(ErrorCode.NOT_CONTROLLER),))
        return

    def reply(fields: Fields | None) -> None:
        if fields is None:
            request.reply_parts((encode_forward_error(ErrorCode.NOT_CONTROLLER),))
            return
        encoded = encode_fields(forwarded.key, forwarded.version, {"throttle_time": 0, **fields})
        if isinstance(encoded, bytes):
            request.reply_parts((encode_forward_error(ErrorCode.NONE), encoded))
        else:
            request.connection.step(request, _reply_in_steps(request, encoded))

    try:
        key = ApiKey(forwarded.key)
        if len(forwarded.body) > DECODED_AT_ONCE_BYTES:
            request.named = []
        entity = yield from decode_request_in_steps(
            key, forwarded.version, forwarded.body, at_once_bytes_max=DECODED_AT_ONCE_BYTES, named=request.named
        )
        asked = AdminRequest(
            key, forwarded.version, forwarded.receiver, entity, lambda: request.connection.wait_for(request)
        )
        served = yield from serve(active, asked, reply)
    except (DecodeError, ValueError):
        served = False
    except Exception:
        # Closing this connection would disconnect a broker, which would send the same request again.
        log.exception("a forwarded request failed: API key %s version %s", forwarded.key, forwarded.version)
        served = False
    if not served:
        request.reply_parts((encode_forward_error(ErrorCode.INVALID_REQUEST),))


def _reply_in_steps(request: "Request", encoding: Generator[None, None, bytes]) -> "Steps":
    encoded = yield from encoding
    request.reply_parts((encode_forward_error(ErrorCode.NONE), encoded))
