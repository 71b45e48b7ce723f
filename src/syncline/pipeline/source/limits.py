"""Limits: how far one micro-batch reads when a query bounds it. Plain calculations, no I/O.

Units: offsets count records; ends are exclusive; sizes are bytes of record batches as the log stores them.
"""

import math
from collections.abc import Mapping

from syncline.model.ids import TopicPartition


def limit(
    starts: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int], records_max: int
) -> dict[TopicPartition, int]:
    """Return ends so that about `records_max` records lie between: each partition's share is that of its backlog.

    A partition with any backlog moves by at least one record, so that small ones never starve.
    """
    total = backlog(starts, ends)
    return _cut(starts, ends, records_max, total)


def limit_bytes(
    starts: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
    bytes_max: int,
    record_bytes: Mapping[TopicPartition, float],
) -> dict[TopicPartition, int]:
    """Return ends so that about `bytes_max` bytes lie between, if the records of a partition are `record_bytes` each.

    Every partition moves by the same part of its backlog, and by at least one record; one without a known size counts
    as the mean of the others, or as one byte if none is known.
    """
    mean = sum(record_bytes.values()) / len(record_bytes) if record_bytes else 1.0
    total = math.ceil(
        sum(
            max(0, end - starts.get(place, end)) * max(1.0, record_bytes.get(place, mean))
            for place, end in ends.items()
        )
    )
    return _cut(starts, ends, bytes_max, total)


def backlog(starts: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]) -> int:
    """Return how many records lie between; a partition without a start has none."""
    return sum(max(0, end - starts.get(place, end)) for place, end in ends.items())


def _cut(
    starts: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int], wanted: int, total: int
) -> dict[TopicPartition, int]:
    """Return ends that hold the part `wanted` / `total` of each backlog."""
    if total <= wanted:
        return dict(ends)
    limited = {}
    for place, end in ends.items():
        waiting = max(0, end - starts.get(place, end))
        if waiting == 0:
            limited[place] = end
            continue
        share = wanted * waiting / total
        step = math.ceil(share) if share < 1 else math.floor(share)
        limited[place] = min(end, starts[place] + step)
        assert starts[place] < limited[place] <= end, f"{place} goes from {starts[place]} to {limited[place]} of {end}"
    return limited
