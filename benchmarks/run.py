"""`make bench`: measure both clusters in one run and write two tables of docs/performance.md.

    python -m benchmarks.run [--only NAME ...] [--rounds N] [--no-kafka]

Each measurement is made on both sides before the next begins, each side on a
cluster of its own, and everything is measured in rounds, so that a slow minute
of the machine hits both. The figure is the median of the rounds; for the time
without a leader it is the worst. The claim is the ratio; "must" and "aim" are what the project set out to reach.
"""

import argparse
import compileall
import json
import platform
import statistics
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from benchmarks import load, operations
from benchmarks.pages import replace_table
from benchmarks.peers import ROOT, WORK, Peer, start_kafka, start_syncline

Figures = dict[str, float]


@dataclass(frozen=True)
class Claim:
    """One row of the table: ours against theirs, or ours against a bound."""

    name: str
    title: str
    unit: str
    must: float
    aim: float
    # ratio: ours / theirs; absolute: only ours. Higher or lower is better.
    is_ratio: bool
    is_higher_better: bool

    def met(self, value: float, bound: float) -> bool:
        """Return whether `value` keeps `bound`."""
        return value >= bound if self.is_higher_better else value <= bound


CLAIMS = [
    Claim("first_ack_3", "`up` to first acknowledged acks=all produce, 3 brokers", "s", 0.6, 0.3, False, False),
    Claim("first_ack_1", "the same, 1 broker", "s", 0.4, 0.2, False, False),
    Claim("rss_mb", "idle RSS per broker", "MB", 50, 40, False, False),
    Claim("idle", "CPU at rest, all brokers", "% of a core", 2, 0.5, False, False),
    Claim("idle_2000", "CPU at rest with 2,000 partitions x 3", "% of a core", 6, 1.5, False, False),
    Claim("produce_3", "produce 1 KB, RF 3, acks=all", "MB/s", 2.5, 5, True, True),
    Claim("produce_3_cpu", "broker CPU per GB, RF 3", "s/GB", 0.3, 0.15, True, False),
    Claim("produce_1", "produce 1 KB, RF 1, one broker", "MB/s", 1.2, 2, True, True),
    Claim("consume_3", "consume 1 KB, RF 3", "MB/s", 0.9, 1.2, True, True),
    Claim("consume_1", "consume 1 KB, one broker", "MB/s", 0.9, 1.2, True, True),
    Claim("sync_p50", "one record at a time, acks=all: p50", "ms", 1.0, 0.5, True, False),
    Claim("sync_p99", "one record at a time, acks=all: p99", "ms", 0.5, 0.2, True, False),
    Claim("single", "single-record requests, acks=all", "requests/s", 3, 10, True, True),
    Claim("many", "2,000 partitions x 3 created, all led and in sync", "s", 2, 0.5, False, False),
    Claim("failover", "leader killed: longest time without an acknowledgement", "s", 1, 0.3, False, False),
]


def start_up(start: Callable[[int], Peer]) -> Figures:
    """Time to the first acknowledged produce, and memory at rest."""
    figures: Figures = {}
    for brokers in (1, 3):
        times = []
        for _ in range(3):
            peer = start(brokers)
            times.append(peer.first_ack_s)
            if brokers == 3:
                time.sleep(2)
                figures["rss_mb"] = statistics.median(peer.rss_mb())
            peer.stop()
        figures[f"first_ack_{brokers}"] = statistics.median(times)
    return figures


def throughput(start: Callable[[int], Peer]) -> Figures:
    """Produce and consume, three brokers and one: cold and warm."""
    figures: Figures = {}
    for brokers in (3, 1):
        peer = start(brokers)
        try:
            load.create_topic(peer, "warm")
            load.produce(peer, "warm", 1000, 100_000)
            rounds = []
            for number in range(3):
                topic = f"load-{number}"
                load.create_topic(peer, topic)
                produced = load.produce(peer, topic, 1000, 600_000)
                rounds.append((produced, load.consume(peer, topic, 1000, 600_000)))
            figures[f"produce_{brokers}_cold"] = rounds[0][0]["mb_s"]
            figures[f"produce_{brokers}"] = statistics.median(each["mb_s"] for each, _ in rounds)
            figures[f"produce_{brokers}_cpu"] = statistics.median(each["cpu_s_gb"] for each, _ in rounds)
            figures[f"consume_{brokers}"] = statistics.median(each["mb_s"] for _, each in rounds)
            figures[f"consume_{brokers}_cpu"] = statistics.median(each["cpu_s_gb"] for _, each in rounds)
        finally:
            peer.stop()
    return figures


