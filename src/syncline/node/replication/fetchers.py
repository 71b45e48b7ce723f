"""The fetchers of one broker: one per leader from which it follows partitions.

A fetcher stays when it has nothing to do any more: the next partition from that leader finds it connected.
"""

from syncline.node.partition import Partition
from syncline.node.replication.leader_fetcher import LeaderFetcher
from syncline.node.replication.surroundings import FetcherSurroundings


class Fetchers:
    """What one broker fetches from others with."""

    def __init__(self, surroundings: FetcherSurroundings, by_leader: dict[int, LeaderFetcher]) -> None:
        self._surroundings = surroundings
        self.by_leader = by_leader
        # Fetchers that were given partitions since the last `go`.
        self._touched: dict[int, LeaderFetcher] = {}

    def add(self, partition: Partition, leader_id: int) -> None:
        """Follow a partition from this leader; `go` afterwards."""
        fetcher = self.by_leader.get(leader_id)
        if fetcher is None:
            fetcher = self.by_leader[leader_id] = LeaderFetcher(self._surroundings, leader_id)
        fetcher.add(partition)
        self._touched[leader_id] = fetcher

    def remove(self, partition: Partition) -> None:
        """Follow a partition no more, from any leader."""
        for fetcher in self.by_leader.values():
            fetcher.remove(partition)

    def leader_moved(self, leader_id: int) -> None:
        """Connect anew to a leader whose process is another one now."""
        fetcher = self.by_leader.get(leader_id)
        if fetcher is not None:
            fetcher.connection.drop()

    def go(self) -> None:
        """Start fetching what was added."""
        touched, self._touched = self._touched, {}
        for fetcher in touched.values():
            fetcher.go()

    def close(self) -> None:
        """Stop fetching."""
        for fetcher in self.by_leader.values():
            fetcher.close()
