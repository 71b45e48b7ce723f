"""Errors of a peer on the wire; the broker closes such a connection."""

from syncline.records.errors import DecodeError

__all__ = ["DecodeError", "FrameError"]


class FrameError(DecodeError):
    """A frame announces a size that no frame may have."""