def small_requests(start: Callable[[int], Peer]) -> Figures:
    """Latency and rate of single records."""
    peer = start(3)
    try:
        load.create_topic(peer, "sync")
        return small_requests_to(peer, "sync")
    finally:
        peer.stop()


def small_requests_to(peer: Peer, topic: str) -> Figures:
    """Latency and rate of single records, to a topic of a running cluster."""
    load.one_at_a_time(peer, topic, count=1000)
    single = load.single_record_requests(peer, topic)
    latency = load.one_at_a_time(peer, topic)
    again = load.single_record_requests(peer, topic)
    return {
        "sync_p50": latency["p50_ms"],
        "sync_p99": latency["p99_ms"],
        "single": statistics.mean([single["requests_s"], again["requests_s"]]),
        "single_cpu": again["cpu_s_10k"],
    }


def rest_and_trouble(start: Callable[[int], Peer]) -> Figures:
    """CPU at rest, 2,000 partitions, and a killed leader."""
    peer = start(3)
    try:
        time.sleep(5)
        figures = {"idle": operations.cpu_percent(peer)}
        figures["many"] = operations.create_many(peer)["in_sync_s"]
        time.sleep(10)
        figures["idle_2000"] = operations.cpu_percent(peer)
        figures["rss_2000_mb"] = max(peer.rss_mb())
    finally:
        peer.stop()
    peer = start(3)
    try:
        figures["failover"] = operations.failover(peer)
    finally:
        peer.stop()
    return figures


MEASUREMENTS: Mapping[str, Callable[[Callable[[int], Peer]], Figures]] = {
    "start_up": start_up,
    "throughput": throughput,
    "small_requests": small_requests,
    "rest_and_trouble": rest_and_trouble,
}

VARIANT = "syncline, page cache kept"
KEPT = {"page.cache.follower.keep.bytes": "-1", "page.cache.leader.budget.bytes": "-1"}
SIDES: Mapping[str, Callable[[int], Peer]] = {
    "syncline": start_syncline,
    VARIANT: lambda brokers: start_syncline(brokers, KEPT),
    "kafka": start_kafka,
}
# The variant without page-cache recycling is measured where it matters.
VARIANT_ONLY = {"throughput"}
SAVED = WORK / "figures.json"
# The median of the rounds counts, except for these.
WORST = {"failover"}


def measure(names: list[str], *, with_kafka: bool, rounds: int) -> dict[str, Figures]:
    """Run the measurements, sides alternating."""
    results: dict[str, dict[str, list[float]]] = {side: {} for side in SIDES}
    for number in range(rounds):
        for name in names:
            for side, start in SIDES.items():
                if side == "kafka" and not with_kafka:
                    continue
                if side not in ("syncline", "kafka") and name not in VARIANT_ONLY:
                    continue
                print(f"round {number + 1} of {rounds}, {name}: {side} ...", flush=True)
                figures = MEASUREMENTS[name](start)
                for key, value in figures.items():
                    results[side].setdefault(key, []).append(value)
                print("   " + "  ".join(f"{key} {value:.3g}" for key, value in figures.items()), flush=True)
    return {
        side: {key: max(values) if key in WORST else statistics.median(values) for key, values in figures.items()}
        for side, figures in results.items()
    }


