# ruff: noqa: T201 -- a command, whose output is read.
"""SIGKILL a driver, a worker or a broker at 20 points of a streaming query with the sink: `make spark-kills`.

`python -m tests.pipeline.kills [--seed N] [--kafka] [--guarantee at-least-once]`. Half of the kills come between
write and commit: a process is made to wait there (`pausing`). The others come at random moments. Afterwards the query
runs to its end, and every input must be in the output exactly once. With `--kafka` the brokers are Apache Kafka's, and
the sink takes the way of transactions; one of the three brokers is killed, once, and then drivers in its place. With
`--guarantee at-least-once` it must fail, which shows that the kills come where they should. The choices are repeatable,
the run is not: it prints the seed.
"""

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from tests.cluster import ROOT, cluster
from tests.conformance.apache_kafka import running
from tests.conformance.settings import World
from tests.patience import until
from tests.pipeline.kills.pausing import DIRECTORY

PARTITIONS = 4
RECORDS = 40_000
RECORDS_PER_TRIGGER = 400
RECORDS_PER_TRIGGER_AT_THE_END = 8_000
# A machine with much else to do takes a minute to start a query.
PATIENCE_S = 300.0
# Point and victim; "random" is a moment between micro-batches or within one.
PLAN = [
    *[("commit", "driver")] * 3,
    *[("written", "driver")] * 3,
    *[("written", "worker")] * 2,
    *[("written", "broker"), ("commit", "broker")],
    *[("sending", "driver")] * 2,
    *[("sending", "worker"), ("sending", "broker")],
    *[("random", "driver")] * 2,
    *[("random", "worker")] * 2,
    *[("random", "broker")] * 2,
]
# Brokers that do not answer yet, or no more, are what this is about.
QUIET = {"log_level": 0}
KAFKA_WORLD = World(
    3,
    {
        "offsets.topic.num.partitions": "5",
        "transaction.state.log.num.partitions": "5",
        "min.insync.replicas": "2",
        "group.initial.rebalance.delay.ms": "0",
    },
)


@dataclass
class Brokers:
    """Three brokers, and how to kill one."""

    bootstrap: str
    kill: Callable[[random.Random], str]


@dataclass
class Query:
    """The query's process, started again whenever it has ended before its input."""

    brokers: Brokers
    directory: Path
    source: str
    target: str
    guarantee: str
    process: subprocess.Popen[bytes] | None = field(default=None)
    starts: int = 0

    def start(self, records: int = RECORDS_PER_TRIGGER) -> None:
        """Start the query where its checkpoint says."""
        self.starts += 1
        arguments = [self.brokers.bootstrap, self.source, self.target, str(self.directory / "checkpoint"), str(records)]
        arguments.append(self.guarantee)
        environment = {
            **os.environ,
            "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}",
            DIRECTORY: str(self.directory),
        }
        with (self.directory / "query.log").open("ab") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "tests.pipeline.kills.query", *arguments],
                stdout=output,
                stderr=output,
                env=environment,
            )

    def ensure(self) -> bool:
        """Start it again if it has failed; return False when it has come to its end."""
        assert self.process is not None, "start comes first"
        code = self.process.poll()
        if code == 0:
            return False
        if code is not None:
            self.kill_driver()
            self.start()
        return True

    @property
    def commits(self) -> int:
        """The number of micro-batches that Spark has committed."""
        return sum(1 for file in (self.directory / "checkpoint" / "commits").glob("[0-9]*"))

    def processes(self) -> list[psutil.Process]:
        """Return the JVM and all below it."""
        assert self.process is not None, "start comes first"
        with suppress(psutil.NoSuchProcess):
            return psutil.Process(self.process.pid).children(recursive=True)
        return []

    def kill_driver(self) -> str:
        """SIGKILL the driver, which is a JVM with a Python process; workers are left to notice."""
        assert self.process is not None, "start comes first"
        orphans = self.processes()
        for each in [each for each in orphans if _is(each, "java")]:
            with suppress(psutil.NoSuchProcess):
                each.kill()
        self.process.kill()
        self.process.wait()
        # Some of them write on, as zombies do, until their input ends; one that waits in a pause would not notice.
        time.sleep(0.3)
        for each in orphans:
            with suppress(psutil.NoSuchProcess):
                each.kill()
        return f"driver {self.process.pid}"

    def kill_worker(self, chosen: random.Random) -> str:
        """SIGKILL a process that runs tasks."""
        workers = [each for each in self.processes() if _is(each, "pyspark.daemon") and not each.children()]
        if not workers:
            return ""
        victim = chosen.choice(workers)
        with suppress(psutil.NoSuchProcess):
            victim.kill()
        return f"worker {victim.pid}"


def _is(process: psutil.Process, word: str) -> bool:
    try:
        return any(word in part for part in process.cmdline())
    except psutil.Error:
        return False


