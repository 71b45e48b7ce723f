"""Acknowledging a produce: whether it may be appended, and when it may be answered.

One hard idea: a waiting produce is decided from state, never from the event
that woke it. Every trigger runs the same check, so a needless trigger only
costs time, and the next one compensates for a lost one.

Units: offsets are exclusive ends.
Invariants: success of acks=all implies that the watermark has passed the records (I7).
Source: Kafka's DelayedProduce; KIP-966 (strict minimum ISR).
"""

from typing import Final

from syncline.model.errors import NO_ERROR, ErrorCode
from syncline.model.ids import Offset

ACKS_ALL: Final = -1


def may_append(acks: int, committed_isr_size: int, effective_min_isr: int) -> ErrorCode:
    """Return why a produce with `acks` is refused before anything is appended, or NONE."""
    if acks not in (ACKS_ALL, 0, 1):
        return ErrorCode.INVALID_REQUIRED_ACKS
    if acks == ACKS_ALL and committed_isr_size < effective_min_isr:
        return ErrorCode.NOT_ENOUGH_REPLICAS
    return NO_ERROR


def produce_outcome(
    required_offset: Offset, high_watermark: Offset, maximal_isr_size: int, effective_min_isr: int
) -> ErrorCode | None:
    """Return the answer to an acks=all produce that needs everything below `required_offset`; None: keep waiting."""
    if high_watermark < required_offset:
        return None
    if maximal_isr_size < effective_min_isr:
        return ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
    return NO_ERROR
