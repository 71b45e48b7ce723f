"""What may look on while groups commit: it hears of every commit that the log has, in the log's order.

A coordinator that takes over replays the log, so a watch hears of old commits first and of each just once, also if the
log has copies of it (`renewal.py`). Those that a newer one has replaced are gone when the log has been renewed. A watch
must be quick: it is called for each partition of each commit.
"""

from typing import Protocol


class CommitWatch(Protocol):
    """What hears of commits; partitions are those that a client named, and existed then."""

    def stored(self, group_id: str, topic: str, partition: int, offset: int, commit_ms: int, /) -> None:
        """Record a commit; `commit_ms` is when its coordinator received it, in Unix ms."""

    def forgotten(self, group_id: str, topic: str, partition: int, /) -> None:
        """Record that a commit was deleted, or has expired."""
