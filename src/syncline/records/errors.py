"""The error for malformed bytes.

Both rooms that read bytes from other processes share it: decoders raise nothing
else, so a caller needs one `except` to treat a peer as broken.
"""


class DecodeError(ValueError):
    """The bytes are malformed; the message names what was expected and what was found."""
