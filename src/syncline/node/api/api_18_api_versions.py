"""ApiVersions (key 18), versions 0-4.

v3 flexible body and client software (KIP-511), v4 features with minimum 0 (KIP-584).
The answer's header is always v0, since the client does not know yet what this broker
supports. An unsupported version gets error 35 in the v0 form, with one row, for key 18.
"""

from typing import TYPE_CHECKING

from syncline.model.errors import ErrorCode
from syncline.wire.api import ADVERTISED_VERSIONS, CLIENT_VERSIONS, ApiKey
from syncline.wire.api_versions import (
    encode_api_versions_response,
    encode_unsupported_api_versions,
    is_software_name,
    parse_api_versions_request,
)

if TYPE_CHECKING:
    from syncline.node.serving.request import Request

KEY = ApiKey.API_VERSIONS


def handle(_broker: object, request: "Request") -> None:
    """List the APIs and versions that this broker serves."""
    if request.version not in CLIENT_VERSIONS[KEY]:
        request.version = 0
        request.reply_parts((encode_unsupported_api_versions(),))
        return
    asked = parse_api_versions_request(request.body, request.version, request.position)
    is_named = request.version < 3 or (
        is_software_name(asked.software_name or "") and is_software_name(asked.software_version or "")
    )
    code = ErrorCode.NONE if is_named else ErrorCode.INVALID_REQUEST
    versions = ADVERTISED_VERSIONS if is_named else {}
    request.reply_parts((encode_api_versions_response(request.version, code, versions),))
