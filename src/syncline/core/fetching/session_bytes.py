"""The memory that clients' fetch sessions take: for whom it is counted, and how much it may be.

One hard idea: a session outlives its requests and belongs to a reader, but a broker knows readers by their connections
only. So the session is counted for the connection of its latest request, and ends with that connection: a reader that
comes back begins with a full fetch, as after an eviction. Sessions of other brokers are not counted, and have no bound.

Units: bytes, estimated for 64-bit CPython.
"""

from typing import Final, Protocol

# What a partition takes in a session, and a session besides.
PARTITION_BYTES: Final = 420
SESSION_BYTES: Final = 1_000


class Payer(Protocol):
    """A client's connection, for which the memory of sessions is counted."""

    def keep(self, change_bytes: int, /) -> None:
        """Count what is remembered for the client, or (negative) no longer."""


class SessionBytes:
    """The bytes of all clients' sessions that a node remembers."""

    __slots__ = ("max_bytes", "total")

    def __init__(self, max_bytes: int) -> None:
        assert max_bytes >= 0, f"sessions may take {max_bytes} bytes"
        self.max_bytes = max_bytes
        self.total = 0

    def has_room(self, size_bytes: int) -> bool:
        """Return whether so many more may be remembered."""
        return self.total + size_bytes <= self.max_bytes

    def add(self, change_bytes: int) -> None:
        """Count a session that grows, or (negative) shrinks or ends."""
        self.total += change_bytes
        assert self.total >= 0, f"sessions take {self.total} bytes"


def session_bytes(partition_count: int) -> int:
    """Return what a session of so many partitions takes."""
    assert partition_count >= 0, f"a session of {partition_count} partitions"
    return SESSION_BYTES + partition_count * PARTITION_BYTES
