"""What throttles know of moves: which replicas of a partition a move is adding, and how fast it may.

The owner of moves is the cluster's metadata; this module only says what is asked of it.
"""

from typing import Final, NamedTuple, Protocol

from syncline.model.ids import BrokerId, TopicPartition

# The throttle of a move that has none.
UNTHROTTLED: Final = -1


class Moving(NamedTuple):
    """One partition of a move: bytes per second and broker that all of its partitions may take together."""

    move_id: str
    throttle_bytes_per_s: int
    adding: tuple[BrokerId, ...]


class KnowsMoves(Protocol):
    """Who knows which partitions move."""

    def move_of(self, key: TopicPartition, /) -> Moving | None:
        """Return the move that a partition is part of, None if it does not move."""


class NoMoves:
    """No partition moves."""

    def move_of(self, _key: TopicPartition, /) -> Moving | None:
        """Return that a partition does not move."""
        return None
