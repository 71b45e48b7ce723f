"""Counters of what a broker has done, incremented where it happens and read by the metrics.

All counters are plain integers. The hot path increments them once per batch or
per partition of a request, never per record. Totals over all topics are summed
up on request; they include topics that this broker no longer hosts, because a
counter must not decrease.

Bytes are those of record batches as stored; times in ms.
"""

from bisect import bisect_left
from collections.abc import Sequence
from typing import Final

from syncline.model.ids import TopicPartition
from syncline.model.tables import shrink
from syncline.node.counting.acknowledgements import Waits
from syncline.records.validate import Fault

# Upper bounds of the buckets of a duration.
DURATION_BOUNDS_MS: Final = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 30_000, 60_000)


# A version has two bytes, whatever a client sends.
KIND_SHIFT: Final = 16
_VERSION_MASK: Final = (1 << KIND_SHIFT) - 1


def request_kind(key: int, version: int, listener: str) -> int:
    """Return one number for API key, version and listener: negative on the internal listener."""
    kind = key << KIND_SHIFT | version & _VERSION_MASK
    return ~kind if listener == "internal" else kind


class Histogram:
    """How many values fell below each bound; the last bucket has no bound."""

    __slots__ = ("bounds", "buckets", "total")

    def __init__(self, bounds: Sequence[int]) -> None:
        self.bounds = bounds
        self.buckets = [0] * (len(bounds) + 1)
        self.total = 0

    def note(self, value: int) -> None:
        """Count one value."""
        self.buckets[bisect_left(self.bounds, value)] += 1
        self.total += value


class TopicCounters:
    """Counters of one topic; a request counts once per partition that it names, as in Kafka."""

    __slots__ = (
        "bytes_in",
        "bytes_out",
        "bytes_rejected",
        "failed_fetches",
        "failed_produces",
        "fetches",
        "hosted",
        "messages_in",
        "produces",
    )

    def __init__(self) -> None:
        # Partitions of the topic that this broker hosts.
        self.hosted = 0
        self.bytes_in = 0
        self.bytes_out = 0
        self.messages_in = 0
        self.bytes_rejected = 0
        self.produces = 0
        self.failed_produces = 0
        self.fetches = 0
        self.failed_fetches = 0

    def add(self, other: "TopicCounters") -> None:
        """Add what `other` counted."""
        self.bytes_in += other.bytes_in
        self.bytes_out += other.bytes_out
        self.messages_in += other.messages_in
        self.bytes_rejected += other.bytes_rejected
        self.produces += other.produces
        self.failed_produces += other.failed_produces
        self.fetches += other.fetches
        self.failed_fetches += other.failed_fetches


class ReplicationBytes:
    """Bytes of records that this broker got from leaders and sent to followers; `moved_*` to replicas being added."""

    __slots__ = ("bytes_in", "bytes_out", "moved_in", "moved_in_at_ms", "moved_out", "moved_out_at_ms")

    def __init__(self) -> None:
        self.bytes_in = 0
        self.bytes_out = 0
        self.moved_in = 0
        self.moved_out = 0
        # When that was last, by the monotonic clock.
        self.moved_in_at_ms = 0
        self.moved_out_at_ms = 0


class Counters:
    """Running totals of one broker."""

    __slots__ = (
        "acknowledgement_waits",
        "disk_read_bytes",
        "elsewhere",
        "failed_isr_updates",
        "fetch_expiries",
        "fetch_process_ms",
        "follower_fetch_expiries",
        "invalid_batches",
        "isr_expands",
        "isr_shrinks",
        "memory_read_bytes",
        "pending_cap_exceeded",
        "produce_expiries",
        "produce_expiries_total",
        "relinquish_skipped",
        "relinquished",
        "replication",
        "topics",
    )

    def __init__(self) -> None:
        self.topics: dict[str, TopicCounters] = {}
        # Topics that this broker no longer hosts, and requests for topics that it never hosted.
        self.elsewhere = TopicCounters()
        self.replication = ReplicationBytes()
        # Reads for fetches: what was in memory, and what was not.
        self.memory_read_bytes = 0
        self.disk_read_bytes = 0
        # Clients' batches that were refused, by reason.
        self.invalid_batches = dict.fromkeys(Fault, 0)
        # How long requests with acks=all waited; the journal's sampler empties it.
        self.acknowledgement_waits = Waits()
        # Requests that timed out.
        self.produce_expiries: dict[TopicPartition, int] = {}
        self.produce_expiries_total = 0
        self.fetch_expiries = 0
        self.follower_fetch_expiries = 0
        # ISR changes that the controller confirmed, one per change and not per replica; and those that it refused.
        self.isr_shrinks = 0
        self.isr_expands = 0
        self.failed_isr_updates = 0
        # KIP-501: fetches beyond the cap; leaderships relinquished, and those kept, by reason; and how long
        # followers' fetches took.
        self.pending_cap_exceeded = 0
        self.relinquished = 0
        self.relinquish_skipped: dict[str, int] = {}
        self.fetch_process_ms = Histogram(DURATION_BOUNDS_MS)

    def host(self, topic: str) -> TopicCounters:
        """Return the counters of a topic of which this broker now hosts one more partition."""
        counters = self.topics.get(topic)
        if counters is None:
            counters = self.topics[topic] = TopicCounters()
        counters.hosted += 1
        return counters

    def drop(self, key: TopicPartition) -> None:
        """Stop counting for a partition that this broker no longer hosts."""
        self.produce_expiries.pop(key, None)
        counters = self.topics[key.topic]
        counters.hosted -= 1
        assert counters.hosted >= 0, f"{key} is dropped, but was not hosted"
        if not counters.hosted:
            self.elsewhere.add(self.topics.pop(key.topic))
            shrink(self.topics)

    def of(self, topic: str) -> TopicCounters:
        """Return the counters for requests for a topic, whether this broker hosts it or not."""
        return self.topics.get(topic, self.elsewhere)

    def replicated_in(self, size_bytes: int, now_ms: int, *, is_moved: bool) -> None:
        """Count bytes that this broker fetched from a leader; moved if it is being added to the replicas."""
        self.replication.bytes_in += size_bytes
        if is_moved:
            self.replication.moved_in += size_bytes
            self.replication.moved_in_at_ms = now_ms

    def produce_expired(self, key: TopicPartition) -> None:
        """Count a partition whose records were not committed before their request timed out."""
        self.produce_expiries[key] = self.produce_expiries.get(key, 0) + 1
        self.produce_expiries_total += 1
