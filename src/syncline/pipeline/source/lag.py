"""How far a stream is behind: records, and about how many bytes, from its position and where the logs end now.

Units: offsets count records; sizes are bytes as the log stores them, by the mean of each partition.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from syncline.model.ids import TopicPartition
from syncline.pipeline.client.cluster import Cluster
from syncline.pipeline.client.log_sizes import log_sizes
from syncline.pipeline.client.offsets import EARLIEST, LATEST
from syncline.pipeline.errors import BrokerError
from syncline.pipeline.source.offsets import Position


@dataclass(frozen=True, slots=True)
class PartitionLag:
    """One partition: the next offset to read, where the log ends, and what lies between.

    `lag_bytes` is None where the broker does not tell the size of its logs.
    """

    place: TopicPartition
    offset: int
    end_offset: int
    lag_bytes: int | None

    @property
    def lag_records(self) -> int:
        """Return how many offsets are still to be read; compaction may have left fewer records."""
        return max(0, self.end_offset - self.offset)


def lag_of(cluster: Cluster, position: Position) -> tuple[PartitionLag, ...]:
    """Return the lag of each partition that still exists, sorted."""
    found = cluster.describe({place.topic for place in position.offsets})
    places = [
        place
        for place in sorted(position.offsets)
        if place.topic in found
        and place.partition in found[place.topic].leaders
        and not position.is_other_topic(place.topic, found[place.topic].id)
    ]
    if not places:
        return ()
    ends = cluster.offsets(dict.fromkeys(places, LATEST))
    sizes: Mapping[TopicPartition, float] | None
    try:
        sizes = mean_record_bytes(cluster, places)
    except BrokerError:
        sizes = None
    return tuple(
        PartitionLag(
            place,
            position.offsets[place],
            ends[place],
            None if sizes is None else round(max(0, ends[place] - position.offsets[place]) * sizes.get(place, 0.0)),
        )
        for place in places
    )


def mean_record_bytes(cluster: Cluster, places: Iterable[TopicPartition]) -> Mapping[TopicPartition, float]:
    """Return the bytes of each log by its offsets, leaving out empty logs; raise `BrokerError` if brokers refuse."""
    sizes = log_sizes(cluster, places)
    lows = cluster.offsets(dict.fromkeys(sizes, EARLIEST))
    highs = cluster.offsets(dict.fromkeys(sizes, LATEST), read_committed=False)
    return {place: size / (highs[place] - lows[place]) for place, size in sizes.items() if highs[place] > lows[place]}
