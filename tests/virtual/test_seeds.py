"""The proof: seeds with faults, and the same trace wherever a seed runs."""

import os
import subprocess
import sys

import pytest

from syncline.virtual.simulation import RunSettings, run_seed

pytestmark = pytest.mark.virtual

SEEDS = 90
# They find as many planted faults as seventy of thirty simulated seconds, in less time; `make virtual` runs the latter.
SECONDS = 20
# These have among them whatever the first twenty have in eight seconds: settings, kinds of faults, what happened.
COMPARED = (1, 3, 5, 6, 8, 9, 15)
# Runs in other processes: a different salt of string hashes, and a heap in another state.
NOISY = "noise = [bytearray(n % 97) for n in range(50_000)]; del noise[::3]"
COMMAND = "import sys; from syncline.virtual.__main__ import main; sys.argv[0] = 'virtual'; sys.exit(main())"


# Beyond those: seeds that once failed, and what they found.
FAILED_ONCE = {
    (101, 30): "a broker never stopped waiting for the answer to a registration that its connection had lost",
}
# One of those in which coordinators renew the log of groups.
RENEWED = 21


@pytest.mark.parametrize(("seed", "seconds"), [*((seed, SECONDS) for seed in range(SEEDS)), *FAILED_ONCE])
def test_nothing_acknowledged_is_lost(seed: int, seconds: int) -> None:
    """Some simulated seconds with faults: every check of the room holds."""
    result = run_seed(seed, RunSettings(seconds=seconds))

    assert result.failures == [], f"python -m syncline.virtual replay --seed {seed} --seconds {seconds}"
    assert seed != RENEWED or result.counts["renewed group logs"] > 0


@pytest.mark.parametrize("seed", range(3))
def test_nothing_changes_without_faults(seed: int) -> None:
    """L7: no ISR change beyond the first joining, no election, no duplicate, nothing in doubt."""
    result = run_seed(seed, RunSettings(seconds=20, with_faults=False))

    assert result.failures == []
    assert (result.in_doubt, result.duplicates) == (0, 0)


def digests(salt: int, noise: str = "") -> list[str]:
    """Return what the command prints of each seed's trace, in a process of its own."""
    arguments = ["run", "--seeds", ",".join(map(str, COMPARED)), "--seconds", "8", "--digests"]
    finished = subprocess.run(
        [sys.executable, "-c", f"{noise}\n{COMMAND}", *arguments],
        env={**os.environ, "PYTHONHASHSEED": str(salt)},
        capture_output=True,
        text=True,
        check=False,
    )
    lines = [line for line in finished.stdout.splitlines() if len(line.split()) == 2]
    assert len(lines) == len(COMPARED), finished.stdout[-2000:] + finished.stderr[-2000:]
    return lines


def test_trace_is_the_same_in_every_process() -> None:
    """Another salt, another heap, another process: the same hash for each of these seeds."""
    assert digests(1) == digests(2, NOISY)


@pytest.mark.parametrize("seed", [3, 8])
def test_trace_is_the_same_when_run_again_in_one_process(seed: int) -> None:
    """Nothing survives a run: no counter, no cache, no task."""
    settings = RunSettings(seconds=10)

    assert run_seed(seed, settings).digest == run_seed(seed, settings).digest
