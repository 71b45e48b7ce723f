"""What one broker counted of its page cache over one interval, as plain data.

Units: bytes, bytes per second. Distances are stack distances: what the broker has appended, to all its logs, since it
appended what is read; those of pages that nothing kept are above all bounds.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import inf
from typing import Final, NamedTuple

from syncline.core.lag.buckets import BYTES, Weighted
from syncline.core.lag.miss_ratio import Demand, Measured

# The reader that stands for all whom a broker has not counted one by one.
OTHERS: Final = "others"


class Reader(NamedTuple):
    """Who reads: a group, or a client that no group is known of."""

    name: str
    distances: Weighted


@dataclass(frozen=True, slots=True)
class CacheFacts:
    """A broker's page cache; hits and misses are as measured, distances are what the model rests on."""

    broker: int
    memory_bytes: int
    """What the page cache may take for logs, or what it is supposed to."""
    written_bytes_per_s: float
    """To logs whose pages stay."""
    read_bytes_per_s: float
    distances: Weighted
    hit_bytes: int
    miss_bytes: int
    readers: tuple[Reader, ...]
    """Together they read what `distances` has, each byte once."""
    present_bytes: int | None = None
    """What the cache may take now, if `memory_bytes` is a memory that is supposed; None: unknown, or the same."""
    is_supposed: bool = False
    """Whether `memory_bytes` is what somebody asks about, and not what the broker has."""

    @property
    def title(self) -> str:
        """Return it in words."""
        return f"broker {self.broker}"

    @property
    def measured_at_bytes(self) -> int:
        """The memory with which hits and misses were measured, as far as it is known."""
        return self.memory_bytes if self.present_bytes is None else self.present_bytes

    @property
    def demand(self) -> Demand:
        """What is written, and what all readers together read."""
        return Demand(self.written_bytes_per_s, self.read_bytes_per_s, Measured(self.distances))

    @property
    def demands(self) -> Mapping[str, Demand]:
        """The same by reader: each has the part of the rate that it has of the bytes."""
        total_bytes = self.read_bytes
        return {
            reader.name: Demand(
                self.written_bytes_per_s,
                self.read_bytes_per_s * sum(reader.distances.bytes) / total_bytes,
                Measured(reader.distances),
            )
            for reader in self.readers
            if total_bytes
        }

    @property
    def read_bytes(self) -> int:
        """What was read, by the distances."""
        return sum(self.distances.bytes)

    @property
    def measured_hit_ratio(self) -> float | None:
        """Share of bytes that were in memory when they were read; None if none were."""
        measured_bytes = self.hit_bytes + self.miss_bytes
        return self.hit_bytes / measured_bytes if measured_bytes else None

    @property
    def out_of_reach(self) -> float:
        """Share of bytes that no memory would have kept."""
        return 1 - self.distances.share_within(inf, by_bytes=True)

    def without(self, name: str) -> "CacheFacts":
        """Return what would be left if one reader stopped; hits and misses, which would be others, are 0."""
        left = tuple(reader for reader in self.readers if reader.name != name)
        distances = Weighted(BYTES)
        for reader in left:
            distances.add(reader.distances)
        part = sum(distances.bytes) / self.read_bytes if self.read_bytes else 0.0
        assert part <= 1, f"readers of {self.title} read {part} of what was read"
        return replace(
            self,
            read_bytes_per_s=self.read_bytes_per_s * part,
            distances=distances,
            hit_bytes=0,
            miss_bytes=0,
            readers=left,
        )
