"""What a peer can do wrong on the wire; a connection that did is closed."""

from syncline.records.errors import DecodeError

__all__ = ["DecodeError", "FrameError"]


class FrameError(DecodeError):
    """A frame announces a size that no frame may have."""
