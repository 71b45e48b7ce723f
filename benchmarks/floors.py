"""Small requests beside Apache Kafka and beside a cluster that only passes bytes on (`bare_cluster.py`).

    python -m benchmarks.floors [--rounds 2] [--python OTHER] [--write]

What such a cluster takes is the floor for any broker in Python: the event loop, the kernel, and the client's own part.
What Syncline takes above it is its own work, and Python's. OTHER is the interpreter of another environment with
Syncline, in which its brokers run as a further side: builds of Python differ. `--write` puts the table into
docs/performance.md. The median of the rounds counts. Needs Java and Maven.
"""

import argparse
import compileall
import statistics
import subprocess
import sys
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import partial
from typing import Final, NamedTuple

from benchmarks.bare_cluster import start_bare
from benchmarks.pages import replace_table
from benchmarks.peers import KAFKA_VERSION, ROOT, WORK, start_kafka, start_syncline
from benchmarks.run import Figures, machine, rounded, small_requests, small_requests_to


class Row(NamedTuple):
    """One figure of the table."""

    name: str
    title: str
    unit: str


ROWS: Final = (
    Row("sync_p50", "one record at a time, acks=all: p50", "ms"),
    Row("single", "single-record requests, acks=all", "requests/s"),
    Row("single_cpu", "the same: brokers' CPU", "s per 10,000"),
)


def of_bare_ones() -> Figures:
    """Measure the cluster that only passes bytes on."""
    peer = start_bare()
    try:
        return small_requests_to(peer, "sync")
    finally:
        peer.stop()


Side = Callable[[], Figures]
OURS: Final = "Syncline"
BARE: Final = "only passes on"
KAFKA: Final = "Apache Kafka"


def sides(other_python: str | None) -> Mapping[str, Side]:
    """Return the measurements by column title."""
    found: dict[str, Side] = {OURS: lambda: small_requests(start_syncline)}
    if other_python is not None:
        found[f"{OURS}, {version_of(other_python)}"] = lambda: small_requests(
            partial(start_syncline, python=other_python)
        )
    return {**found, BARE: of_bare_ones, KAFKA: lambda: small_requests(start_kafka)}


def version_of(python: str) -> str:
    """Return the version of an interpreter."""
    return subprocess.run([python, "--version"], check=True, stdout=subprocess.PIPE, text=True).stdout.strip()


def table(results: Mapping[str, Figures]) -> list[str]:
    """Return the figures of all sides, and their ratios to Kafka's."""
    lines = ["| | " + " | ".join(results) + " |", "|---" * (len(results) + 1) + "|"]
    for row in ROWS:
        kafka = results[KAFKA][row.name]
        cells = [
            f"{rounded(figures[row.name])} {row.unit}"
            + ("" if side == KAFKA else f" ({figures[row.name] / kafka:.2f}x)")
            for side, figures in results.items()
        ]
        lines.append(f"| {row.title} | " + " | ".join(cells) + " |")
    return lines


def main() -> None:
    """Measure, print, and write the table if asked to."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--write", action="store_true", help="write the table to docs/performance.md")
    parser.add_argument("--python", metavar="OTHER", help="an interpreter for a further side of Syncline")
    options = parser.parse_args()
    measured = sides(options.python)
    WORK.mkdir(exist_ok=True)
    compileall.compile_dir(ROOT / "src", quiet=1)
    taken: dict[str, dict[str, list[float]]] = {side: {} for side in measured}
    for number in range(options.rounds):
        for side, measure in measured.items():
            print(f"round {number + 1} of {options.rounds}: {side} ...", flush=True)
            for name, value in measure().items():
                taken[side].setdefault(name, []).append(value)
    lines = table(
        {side: {name: statistics.median(each) for name, each in all_.items()} for side, all_ in taken.items()}
    )
    print("\n".join(lines))
    if options.write:
        where = f"{datetime.now(UTC):%Y-%m-%d}, {machine()}, {version_of(sys.executable)}"
        replace_table(
            "floors", [f"{where}, Apache Kafka {KAFKA_VERSION}, medians of {options.rounds} rounds:", "", *lines]
        )


if __name__ == "__main__":
    main()
