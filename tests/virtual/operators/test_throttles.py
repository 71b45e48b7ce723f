"""Throttles at random, alone: a healthy cluster does not notice any configuration of them (KAFKA-4313)."""

import gc
from collections.abc import Iterator
from typing import Any

import pytest

from syncline.node.fetching.throttled import ThrottledReads
from syncline.node.replication.throttled import ThrottledFetches
from syncline.virtual.determinism.streams import stream
from syncline.virtual.operators.throttles import KIND, draw_throttles
from syncline.virtual.simulation import RunResult, RunSettings, run_seed
from syncline.virtual.time.durations import SECOND

pytestmark = pytest.mark.virtual

SECONDS = 20
SEEDS = 6


@pytest.fixture(autouse=True)
def clients_are_collected() -> Iterator[None]:
    """Collect the clients of a run before the next test, whose warnings they would be."""
    yield
    gc.collect()


def throttled(seed: int) -> RunResult:
    """Run a seed in which nothing happens but an operator who throttles."""
    plan = draw_throttles(stream(seed, "throttles"), 3 * SECOND, 14 * SECOND)
    return run_seed(seed, RunSettings(seconds=SECONDS, plan=plan))


def quiet(seed: int) -> RunResult:
    """Run the same seed without throttles."""
    return run_seed(seed, RunSettings(seconds=SECONDS, with_faults=False))


def changes(result: RunResult) -> tuple[int, int]:
    """Return how often an ISR changed, and how many elections there were; both happen when brokers stop."""
    return result.counts["isr changes"], result.counts["elections"]


def is_noticed(*, first: int) -> bool:
    """Return whether throttles make a difference in any seed; `first` is looked at first, as it showed it once."""
    return any(changes(throttled(seed)) != changes(quiet(seed)) for seed in (first, *range(SEEDS)))


@pytest.mark.parametrize("seed", range(SEEDS))
def test_throttles_alone_change_no_isr_and_delay_no_record(seed: int) -> None:
    """L7 under rates down to nothing, lists, wildcards and both rules: no ISR shrinks, and all is acknowledged."""
    result, without = throttled(seed), quiet(seed)

    assert result.failures == []
    assert result.faults[KIND] >= 4
    assert (result.in_doubt, result.duplicates, result.acknowledged) == (0, 0, without.acknowledged)
    assert changes(result) == changes(without)


@pytest.mark.interpreted
def test_leader_that_throttles_members_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """KAFKA-4313 planted on the sending side: in-sync followers wait for the quota, and fall out."""
    original = ThrottledReads._quotas

    def blind(self: ThrottledReads, partition: Any) -> Any:
        return original(self, partition)[0], False

    monkeypatch.setattr(ThrottledReads, "_quotas", blind)

    assert is_noticed(first=1)


@pytest.mark.interpreted
def test_follower_that_throttles_itself_in_sync_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """KAFKA-4313 planted on the receiving side: a member leaves a partition out of its fetches, and falls out."""
    monkeypatch.setattr(ThrottledFetches, "_is_in_sync", lambda *_: False)

    assert is_noticed(first=5)


def test_replicas_that_a_throttle_holds_are_no_failure() -> None:
    """Ordinary seeds whose faults end while followers are held: the others are whole, and all when nothing holds."""
    results = map(run_seed, (5, 25, 46))

    assert any(result.is_good and result.counts["held replicas"] for result in results)
