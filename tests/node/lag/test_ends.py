"""What leaders said of partitions, as a coordinator remembers it."""

from typing import Any

import pytest

from syncline.model.ids import BrokerId, LeaderEpoch, Offset, TopicPartition
from syncline.model.lag import PartitionEnds
from syncline.node.lag.ends import KnownEnds

KEY = TopicPartition("t", 0)


def ends(at_ms: int, watermark: int, log_end: int, *, leader: int = 1, epoch: int = 0, **more: Any) -> PartitionEnds:
    """Return what a leader says; a record has ten bytes."""
    return PartitionEnds(
        leader=BrokerId(leader),
        leader_epoch=LeaderEpoch(epoch),
        at_ms=at_ms,
        log_start=Offset(0),
        high_watermark=Offset(watermark),
        last_stable=Offset(watermark),
        log_end=Offset(log_end),
        first_bytes=0,
        watermark_bytes=10 * watermark,
        end_bytes=10 * log_end,
        newest_event_ms=-1,
        written_bytes_per_s=0.0,
        retention_ms=-1,
        retention_bytes=-1,
        held_since_ms=-1,
        readable_below_watermark=-1,
    )._replace(**more)


def test_another_leader_life_or_epoch_begins_a_namespace() -> None:
    """Guards kept places: coordinates of two lives of a log have nothing in common."""
    known = KnownEnds(10)

    namespaces = [
        known.take(KEY, told, broker_epoch).namespace
        for told, broker_epoch in (
            (ends(1, 5, 5), 7),
            (ends(2, 6, 6), 7),
            (ends(3, 6, 6), 8),
            (ends(4, 6, 6, epoch=1), 8),
            (ends(5, 6, 6, epoch=1, leader=2), 8),
        )
    ]
    other = known.take(TopicPartition("t", 1), ends(6, 6, 6), 8)

    assert namespaces == [1, 1, 2, 3, 4]
    assert other.namespace == 5
    known.check_invariants()


def test_watermark_is_held_as_long_as_it_stands_below_the_log_end() -> None:
    """Since the first answer that had it there, not since the last."""
    known = KnownEnds(10)

    held = []
    for told in (ends(1, 5, 5), ends(2, 5, 8), ends(3, 5, 9), ends(4, 5, 9), ends(5, 6, 9), ends(6, 9, 9)):
        last = known.take(KEY, told, 7).last
        assert last is not None
        held.append(last.held_since_ms)

    assert held == [-1, -1, 2, 2, -1, -1]


def test_speeds_need_two_samples_of_one_leader() -> None:
    """Records go on under another leader, bytes are counted from another origin."""
    known = KnownEnds(10)
    seen = known.take(KEY, ends(1_000, 10, 10), 7)
    seen.tick(ends(1_000, 10, 10))
    unknown = seen.produced_per_s, seen.written_bytes_per_s
    seen.tick(ends(2_000, 30, 30))
    later = ends(3_000, 50, 50, leader=2)
    known.take(KEY, later, 7)
    seen.tick(later)

    assert unknown == (None, 0.0)
    assert seen.produced_per_s == seen.usual_produced_per_s == pytest.approx(20.0)
    assert seen.written_bytes_per_s == 0.0
    assert known.newest("t", 0) == 50
    assert list(seen.ring.offsets()) == [10, 30, 50]


def test_ends_that_contradict_each_other_are_refused() -> None:
    """A leader of another version, or a broken one, must not make a lag negative."""
    with pytest.raises(AssertionError, match="out of order"):
        KnownEnds(10).take(KEY, ends(1, 9, 5), 7)


def test_partitions_that_no_group_reads_are_forgotten() -> None:
    """With all that was heard of them."""
    known = KnownEnds(10)
    known.take(KEY, ends(1, 5, 5), 7)

    known.keep_only([TopicPartition("t", 1)])

    assert (len(known), known.newest("t", 0), known.get(KEY)) == (0, None, None)
