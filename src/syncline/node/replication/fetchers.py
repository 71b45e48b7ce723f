"""The fetchers of one broker: one per leader from which it follows partitions.

A fetcher without partitions stays, so that the next partition from that leader finds a connection.
"""

from collections.abc import Iterator

from syncline.model.ids import BrokerId, TopicPartition
from syncline.node.partition import Partition
from syncline.node.replication.leader_fetcher import LeaderFetcher
from syncline.node.replication.surroundings import FetcherSurroundings


class Fetchers:
    """The fetchers of one broker."""

    def __init__(self, surroundings: FetcherSurroundings, by_leader: dict[int, LeaderFetcher]) -> None:
        self._surroundings = surroundings
        self.by_leader = by_leader
        # Fetchers that got partitions since the last `go`.
        self._touched: dict[int, LeaderFetcher] = {}

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

    def throttle_changed(self) -> None:
        """Find out again which partitions a throttle concerns; the caller then calls `go`."""
        for leader_id, fetcher in self.by_leader.items():
            fetcher.throttle_changed()
            self._touched[leader_id] = fetcher

    def held(self) -> Iterator[tuple[TopicPartition, BrokerId]]:
        """Iterate over what throttles hold back from this broker's fetches: each partition, and this broker."""
        for fetcher in self.by_leader.values():
            if fetcher.throttled is not None:
                for key in fetcher.throttled.held():
                    yield key, self._surroundings.broker_id

    def go(self) -> None:
        """Start fetching the added partitions."""
        touched, self._touched = self._touched, {}
        for fetcher in touched.values():
            fetcher.go()

    def close(self) -> None:
        """Stop fetching."""
        for fetcher in self.by_leader.values():
            fetcher.close()
