"""What reading topics into Spark costs, compared with Spark's own Kafka connector.

    python -m benchmarks.spark_read [--records 4800000] [--rounds 5] [--no-connector] [--write]

Three brokers hold a topic of 12 partitions with records of 100 bytes, one of 2,000 partitions with 10 records each, and
one that is read in micro-batches of 100 records. A driver with `local[2]` reads each again and again (`spark_job`),
then one with Spark's own connector reads the large topic, in the same run; and then ours again, to show whether the
machine became slower or faster. CPU time is that of the driver and all its processes; the brokers' is listed beside it.
The first rounds, which compile, are left out, and the median of the others counts.

The connector needs Java, Maven once, and an environment of its own, as its jars are for Spark 4.0: it is made under
.work once, or SYNCLINE_SPARK_CONNECTOR names a directory with `env` (pyspark 4.0.0) and `lib` (the jars).
"""

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import psutil
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from benchmarks.pages import replace_table
from benchmarks.peers import ROOT, WORK, Peer, start_syncline

LARGE, MANY, TRICKLE = "large", "many", "trickle"
LARGE_PARTITIONS, MANY_PARTITIONS = 12, 2_000
RECORD_BYTES = 100
SPARK_VERSION = "4.0.0"
POM = f"""<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
<groupId>syncline.benchmarks</groupId><artifactId>spark-kafka</artifactId><version>1</version><dependencies><dependency>
<groupId>org.apache.spark</groupId><artifactId>spark-sql-kafka-0-10_2.13</artifactId><version>{SPARK_VERSION}</version>
<exclusions><exclusion><groupId>org.apache.hadoop</groupId><artifactId>*</artifactId></exclusion></exclusions>
</dependency></dependencies></project>"""
CONNECTOR_JARS = ("spark-sql-kafka", "spark-token", "kafka-clients", "commons-pool2")
CPU_US_MAX = 1.0
PRUNED_CPU_US_MAX = 0.55
MANY_S_MAX = 5.0
MICRO_BATCH_S_MAX = 0.25
CONNECTOR_RATIO_MIN = 2.0


class Rounds(NamedTuple):
    """The median round of one query: rows, seconds, and CPU time of the driver and of the brokers."""

    rows: int
    seconds: float
    cpu_s: float
    broker_cpu_s: float

    @property
    def rows_per_s(self) -> float:
        """Return the rate."""
        return self.rows / self.seconds

    @property
    def cpu_us(self) -> float:
        """Return the driver's CPU time per row."""
        return self.cpu_s / self.rows * 1e6


def fill(peer: Peer, records: int) -> None:
    """Create the topics and their records, 100 bytes each and without keys."""
    admin = AdminClient({"bootstrap.servers": peer.bootstrap})
    wanted = ((LARGE, LARGE_PARTITIONS, records), (MANY, MANY_PARTITIONS, 10 * MANY_PARTITIONS), (TRICKLE, 2, 20_000))
    topics = [NewTopic(name, partitions, 1) for name, partitions, _ in wanted]
    for created in admin.create_topics(topics, operation_timeout=60, request_timeout=60).values():
        created.result(60)
    for name, partitions, count in wanted:
        producer = Producer(
            {
                "bootstrap.servers": peer.bootstrap,
                "linger.ms": 50,
                "batch.size": 1_000_000,
                "queue.buffering.max.messages": 1_000_000,
            }
        )
        value = os.urandom(RECORD_BYTES)
        for number in range(count):
            while True:
                try:
                    producer.produce(name, value, partition=number % partitions)
                    break
                except BufferError:
                    producer.poll(0.01)
            if number % 1024 == 0:
                producer.poll(0)
        if producer.flush(120):
            raise RuntimeError(f"{name} could not be filled")


def broker_cpu_s(peer: Peer) -> float:
    """Return the CPU time of all brokers so far, ended threads included."""
    times = [psutil.Process(pid).cpu_times() for pid in peer.pids.values()]
    return sum(each.user + each.system for each in times)


def run(python: Path | str, peer: Peer, kind: str, wanted: list[str], *options: str) -> dict[str, list[Any]]:
    """Return what a driver reported for each round, by query and topic."""
    command = [str(python), str(ROOT / "benchmarks" / "spark_job.py"), kind, peer.bootstrap, *options, *wanted]
    environment = {**os.environ, "PYSPARK_PYTHON": str(python)}
    told: dict[str, list[Any]] = {}
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment, text=True) as process:
        assert process.stdout is not None
        cpu_s = broker_cpu_s(peer)
        for line in process.stdout:
            if line.startswith("{"):
                content = json.loads(line)
                content["broker_cpu_s"] = broker_cpu_s(peer) - cpu_s
                cpu_s = broker_cpu_s(peer)
                told.setdefault(content["query"], []).append(content)
                print(kind, line.strip(), f"brokers {content['broker_cpu_s']:.2f}", flush=True)
    if process.returncode:
        raise RuntimeError(f"{kind}: the driver ended with {process.returncode}")
    return told


