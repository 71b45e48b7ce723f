"""A limited micro-batch starves no partition and reads no more than it may."""

from hypothesis import given, settings
from hypothesis import strategies as st

from syncline.model.ids import TopicPartition
from syncline.pipeline.source.limits import limit, limit_bytes

_places = st.integers(0, 5).map(lambda number: TopicPartition("flights", number))


@settings(deadline=None)
@given(backlogs=st.dictionaries(_places, st.integers(0, 10_000), min_size=1), records_max=st.integers(1, 5_000))
def test_limit_moves_every_partition_with_a_backlog_but_all_together_no_further_than_allowed(
    backlogs: dict[TopicPartition, int], records_max: int
) -> None:
    """Shares follow the backlogs; a small partition gets at least one record, so none starves."""
    starts = dict.fromkeys(backlogs, 100)
    ends = {place: 100 + backlog for place, backlog in backlogs.items()}

    limited = limit(starts, ends, records_max)

    steps = {place: limited[place] - 100 for place in backlogs}
    assert all(0 <= steps[place] <= backlogs[place] for place in backlogs)
    assert all(steps[place] > 0 for place in backlogs if backlogs[place])
    assert sum(steps.values()) <= records_max + len(backlogs)


def test_limit_leaves_a_small_backlog_alone() -> None:
    """What fits is read whole."""
    place = TopicPartition("flights", 0)

    assert limit({place: 5}, {place: 9}, 4) == {place: 9}


@settings(deadline=None)
@given(
    backlogs=st.dictionaries(_places, st.integers(0, 10_000), min_size=1),
    sizes=st.dictionaries(_places, st.floats(1, 5_000)),
    bytes_max=st.integers(1, 100_000),
)
def test_limit_bytes_reads_about_as_many_bytes_as_allowed(
    backlogs: dict[TopicPartition, int], sizes: dict[TopicPartition, float], bytes_max: int
) -> None:
    """By the known sizes no more than allowed, besides one record in each partition, which keeps all of them moving."""
    ends = {place: 100 + backlog for place, backlog in backlogs.items()}

    limited = limit_bytes(dict.fromkeys(backlogs, 100), ends, bytes_max, sizes)

    mean = sum(sizes.values()) / len(sizes) if sizes else 1.0
    steps = {place: limited[place] - 100 for place in backlogs}
    assert all(steps[place] > 0 for place in backlogs if backlogs[place])
    assert sum((steps[place] - 1) * sizes.get(place, mean) for place in backlogs if steps[place]) <= bytes_max
