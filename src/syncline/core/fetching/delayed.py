"""Delayed fetches: when a waiting fetch may be answered.

One hard idea: a waiting fetch is decided from state, never from the event that
woke it. Every trigger runs the same check, so a needless trigger only costs time,
and the next one compensates for a lost one.

Units: offsets are exclusive ends; sizes in bytes.
Source: KIP-74 and KIP-227 as Kafka's DelayedFetch applies them.
"""

from collections.abc import Iterable
from typing import NamedTuple

from syncline.model.ids import Offset


def must_answer_now(
    *, max_wait_ms: int, min_bytes: int, max_bytes: int, partition_count: int, readable_bytes: int, has_urgent: bool
) -> bool:
    """Return whether a fetch is answered after its first look instead of being parked.

    `partition_count` counts what the request covers, its session included. `has_urgent`: some
    partition has an answer that cannot wait (a diverging epoch, a preferred replica, an error
    other than unknown topics beside good ones).
    """
    wanted_bytes = min(min_bytes, max_bytes)
    return max_wait_ms <= 0 or partition_count == 0 or has_urgent or readable_bytes >= wanted_bytes


class FetchLook(NamedTuple):
    """One partition of a parked fetch, looked at again.

    `bound` is where the reader's isolation ends: log end, high watermark or last stable offset.
    `available_bytes` lie between offset and bound, capped by the partition's limit.
    `is_broken`: no longer served here, offline, unknown, fenced, or the histories now diverge.
    """

    fetch_offset: Offset
    bound: Offset
    available_bytes: int
    is_on_older_segment: bool = False
    is_throttled: bool = False
    is_broken: bool = False


def fetch_ready(looks: Iterable[FetchLook], min_bytes: int) -> bool:
    """Return whether a parked fetch may be answered before its deadline.

    A partition whose offset equals its bound counts nothing, even if the segment rolled in between.
    """
    total_bytes = 0
    for look in looks:
        if look.is_broken or look.fetch_offset > look.bound:
            return True
        if look.fetch_offset == look.bound or look.is_throttled:
            continue
        if look.is_on_older_segment:
            return True
        total_bytes += look.available_bytes
        if total_bytes >= min_bytes:
            return True
    return total_bytes >= min_bytes
