"""The fetchers of one broker: one per leader from which it follows partitions.

A fetcher without partitions stays, so that the next partition from that leader finds a connection.

Lists and moves may throttle thousands of partitions at once. Which of them are followed, and lag, is found out in
slices, one per turn of the loop: the fetches between two slices are throttled as before.
"""

from collections.abc import Collection, Iterator
from itertools import islice
from typing import Final

from syncline.core.throttle.quota import HeldBack
from syncline.model.ids import TopicPartition
from syncline.node.partitions.partition import Partition
from syncline.node.replication.leader_fetcher import LeaderFetcher
from syncline.node.replication.surroundings import FetcherSurroundings

# Partitions whose throttles are found out in one turn of the loop; each takes some 5 microseconds.
LOOKED_AT_ONCE: Final = 250


class Fetchers:
    """The fetchers of one broker."""

    def __init__(self, surroundings: FetcherSurroundings, by_leader: dict[int, LeaderFetcher]) -> None:
        self._surroundings = surroundings
        self.by_leader = by_leader
        # Fetchers that got partitions since the last `go`.
        self._touched: dict[int, LeaderFetcher] = {}
        # Partitions that may have another throttle; a dict stands for an ordered set.
        self._to_look_at: dict[TopicPartition, None] = {}

    def add(self, partition: Partition, leader_id: int) -> None:
        """Follow a partition from this leader; the caller then calls `go`."""
        fetcher = self.by_leader.get(leader_id)
        if fetcher is None:
            fetcher = self.by_leader[leader_id] = LeaderFetcher(self._surroundings, leader_id)
        fetcher.add(partition)
        self._touched[leader_id] = fetcher

    def remove(self, partition: Partition) -> None:
        """Stop following a partition, from any leader."""
        for fetcher in self.by_leader.values():
            fetcher.remove(partition)

    def leader_moved(self, leader_id: int) -> None:
        """Connect again to a leader that has a new process."""
        fetcher = self.by_leader.get(leader_id)
        if fetcher is not None:
            fetcher.connection.drop()

    def throttle_changed(self, keys: Collection[TopicPartition]) -> None:
        """Find out again which throttles concern these partitions, now and in the next turns; then call `go`."""
        for leader_id, fetcher in self.by_leader.items():
            fetcher.throttle_changed()
            self._touched[leader_id] = fetcher
        is_under_way = bool(self._to_look_at)
        self._to_look_at.update(dict.fromkeys(keys))
        if not is_under_way:
            self._look_on()

    def _look_on(self) -> None:
        if not self._surroundings.throttle.is_active:
            self._to_look_at.clear()
        some = list(islice(self._to_look_at, LOOKED_AT_ONCE))
        for key in some:
            del self._to_look_at[key]
        # Before the work: others are looked at though one fails.
        if self._to_look_at:
            self._surroundings.loop.call_soon(self._go_on)
        topics = self._surroundings.cluster.image.topics
        for key in some:
            topic = topics.get(key.topic)
            if topic is not None:
                for fetcher in self.by_leader.values():
                    fetcher.look_at((topic.topic_id.bytes, key.partition))

    def _go_on(self) -> None:
        began_ms = self._surroundings.holds.now_ms()
        self._touched.update(self.by_leader)
        self._look_on()
        self.go()
        self._surroundings.holds.ended(began_ms, "throttles")

    def held(self) -> Iterator[HeldBack]:
        """Iterate over what throttles hold back from this broker's fetches."""
        for fetcher in self.by_leader.values():
            if fetcher.throttled is not None:
                yield from fetcher.throttled.held()

    def go(self) -> None:
        """Start fetching the added partitions."""
        touched, self._touched = self._touched, {}
        for fetcher in touched.values():
            fetcher.go()

    def close(self) -> None:
        """Stop fetching."""
        self._to_look_at.clear()
        for fetcher in self.by_leader.values():
            fetcher.close()
