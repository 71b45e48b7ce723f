"""Ranges are gathered into few tasks without losing or doubling an offset."""

from hypothesis import given, settings
from hypothesis import strategies as st

from syncline.model.ids import TopicPartition
from syncline.pipeline.slots import Slots
from syncline.pipeline.source.gathering import gather, task_count
from syncline.pipeline.source.ranges import OffsetRange, divide

_places = st.builds(TopicPartition, st.sampled_from(["delays", "flights"]), st.integers(0, 60))
_ranges = st.dictionaries(_places, st.tuples(st.integers(0, 50), st.integers(1, 3_000)), max_size=60).map(
    lambda found: [OffsetRange(place, start, start + size) for place, (start, size) in found.items()]
)
_leaders = st.dictionaries(_places, st.integers(0, 4))
_sizes = st.dictionaries(_places, st.floats(0, 10_000))


def _covered(ranges) -> list[tuple[TopicPartition, int]]:
    return sorted((item.place, offset) for item in ranges for offset in range(item.start, item.end))


@settings(deadline=None, max_examples=60)
@given(
    whole=_ranges,
    leaders=_leaders,
    sizes=_sizes,
    tasks=st.integers(1, 20),
    pieces_min=st.none() | st.integers(1, 40),
    records_max=st.none() | st.integers(100, 900),
)
def test_gather_covers_every_offset_once(whole, leaders, sizes, tasks, pieces_min, records_max) -> None:
    """Whatever was cut before, each record is in one task, a task reads a partition once, and none is too large."""
    pieces = divide(whole, partitions_min=pieces_min, records_max=records_max)

    works = gather(pieces, tasks=tasks, records_max=records_max, leaders=leaders, record_bytes=sizes)

    assert _covered(item for work in works for item in work) == _covered(whole)
    assert all(len({item.place for item in work}) == len(work) > 0 for work in works)
    assert all(sum(item.record_count for item in work) <= (records_max or 10**9) for work in works)


@settings(deadline=None)
@given(whole=_ranges, leaders=_leaders, sizes=_sizes, tasks=st.integers(1, 20))
def test_gather_makes_few_balanced_tasks_that_know_few_leaders(whole, leaders, sizes, tasks) -> None:
    """The number of tasks is what was wanted; none is heavier than its share by more than one range."""
    works = gather(whole, tasks=tasks, leaders=leaders, record_bytes=sizes)

    known = [sizes[item.place] for item in whole if item.place in sizes]
    usual = sum(known) / len(known) if known else 1
    weights = {item: item.record_count * sizes.get(item.place, usual) for item in whole}
    loads = [sum(weights[item] for item in work) for work in works]
    assert len(works) == min(tasks, len(whole))
    assert loads == sorted(loads, reverse=True)
    assert all(load <= (sum(loads) / tasks + max(weights.values())) * 1.000001 for load in loads)
    led = [{leaders.get(item.place, -1) for item in work} for work in works]
    brokers = {leaders.get(item.place, -1) for item in whole}
    assert sum(map(len, led)) <= max(0, len(works) + len(brokers) - 1)


@settings(deadline=None)
@given(whole=_ranges, slots=st.integers(1, 8))
def test_tasks_of_a_query_are_at_most_four_for_each_slot(whole, slots) -> None:
    """Guards: at most 4 x slots tasks a query unless minPartitions asks for more."""
    assert 0 < task_count(whole, slots=Slots(slots), partitions_min=None) <= 4 * slots
    assert task_count(whole, slots=Slots(slots), partitions_min=70) == (len(whole) if whole else 0)


def test_tasks_are_as_many_as_the_data_is_worth() -> None:
    """Small data has one task for each slot, large data four; where slots are a guess, huge data has more."""

    def count(records: int, slots: Slots) -> int:
        whole = [OffsetRange(TopicPartition("flights", n), 0, records) for n in range(50)]
        return task_count(whole, slots=slots, partitions_min=None)

    assert count(10, Slots(2)) == 2
    assert count(10_000, Slots(2)) == 5
    assert count(10**6, Slots(2)) == 8
    assert count(10**6, Slots(2, is_guess=True)) == 50


def test_minpartitions_asks_for_more_tasks_than_slots() -> None:
    """Ranges that were cut to be many stay many; where there are more already, they are gathered to that number."""
    whole = [OffsetRange(TopicPartition("flights", n), 0, 1_000) for n in range(4)]
    cut = divide(whole, partitions_min=12, records_max=None)

    assert task_count(cut, slots=Slots(1), partitions_min=12) == len(cut) == 12
    assert task_count(whole, slots=Slots(1), partitions_min=3) == 3


def test_gather_groups_ranges_by_leader() -> None:
    """Six partitions of three brokers in three tasks: each task reads from one broker."""
    whole = [OffsetRange(TopicPartition("flights", n), 0, 100) for n in range(6)]
    leaders = {item.place: item.place.partition % 3 for item in whole}

    works = gather(whole, tasks=3, leaders=leaders)

    assert sorted([item.place.partition for item in work] for work in works) == [[0, 3], [1, 4], [2, 5]]