def main() -> int:
    """Run, print what was killed and found, and return 0 if each input is there once."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    parser.add_argument("--kafka", action="store_true")
    parser.add_argument("--guarantee", default="exactly-once")
    asked = parser.parse_args()
    chosen = random.Random(asked.seed)
    print(f"seed {asked.seed}, {'Apache Kafka' if asked.kafka else 'Syncline'}")
    began_s = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="spark-kills-") as name, _brokers(kafka=asked.kafka) as brokers:
        _create(brokers.bootstrap, "input", "output")
        _fill(brokers.bootstrap, "input")
        query = Query(brokers, Path(name), "input", "output", asked.guarantee)
        try:
            kills = _kill_all(query, chosen)
        finally:
            if query.process is not None and query.process.poll() is None:
                query.kill_driver()
        found = _read(brokers.bootstrap, "output")
    expected = {b"%08d" % number for number in range(RECORDS)}
    repeated = sum(count - 1 for count in found.values())
    missing, foreign = len(expected - found.keys()), len(found.keys() - expected)
    print(
        f"{kills} kills, {sum(point in {'written', 'commit'} for point, _ in PLAN)} of them between write and commit; "
        f"{query.starts} starts of the query; {RECORDS} inputs, {sum(found.values())} outputs: {missing} missing, "
        f"{repeated} repeated, {foreign} foreign; {time.monotonic() - began_s:.0f} s"
    )
    return int(bool(missing or repeated or foreign))


@contextmanager
def _brokers(*, kafka: bool) -> Iterator[Brokers]:
    if kafka:
        with running(KAFKA_WORLD) as peers:

            def kill_first(_: random.Random) -> str:
                # Nobody starts it again, and two must stay.
                if peers.processes[0].poll() is not None:
                    return ""
                peers.processes[0].kill()
                return "broker 0"

            yield Brokers(",".join(f"{host}:{port}" for host, port in peers.bootstrap), kill_first)
        return
    with cluster(brokers=3) as ours:

        def kill(chosen: random.Random) -> str:
            victim = chosen.choice(sorted(ours.pids))
            ours.kill(victim)
            return f"broker {victim}"

        yield Brokers(ours.bootstrap, kill)


def _kill_all(query: Query, chosen: random.Random) -> int:
    """Carry out the plan in a random order, then let the query end; return the number of kills."""
    plan = PLAN[:]
    chosen.shuffle(plan)
    query.start()
    kills = 0
    for number, (point, victim) in enumerate(plan, 1):
        seen = query.commits
        # The query makes progress between any two kills.
        _wait(query, lambda seen=seen: query.commits >= seen + 2)
        killed = _kill(query, point, victim, chosen)
        kills += bool(killed)
        print(f"{number:2} {point:8} {killed or victim + ' not found'}; {query.commits} micro-batches", flush=True)
    query.kill_driver()
    query.start(RECORDS_PER_TRIGGER_AT_THE_END)
    _wait(query, lambda: False)
    return kills


def _wait(query: Query, condition: Callable[[], bool]) -> None:
    """Wait for a condition, or for the query's end."""
    until(
        lambda: condition() or not query.ensure(),
        PATIENCE_S,
        otherwise=lambda: (query.directory / "query.log").read_text(errors="replace")[-3_000:],
    )


def _kill(query: Query, point: str, victim: str, chosen: random.Random) -> str:
    """Kill the victim at the point, and return its name."""
    pid = 0
    if point == "random":
        time.sleep(chosen.uniform(0, 1.5))
    else:
        for old in ("reached", "go"):
            (query.directory / old).unlink(missing_ok=True)
        (query.directory / point).touch()
        _wait(query, (query.directory / "reached").exists)
        pid = int((query.directory / "reached").read_text())
    try:
        killed = query.brokers.kill(chosen) if victim == "broker" else ""
        if killed:
            return killed
        if victim != "worker":
            killed = query.kill_driver()
            query.start()
            return killed
        if pid:
            os.kill(pid, signal.SIGKILL)
            return f"worker {pid}"
        return query.kill_worker(chosen)
    finally:
        (query.directory / "go").touch()


def _create(bootstrap: str, *topics: str) -> None:
    from confluent_kafka.admin import AdminClient, NewTopic

    admin = AdminClient({"bootstrap.servers": bootstrap, **QUIET})
    configs = {"min.insync.replicas": "2"}
    made = admin.create_topics([NewTopic(name, PARTITIONS, 3, config=configs) for name in topics])
    for each in made.values():
        each.result(60)
    until(lambda: set(topics) <= admin.list_topics(timeout=20).topics.keys(), 60)


def _fill(bootstrap: str, topic: str) -> None:
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 20, **QUIET})
    for number in range(RECORDS):
        value = b"%08d" % number
        while True:
            with suppress(BufferError):
                producer.produce(topic, value, value, number % PARTITIONS)
                break
            producer.poll(0.1)
    assert producer.flush(60) == 0


def _read(bootstrap: str, topic: str) -> Counter[bytes]:
    """Return how often each value is in a topic, for readers of committed records."""
    from confluent_kafka import Consumer, KafkaError, TopicPartition

    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "judge",
            "isolation.level": "read_committed",
            "auto.offset.reset": "earliest",
            "enable.partition.eof": True,
            **QUIET,
        }
    )
    consumer.assign([TopicPartition(topic, index, 0) for index in range(PARTITIONS)])
    found: Counter[bytes] = Counter()
    open_partitions = set(range(PARTITIONS))
    while open_partitions:
        message = consumer.poll(30)
        assert message is not None, f"partitions {sorted(open_partitions)} do not end"
        if message.error() is not None:
            assert message.error().code() == KafkaError._PARTITION_EOF, message.error()
            open_partitions.discard(message.partition())
        else:
            found[message.value()] += 1
    consumer.close()
    return found


if __name__ == "__main__":
    sys.exit(main())
