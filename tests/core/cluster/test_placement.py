"""Placement of new replicas."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from syncline.core.cluster.placement import place
from tests.core.controller_world import broker


@given(count=st.integers(1, 7), partitions=st.integers(1, 60), factor=st.integers(1, 7), seed=st.integers(0, 1_000))
def test_replicas_are_distinct_and_leaders_balanced(count: int, partitions: int, factor: int, seed: int) -> None:
    """No broker twice in a partition; the most and the least loaded leader differ by one at most."""
    factor = min(factor, count)
    brokers = {each: broker(each) for each in range(1, count + 1)}

    placed = place(brokers, partitions=partitions, replication_factor=factor, below=lambda bound: seed % bound)

    assert all(len(set(replicas)) == factor for replicas in placed)
    leaders = Counter(replicas[0] for replicas in placed)
    assert max(leaders.values()) - min(leaders[each] for each in brokers) <= 1


def test_followers_of_one_leader_are_shifted_each_round() -> None:
    """Two brokers do not share all their partitions."""
    brokers = {each: broker(each) for each in (1, 2, 3, 4)}

    placed = place(brokers, partitions=12, replication_factor=2, below=lambda _: 0)

    assert {replicas for replicas in placed if replicas[0] == 1} == {(1, 2), (1, 3), (1, 4)}


@pytest.mark.parametrize("start", range(4))
def test_replicas_are_in_different_racks(start: int) -> None:
    """With as many brokers in each of two racks, two replicas are never in the same one."""
    brokers = {each: broker(each, rack="a" if each <= 2 else "b") for each in (1, 2, 3, 4)}
    rack = {each: record.rack for each, record in brokers.items()}

    placed = place(brokers, partitions=4, replication_factor=2, below=lambda bound: start if bound > start else 0)

    assert all(rack[first] != rack[second] for first, second in placed)


@given(
    count=st.integers(1, 6),
    spare=st.integers(0, 3),
    partitions=st.integers(1, 60),
    factor=st.integers(1, 9),
    first=st.integers(0, 20),
    start=st.integers(0, 5),
)
def test_each_partition_has_the_replicas_of_its_number(
    count: int, spare: int, partitions: int, factor: int, first: int, start: int
) -> None:
    """The leader, others from as many places after it as there were rounds, and fenced brokers in their own turns."""
    active, fenced = [*range(1, count + 1)], [*range(count + 1, count + spare + 1)]
    factor = min(factor, count + spare)
    brokers = {each: broker(each) for each in active} | {each: broker(each, fenced=True) for each in fenced}
    start %= count

    placed = place(
        brokers, partitions=partitions, replication_factor=factor, below=lambda _: start, first_partition=first
    )

    shift = start
    expected = []
    for number in range(first, first + partitions):
        shift += number > 0 and number % count == 0
        leader = (start + number) % count
        others = [*range(leader + 1, leader + count)]
        turned = [others[(shift + step) % (count - 1)] for step in range(count - 1)]
        row = [active[place % count] for place in (leader, *turned)][:factor]
        row += [fenced[(start + number + step) % spare] for step in range(factor - len(row))]
        expected.append(tuple(row))
    assert list(placed) == expected
