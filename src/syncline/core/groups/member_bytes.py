"""The memory that group members take: what they told of themselves, which stays until they leave.

A protocol is a name and metadata; one without metadata still takes objects of its own, so many small ones take more
than their bytes. No client offers more than a handful.

Units: bytes, estimated for 64-bit CPython.
"""

from typing import Final

# What a member and a protocol take besides their texts and metadata.
MEMBER_BYTES: Final = 1_000
PROTOCOL_BYTES: Final = 300
# The most protocols that one member may offer.
PROTOCOLS_MAX: Final = 100


class MemberBytes:
    """The bytes of all members of one coordinator's groups."""

    __slots__ = ("total",)

    def __init__(self) -> None:
        self.total = 0

    def add(self, change_bytes: int) -> None:
        """Count a member that comes, or (negative) leaves."""
        self.total += change_bytes
        assert self.total >= 0, f"members take {self.total} bytes"
