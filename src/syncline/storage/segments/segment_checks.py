"""What must hold of a segment in memory: its bounds, its indexes, and the positions of its newest batches."""

from itertools import pairwise

from syncline.storage.segments.segment import TAIL_BATCHES_MAX, Segment


def check(segment: Segment) -> None:
    """Assert that positions and offsets match; O(n) in the remembered batches and index entries."""
    base_offset, end_offset = segment.base_offset, segment.end_offset
    assert base_offset <= end_offset, f"{segment!r} ends before it begins"
    assert (base_offset == end_offset) == (not segment.size_bytes), f"{segment!r}: offsets without bytes"
    assert base_offset <= segment.synced_end <= end_offset, f"{segment!r} is synced up to {segment.synced_end}"
    assert not segment.is_synced or segment.synced_end == end_offset, (
        f"{segment!r} is synced to {segment.synced_end} only"
    )
    assert segment.first_timestamp_ms <= segment.max_timestamp_ms, (
        f"{segment!r}: the first batch is of {segment.first_timestamp_ms} ms, the newest of "
        f"{segment.max_timestamp_ms} ms"
    )
    _check_tail(segment)
    assert (segment.index is None) == (segment.times is None), f"{segment!r} has one of its indexes in memory"
    if segment.append_times.recent is not None:
        segment.append_times.recent.check_invariants(end_offset, segment.size_bytes)
    if segment.index is not None and segment.times is not None:
        segment.index.check_invariants(end_offset, segment.size_bytes)
        segment.times.check_invariants(end_offset, segment.max_timestamp_ms)


def check_newest(segment: Segment) -> None:
    """Assert that the last batch and the last index entry lie within the segment, after those before them."""
    ends, positions = segment.tail_ends, segment.tail_positions
    if ends:
        assert ends[-1] == segment.end_offset, f"{segment!r}: the newest batch ends at {ends[-1]}"
        assert positions[-1] < segment.size_bytes, f"{segment!r}: the newest batch lies at {positions[-1]}"
        before = (ends[-2], positions[-2]) if len(ends) > 1 else (segment.tail_floor, -1)
        assert before[0] < ends[-1], f"{segment!r}: the newest batch follows one that ends at {before[0]}"
        assert before[1] < positions[-1], f"{segment!r}: the newest batch follows one that lies at {before[1]}"
    indexed = segment.index.last if segment.index is not None else None
    if indexed is not None:
        last_offset, position = indexed
        assert last_offset < segment.end_offset, f"{segment!r}: the index knows offset {last_offset}"
        assert position < segment.size_bytes, f"{segment!r}: the index points to position {position}"


def _check_tail(segment: Segment) -> None:
    ends, positions = segment.tail_ends, segment.tail_positions
    assert len(ends) == len(positions) <= TAIL_BATCHES_MAX, f"{segment!r}: {len(ends)} ends, {len(positions)} positions"
    assert len(ends) == len(segment.tail_marks), f"{segment!r}: {len(ends)} ends, {len(segment.tail_marks)} marks"
    assert segment.base_offset <= segment.tail_floor <= segment.end_offset, (
        f"{segment!r} remembers from {segment.tail_floor} on"
    )
    if not ends:
        return
    assert ends[-1] == segment.end_offset, f"{segment!r}: the newest batch ends at {ends[-1]}"
    assert segment.tail_floor < ends[0], (
        f"{segment!r} remembers from {segment.tail_floor} on a batch that ends at {ends[0]}"
    )
    assert positions[-1] < segment.size_bytes, f"{segment!r}: the newest batch lies at {positions[-1]}"
    assert all(low < high for low, high in pairwise(ends)), f"{segment!r}: ends of batches do not rise: {ends}"
    assert all(low < high for low, high in pairwise(positions)), f"{segment!r}: batches overlap: {positions}"
