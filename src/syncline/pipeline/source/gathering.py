"""Gathering: which ranges one task reads. Plain calculations, no I/O.

A task costs Spark some hundredths of a second whatever it reads, so a topic of 2,000 partitions must not become 2,000
tasks. Ranges are put in the order of their leaders and that row is cut into tasks of about equal weight: then most
tasks read from one broker through one connection, all but a few ranges of neighbours, and a broker's ranges are not
scattered over all tasks. Packing by weight alone would balance a little better, and connect every task to every broker.

How many tasks: as many as Spark runs at once (`Slots`), so that small data is not read by one processor alone; more
for more data, so that a slow task does not leave the others waiting; never more than four times the slots.

Units: offsets count records; weights are records, or bytes where their sizes are known.
"""

from collections.abc import Mapping, Sequence
from typing import Final, TypeAlias

from syncline.model.ids import TopicPartition
from syncline.pipeline.slots import Slots
from syncline.pipeline.source.ranges import OffsetRange, weights

# What one task reads: ranges of different partitions, those of one leader beside each other.
Work: TypeAlias = tuple[OffsetRange, ...]

_TASKS_PER_SLOT_MAX: Final = 4
# A task of this size costs about five times as much as Spark needs to run one of no size.
_RECORDS_PER_TASK: Final = 100_000
# A task of this size hides what Spark needs: where the slots are only guessed, there may be one for each of these.
_RECORDS_PER_TASK_MAX: Final = 1_000_000


def task_count(ranges: Sequence[OffsetRange], *, slots: Slots, partitions_min: int | None) -> int:
    """Return how many tasks read the ranges at most; `partitions_min` is the option `minPartitions`."""
    assert slots.count > 0, "Spark runs one task at once at least"
    if partitions_min is not None and len({item.place for item in ranges}) < partitions_min:
        # They were cut so that there are this many, and are as large as they should be.
        return len(ranges)
    records = sum(item.record_count for item in ranges)
    most = _TASKS_PER_SLOT_MAX * slots.count
    if slots.is_guess:
        most = max(most, records // _RECORDS_PER_TASK_MAX)
    return max(min(max(records // _RECORDS_PER_TASK, slots.count), most), partitions_min or 0)


def gather(
    ranges: Sequence[OffsetRange],
    *,
    tasks: int,
    records_max: int | None = None,
    leaders: Mapping[TopicPartition, int] | None = None,
    record_bytes: Mapping[TopicPartition, float] | None = None,
) -> tuple[Work, ...]:
    """Return the ranges in as many groups as there are `tasks`, the heaviest first, as Spark starts them in this order.

    There are fewer groups if there are fewer ranges, and more if otherwise one would have more than `records_max`
    records. `leaders` are brokers by partition; `record_bytes` is the mean size of a partition's records, and says what
    a range weighs. No group is heavier than its share by more than one range.
    """
    assert tasks > 0 or not ranges, "no task would read the ranges"
    if not ranges:
        return ()
    led = leaders or {}
    row = sorted(ranges, key=lambda item: (led.get(item.place, -1), item.place, item.start))
    weighed = weights(row, record_bytes or {})
    groups = _cut_row(row, weighed, min(tasks, len(row)))
    if records_max is not None:
        groups = [part for group in groups for part in _at_most(group, records_max)]
    weight_of = dict(zip(row, weighed, strict=True))
    groups.sort(key=lambda group: -sum(weight_of[item] for item in group))
    assert sum(map(len, groups)) == len(ranges), "a range was lost or doubled"
    return tuple(_merged(group) for group in groups)


def _cut_row(row: Sequence[OffsetRange], weighed: Sequence[float], count: int) -> list[list[OffsetRange]]:
    """Return the row in `count` pieces, none of them empty: a range belongs where its middle lies."""
    total = sum(weighed) or 1.0
    groups: list[list[OffsetRange]] = []
    before, last = 0.0, -1
    for number, (item, weight) in enumerate(zip(row, weighed, strict=True)):
        piece = min(int((before + weight / 2) / total * count), count - 1)
        before += weight
        # As many pieces must still be begun as there may not be enough ranges for otherwise.
        if piece != last or len(row) - number <= count - len(groups):
            groups.append([])
            last = piece
        groups[-1].append(item)
    return groups


def _at_most(group: Sequence[OffsetRange], records_max: int) -> list[list[OffsetRange]]:
    """Return the group in pieces of at most so many records; a range that has more is a piece of its own."""
    pieces: list[list[OffsetRange]] = []
    room = 0
    for item in group:
        if not pieces or item.record_count > room:
            pieces.append([])
            room = records_max
        pieces[-1].append(item)
        room -= item.record_count
    return pieces


def _merged(group: Sequence[OffsetRange]) -> Work:
    """Return the group with ranges that continue each other as one, so that each partition is there once."""
    merged: list[OffsetRange] = []
    for item in group:
        start = item.start
        if merged and merged[-1].place == item.place:
            assert merged[-1].end == item.start, f"{merged[-1]} and {item} leave a gap"
            start = merged.pop().start
        merged.append(OffsetRange(item.place, start, item.end))
    return tuple(merged)
