"""Recording: plays every sequence against a cluster and writes the answers as facts.

One file per module of sequences, one line per step: the request in symbols and the normalised answer.
"""

import json
import pathlib
from collections.abc import Callable, Iterable
from typing import Any

from tests.conformance.player import Cluster, Running
from tests.conformance.settings import STEADY, WORLDS
from tests.conformance.steps import Sequence

RECORDED = pathlib.Path(__file__).parent / "recorded"
Recording = dict[str, list[dict[str, Any]]]
# Stops the broker of this rank in good order.
Stop = Callable[[int], object]


def parse_bootstrap(text: str) -> list[tuple[str, int]]:
    """Return the addresses of `host:port,host:port`."""
    return [(host, int(port)) for host, _, port in (each.rpartition(":") for each in text.split(","))]


def ready_cluster(
    bootstrap: list[tuple[str, int]], sequences: Iterable[Sequence], *, run: str = "c", world: str = STEADY
) -> Cluster:
    """Return a cluster that is prepared for these sequences, all of one world."""
    cluster = Cluster(bootstrap, run=run)
    cluster.find_brokers(WORLDS[world].brokers)
    cluster.prepare(sequences)
    return cluster


def begin_all(cluster: Cluster, sequences: Iterable[Sequence], world: str, stop: Stop) -> dict[str, Running]:
    """Return every sequence on its way, by its name, ready to be finished; a broker that leaves has left."""
    running = {each.name: Running(cluster, each) for each in sequences}
    leaves = WORLDS[world].leaves
    if leaves is not None:
        begun = list(running.values())
        while begun:
            # Step by step for all of them: what one waits for comes while the others take their step.
            begun = [each for each in begun if each.begin()]
        stop(leaves)
        cluster.await_departure(leaves)
    return running


def record(cluster: Cluster, sequences: Iterable[Sequence], world: str, stop: Stop) -> Recording:
    """Return the recorded form of these sequences, as JSON would give it back."""
    running = begin_all(cluster, sequences, world, stop)
    recording = {name: json.loads(json.dumps(each.finish())) for name, each in running.items()}
    stopped = {name: rows[-1]["stopped"] for name, rows in recording.items() if "stopped" in rows[-1]}
    assert not stopped, f"sequences that ask for what was not answered: {stopped}"
    return recording


def write(recording: Recording) -> None:
    """Replace the recordings."""
    RECORDED.mkdir(exist_ok=True)
    for old in RECORDED.glob("*.json"):
        old.unlink()
    for module in sorted({name.partition(".")[0] for name in recording}):
        lines = [
            f"{json.dumps(name)}: [\n"
            + ",\n".join(json.dumps(step, separators=(",", ":"), ensure_ascii=False) for step in steps)
            + "\n]"
            for name, steps in recording.items()
            if name.partition(".")[0] == module
        ]
        (RECORDED / f"{module}.json").write_text("{\n" + ",\n".join(lines) + "\n}\n")


def read() -> Recording:
    """Return the recordings."""
    found: Recording = {}
    for file in sorted(RECORDED.glob("*.json")):
        found.update(json.loads(file.read_text()))
    return found
