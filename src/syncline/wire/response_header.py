"""Response headers: the correlation id, and tagged fields in flexible versions.

The header version depends on the request, so the reader of an answer first finds
the request by its correlation id (`api.response_header_version`).
"""

import struct
from typing import Final

from syncline.records.buffers import Buffer
from syncline.wire.errors import DecodeError
from syncline.wire.primitives import INT32, skip_tags

# The id of an unsolicited answer: a leader that misses a follower's fetches sends a beat.
BEAT: Final = -20_003
BEAT_FRAME: Final = INT32.pack(INT32.size) + INT32.pack(BEAT)


def correlation_id_of(frame: Buffer) -> int:
    """Return the id of the request that `frame` (without its size) answers."""
    try:
        (correlation_id,) = INT32.unpack_from(frame, 0)
    except struct.error:
        raise DecodeError(f"a response of {len(frame)} bytes has no correlation id") from None
    return int(correlation_id)


def response_body_position(frame: Buffer, header_version: int) -> int:
    """Return where the body of an answer begins."""
    if header_version == 0:
        return 4
    try:
        return skip_tags(frame, 4)
    except IndexError:
        raise DecodeError(f"a response of {len(frame)} bytes ends inside its header") from None
