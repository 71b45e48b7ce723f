"""What throttles know of moves: which replicas of a partition a move is adding, and how fast it may.

The owner of moves is the cluster's metadata; this module only says what is asked of it.
"""

from typing import NamedTuple, Protocol

from syncline.model.ids import BrokerId, TopicPartition
from syncline.model.metadata import MetadataImage


class Moving(NamedTuple):
    """One partition of a move: bytes per second and broker that all of its partitions may take together, NONE: any."""

    move_id: str
    throttle_bytes_per_s: int
    adding: tuple[BrokerId, ...]


class KnowsMoves(Protocol):
    """Who knows which partitions move."""

    def has_any(self) -> bool:
        """Return whether any partition is part of a move."""

    def move_of(self, key: TopicPartition, /) -> Moving | None:
        """Return the move that a partition is part of, None if it does not move."""


class HasImage(Protocol):
    """Who has the current metadata."""

    @property
    def image(self) -> MetadataImage:
        """Return it."""


class MetadataMoves:
    """The moves of the metadata as of now."""

    def __init__(self, cluster: HasImage) -> None:
        self._cluster = cluster

    def has_any(self) -> bool:
        """Return whether any partition is part of a move."""
        return bool(self._cluster.image.move_sizes)

    def move_of(self, key: TopicPartition, /) -> Moving | None:
        """Return the move that a partition is part of, None if it does not move."""
        image = self._cluster.image
        record = image.partition(*key)
        move = None if record is None or not record.move else image.moves.get(record.move)
        if record is None or move is None:
            return None
        return Moving(move.move_id, move.throttle_bytes_per_s, record.adding)