def summary(rounds: list[Any], warm_up: int) -> Rounds:
    """Return the median of the rounds after the first ones."""
    kept = rounds[warm_up:]
    (rows,) = {told["rows"] for told in kept}
    return Rounds(rows, *(median(told[name] for told in kept) for name in ("seconds", "cpu_s", "broker_cpu_s")))


def connector() -> tuple[Path, str]:
    """Return a Python with the connector's Spark, and its jars; both are fetched once."""
    home = Path(os.environ.get("SYNCLINE_SPARK_CONNECTOR") or WORK / "spark-connector").resolve()
    python, library = home / "env" / "bin" / "python", home / "lib"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", home / "env"], check=True)
        subprocess.run([python, "-m", "pip", "install", "-q", f"pyspark=={SPARK_VERSION}"], check=True)
    if not library.exists():
        home.mkdir(parents=True, exist_ok=True)
        (home / "pom.xml").write_text(POM)
        goal = ["dependency:copy-dependencies", f"-DoutputDirectory={library}"]
        subprocess.run(["mvn", "-q", "-B", "-f", home / "pom.xml", *goal], check=True)
    jars = [str(jar) for jar in sorted(library.glob("*.jar")) if jar.name.startswith(CONNECTOR_JARS)]
    return python, ",".join(jars)


def table(figures: dict[str, Rounds], micro_batch_s: float) -> list[str]:
    """Return the lines of the page."""
    lines = [
        "| read | rows | seconds | rows/s | µs of CPU per row | brokers' |",
        "|---|---|---|---|---|---|",
    ]
    for name, told in figures.items():
        broker_us = told.broker_cpu_s / told.rows * 1e6
        lines.append(
            f"| {name} | {told.rows:,} | {told.seconds:.2f} | {told.rows_per_s:,.0f} | {told.cpu_us:.2f} |"
            f" {broker_us:.2f} |"
        )
    return [*lines, "", f"A micro-batch of 100 records takes {micro_batch_s * 1000:.0f} ms (median of 25)."]


def main() -> int:
    """Measure, print, and return 1 if a figure misses its limit."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=4_800_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--no-connector", action="store_true")
    parser.add_argument("--write", action="store_true", help="put the table into docs/performance.md")
    given = parser.parse_args()
    warm_up, rounds = 3, given.rounds + 3
    peer = start_syncline(3)
    figures: dict[str, Rounds] = {}
    try:
        fill(peer, given.records)
        ours = [f"full:{LARGE}:{rounds}", f"pruned:{LARGE}:{rounds}", f"count:{MANY}:4", f"stream:{TRICKLE}:1"]
        told = run(sys.executable, peer, "syncline", ours)
        figures["all columns"] = summary(told["full"], warm_up)
        figures["`offset` and `timestamp` only"] = summary(told["pruned"], warm_up)
        figures["2,000 partitions of 10 records"] = summary(told["count"], 1)
        micro_batch_s = median(told["stream"][0]["batches_s"])
        if not given.no_connector:
            python, jars = connector()
            theirs = run(python, peer, "kafka", [f"full:{LARGE}:{rounds}"], "--jars", jars)
            figures["all columns, Spark's Kafka connector"] = summary(theirs["full"], warm_up)
            again = run(sys.executable, peer, "syncline", [f"full:{LARGE}:{rounds}"])
            figures["all columns, again"] = summary(again["full"], warm_up)
    finally:
        peer.stop()
    lines = table(figures, micro_batch_s)
    print(*lines, sep="\n")
    missed = missed_limits(figures, micro_batch_s)
    print(*missed, sep="\n")
    if given.write:
        replace_table("spark read", lines)
    return int(bool(missed))


def missed_limits(figures: dict[str, Rounds], micro_batch_s: float) -> list[str]:
    """Return a sentence for each figure that misses its limit."""
    ours = min((told for name, told in figures.items() if name in {"all columns", "all columns, again"}))
    checks = [
        ("µs of CPU per row, all columns", ours.cpu_us, CPU_US_MAX),
        ("µs of CPU per row, pruned", figures["`offset` and `timestamp` only"].cpu_us, PRUNED_CPU_US_MAX),
        ("seconds for 2,000 partitions", figures["2,000 partitions of 10 records"].seconds, MANY_S_MAX),
        ("seconds of a micro-batch", micro_batch_s, MICRO_BATCH_S_MAX),
    ]
    theirs = figures.get("all columns, Spark's Kafka connector")
    if theirs is not None:
        checks.append(("times the connector's seconds", ours.seconds / theirs.seconds, 1 / CONNECTOR_RATIO_MIN))
        checks.append(("times the connector's CPU time", ours.cpu_us / theirs.cpu_us, 1.0))
    return [f"missed: {value:.2f} {what}, not at most {most:.2f}" for what, value, most in checks if value > most]


if __name__ == "__main__":
    sys.exit(main())
