"""What the store of metadata held at each instant: in-sync sets, and the holder of the lease.

The store is part of the simulated world, not of the cluster: it says who *was* a
member when a fault struck. Whether a member is healthy, the fault plan says.

Times are in ns of virtual time; entries are in the order of time.
"""

from bisect import bisect_left
from collections.abc import Callable

from syncline.model.ids import TopicPartition
from syncline.model.metadata import MetadataImage

Isr = tuple[int, ...]


class StoreRecord:
    """The history of one run's store."""

    def __init__(self, now_ns: Callable[[], int]) -> None:
        self._now_ns = now_ns
        self._isr: dict[TopicPartition, list[tuple[int, Isr]]] = {}
        self._holders: list[tuple[int, int | None]] = []

    def committed(self, before: MetadataImage, after: MetadataImage) -> None:
        """Record the in-sync sets that a commit has changed."""
        for name, topic in after.topics.items():
            if before.topics.get(name) is topic:
                continue
            for record in topic.partitions:
                entries = self._isr.setdefault(TopicPartition(name, record.partition), [])
                if not entries or entries[-1][1] != record.isr:
                    entries.append((self._now_ns(), record.isr))

    def lease_moved(self, holder: int | None) -> None:
        """Record the broker that holds the lease from now on, None if none does."""
        self._holders.append((self._now_ns(), holder))

    def isr_before(self, key: TopicPartition, now_ns: int) -> Isr:
        """Return the in-sync set just before an instant; empty if the partition did not exist."""
        entries = self._isr.get(key, [])
        place = bisect_left(entries, (now_ns,))
        return entries[place - 1][1] if place else ()

    def holders(self, begin_ns: int, end_ns: int) -> list[int]:
        """Return the brokers that held the lease at some time from just before `begin_ns` until `end_ns`."""
        place = bisect_left(self._holders, (begin_ns,))
        held = self._holders[max(0, place - 1) :]
        return [holder for since_ns, holder in held if since_ns <= end_ns and holder is not None]
