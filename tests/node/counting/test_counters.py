"""Counters: their sums, and the counts of deleted topics."""

import pytest

from syncline.model.ids import TopicPartition
from syncline.node.counting.counters import (
    DURATION_BOUNDS_MS,
    Counters,
    Histogram,
    TopicCounters,
    request_kind,
)


def test_partitions_of_a_topic_share_its_counters_until_the_last_one_goes() -> None:
    """Their counts move into the rest, so the sum never falls."""
    counters = Counters()
    first, second = counters.host("t"), counters.host("t")
    assert first is second
    first.bytes_in += 10
    counters.drop(TopicPartition("t", 0))
    assert counters.of("t") is first
    counters.drop(TopicPartition("t", 1))

    assert counters.topics == {}
    assert counters.of("t") is counters.elsewhere
    assert counters.elsewhere.bytes_in == 10


@pytest.mark.interpreted
def test_adding_adds_everything_that_is_counted() -> None:
    """A counter that is forgotten here would fall when its topic is deleted."""
    one, total = TopicCounters(), TopicCounters()
    names = [name for name in TopicCounters.__slots__ if name != "hosted"]
    for number, name in enumerate(names, 1):
        setattr(one, name, number)
    total.add(one)
    total.add(one)

    assert {name: getattr(total, name) for name in names} == {name: 2 * number for number, name in enumerate(names, 1)}
    assert total.hosted == 0


def test_expired_produces_are_counted_by_partition_as_long_as_it_is_hosted() -> None:
    """The total stays."""
    counters = Counters()
    counters.host("t")
    key = TopicPartition("t", 0)
    counters.produce_expired(key)
    counters.produce_expired(key)
    assert counters.produce_expiries == {key: 2}
    counters.drop(key)

    assert (counters.produce_expiries, counters.produce_expiries_total) == ({}, 2)


@pytest.mark.parametrize("bounds", [DURATION_BOUNDS_MS, (0, 10, 100)])
def test_histogram_counts_each_value_once(bounds: tuple[int, ...]) -> None:
    """On a bound, below it or beyond the last one; bounds rise."""
    histogram = Histogram(bounds)
    values = [0, *bounds, *(bound + 1 for bound in bounds), 1 << 62]
    for value in values:
        histogram.note(value)

    assert list(bounds) == sorted(set(bounds))
    assert (sum(histogram.buckets), histogram.total) == (len(values), sum(values))
    assert histogram.buckets[-1] == 2


def test_requests_of_brokers_and_clients_are_told_apart() -> None:
    """By key, version and listener."""
    asked = [(key, version, where) for key in (0, 1) for version in (0, 17) for where in ("client", "internal")]
    kinds = [request_kind(*each) for each in asked]

    assert len(set(kinds)) == 8
    assert [kind < 0 for kind in kinds] == [False, True] * 4
