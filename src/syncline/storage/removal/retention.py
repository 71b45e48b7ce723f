"""Which segment retention may delete, and why.

One hard idea: retention deletes whole segments from the old end and never an
uncommitted record: it stops at the high watermark (KAFKA-5634), so a replica
never deletes what its leader has not confirmed.

A segment without any timestamp never expires; Kafka would use the time of its
file, which differs between replicas.
Units: milliseconds and bytes. Source: KAFKA-5634, KIP-107 (log start).
"""

from typing import NamedTuple

from syncline.model.ids import Offset
from syncline.storage.segments.segment import Segment
from syncline.storage.settings import LogSettings


class SegmentDeleted(NamedTuple):
    """One segment that retention removed, and why."""

    base_offset: Offset
    end_offset: Offset
    size_bytes: int
    reason: str


class Situation(NamedTuple):
    """The state of the log and the time, against which a segment is judged."""

    now_ms: int
    high_watermark: Offset
    log_start: Offset
    # By how much the log exceeds `retention.bytes`.
    excess_bytes: int


def reason_to_delete(segment: Segment, situation: Situation, settings: LogSettings, *, is_active: bool) -> str | None:
    """Return why the oldest segment must go, None if it stays."""
    if not segment.size_bytes or segment.end_offset > situation.high_watermark:
        return None
    if not is_active and segment.end_offset <= situation.log_start:
        return f"log start offset {situation.log_start} breach"
    if not settings.is_delete_policy:
        return None
    age_ms = situation.now_ms - segment.max_timestamp_ms
    if settings.retention_ms >= 0 and segment.max_timestamp_ms >= 0 and age_ms > settings.retention_ms:
        return f"retention time {settings.retention_ms}ms breach"
    if settings.retention_bytes >= 0 and situation.excess_bytes - segment.size_bytes >= 0:
        return f"retention size {settings.retention_bytes} breach"
    return None
