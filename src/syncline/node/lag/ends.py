"""Where partitions ended when their leaders were asked last, shared by all groups of this coordinator.

One hard idea: a byte coordinate means something for one leader, one life of its process and one leader epoch. Each such
triple gets a number, the *namespace*, under which places of commits are kept; when the triple changes, the number does,
and no kept place is used any more, without a search for them.

Units: offsets; bytes; Unix ms of the leader. Source: Burrow (a ring of ends per partition, sampled).
"""

from collections.abc import Iterable
from typing import Final

from syncline.core.lag.end_ring import EndRing
from syncline.core.lag.forecast import USUAL_MS, Rate
from syncline.model.ids import TopicPartition
from syncline.model.lag import UNKNOWN, PartitionEnds

# A whole number that fits 32 bits unsigned, as a slab keeps it; after that many elections it begins again.
_NAMESPACES_MAX: Final = 2**32 - 1


class SeenEnds:
    """What leaders said of one partition."""

    __slots__ = ("_bytes", "_produced", "_usual", "broker_epoch", "last", "namespace", "ring")

    def __init__(self, intervals: int) -> None:
        # The high watermarks of the last refreshes.
        self.ring = EndRing(intervals)
        self.last: PartitionEnds | None = None
        self.broker_epoch = -1
        self.namespace = 0
        self._produced = Rate()
        self._usual = Rate(USUAL_MS)
        self._bytes = Rate()

    def tick(self, ends: PartitionEnds) -> None:
        """Take a sample for the ring and for the rates, once per refresh."""
        self.ring.add(ends.high_watermark, ends.at_ms)
        for rate in (self._produced, self._usual):
            rate.seen(ends.high_watermark, ends.at_ms)
        self._bytes.seen(ends.end_bytes, ends.at_ms)

    @property
    def written_bytes_per_s(self) -> float:
        """How fast the log grows; 0 as long as that is not known."""
        return self._bytes.per_s or 0.0

    @property
    def produced_per_s(self) -> float | None:
        """How fast the high watermark moves, None before two samples."""
        return self._produced.per_s

    @property
    def usual_produced_per_s(self) -> float | None:
        """The same over some ten minutes."""
        return self._usual.per_s

    def held_since_ms(self, ends: PartitionEnds) -> int:
        """Return since when, at the latest, the watermark stands although records wait above it; -1 if it moves."""
        last = self.last
        if last is None or last.high_watermark != ends.high_watermark or last.log_end == last.high_watermark:
            return UNKNOWN
        return last.at_ms if last.held_since_ms == UNKNOWN else last.held_since_ms

    def forget_bytes(self) -> None:
        """Begin the rate of bytes anew: another leader counts them from another origin."""
        self._bytes = Rate()


class KnownEnds:
    """The ends of all partitions in which a group of this coordinator has committed."""

    def __init__(self, intervals: int) -> None:
        self._intervals = intervals
        self._seen: dict[TopicPartition, SeenEnds] = {}
        self._last_namespace = 0

    def __len__(self) -> int:
        return len(self._seen)

    def get(self, key: TopicPartition) -> SeenEnds | None:
        """Return what leaders said of a partition, None before the first answer."""
        return self._seen.get(key)

    def newest(self, topic: str, partition: int) -> int | None:
        """Return the newest sampled end; None before the first sample."""
        seen = self._seen.get(TopicPartition(topic, partition))
        newest = None if seen is None else seen.ring.newest
        return None if newest is None else newest.offset

    def take(self, key: TopicPartition, ends: PartitionEnds, broker_epoch: int) -> SeenEnds:
        """Keep what the leader has answered; another leader, life or epoch begins another namespace."""
        ends.check_invariants()
        seen = self._seen.get(key)
        if seen is None:
            seen = self._seen[key] = SeenEnds(self._intervals)
        last = seen.last
        if (
            last is None
            or (last.leader, last.leader_epoch) != (ends.leader, ends.leader_epoch)
            or seen.broker_epoch != broker_epoch
        ):
            self._last_namespace = self._last_namespace % _NAMESPACES_MAX + 1
            seen.namespace = self._last_namespace
            seen.broker_epoch = broker_epoch
            seen.forget_bytes()
        seen.last = ends._replace(written_bytes_per_s=seen.written_bytes_per_s, held_since_ms=seen.held_since_ms(ends))
        return seen

    def keep_only(self, keys: Iterable[TopicPartition]) -> None:
        """Forget every other partition: no group has a commit there any more, or the topic is gone."""
        self._seen = {key: seen for key in keys if (seen := self._seen.get(key)) is not None}

    def check_invariants(self) -> None:
        """Assert that each partition that was heard of has a namespace of its own."""
        namespaces = [seen.namespace for seen in self._seen.values()]
        assert len(set(namespaces)) == len(namespaces), f"two partitions share a namespace: {namespaces}"
        assert 0 not in namespaces, "a partition was heard of and has no namespace"
