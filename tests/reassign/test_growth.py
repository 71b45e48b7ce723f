"""How fast partitions grow, from looks at a cluster."""

import pytest

from syncline.model.ids import TopicPartition
from syncline.reassign.cluster_state import ClusterState, PartitionState
from syncline.reassign.growth import Growth
from syncline.reassign.log_dir_states import Place

KEY = TopicPartition("t", 0)


def look(at_ms: int, size_bytes: int) -> ClusterState:
    """Return a cluster in which broker 1 leads a log of this size."""
    return ClusterState(at_ms, {}, {KEY: PartitionState((1,), (1,), 1)}, {}, {Place(KEY, 1): size_bytes})


def test_growth_is_that_of_the_leaders_log() -> None:
    """Unknown after one look; 1 MB/s is that from the second on."""
    growth = Growth()
    growth.seen(look(0, 5_000_000))
    assert growth.rates == {}
    for second in range(1, 5):
        growth.seen(look(second * 1000, 5_000_000 + second * 1_000_000))

    assert growth.rates == {KEY: pytest.approx(1e6)}


def test_one_burst_moves_it_by_less_than_a_third_and_a_lasting_change_is_learnt_in_seconds() -> None:
    """3 MB in one second, then 1 MB/s again; then 3 MB/s for eight seconds."""
    growth = Growth()
    size = 0
    growth.seen(look(0, size))
    seen = []
    for second in range(1, 20):
        size += 3_000_000 if second == 5 or second > 11 else 1_000_000
        growth.seen(look(second * 1000, size))
        seen.append(growth.rates[KEY])

    assert seen[4] == pytest.approx(1e6 + 2e6 * (1 - 0.5**0.5))
    assert seen[10] < 1.1e6
    assert seen[-1] > 2.8e6


def test_looks_at_the_same_moment_are_one() -> None:
    """Nothing is divided by no time."""
    growth = Growth()
    growth.seen(look(0, 0))
    growth.seen(look(0, 500_000))
    growth.seen(look(1000, 1_500_000))

    assert growth.rates == {KEY: pytest.approx(1e6)}
