"""Compare this tree with an earlier revision of it: produce, fetch and single records, alternating, in one run.

    python -m benchmarks.compare REVISION [--rounds 4]

Each round measures both, the order changing from round to round, each on a fresh cluster. Printed are the medians and
the ratio of this tree to the revision; differences within the spread of the rounds mean nothing.
"""

import argparse
import compileall
import io
import os
import statistics
import subprocess
import tarfile
from pathlib import Path

from benchmarks import load
from benchmarks.peers import ROOT, WORK, start_syncline

RECORDS = 600_000


def sources_of(revision: str) -> Path:
    """Return a directory with the sources of `revision`, compiled."""
    directory = WORK / f"sources-{revision}"
    archive = subprocess.run(
        ["git", "-C", str(ROOT), "archive", revision, "src"], check=True, stdout=subprocess.PIPE
    ).stdout
    with tarfile.open(fileobj=io.BytesIO(archive)) as packed:
        packed.extractall(directory, filter="data")
    return directory / "src"


def measure(sources: Path) -> dict[str, float]:
    """Return the figures of a cluster that runs from `sources`."""
    os.environ["PYTHONPATH"] = str(sources)
    figures: dict[str, float] = {}
    for brokers in (3, 1):
        peer = start_syncline(brokers)
        try:
            load.create_topic(peer, "warm")
            load.produce(peer, "warm", 1000, 100_000)
            load.create_topic(peer, "load")
            produced = load.produce(peer, "load", 1000, RECORDS)
            consumed = load.consume(peer, "load", 1000, RECORDS)
            figures[f"produce, {brokers} brokers: MB/s"] = produced["mb_s"]
            figures[f"produce, {brokers} brokers: CPU s/GB"] = produced["cpu_s_gb"]
            figures[f"consume, {brokers} brokers: MB/s"] = consumed["mb_s"]
            figures[f"consume, {brokers} brokers: CPU s/GB"] = consumed["cpu_s_gb"]
            if brokers == 3:
                load.create_topic(peer, "sync")
                load.one_at_a_time(peer, "sync", count=1000)
                latency = load.one_at_a_time(peer, "sync")
                single = load.single_record_requests(peer, "sync")
                figures["one record at a time: p50 ms"] = latency["p50_ms"]
                figures["single records: requests/s"] = single["requests_s"]
                figures["single records: CPU s per 10,000"] = single["cpu_s_10k"]
        finally:
            peer.stop()
    return figures


def main() -> None:
    """Measure both, and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("revision")
    parser.add_argument("--rounds", type=int, default=4)
    arguments = parser.parse_args()
    sides = {arguments.revision: sources_of(arguments.revision), "this tree": ROOT / "src"}
    for sources in sides.values():
        compileall.compile_dir(sources, quiet=2)
    results: dict[str, list[dict[str, float]]] = {side: [] for side in sides}
    for number in range(arguments.rounds):
        order = list(sides) if number % 2 == 0 else list(reversed(sides))
        for side in order:
            print(f"round {number + 1} of {arguments.rounds}: {side} ...", flush=True)
            results[side].append(measure(sides[side]))
    then, now = results.values()
    print(f"\n{'':36}{arguments.revision[:12]:>14}{'this tree':>14}{'ratio':>8}{'spread':>9}")
    for name in then[0]:
        before = statistics.median(each[name] for each in then)
        after = statistics.median(each[name] for each in now)
        values = [each[name] for each in now]
        spread = (max(values) - min(values)) / after
        print(f"{name:36}{before:14.3g}{after:14.3g}{after / before:8.2f}{spread:9.0%}")


if __name__ == "__main__":
    main()
