"""SaslAuthenticate (key 36), versions 0-2.

v1 lifetime of the session, v2 flexible. No listener has SASL, so there is nothing to authenticate. The answer to the
handshake says so, and clients then send no such request.
"""

from typing import TYPE_CHECKING, Final

from syncline.model.errors import ErrorCode
from syncline.wire.api import ApiKey

if TYPE_CHECKING:
    from syncline.node.serving.request import Request

KEY = ApiKey.SASL_AUTHENTICATE

# Kafka sends this text even if the client has not authenticated.
_REFUSED: Final = "SaslAuthenticate request received after successful authentication"


def handle(_broker: object, request: "Request") -> None:
    """Refuse whatever the client sends."""
    request.decode()
    error = {"error_code": ErrorCode.ILLEGAL_SASL_STATE, "error_message": _REFUSED}
    request.answer(error | {"auth_bytes": b"", "session_lifetime": 0})
