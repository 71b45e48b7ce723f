"""ApiVersions, by hand: the first request of every connection (versions 0-4).

What each version changed: 1 throttle time; 3 flexible, the client's software
name and version, features (KIP-511, KIP-584); 4 features whose range begins at
0 may be listed (KIP-1022).

Before this answer a client does not know the broker's versions, so the answer's
header is always version 0. The answer to a request newer than any served version
is in version 0: UNSUPPORTED_VERSION and one row with the versions of ApiVersions
itself.
"""

import re
import struct
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from syncline.records.buffers import Buffer
from syncline.wire.api import CLIENT_VERSIONS, ApiKey, VersionRange
from syncline.wire.errors import DecodeError
from syncline.wire.primitives import INT16, INT32, INT64, compact_string, read_compact_string, skip_tags, tagged, varint

FLEXIBLE_SINCE: Final = 3
_UNSUPPORTED_VERSION: Final = 35
_ROW: Final = struct.Struct(">hhh")
_FEATURE_ROW: Final = struct.Struct(">hhB")
_SOFTWARE_NAME: Final = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9.-]*[a-zA-Z0-9])?")


class ApiVersionsRequest(NamedTuple):
    """The client's software name and version; None before version 3."""

    software_name: str | None = None
    software_version: str | None = None


class Feature(NamedTuple):
    """A feature: the levels that this broker supports, and the level in force (None: not finalized)."""

    name: str
    min_level: int
    max_level: int
    finalized_level: int | None = None


def parse_api_versions_request(buffer: Buffer, version: int, position: int = 0) -> ApiVersionsRequest:
    """Return the request whose body begins at `position`. Raises DecodeError."""
    if version < FLEXIBLE_SINCE:
        return ApiVersionsRequest()
    try:
        name, position = read_compact_string(buffer, position)
        software_version, position = read_compact_string(buffer, position)
        skip_tags(buffer, position)
    except IndexError:
        raise DecodeError(f"an ApiVersions request of {len(buffer)} bytes ends too early") from None
    except UnicodeDecodeError as error:
        raise DecodeError(f"a client's software name or version is not UTF-8: {error}") from None
    return ApiVersionsRequest(name, software_version)


def is_software_name(text: str) -> bool:
    """Return whether Kafka accepts `text` as a client's name or version (letters, digits, inner dots and hyphens)."""
    return _SOFTWARE_NAME.fullmatch(text) is not None


def encode_api_versions_response(
    version: int,
    error_code: int,
    versions: Mapping[ApiKey, VersionRange],
    features: Sequence[Feature] = (),
    *,
    features_epoch: int = -1,
    throttle_ms: int = 0,
) -> bytes:
    """Return the body of an answer, with the fields that `version` has."""
    rows = [_ROW.pack(key, served.min, served.max) for key, served in sorted(versions.items())]
    head = INT16.pack(error_code)
    if version < FLEXIBLE_SINCE:
        body = head + INT32.pack(len(rows)) + b"".join(rows)
        return body + INT32.pack(throttle_ms) if version >= 1 else body
    body = head + varint(len(rows) + 1) + b"".join(row + b"\x00" for row in rows)
    return body + INT32.pack(throttle_ms) + _feature_tags(version, features, features_epoch)


def _feature_tags(version: int, features: Sequence[Feature], features_epoch: int) -> bytes:
    # Clients of version 3 reject a range that begins at 0, so leave such features out for them.
    supported = [feature for feature in features if feature.min_level > 0 or version >= 4]
    finalized = [feature for feature in features if feature.finalized_level is not None]
    fields = []
    if supported:
        rows = [
            compact_string(feature.name) + _FEATURE_ROW.pack(feature.min_level, feature.max_level, 0)
            for feature in supported
        ]
        fields.append(tagged(0, varint(len(rows) + 1) + b"".join(rows)))
    if features_epoch >= 0:
        fields.append(tagged(1, INT64.pack(features_epoch)))
    if finalized:
        rows = [
            compact_string(feature.name) + _FEATURE_ROW.pack(feature.finalized_level, feature.finalized_level, 0)
            for feature in finalized
        ]
        fields.append(tagged(2, varint(len(rows) + 1) + b"".join(rows)))
    return varint(len(fields)) + b"".join(fields)


def encode_unsupported_api_versions() -> bytes:
    """Return the answer to an unknown version of ApiVersions, in version 0."""
    own = {ApiKey.API_VERSIONS: CLIENT_VERSIONS[ApiKey.API_VERSIONS]}
    return encode_api_versions_response(0, _UNSUPPORTED_VERSION, own)
