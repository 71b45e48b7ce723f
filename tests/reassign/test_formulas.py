"""How long moves take: the worked examples of the fact sheet."""

import math

import pytest

from syncline.model.ids import NONE, TopicPartition
from syncline.reassign.formulas import (
    Bottleneck,
    Load,
    Moving,
    Part,
    Role,
    bottleneck,
    loads,
    move_ratio,
)

MB = 1e6
GB = 10**9
# Broker 3 is replaced by 6: twelve partitions of 20 GB, 1 MB/s each, three replicas, led by 1, 2 and 4.
REPLACED = [
    Moving(TopicPartition("orders", index), 20 * GB, 1 * MB, (1, 2, 4)[index % 3], (6,), in_sync_followers=2)
    for index in range(12)
]


def test_move_ratio_counts_replicas() -> None:
    """90 of 900 replicas are new."""
    assert move_ratio(90, 900) == pytest.approx(0.10)
    assert move_ratio(0, 0) == 0


@pytest.mark.parametrize(
    ("quota", "seconds"), [(50 * MB, 5_000), (20 * MB, 20_000), (12 * MB, 100_000), (10 * MB, math.inf)]
)
def test_move_time_is_that_of_the_kip(quota: float, seconds: float) -> None:
    """A tenth of 4 x 500 GB, and the busiest broker takes 10 MB/s."""
    assert Load(4 * 500 * GB // 10, 10 * MB).time_s(quota) == pytest.approx(seconds)


def test_broker_that_receives_everything_is_the_bottleneck() -> None:
    """Broker 6 receives 240 GB in 5,000 s; each leader sends its 80 GB in 1,667 s."""
    parts = loads(REPLACED, counts_in_sync=True)

    assert parts[Part(6, Role.RECEIVING)] == Load(240 * GB, 12 * MB)
    assert parts[Part(1, Role.SENDING)] == Load(80 * GB, 12 * MB)
    assert parts[Part(1, Role.SENDING)].time_s(60 * MB) == pytest.approx(1_667, abs=1)
    assert bottleneck(parts, 60 * MB) == Bottleneck(Part(6, Role.RECEIVING), 5_000)


def test_higher_rate_for_the_bottleneck_alone_halves_the_time() -> None:
    """108 MB/s for what broker 6 receives, 60 for all that is sent."""
    parts = loads(REPLACED, counts_in_sync=True)
    quotas = {part: 108 * MB if part.role is Role.RECEIVING else 60 * MB for part in parts}

    assert bottleneck(parts, quotas) == Bottleneck(Part(6, Role.RECEIVING), 2_500)


def test_throttle_of_a_move_counts_new_replicas_only() -> None:
    """In-sync followers take nothing of it: a leader keeps up with one destination, not with three followers."""
    assert loads(REPLACED, counts_in_sync=False)[Part(1, Role.SENDING)] == Load(80 * GB, 4 * MB)


def test_too_low_a_quota_never_ends() -> None:
    """Receiving 12 MB/s of new records with 10 MB/s; 21.26 MB/s do it in 6 hours."""
    load = Load(200 * GB, 12 * MB)

    assert load.time_s(10 * MB) == math.inf
    assert load.time_s(12 * MB) == math.inf
    assert load.quota_for(21_600) == pytest.approx(21.26 * MB, rel=1e-3)


def test_in_sync_followers_starve_the_newcomer() -> None:
    """4 MB/s, three replicas, one destination: 10 MB/s look like much and are not enough; more than 12 are."""
    parts = loads(
        [Moving(TopicPartition("hot", 0), 50 * 10**6, 4 * MB, 1, (4,), in_sync_followers=2)], counts_in_sync=True
    )
    sending = parts[Part(1, Role.SENDING)]

    assert sending.keep_up_bytes_per_s == 12 * MB
    assert sending.time_s(10 * MB) == math.inf
    assert sending.time_s(12.1 * MB) < math.inf


def test_partition_without_new_replicas_costs_its_leader_only_under_kip_73() -> None:
    """A pure reorder is listed by the tool, so its followers count there."""
    reorder = [Moving(TopicPartition("a", 0), GB, 2 * MB, 1, (), in_sync_followers=2)]

    assert loads(reorder, counts_in_sync=True) == {Part(1, Role.SENDING): Load(0, 4 * MB)}
    assert loads(reorder, counts_in_sync=False) == {}
    assert bottleneck(loads(reorder, counts_in_sync=True), 1.0) is None


def test_partition_without_a_leader_is_sent_by_nobody() -> None:
    """No broker has the number -1."""
    assert loads([Moving(TopicPartition("a", 0), GB, 1.0, NONE, (4,))], counts_in_sync=True).keys() == {
        Part(4, Role.RECEIVING)
    }
