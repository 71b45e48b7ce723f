"""Offset ranges: which records a query reads, divided among tasks. Plain calculations, no I/O.

A range is one task's work: the records of one partition from `start` below `end`. Ranges of one partition never
overlap and together cover exactly the planned offsets, so each record becomes one row.

Units: offsets count records; ends are exclusive; weights are bytes where the mean size of records is known.
"""

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from syncline.model.ids import TopicPartition


@dataclass(frozen=True, slots=True)
class OffsetRange:
    """The records of `place` from offset `start` below `end`."""

    place: TopicPartition
    start: int
    end: int

    @property
    def record_count(self) -> int:
        """Return how many offsets the range spans; compaction may leave fewer records."""
        return self.end - self.start


def weights(ranges: Sequence[OffsetRange], record_bytes: Mapping[TopicPartition, float]) -> list[float]:
    """Return what each range weighs; a partition of unknown size has records of the others' mean size."""
    known = [record_bytes[item.place] for item in ranges if item.place in record_bytes]
    usual = sum(known) / len(known) if known else 1.0
    return [item.record_count * record_bytes.get(item.place, usual) for item in ranges]


def divide(
    ranges: Sequence[OffsetRange],
    *,
    partitions_min: int | None,
    records_max: int | None,
    record_bytes: Mapping[TopicPartition, float] | None = None,
) -> tuple[OffsetRange, ...]:
    """Return the ranges cut into at least about `partitions_min` pieces of at most `records_max` records.

    Empty ranges vanish. Large ranges are cut in proportion to their weight, so that pieces are about equally large.
    """
    present = [item for item in ranges if item.record_count > 0]
    pieces = [
        piece
        for item in present
        for piece in _cut(item, math.ceil(item.record_count / (records_max or item.record_count)))
    ]
    weighed = weights(pieces, record_bytes or {})
    total = sum(weighed)
    if partitions_min is None or len(pieces) >= partitions_min or total == 0:
        return tuple(pieces)
    return tuple(
        part
        for piece, weight in zip(pieces, weighed, strict=True)
        for part in _cut(piece, max(1, round(partitions_min * weight / total)))
    )


def _cut(whole: OffsetRange, count: int) -> list[OffsetRange]:
    count = min(count, whole.record_count)
    assert count > 0, f"{whole} in {count} pieces"
    bounds = [whole.start + whole.record_count * part // count for part in range(count + 1)]
    # Pieces that meet at each bound, none of them empty, cover each record once.
    assert (bounds[0], bounds[-1]) == (whole.start, whole.end), f"{whole} cut at {bounds}"
    assert all(low < high for low, high in itertools.pairwise(bounds)), f"{whole} cut at {bounds}"
    return [OffsetRange(whole.place, low, high) for low, high in itertools.pairwise(bounds)]
