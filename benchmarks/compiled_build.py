"""Small requests and starts of the interpreted and the compiled build beside Apache Kafka, in turns.

    python -m benchmarks.compiled_build DIRECTORY [--rounds 3] [--write]

DIRECTORY is where the compiled build is installed (`make bench-compiled` builds it). `--write` puts the table into
docs/compiled-build.md. The median of the rounds counts. Needs Java and Maven.
"""

import argparse
import compileall
import os
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from benchmarks.pages import replace_table
from benchmarks.peers import ROOT, Peer, start_kafka, start_syncline
from benchmarks.run import Figures, machine, rounded, small_requests, start_up

PAGE = ROOT / "docs" / "compiled-build.md"


class Aim(NamedTuple):
    """One figure and its aim, a ratio to Kafka's or a bound, for each build."""

    name: str
    title: str
    unit: str
    is_ratio: bool
    is_higher_better: bool
    interpreted: float
    compiled: float


AIMS = (
    Aim("single", "single-record requests, acks=all, RF 3", "requests/s", True, True, 10, 15),
    Aim("sync_p50", "one record at a time: p50", "ms", True, False, 0.6, 0.45),
    Aim("sync_p99", "one record at a time: p99", "ms", True, False, 0.2, 0.2),
    Aim("single_cpu", "single-record requests: broker CPU", "s per 10,000", True, False, 0.3, 0.2),
    Aim("first_ack_3", "three brokers, start to first acknowledgement", "s", False, False, 0.25, 0.25),
    Aim("first_ack_1", "one broker, start to first acknowledgement", "s", False, False, 0.25, 0.2),
    Aim("rss_mb", "memory of a broker at rest", "MB", False, False, 32, 32),
)


def from_sources(sources: Path) -> Callable[[int], Peer]:
    """Return the function that starts brokers from these sources."""

    def start(brokers: int) -> Peer:
        os.environ["PYTHONPATH"] = str(sources)
        return start_syncline(brokers)

    return start


def table(results: dict[str, Figures]) -> list[str]:
    """Return the table of the three sides."""
    lines = [
        "| | interpreted | compiled | Apache Kafka | ratios to Kafka | aims | |",
        "|---|---|---|---|---|---|---|",
    ]
    for aim in AIMS:
        plain, fast, kafka = (results[side][aim.name] for side in ("interpreted", "compiled", "kafka"))
        values = (plain / kafka, fast / kafka) if aim.is_ratio else (plain, fast)
        sign, unit = ("≥" if aim.is_higher_better else "≤"), ("x" if aim.is_ratio else f" {aim.unit}")
        met = [
            value >= bound if aim.is_higher_better else value <= bound
            for value, bound in zip(values, (aim.interpreted, aim.compiled), strict=True)
        ]
        lines.append(
            f"| {aim.title} | {rounded(plain)} {aim.unit} | {rounded(fast)} | {rounded(kafka)} "
            f"| {plain / kafka:.2f}x, {fast / kafka:.2f}x | {sign} {aim.interpreted:g}, {aim.compiled:g}{unit} "
            f"| {', '.join('met' if each else '**missed**' for each in met)} |"
        )
    return lines


def main() -> None:
    """Measure, print, and write the table if asked to."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("directory", type=Path)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--write", action="store_true")
    arguments = parser.parse_args()
    compiled = arguments.directory.resolve()
    for each in (ROOT / "src", compiled):
        compileall.compile_dir(each, quiet=2)
    sides = {"interpreted": from_sources(ROOT / "src"), "compiled": from_sources(compiled), "kafka": start_kafka}
    taken: dict[str, dict[str, list[float]]] = {side: {} for side in sides}
    for number in range(arguments.rounds):
        for side, start in sides.items():
            print(f"round {number + 1} of {arguments.rounds}: {side} ...", flush=True)
            for name, value in {**small_requests(start), **start_up(start)}.items():
                taken[side].setdefault(name, []).append(value)
    results = {
        side: {name: statistics.median(values) for name, values in figures.items()} for side, figures in taken.items()
    }
    found = table(results)
    print("\n".join(found))
    if arguments.write:
        replace_table("beside Kafka", [f"{machine()}, medians of {arguments.rounds} rounds:", "", *found], PAGE)


if __name__ == "__main__":
    main()
