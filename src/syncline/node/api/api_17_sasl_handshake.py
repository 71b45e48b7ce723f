"""SaslHandshake (key 17), versions 0-1.

The versions differ in what follows a success: v0 bare tokens, v1 SaslAuthenticate. No listener has SASL, and the answer
says so as Kafka's does: a client that is configured for SASL then fails at once and names the cause. If the connection
were closed instead, Java's would connect again for ever.
"""

from typing import TYPE_CHECKING

from syncline.model.errors import ErrorCode
from syncline.wire.api import ApiKey

if TYPE_CHECKING:
    from syncline.node.serving.request import Request

KEY = ApiKey.SASL_HANDSHAKE


def handle(_broker: object, request: "Request") -> None:
    """Refuse whatever mechanism is asked for."""
    request.decode()
    request.answer({"error_code": ErrorCode.ILLEGAL_SASL_STATE, "mechanisms": ()})
