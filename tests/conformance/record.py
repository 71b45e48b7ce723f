"""Recording: plays every sequence against a cluster and writes the answers as facts.

    python -m tests.conformance.record HOST:PORT,...

One file per module of sequences, one line per step: the request in symbols and the normalised answer.
"""

import json
import pathlib
import sys
from collections.abc import Iterable
from typing import Any

from tests.conformance.catalogue import collect
from tests.conformance.player import Cluster, play
from tests.conformance.settings import BROKER_COUNT
from tests.conformance.steps import Sequence

RECORDED = pathlib.Path(__file__).parent / "recorded"
Recording = dict[str, list[dict[str, Any]]]


def parse_bootstrap(text: str) -> list[tuple[str, int]]:
    """Return the addresses of `host:port,host:port`."""
    return [(host, int(port)) for host, _, port in (each.rpartition(":") for each in text.split(","))]


def ready_cluster(bootstrap: list[tuple[str, int]], sequences: Iterable[Sequence], *, run: str = "c") -> Cluster:
    """Return a cluster that is prepared for these sequences."""
    cluster = Cluster(bootstrap, run=run)
    cluster.find_brokers(BROKER_COUNT)
    cluster.prepare(sequences)
    return cluster


def record(cluster: Cluster, sequences: Iterable[Sequence]) -> Recording:
    """Return the recorded form of these sequences, as JSON would give it back."""
    recording = {each.name: json.loads(json.dumps(play(cluster, each))) for each in sequences}
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


def main() -> None:
    """Record against the cluster named on the command line."""
    sequences = collect()
    cluster = ready_cluster(parse_bootstrap(sys.argv[1]), sequences)
    recording = record(cluster, sequences)
    write(recording)
    steps = sum(len(each) for each in recording.values())
    sys.stdout.write(f"{len(recording)} sequences, {steps} steps\n")


if __name__ == "__main__":
    main()
