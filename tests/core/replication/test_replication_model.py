"""Random histories of three replicas keep every invariant, and known mistakes break one."""

from random import Random

import pytest

from syncline.core.replication import acknowledgement, isr, truncation, watermark
from syncline.core.replication.truncation import Truncation
from syncline.model.errors import ErrorCode
from tests.core.cluster_model import Cluster

STEPS = 1500


def run(seed: int) -> Cluster:
    """Run one history."""
    cluster = Cluster(Random(seed), min_isr=1 + seed % 2)
    for _ in range(STEPS):
        cluster.step()
    return cluster


def heals(cluster: Cluster) -> bool:
    """Return whether, once all faults are over, all logs become equal, wholly committed and in sync."""
    cluster.heal()
    logs = [host.replica.log.records for host in cluster.hosts.values()]
    return logs[0] == logs[1] == logs[2] == cluster.committed and sorted(cluster.current.isr) == [1, 2, 3]


@pytest.mark.parametrize("seed", range(100))
def test_model_keeps_every_invariant_and_heals(seed: int) -> None:
    """Every sequence of events keeps the invariants."""
    assert heals(run(seed))


def test_model_does_real_work() -> None:
    """The histories are not vacuous."""
    clusters = [run(seed) for seed in range(10)]

    assert sum(cluster.acknowledged_count for cluster in clusters) > 50
    assert sum(len(cluster.versions) for cluster in clusters) > 100
    assert sum(len(host.replica.truncated_to) for cluster in clusters for host in cluster.hosts.values()) > 5


def finds_a_violation() -> bool:
    """Return whether some seed breaks an invariant, or does not heal."""
    for seed in range(40):
        try:
            if not heals(run(seed)):
                return True
        except AssertionError:
            return True
    return False


MUTANTS = [
    pytest.param(watermark, "reached", lambda log_end, *_: log_end, id="watermark-ignores-followers"),
    pytest.param(acknowledgement, "produce_outcome", lambda *_: ErrorCode.NONE, id="acknowledge-before-the-isr-has-it"),
    pytest.param(
        truncation,
        "truncation_point",
        lambda _answer, _epochs, log_end, _mark: Truncation(log_end, is_finished=True, rule="mutant"),
        id="keep-the-stale-tail",
    ),
    pytest.param(truncation, "find_divergence", lambda *_: None, id="no-divergence-check"),
    pytest.param(isr, "may_join", lambda follower, *_: follower.log_end >= 0, id="anybody-may-join"),
]


@pytest.mark.parametrize(("module", "name", "mutant"), MUTANTS)
@pytest.mark.interpreted
def test_model_finds_a_known_mistake(
    monkeypatch: pytest.MonkeyPatch, module: object, name: str, mutant: object
) -> None:
    """A model that cannot find old bugs will not find new ones."""
    monkeypatch.setattr(module, name, mutant)

    assert finds_a_violation()
