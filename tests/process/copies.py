"""Copies from broker to broker, watched from outside: by the files on the disks and by what metrics say."""

import json
import re
import time
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tests.cli.terminal import call
from tests.cluster import LocalCluster
from tests.patience import until
from tests.process.load import QUIET

RECORD_BYTES = 50_000
LOOK_S = 0.02
MEASURE_S = 0.5


def fill(
    cluster: LocalCluster,
    topic: str,
    *replicas: Sequence[int],
    size_bytes: int,
    config: Mapping[str, str] | None = None,
) -> None:
    """Create a topic with these replicas, and write so many bytes into each of its partitions."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap, **QUIET})
    new = NewTopic(
        topic, len(replicas), replica_assignment=[list(each) for each in replicas], config=dict(config or {})
    )
    admin.create_topics([new])[topic].result(10)
    write(cluster, topic, len(replicas), size_bytes)


def write(cluster: LocalCluster, topic: str, partitions: int, size_bytes: int) -> None:
    """Append so many bytes to each of a topic's partitions."""
    # A batch has one record, so that copies proceed in small steps.
    settings = {"acks": "1", "batch.num.messages": 1, "linger.ms": 0}
    producer = Producer({"bootstrap.servers": cluster.bootstrap, **QUIET, **settings})
    for partition in range(partitions):
        for _ in range(size_bytes // RECORD_BYTES):
            producer.produce(topic, b"x" * RECORD_BYTES, partition=partition)
    assert producer.flush(20) == 0


def on_disk(cluster: LocalCluster, broker: int, *topics: str) -> int:
    """Return how many bytes of records of these topics a broker has."""
    found = 0
    for topic in topics:
        for file in (cluster.directory / f"broker-{broker}").glob(f"{topic}-[0-9]*/*.log"):
            try:
                found += file.stat().st_size
            except FileNotFoundError:  # the directory is being renamed
                continue
    return found


def move(cluster: LocalCluster, plan: Path, targets: Mapping[str, Sequence[Sequence[int]]], *options: str) -> None:
    """Begin to move the partitions of topics, by `syncline reassign execute`."""
    rows = [
        {"topic": topic, "partition": number, "replicas": list(replicas)}
        for topic, partitions in targets.items()
        for number, replicas in enumerate(partitions)
    ]
    plan.write_text(json.dumps({"version": 1, "partitions": rows}))
    call("reassign", "execute", "-f", str(plan), *options, "--data", str(cluster.directory))


def is_moved(cluster: LocalCluster) -> bool:
    """Return whether nothing moves."""
    return json.loads(call("reassign", "list", "--json", "--data", str(cluster.directory))) == []


class Watch:
    """What arrives, from now on: pairs of seconds and bytes, and the replication rates of brokers twice a second."""

    def __init__(self, cluster: LocalCluster, broker: int, *topics: str) -> None:
        self._cluster = cluster
        self._broker = broker
        self._topics = topics
        self._began_s = time.monotonic()
        self.before_bytes = on_disk(cluster, broker, *topics)
        self.arrived: list[tuple[float, int]] = [(0.0, 0)]
        # By role and broker, the byte rates that were seen.
        self.rates: dict[tuple[str, int], list[float]] = {}

    @property
    def so_far_s(self) -> float:
        """How long this has been watching."""
        return time.monotonic() - self._began_s

    def until(self, size_bytes: int, within_s: float = 20, meanwhile: Callable[[], object] = lambda: None) -> float:
        """Watch until the broker has so many bytes more than at the beginning; return the seconds since then."""

        def has_arrived() -> bool:
            meanwhile()
            return self.look() >= size_bytes

        until(has_arrived, within_s, otherwise=lambda: f"only {self.arrived[-1]} arrived", pause_s=LOOK_S)
        return self.arrived[-1][0]

    def ahead_bytes(self, bytes_per_s: int, at_least_s: float = 0.0) -> float:
        """Return by how much more than a rate allowed had arrived, at the worst moment."""
        return max(copied - bytes_per_s * max(at, at_least_s) for at, copied in self.arrived)

    def mean_rate(self, role: str, broker: int) -> float:
        """Return the mean of the byte rates that a broker showed for `leader` or `follower`."""
        seen = self.rates[role, broker]
        return sum(seen) / len(seen)

    def look(self) -> int:
        """Return how many bytes more than at the beginning the broker has."""
        copied = on_disk(self._cluster, self._broker, *self._topics) - self.before_bytes
        if copied != self.arrived[-1][1]:
            self.arrived.append((self.so_far_s, copied))
        # The first second of a rate is divided by a whole one, whatever passed of it.
        if self.so_far_s > 1 + MEASURE_S * len(next(iter(self.rates.values()), [])):
            for broker, port in self._cluster.running.metrics_ports.items():
                for role, value in byte_rates(port).items():
                    self.rates.setdefault((role, broker), []).append(value)
        return copied


def byte_rates(port: int) -> dict[str, float]:
    """Return a broker's rates of throttled replication by role, from its metrics."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as page:
        text = page.read().decode()
    found = re.findall(r"^kafka_server_(leader|follower)replication_byte_rate ([\d.e+]+)", text, re.MULTILINE)
    return {role: float(value) for role, value in found}
