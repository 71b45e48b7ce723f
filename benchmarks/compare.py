"""Compare this tree with an earlier revision of it: start-up, produce, fetch and single records, alternating.

    python -m benchmarks.compare REVISION [--to OTHER] [--rounds 2]

OTHER, instead of this tree, is a revision or a directory of sources, such as that of a compiled build.

First each side starts several times, in turns; `--rounds 0` measures nothing else. Then, in each round, both clusters
run at the same time and are measured in turns: otherwise the machine's drift from minute to minute, or a lucky cluster,
would outweigh the difference. What a side has written is synced to disk before the next measurement; otherwise the
kernel would write it out at the expense of the other side. The command prints the medians of both sides, and the
median of the ratios of each pair of turns, this tree to the revision, with the interval that holds it in 95 of 100
resamplings.
"""

import argparse
import compileall
import io
import os
import random
import statistics
import subprocess
import tarfile
from collections.abc import Mapping
from pathlib import Path

from benchmarks import load
from benchmarks.peers import ROOT, WORK, Peer, start_syncline

RECORDS = 300_000
TURNS = 4
STARTS = 10
# Reading takes half a second, too short for a single measurement.
READS = 3

RESAMPLINGS = 2_000

Results = dict[str, list[float]]


def sources_of(revision: str) -> Path:
    """Return a directory with the sources of `revision`, which may be that directory itself."""
    if Path(revision, "syncline").is_dir():
        return Path(revision).resolve()
    directory = WORK / f"sources-{revision}"
    archive = subprocess.run(
        ["git", "-C", str(ROOT), "archive", revision, "src"], check=True, stdout=subprocess.PIPE
    ).stdout
    with tarfile.open(fileobj=io.BytesIO(archive)) as packed:
        packed.extractall(directory, filter="data")
    return directory / "src"


def start_up(sides: Mapping[str, Path], results: Mapping[str, Results]) -> None:
    """Measure the time from the start of the process to the first acknowledged produce, of one and three brokers."""
    for brokers in (1, 3):
        # The first start of each side reads its files from disk.
        for number in range(STARTS + 1):
            for side in sides if number % 2 == 0 else reversed(sides):
                os.environ["PYTHONPATH"] = str(sides[side])
                peer = start_syncline(brokers)
                peer.stop(rest_s=0.2)
                if number:
                    results[side].setdefault(f"start-up, {brokers} broker(s): s", []).append(peer.first_ack_s)


def start(sources: Path) -> Peer:
    """Start a cluster of three from `sources`, and warm it up."""
    os.environ["PYTHONPATH"] = str(sources)
    peer = start_syncline(3)
    load.create_topic(peer, "warm")
    load.produce(peer, "warm", 1000, 100_000)
    load.create_topic(peer, "sync")
    load.one_at_a_time(peer, "sync", count=1000)
    return peer


def measure(peer: Peer, turn: int, results: Results) -> None:
    """Take one turn with a cluster."""
    topic = f"load-{turn}"
    load.create_topic(peer, topic)
    os.sync()
    produced = load.produce(peer, topic, 1000, RECORDS)
    os.sync()
    reads = [load.consume(peer, topic, 1000, RECORDS) for _ in range(READS)]
    consumed = {name: statistics.median(each[name] for each in reads) for name in reads[0]}
    latency = load.one_at_a_time(peer, "sync", count=2000)
    single = load.single_record_requests(peer, "sync")
    for name, value in (
        ("produce: MB/s", produced["mb_s"]),
        ("produce: CPU s/GB", produced["cpu_s_gb"]),
        ("consume: MB/s", consumed["mb_s"]),
        ("consume: CPU s/GB", consumed["cpu_s_gb"]),
        ("one record at a time: p50 ms", latency["p50_ms"]),
        ("single records: requests/s", single["requests_s"]),
        ("single records: CPU s per 10,000", single["cpu_s_10k"]),
    ):
        results.setdefault(name, []).append(value)


def compare(sides: Mapping[str, Path], rounds: int) -> dict[str, Results]:
    """Return the measurements of each side."""
    results: dict[str, Results] = {side: {} for side in sides}
    print("start-up ...", flush=True)
    start_up(sides, results)
    for number in range(rounds):
        print(f"round {number + 1} of {rounds} ...", flush=True)
        order = list(sides) if number % 2 == 0 else list(reversed(sides))
        peers = {side: start(sides[side]) for side in order}
        try:
            for turn in range(TURNS):
                for side in order if turn % 2 == 0 else reversed(order):
                    measure(peers[side], turn, results[side])
        finally:
            for peer in peers.values():
                peer.stop()
    return results


def paired_ratio(before: list[float], after: list[float]) -> tuple[float, float, float]:
    """Return the median ratio of pairs that were measured one after the other, and its interval (bootstrap)."""
    ratios = [late / early for early, late in zip(before, after, strict=True)]
    dice = random.Random(0)
    medians = sorted(statistics.median(dice.choices(ratios, k=len(ratios))) for _ in range(RESAMPLINGS))
    return statistics.median(ratios), medians[RESAMPLINGS // 40], medians[-RESAMPLINGS // 40]


def main() -> None:
    """Measure both, and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("revision")
    parser.add_argument("--to", metavar="OTHER", help="another revision, or a directory of sources")
    parser.add_argument("--rounds", type=int, default=2)
    arguments = parser.parse_args()
    other = (Path(arguments.to).name[:12], sources_of(arguments.to)) if arguments.to else ("this tree", ROOT / "src")
    sides = {arguments.revision[:12]: sources_of(arguments.revision), other[0]: other[1]}
    for sources in sides.values():
        compileall.compile_dir(sources, quiet=2)
    then, now = compare(sides, arguments.rounds).items()
    print(f"\n{'':34}{then[0]:>12}{now[0]:>12}{'ratio':>8}    95 % interval")
    for name, before in then[1].items():
        after = now[1][name]
        ratio, low, high = paired_ratio(before, after)
        print(
            f"{name:34}{statistics.median(before):12.3g}{statistics.median(after):12.3g}{ratio:8.2f}"
            f"    {low:.2f} to {high:.2f} ({len(before)} pairs)"
        )


if __name__ == "__main__":
    main()
