"""Protocol errors of a peer; the broker closes the connection."""

from syncline.records.errors import DecodeError

__all__ = ["DecodeError", "FrameError", "IncompleteHeaderError"]


class FrameError(DecodeError):
    """A frame announces a size that no frame may have."""


class IncompleteHeaderError(DecodeError):
    """A request ends inside its header: malformed, or not received yet."""
