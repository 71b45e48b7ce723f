"""Planning: which partitions a query reads, from where to where, and which task reads what.

Units: offsets count records; ends are exclusive.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from syncline.model.ids import TopicPartition
from syncline.pipeline.client.cluster import Cluster
from syncline.pipeline.client.log_sizes import log_sizes_if_told
from syncline.pipeline.client.offsets import EARLIEST, LATEST
from syncline.pipeline.errors import OptionError
from syncline.pipeline.source.data_loss import Gap, GapReason, report_loss
from syncline.pipeline.source.identities import gaps_of, topics_gone
from syncline.pipeline.source.lag import mean_record_bytes
from syncline.pipeline.source.options import SourceOptions
from syncline.pipeline.source.places import EveryPartition, Place, Side, without, written
from syncline.pipeline.source.presence import check_present, present_settled
from syncline.pipeline.source.ranges import OffsetRange, divide

# Asking for the size of records costs about a tenth of a millisecond per partition. It is worth that from this many
# records per partition on, as they may be large, and from this many in all.
_WEIGHED_RECORDS_PER_PARTITION: Final = 1_000
_WEIGHED_RECORDS: Final = 100_000


@dataclass(frozen=True, slots=True)
class Batch:
    """The ranges of a batch, the ids of the topics that they are of, and which of the wanted records are gone.

    `record_bytes` is the mean size of a record by partition, as far as it is known and matters.
    """

    ranges: tuple[OffsetRange, ...]
    ids: Mapping[str, str]
    gaps: tuple[Gap, ...] = ()
    record_bytes: Mapping[TopicPartition, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Bounds:
    """Where a batch query starts and ends in each partition, and what of that is gone."""

    ids: Mapping[str, str]
    starts: Mapping[TopicPartition, int]
    ends: Mapping[TopicPartition, int]
    gaps: tuple[Gap, ...]


def whole_batch(cluster: Cluster, options: SourceOptions) -> Batch:
    """Return the ranges of a batch query."""
    bounds = bounds_of(cluster, options)
    sizes = _record_bytes(cluster, options, bounds)
    return Batch(ranges_of(options, bounds.starts, bounds.ends, sizes), bounds.ids, bounds.gaps, sizes)


def bounds_of(cluster: Cluster, options: SourceOptions) -> Bounds:
    """Return where a batch query starts and ends."""
    found = present_settled(cluster, options, lambda found: not topics_gone(options, found.ids))
    gone = topics_gone(options, found.ids)
    for what in gone.values():
        report_loss(what, fail=options.fail_on_data_loss)
    gaps = list(gaps_of(options, gone, found.places))
    present = found.without(gone)
    check_present(present, options, without=gone)
    starting, ending = without(options.starting, gone), without(options.ending, gone)
    _check_order(written(starting), written(ending))
    starts = resolve(cluster, options, present.places, starting, "starting")
    ends = resolve(cluster, options, present.places, ending, "ending")
    low = within_log(cluster, options, starting, starts, "starting")
    high = within_log(cluster, options, ending, ends, "ending")
    for place, wanted in starts.items():
        if low[place] > wanted:
            gaps.append(Gap(place, wanted, min(low[place], ends[place]), GapReason.EXPIRED))
        if high[place] < ends[place]:
            gaps.append(Gap(place, max(high[place], wanted), ends[place], GapReason.CUT))
    return Bounds(present.ids, low, high, tuple(gap for gap in gaps if gap.end is None or gap.start < gap.end))


def _check_order(starts: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]) -> None:
    """Raise `OptionError` where a user wrote an end below a start.

    Any other start above its end is no contradiction of options: the log lacks what they name, as `within_log` reports,
    or by time both ends lie beyond the last record, and there is nothing to read.
    """
    for place in sorted(starts.keys() & ends.keys()):
        if starts[place] > ends[place]:
            raise OptionError(
                f"{place} would be read from offset {starts[place]} to {ends[place]}: "
                "endingOffsets must not be below startingOffsets"
            )


def _record_bytes(cluster: Cluster, options: SourceOptions, bounds: Bounds) -> Mapping[TopicPartition, float]:
    """Return how large records are, where that may change which task reads what."""
    read = {place: bounds.ends[place] - start for place, start in bounds.starts.items() if bounds.ends[place] > start}
    enough = min(_WEIGHED_RECORDS_PER_PARTITION * len(read), _WEIGHED_RECORDS)
    is_large = options.partitions_min is not None or sum(read.values()) >= enough
    return mean_record_bytes(cluster, read, log_sizes_if_told) if is_large and len(read) > 1 else {}


def resolve(
    cluster: Cluster, options: SourceOptions, places: Sequence[TopicPartition], wanted: Place, side: Side
) -> dict[TopicPartition, int]:
    """Return the offset of each partition for the starting or ending place that the options name."""
    if isinstance(wanted, EveryPartition):
        values = dict.fromkeys(places, wanted.value)
    else:
        given, needed = set(wanted.values), set(places)
        if given != needed:
            missing = ", ".join(map(str, sorted(needed - given))) or "none"
            unknown = ", ".join(map(str, sorted(given - needed))) or "none"
            raise OptionError(
                f"the {side} offsets must name exactly the partitions that are read; "
                f"missing: {missing}; not read: {unknown}"
            )
        values = dict(wanted.values)
    asked = {place: value for place, value in values.items() if wanted.by_time or value < 0}
    found = cluster.offsets(asked) if asked else {}
    late = [place for place, offset in found.items() if offset < 0]
    if late:
        if side == "starting" and options.when_no_time_matches == "error":
            raise OptionError(
                f"there is no record at or after the starting timestamp in {', '.join(map(str, sorted(late)))}: "
                "set startingOffsetsByTimestampStrategy to latest, or choose an earlier time"
            )
        found |= cluster.offsets(dict.fromkeys(late, LATEST))
    return {**values, **found}


def within_log(
    cluster: Cluster, options: SourceOptions, wanted: Place, offsets: Mapping[TopicPartition, int], side: Side
) -> dict[TopicPartition, int]:
    """Return the offsets, with those that the user wrote moved into the log; raise if `failOnDataLoss` is set.

    A query that asks for what a partition never held, or no longer holds, would wait for it until its patience ends.
    """
    if isinstance(wanted, EveryPartition) or wanted.by_time:
        return dict(offsets)
    named = [place for place in offsets if wanted.values[place] >= 0]
    # An ending offset is as far as this client may read; to start above an open transaction is no mistake.
    committed = None if side == "ending" else False
    lows = cluster.offsets(dict.fromkeys(named, EARLIEST)) if named else {}
    highs = cluster.offsets(dict.fromkeys(named, LATEST), read_committed=committed) if named else {}
    moved = {}
    for place in sorted(named):
        low, high = lows[place], max(lows[place], highs[place])
        if not low <= offsets[place] <= high:
            what = (
                f"option {side}Offsets names offset {offsets[place]} of {place}, which holds the offsets from {low} "
                f"below {high}{_why_below(options, side)}"
            )
            report_loss(what, fail=options.fail_on_data_loss)
            moved[place] = min(max(offsets[place], low), high)
    return {**offsets, **moved}


def ranges_of(
    options: SourceOptions,
    starts: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
    record_bytes: Mapping[TopicPartition, float] | None = None,
) -> tuple[OffsetRange, ...]:
    """Return the ranges between two places of each partition."""
    return divide(
        [OffsetRange(place, starts[place], ends[place]) for place in sorted(ends)],
        partitions_min=options.partitions_min,
        records_max=options.records_per_partition_max,
        record_bytes=record_bytes,
    )


def _why_below(options: SourceOptions, side: Side) -> str:
    is_committed = side == "ending" and options.client.read_committed
    return " that no open transaction holds back" if is_committed else ""
