"""Ranges are divided without losing or doubling an offset."""

from hypothesis import given, settings
from hypothesis import strategies as st

from syncline.model.ids import TopicPartition
from syncline.pipeline.source.ranges import OffsetRange, divide

_places = st.integers(0, 5).map(lambda number: TopicPartition("flights", number))
_ranges = st.dictionaries(_places, st.tuples(st.integers(0, 50), st.integers(0, 5_000)), max_size=5).map(
    lambda found: [OffsetRange(place, start, start + size) for place, (start, size) in sorted(found.items())]
)


@settings(deadline=None)
@given(whole=_ranges, partitions_min=st.none() | st.integers(1, 40), records_max=st.none() | st.integers(1, 900))
def test_divide_covers_every_offset_once(
    whole: list[OffsetRange], partitions_min: int | None, records_max: int | None
) -> None:
    """The pieces of a range follow each other without gap or overlap, and none is empty or too large."""
    pieces = divide(whole, partitions_min=partitions_min, records_max=records_max)

    covered = [(piece.place, offset) for piece in pieces for offset in range(piece.start, piece.end)]
    assert covered == [(item.place, offset) for item in whole for offset in range(item.start, item.end)]
    assert all(0 < piece.record_count <= (records_max or 10**9) for piece in pieces)


def test_divide_makes_at_least_about_as_many_pieces_as_wanted() -> None:
    """A large partition is cut more often than a small one."""
    large, small = TopicPartition("flights", 0), TopicPartition("flights", 1)

    pieces = divide([OffsetRange(large, 0, 900), OffsetRange(small, 0, 100)], partitions_min=10, records_max=None)

    assert [piece.place for piece in pieces] == [large] * 9 + [small]


def test_divide_cuts_by_bytes_where_they_are_known() -> None:
    """Ten times larger records make about ten times more pieces; without sizes, both are cut alike."""
    small, large = TopicPartition("t", 0), TopicPartition("t", 1)
    whole = [OffsetRange(small, 0, 1_000), OffsetRange(large, 0, 1_000)]

    def pieces(sizes: dict[TopicPartition, float] | None) -> list[int]:
        found = divide(whole, partitions_min=22, records_max=None, record_bytes=sizes)
        return [sum(item.place == place for item in found) for place in (small, large)]

    assert pieces({small: 100.0, large: 1_000.0}) == [2, 20]
    assert pieces(None) == [11, 11]
