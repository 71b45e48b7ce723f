"""L9: partitions accept records while faults last, and the rule notices when they do not."""

import pytest

from syncline.core.cluster.broker_sessions import BrokerSessions
from syncline.node.controller.death_watch import DeathWatches
from syncline.virtual.faults import Fault
from syncline.virtual.simulation import RunResult, RunSettings, run_seed
from syncline.virtual.time.durations import SECOND

# Clients that never got an answer are not closed when a run breaks off.
pytestmark = [
    pytest.mark.virtual,
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning", "ignore::ResourceWarning"),
]

SEEDS = 6
# Its brokers' sessions last four seconds, so that only a refused connection is noticed within three.
LONG_SESSION_SEED = 2


def run_with(kind: str, target: str = "leader", *, seed: int = 1, amount: int = 0) -> RunResult:
    """Return the result of a run in which one fault strikes at 5 s and lasts six seconds."""
    plan = (Fault(5 * SECOND, kind, target, "", 6 * SECOND, amount),)
    return run_seed(seed, RunSettings(seconds=16, plan=plan, with_lasting_faults=True))


def late(result: RunResult) -> list[str]:
    """Return the violations of L9."""
    return [text for text in result.failures if text.startswith("L9 ")]


@pytest.mark.parametrize("seed", range(SEEDS))
def test_partitions_accept_records_while_faults_last(seed: int) -> None:
    """Thirty simulated seconds with lasting faults: every check of the room holds, L9 and L10 included."""
    result = run_seed(seed, RunSettings(seconds=30, with_lasting_faults=True))

    assert result.failures == [], f"python -m syncline.virtual replay --seed {seed} --seconds 30 --lasting"


@pytest.mark.parametrize("target", ["broker-1", "broker-2", "broker-3"])
def test_full_disk_gives_its_leaderships_away(target: str) -> None:
    """The broker went on leading while its disk was full, although two healthy members of the ISR could lead."""
    result = run_with("full_disk", target)

    assert result.failures == []
    assert result.counts["L9 full_disk"] > 0


def test_death_that_the_controller_does_not_look_for_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a session of four seconds, the limit of three holds only if refused connections count."""
    monkeypatch.setattr(DeathWatches, "follow", lambda *_: None)

    assert late(run_with("kill", "broker-1", seed=LONG_SESSION_SEED))


def test_silence_that_the_controller_overlooks_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """A paused leader keeps its partitions for as long as it is paused."""
    monkeypatch.setattr(BrokerSessions, "expired", lambda *_: None)

    assert late(run_with("pause", "broker-1"))


def test_trace_of_a_run_with_lasting_faults_is_the_same_each_time() -> None:
    """The prober and the costly client are part of the run."""
    settings = RunSettings(seconds=10, with_lasting_faults=True)

    assert run_seed(4, settings).digest == run_seed(4, settings).digest
