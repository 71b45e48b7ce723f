"""Planning reads over the segments of a log: which segment, from where to where.

One hard idea: the event loop makes the plan, and therefore from memory alone:
first from the positions of the newest batches, then from the index and the
headers between two entries that are in the page cache. A plan that needs the
disk becomes a `Search`, which a worker finishes.

Callers have checked the offset against the bounds of the log; here
`log_start <= offset < upper <= log_end` holds.
Units: sizes and positions are bytes; `upper` is exclusive.
"""

from typing import Final, NamedTuple

from syncline.core.replication.leader_epochs import EpochCache
from syncline.model.ids import NONE, Offset
from syncline.records.buffers import FileRange
from syncline.records.unread import Unread
from syncline.storage.segments.batch_walk import HeaderReader, NotABatch, NotResident
from syncline.storage.segments.reading import EMPTY, Search, Slice, Wanted, locate
from syncline.storage.segments.segment import Segment
from syncline.storage.segments.segment_list import SegmentList

# A named tuple's own constructor takes three times as long.
_make: Final = tuple.__new__


class Readable(NamedTuple):
    """How many bytes a parked fetch could get, as far as memory shows."""

    size_bytes: int
    is_on_older_segment: bool


def plan(segments: SegmentList, wanted: Wanted) -> Slice | Search:
    """Return where the batches that answer `wanted` lie, all in one segment, or what a worker needs to find them."""
    segment = segments.of(wanted.offset)
    place = segment.find_in_tail(wanted)
    if place is not None:
        position, size = place
        return _make(Slice, (segment.file, position, size, segment.bytes_before)) if size else EMPTY
    if segment is not segments.active:
        segments.keep_warm(segment)
    return _plan_from_index(segment, wanted)


def _plan_from_index(segment: Segment, wanted: Wanted) -> Slice | Search:
    cold_from: int = NONE
    hints = segment.hints(wanted)
    if hints is not None:
        try:
            file = segment.file
            reader = HeaderReader(file, segment.size_bytes, resident_only=True)
            position, size = locate(reader, hints, wanted)
        except NotResident as miss:
            cold_from = miss.position
        except OSError:
            # If the disk refuses, for instance a descriptor, the worker runs into the same error and reports it.
            pass
        except NotABatch:
            # The index is wrong: search from the first batch on.
            hints = None
        else:
            return Slice(file, position, size, segment.bytes_before) if size else EMPTY
    return segment.search(wanted, hints, cold_from)


def unread(segments: SegmentList, epochs: EpochCache, offset: Offset, plan: Slice) -> tuple[FileRange, Unread] | None:
    """Return the batches of a plan to be sent unread, if all are of the newest leader epoch and were written just now.

    Until a follower reads them they are pages of the file. If this log is cut and written anew meanwhile, the follower
    finds that they are not what `Unread` says.
    """
    first = epochs.entry_for_offset(offset)
    if first is None or first.leader_epoch != epochs.latest_epoch:
        return None
    active = segments.active
    if plan.file is None or plan.file is not active.open_file:
        return None
    check_sum = active.check_sum(plan.position_bytes, plan.size_bytes)
    if check_sum is None:
        return None
    found = plan.file.hot_range(plan.position_bytes, plan.size_bytes)
    return None if found is None else (found, Unread(first.leader_epoch, check_sum))


def readable(segments: SegmentList, wanted: Wanted) -> Readable:
    """Return the bytes that answer `wanted`: exact among the newest batches, elsewhere a little too few."""
    segment = segments.of(wanted.offset)
    place = segment.find_in_tail(wanted)
    if place is not None:
        return _make(Readable, (place[1], False))
    is_older = wanted.upper > segment.end_offset
    hints = segment.hints(wanted)
    known = hints.upper - hints.start if hints is not None else segment.size_bytes
    return Readable(max(1, known), is_on_older_segment=is_older)
