"""What is raised when bytes do not mean what they should.

One family for both rooms that read bytes of strangers: nothing else leaves a
decoder, so a caller needs one `except` to treat a peer as broken.
"""


class DecodeError(ValueError):
    """The bytes are malformed; the message says what was expected and what was found."""
