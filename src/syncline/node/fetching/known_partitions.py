"""Known partitions: a small cache from topic id and index to the key of a hosted partition.

Readers without a session name their partitions in each fetch, by topic id. The cache spares them the look-up of the
topic's name. Each hit checks that this broker still hosts the partition, and that it belongs to the same topic.
Invariant: the cache holds at most `KNOWN_MAX` keys, and no partition.
"""

from collections.abc import Mapping
from typing import Final

from syncline.model.ids import TopicPartition
from syncline.model.tables import shrink
from syncline.node.partitions.partition import Partition

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