def claims_table(results: dict[str, Figures]) -> list[str]:
    """Return when and where the measurement was made, and each measured claim."""
    ours, theirs = results["syncline"], results["kafka"]
    lines = [
        f"{datetime.now(UTC):%Y-%m-%d}, {machine()}, Python {platform.python_version()},",
        "Apache Kafka 4.3.0 (Java, 512 MB heap).",
        "",
        "| | Syncline | Apache Kafka | ours / theirs | must | aim | |",
        "|---|---|---|---|---|---|---|",
    ]
    for claim in CLAIMS:
        if claim.name not in ours:
            continue
        mine, peer = ours[claim.name], theirs.get(claim.name)
        value = mine / peer if claim.is_ratio and peer else mine if not claim.is_ratio else None
        sign = "≥" if claim.is_higher_better else "≤"
        suffix = "x" if claim.is_ratio else f" {claim.unit}"
        verdict = "not compared"
        if value is not None:
            verdict = (
                "aim met" if claim.met(value, claim.aim) else "met" if claim.met(value, claim.must) else "**missed**"
            )
        ratio = f"{mine / peer:.2f}x" if peer else ""
        theirs_text = f"{rounded(peer)} {claim.unit}" if peer is not None else ""
        lines.append(
            f"| {claim.title} | {rounded(mine)} {claim.unit} | {theirs_text} | {ratio} "
            f"| {sign} {claim.must:g}{suffix} | {sign} {claim.aim:g}{suffix} | {verdict} |"
        )
    return lines


def recycling_table(results: dict[str, Figures]) -> list[str]:
    """Return produce with and without page-cache recycling, and Kafka's."""
    ours, theirs = results["syncline"], results["kafka"]
    lines = [
        "| produce 1 KB | cold | median | ours / theirs | broker CPU | ours / theirs |",
        "|---|---|---|---|---|---|",
    ]
    sides = {"recycling (default)": ours, "page cache kept": results[VARIANT], "Apache Kafka": theirs}
    for title, figures in sides.items():
        lines += [
            _produce_row(f"{title}, RF {brokers}", figures, theirs, f"produce_{brokers}")
            for brokers in (3, 1)
            if f"produce_{brokers}" in figures
        ]
    return lines


def _produce_row(title: str, figures: Figures, theirs: Figures, name: str) -> str:
    speed, cpu = (f"{figures[each] / theirs[each]:.2f}x" if each in theirs else "" for each in (name, f"{name}_cpu"))
    return (
        f"| {title} | {figures[f'{name}_cold']:.0f} MB/s | {figures[name]:.0f} MB/s | {speed} "
        f"| {figures[f'{name}_cpu']:.2f} s/GB | {cpu} |"
    )


def tables(results: dict[str, Figures]) -> dict[str, list[str]]:
    """Return the lines of each measured table by its name on the page."""
    found = {"claims": claims_table(results)}
    if results[VARIANT]:
        found["page-cache recycling"] = recycling_table(results)
    return found


def write_tables(results: dict[str, Figures]) -> None:
    """Replace the tables in docs/performance.md."""
    for name, lines in tables(results).items():
        replace_table(name, lines)


def rounded(value: float) -> str:
    """Return a figure to three digits."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def machine() -> str:
    """Describe this machine in a few words."""
    model = ""
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        names = [
            line.partition(":")[2].strip() for line in cpuinfo.read_text().splitlines() if line.startswith("model name")
        ]
        model = f"{len(names)} x {names[0]}" if names else ""
    memory = subprocess.run(["grep", "MemTotal", "/proc/meminfo"], capture_output=True, text=True, check=False).stdout
    gigabytes = int(memory.split()[1]) / 1e6 if memory else 0
    return f"{model}, {gigabytes:.0f} GB, Linux {platform.release().split('-')[0]}"


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=list(MEASUREMENTS), default=list(MEASUREMENTS))
    parser.add_argument("--rounds", type=int, default=2, help="how often everything is measured on both sides")
    parser.add_argument("--no-kafka", action="store_true", help="measure only Syncline and write nothing")
    parser.add_argument("--report", action="store_true", help="write the figures of the last run again")
    options = parser.parse_args()
    if options.report:
        write_tables(json.loads(SAVED.read_text()))
        return
    WORK.mkdir(exist_ok=True)
    # As after an installation: a start must not compile files edited since.
    compileall.compile_dir(ROOT / "src", quiet=1)
    results = measure(options.only, with_kafka=not options.no_kafka, rounds=options.rounds)
    merged = json.loads(SAVED.read_text()) if SAVED.exists() and options.only != list(MEASUREMENTS) else {}
    for side, figures in results.items():
        merged.setdefault(side, {}).update(figures)
    SAVED.write_text(json.dumps(merged, indent=1))
    if not options.no_kafka:
        write_tables(merged)


if __name__ == "__main__":
    main()
