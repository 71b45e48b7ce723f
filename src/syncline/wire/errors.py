"""Protocol errors of a peer; the broker closes the connection."""

from syncline.records.errors import DecodeError

__all__ = ["DecodeError", "FrameError", "IncompleteHeaderError", "UnknownTagError"]


class FrameError(DecodeError):
    """A frame announces a size that no frame may have."""


class IncompleteHeaderError(DecodeError):
    """A request ends inside its header: malformed, or not received yet."""


class UnknownTagError(DecodeError):
    """A message has a tagged field that its schema here does not have; it is read in another way, without it."""
