"""Known partitions: what readers without a session ask for, found without the way over its topic's name.

Such readers name their partitions in each fetch, by topic id. Under which key they were found is remembered for the
next one; that the partition is still hosted, and of that topic, is asked each time. Invariant: no more than `KNOWN_MAX`
are remembered.
"""

from collections.abc import Mapping
from typing import Final

from syncline.model.ids import TopicPartition
from syncline.model.tables import shrink
from syncline.node.partition import Partition

KNOWN_MAX: Final = 1_024


class KnownPartitions:
    """Keys of hosted partitions by topic id and index."""

    __slots__ = ("_hosted", "_known")

    def __init__(self, hosted: Mapping[TopicPartition, Partition]) -> None:
        self._hosted = hosted
        self._known: dict[tuple[str | bytes, int], TopicPartition] = {}

    def __len__(self) -> int:
        return len(self._known)

    def find(self, key: tuple[str | bytes, int]) -> Partition | None:
        """Return a partition that was found before and is still hosted, else None."""
        known = self._known.get(key)
        if known is None:
            return None
        partition = self._hosted.get(known)
        if partition is not None and partition.topic_id.bytes == key[0]:
            return partition
        del self._known[key]
        shrink(self._known)
        return None

    def found(self, key: tuple[str | bytes, int], partition: Partition) -> None:
        """Remember where a partition was found."""
        if len(self._known) >= KNOWN_MAX:
            self._known.clear()
        self._known[key] = partition.key
