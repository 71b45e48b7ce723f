"""How far a stream is behind: records, about how many bytes, and how long the next record has waited.

Units: offsets count records; sizes are bytes as the log stores them, by the mean of each partition; times are ms.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Final, NamedTuple

from syncline.model.ids import TopicPartition
from syncline.pipeline.client.cluster import Cluster
from syncline.pipeline.client.log_sizes import log_sizes
from syncline.pipeline.client.offsets import EARLIEST, LATEST
from syncline.pipeline.decoding.chunks import decode
from syncline.pipeline.decoding.headers import Part
from syncline.pipeline.errors import BrokerError, OffsetOutOfRangeError
from syncline.pipeline.source.offsets import Position

# A partition may hold nothing but aborted records for long: it is not read to its end for one figure.
_LOOKS_MAX: Final = 8


class Since(IntEnum):
    """The time from which a record's wait counts, by the numbers of `timestampType`."""

    EVENT = 0
    """The time that its producer gave it; by the producer's clock."""
    APPEND = 1
    """The time when its leader appended it (`message.timestamp.type=LogAppendTime`); by the broker's clock."""


class Wait(NamedTuple):
    """How long the next record has waited, by the caller's clock; never less than 0."""

    ms: int
    since: Since


@dataclass(frozen=True, slots=True)
class PartitionLag:
    """One partition: the next offset to read, where the log ends, and what lies between.

    `lag_bytes` is None where the broker does not tell the size of its logs; `wait` is None where nothing waits, or the
    next record has no time.
    """

    place: TopicPartition
    offset: int
    end_offset: int
    lag_bytes: int | None
    wait: Wait | None = None

    @property
    def lag_records(self) -> int:
        """Return how many offsets are still to be read; compaction may have left fewer records."""
        return max(0, self.end_offset - self.offset)


def lag_of(cluster: Cluster, position: Position, now_ms: int) -> tuple[PartitionLag, ...]:
    """Return the lag of each partition that still exists, sorted; `now_ms` is Unix time.

    One fetch for each partition that is behind finds its next record: let `fetch_bytes_max` of the cluster be small.
    """
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
    waits = _waits(cluster, {place: position.offsets[place] for place in places}, ends, now_ms)
    return tuple(
        PartitionLag(
            place,
            position.offsets[place],
            ends[place],
            None if sizes is None else round(max(0, ends[place] - position.offsets[place]) * sizes.get(place, 0.0)),
            waits.get(place),
        )
        for place in places
    )


def mean_record_bytes(
    cluster: Cluster,
    places: Iterable[TopicPartition],
    sizes_of: Callable[[Cluster, Iterable[TopicPartition]], Mapping[TopicPartition, int]] = log_sizes,
) -> Mapping[TopicPartition, float]:
    """Return the bytes of each log by its offsets, leaving out empty logs; raise `BrokerError` if brokers refuse."""
    sizes = sizes_of(cluster, places)
    if not sizes:
        return {}
    lows = cluster.offsets(dict.fromkeys(sizes, EARLIEST))
    highs = cluster.offsets(dict.fromkeys(sizes, LATEST), read_committed=False)
    return {place: size / (highs[place] - lows[place]) for place, size in sizes.items() if highs[place] > lows[place]}


def _waits(
    cluster: Cluster, offsets: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int], now_ms: int
) -> dict[TopicPartition, Wait]:
    """Return how long the next record of each partition has waited, where there is one with a known time."""
    found = {}
    for place, offset in offsets.items():
        if offset < ends[place]:
            wait = _wait_of(cluster, place, offset, ends[place], now_ms)
            if wait is not None:
                found[place] = wait
    return found


def _wait_of(cluster: Cluster, place: TopicPartition, offset: int, end: int, now_ms: int) -> Wait | None:
    """Return how long the first record from `offset` on has waited; None if a few looks find none or no time."""
    for _ in range(_LOOKS_MAX):
        try:
            fetched = cluster.fetch(place, offset)
        except OffsetOutOfRangeError:
            # The next record is the first that is left.
            earliest = cluster.offsets({place: EARLIEST})[place]
            if not offset < earliest < end:
                return None
            offset = earliest
            continue
        part = Part(*place, fetched.start, fetched.end, offset, end, fetched.aborted)
        for decoded in decode(fetched.answer, [part], ("timestamp", "timestampType")):
            time, kind = (decoded.columns[name][0] for name in ("timestamp", "timestampType"))
            return Wait(max(0, now_ms - time.value // 1_000), Since(kind.as_py())) if time.is_valid else None
        # Markers of transactions and records of aborted ones: none of them waits for this reader.
        after = fetched.next_offset(offset)
        if after == offset or after >= end:
            return None
        offset = after
    return None
