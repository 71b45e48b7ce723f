"""Which large requests may be received: decided by their first bytes, before memory is used for them."""

from collections.abc import Mapping
from functools import partial
from typing import Final

from syncline.records.errors import DecodeError
from syncline.wire.api import is_served, is_too_large
from syncline.wire.errors import IncompleteHeaderError
from syncline.wire.frames import Admit
from syncline.wire.request_header import parse_request_header


def admit(listener: str, head: memoryview, size_bytes: int) -> bool:
    """Return whether the header is complete, and the request such that it may be received.

    Raises `DecodeError` for a request that the listener does not serve, or of which no sensible one is as large.
    """
    try:
        header = parse_request_header(head)
    except IncompleteHeaderError:
        return False
    if not is_served(header.key, header.version, listener) or is_too_large(header.key, size_bytes):
        raise DecodeError(f"a request of {size_bytes} bytes, API key {header.key} version {header.version}")
    return True


ADMISSIONS: Final[Mapping[str, Admit]] = {listener: partial(admit, listener) for listener in ("client", "internal")}
