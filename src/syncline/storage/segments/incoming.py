"""Batches from a leader: all of them are checked before the first byte is written.

One hard idea: a follower stores bytes as they come, so this is the place to
refuse them. This replica would spread a batch that was damaged in transit once
it leads, and a batch that does not continue the log would fork it.

Units: `start` is a position in the answer.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from syncline.model.ids import LeaderEpoch, Offset, TopicPartition
from syncline.records.batch import CRC_START, OVERHEAD_BYTES, BatchHeader, iterate
from syncline.records.checksum import crc32c
from syncline.records.errors import DecodeError
from syncline.records.unread import Unread, mark_of, sum_of
from syncline.storage.errors import ChangedRecordsError, CorruptRecordsError, UnexpectedOffsetError
from syncline.storage.segments.segment import Segment

# As in `records/batch.py`: a named tuple's own constructor takes three times as long.
_make: Final = tuple.__new__


class Incoming(NamedTuple):
    """One batch of a leader's answer; the next one begins at `end`."""

    start: int
    end: int
    header: BatchHeader


class FollowerAppend(NamedTuple):
    """What one answer of a leader added."""

    first_offset: int
    log_end: Offset
    size_bytes: int
    batch_count: int
    max_timestamp_ms: int


def checked(
    view: memoryview,
    log_end: Offset,
    latest_epoch: LeaderEpoch,
    topic_partition: TopicPartition,
    unread: Unread | None = None,
) -> list[Incoming]:
    """Return the whole batches of a leader's answer, without a partial one at the end.

    `unread` is what the leader says of them if it has not read them.
    Raises ChangedRecordsError, CorruptRecordsError or UnexpectedOffsetError if any of them must not be stored.
    """
    batches: list[Incoming] = []
    expected, latest, total = int(log_end), int(latest_epoch), 0
    try:
        for start, header in iterate(view, 0, len(view)):
            # In line what `next_offset`, `size_bytes` and `crc_matches` do: a call takes as long as each of them.
            base_offset = header.base_offset
            next_offset = base_offset + header.last_offset_delta + 1
            if unread is not None:
                total += mark_of(header.crc, next_offset)
                if header.leader_epoch != unread.leader_epoch:
                    raise ChangedRecordsError(
                        f"{topic_partition}: the batch at {base_offset} has leader epoch {header.leader_epoch}, "
                        f"and the leader says {unread.leader_epoch}"
                    )
            end = start + header.batch_length + OVERHEAD_BYTES
            if crc32c(view[start + CRC_START : end]) != header.crc:
                raise CorruptRecordsError(f"{topic_partition}: the batch at {base_offset} arrived damaged")
            if base_offset < expected or next_offset <= base_offset:
                # The leader answers only for what it has read.
                refusal = UnexpectedOffsetError if unread is None else ChangedRecordsError
                raise refusal(f"{topic_partition}: got offset {base_offset} where {expected} or more is due")
            leader_epoch = header.leader_epoch
            if leader_epoch < 0 and leader_epoch != latest:
                raise CorruptRecordsError(
                    f"{topic_partition}: the batch at {base_offset} arrived with leader epoch {leader_epoch}, "
                    f"after {latest}"
                )
            expected, latest = next_offset, leader_epoch
            batches.append(_make(Incoming, (start, end, header)))
    except DecodeError as error:
        raise CorruptRecordsError(f"{topic_partition}: {error}") from None
    if unread is not None and sum_of(total) != unread.check_sum:
        raise ChangedRecordsError(
            f"{topic_partition}: {len(batches)} batches from {log_end} on add up to {sum_of(total)}, "
            f"and the leader says {unread.check_sum}"
        )
    return batches


def count_fitting(segment: Segment, segment_bytes: int, batches: Sequence[Incoming], first: int) -> int:
    """Return the index after the last batch that may share one write with `batches[first]`, usually all."""
    room = segment_bytes - segment.size_bytes
    start = batches[first].start
    if batches[-1].end - start <= room and segment.has_room_for(batches[-1].header):
        return len(batches)
    behind = first + 1
    while behind < len(batches):
        batch = batches[behind]
        if batch.end - start > room or not segment.has_room_for(batch.header):
            break
        behind += 1
    return behind
