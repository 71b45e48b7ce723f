"""What is in memory only because a reader who had to wait for the disk had it brought in for its next read.

Such bytes came from the disk as much as those that were waited for, though a look finds them in memory. So they are
remembered, by where the next read begins, and counted as missed once.
Invariant: a bounded number of places.
"""

from typing import Final

from syncline.model.ids import TopicPartition

PLACES_MAX: Final = 256


class ReadAhead:
    """The bytes that were brought in ahead of readers, by partition and byte coordinate."""

    __slots__ = ("places",)

    def __init__(self) -> None:
        # Each fetch looks whether there are any.
        self.places: dict[tuple[TopicPartition, int], int] = {}

    def brought(self, key: TopicPartition, coordinate_bytes: int, size_bytes: int) -> None:
        """Record that so many bytes from here on were brought in."""
        if size_bytes > 0:
            self.places[(key, coordinate_bytes)] = size_bytes
            if len(self.places) > PLACES_MAX:
                del self.places[next(iter(self.places))]

    def missed_bytes(self, key: TopicPartition, coordinate_bytes: int, size_bytes: int, resident_bytes: int) -> int:
        """Return how much of a read came from the disk, that begins here and found so many bytes in memory."""
        assert 0 <= resident_bytes <= size_bytes, f"{resident_bytes} of {size_bytes} bytes were in memory"
        ahead_bytes = self.places.pop((key, coordinate_bytes), 0)
        self.brought(key, coordinate_bytes + size_bytes, ahead_bytes - size_bytes)
        return size_bytes - resident_bytes + min(ahead_bytes, resident_bytes)
