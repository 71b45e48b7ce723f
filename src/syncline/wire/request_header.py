"""Request headers: what a broker must know before it can read a request.

Version 1 has the key, the version, the correlation id and the client's id (a
nullable string with an int16 length, even in flexible versions); version 2 adds
tagged fields. Parsed by hand, because every request has one.
"""

import struct
from typing import Final, NamedTuple

from syncline.records.buffers import Buffer
from syncline.wire.api import FLEXIBLE_SINCE, ApiKey, request_header_version
from syncline.wire.errors import DecodeError, IncompleteHeaderError
from syncline.wire.primitives import nullable_string, skip_tags

_FIXED: Final = struct.Struct(">hhih")
_KEYS: Final[dict[int, ApiKey]] = {int(key): key for key in ApiKey}


class RequestHeader(NamedTuple):
    """Key, version, correlation id and client of a request, and where its body begins."""

    key: ApiKey
    version: int
    correlation_id: int
    client_id: str | None
    body_position: int


# A named tuple's own constructor takes three times as long, and every request has a header.
_make: Final = tuple.__new__


def parse_request_header(frame: Buffer) -> RequestHeader:
    """Return the header of a frame (without its size).

    The listener decides whether it serves the version: a version newer than any known one has the newest header.
    Negative versions pass only for ApiVersions, which is answered in any version. Raises DecodeError, also for a
    key that no listener serves; its kind IncompleteHeaderError if the frame ends inside the header.
    """
    try:
        number, version, correlation_id, size = _FIXED.unpack_from(frame, 0)
        key = _KEYS.get(number)
        if key is None or (version < 0 and key != ApiKey.API_VERSIONS):
            raise DecodeError(f"API key {number} version {version} is not served")
        position = 10
        client_id = None
        if size > 0:
            position += size
            if position > len(frame):
                raise IncompleteHeaderError(f"a client id of {size} bytes in a frame of {len(frame)}")
            client_id = str(frame[10:position], "utf-8")
        elif size == 0:
            client_id = ""
        elif size != -1:
            raise DecodeError(f"a client id has {size} bytes")
        if version >= FLEXIBLE_SINCE[number]:
            # Hardly any header has tagged fields.
            position = position + 1 if frame[position] == 0 else skip_tags(frame, position)
    except (struct.error, IndexError):
        raise IncompleteHeaderError(f"a frame of {len(frame)} bytes ends inside the request header") from None
    except UnicodeDecodeError as error:
        raise DecodeError(f"the client id is not UTF-8: {error}") from None
    return _make(RequestHeader, (key, version, correlation_id, client_id, position))


def encode_request_header(key: int, version: int, correlation_id: int, client_id: str | None) -> bytes:
    """Return the header that `parse_request_header` reads."""
    fixed = struct.pack(">hhi", key, version, correlation_id) + nullable_string(client_id)
    return fixed + b"\x00" if request_header_version(key, version) == 2 else fixed
