"""Partitions and places for tests of lag: a log of a thousand records of 100 bytes, one per second."""

from syncline.model.ids import BrokerId, LeaderEpoch, Offset
from syncline.model.lag import OffsetPlace, PartitionEnds

BEGAN_MS = 1_700_000_000_000
RECORD_BYTES = 100
NO_LIMIT = -1


def ends(log_start: int = 0, end: int = 1_000, **others: object) -> PartitionEnds:
    """Return a partition that ends at `end` in every sense, 0 ms after the last append."""
    made = PartitionEnds(
        leader=BrokerId(1),
        leader_epoch=LeaderEpoch(3),
        at_ms=appended_ms(end - 1),
        log_start=Offset(log_start),
        high_watermark=Offset(end),
        last_stable=Offset(end),
        log_end=Offset(end),
        first_bytes=RECORD_BYTES * log_start,
        watermark_bytes=RECORD_BYTES * end,
        end_bytes=RECORD_BYTES * end,
        newest_event_ms=appended_ms(end - 1),
        written_bytes_per_s=RECORD_BYTES,
        retention_ms=NO_LIMIT,
        retention_bytes=NO_LIMIT,
        held_since_ms=-1,
        readable_below_watermark=-1,
    )
    return made._replace(**others)


def place(offset: int, **others: object) -> OffsetPlace:
    """Return where a record of that log lies: in a segment of its own."""
    made = OffsetPlace(
        offset=Offset(offset),
        coordinate_bytes=RECORD_BYTES * offset,
        append_ms=appended_ms(offset),
        event_ms=appended_ms(offset),
        readable_before=-1,
        kept_until_ms=-1,
        segment_end_bytes=RECORD_BYTES * (offset + 1),
        is_estimated=False,
    )
    return made._replace(**others)


def appended_ms(offset: int) -> int:
    """Return when a record was appended."""
    return BEGAN_MS + 1_000 * offset
