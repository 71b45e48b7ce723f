"""The ground on which incidents happen: three real brokers with short times, a little load on every partition."""

import contextlib
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from syncline.local.control import ControlError, controls
from syncline.local.faults import Faults
from syncline.model.ids import JOURNAL_TOPIC
from tests.cluster import ROOT, LocalCluster, start_cluster

LAG_MS = 1_500
SESSION_MS = 3_000
CONFIG = {
    "replica.lag.time.max.ms": str(LAG_MS),
    "broker.session.timeout.ms": str(SESSION_MS),
    "broker.heartbeat.interval.ms": "500",
    "min.insync.replicas": "1",
    "journal.progress.interval.ms": "500",
    "fault.injection.enable": "true",
    "auto.leader.rebalance.enable": "false",
}
BROKERS = (1, 2, 3)
WIDE, NARROW = "wide", "narrow"
QUIET_S = 60.0
# One record to every partition in each pause.
PAUSE_S = 0.05


@dataclass(frozen=True)
class Place:
    """A partition and the roles of its brokers."""

    topic: str
    partition: int
    leader: int
    followers: tuple[int, ...]

    def __str__(self) -> str:
        return f"{self.topic}:{self.partition}"


class Ground:
    """One cluster, its topics and its load."""

    def __init__(self) -> None:
        self.cluster: LocalCluster = start_cluster(len(BROKERS), CONFIG)
        self.faults = Faults(self.cluster.directory)
        self._stop = threading.Event()
        self._load: threading.Thread | None = None
        self.topics = [WIDE, NARROW]

    def prepare(self) -> None:
        """Create the topics and begin the load."""
        orders = [[a, b, c] for a in BROKERS for b in BROKERS for c in BROKERS if len({a, b, c}) == 3]
        self.create(WIDE, orders)
        self.create(NARROW, [[a, b] for a in BROKERS for b in BROKERS if a != b])
        self._load = threading.Thread(target=self._produce, daemon=True)
        self._load.start()
        self.settle()

    def close(self) -> None:
        """Stop everything."""
        self._stop.set()
        if self._load is not None:
            self._load.join(10)
        self.cluster.stop()

    def admin(self) -> Any:
        """Return an admin client."""
        from confluent_kafka.admin import AdminClient

        return AdminClient({"bootstrap.servers": self.cluster.bootstrap, "log_level": 0})

    def create(self, topic: str, replicas: list[list[int]]) -> None:
        """Create a topic with these replicas, the first of each leads."""
        from confluent_kafka.admin import NewTopic

        admin = self.admin()
        wanted = [NewTopic(topic, len(replicas), replica_assignment=replicas)]
        for future in admin.create_topics(wanted, request_timeout=10).values():
            future.result(15)

    def producer(self) -> Any:
        """Return a producer that ignores errors."""
        from confluent_kafka import Producer

        return Producer(
            {
                "bootstrap.servers": self.cluster.bootstrap,
                "acks": 1,
                "log_level": 0,
                "message.timeout.ms": 3_000,
                "reconnect.backoff.ms": 20,
                "reconnect.backoff.max.ms": 200,
                "topic.metadata.refresh.interval.ms": 1_000,
            }
        )

    def _produce(self) -> None:
        producer = self.producer()
        number = 0
        while not self._stop.wait(PAUSE_S):
            number += 1
            for topic in tuple(self.topics):
                for partition in range(1 if topic not in {WIDE, NARROW} else 6):
                    with contextlib.suppress(BufferError):
                        producer.produce(topic, b"x" * 100, partition=partition)
            producer.poll(0)
        producer.purge()

    # Looking.

    def led(self) -> dict[tuple[str, int], dict[str, Any]]:
        """Return what the leaders report about their partitions."""
        found: dict[tuple[str, int], dict[str, Any]] = {}
        for control in controls(self.cluster.directory).values():
            with contextlib.suppress(ControlError):
                for row in control.call("status.partitions", timeout_s=1.0)["partitions"]:
                    key = (row["topic"], row["partition"])
                    if key not in found or found[key]["leader_epoch"] < row["leader_epoch"]:
                        found[key] = row
        return found

    def controller(self) -> int:
        """Return the controller."""
        for broker_id, control in controls(self.cluster.directory).items():
            with contextlib.suppress(ControlError):
                if control.call("broker.describe", timeout_s=1.0)["is_controller"]:
                    return broker_id
        raise AssertionError("no broker is the controller")

    def settle(self) -> None:
        """Wait until every partition has a leader, all replicas are in sync, and no fault is active."""
        deadline_s = time.monotonic() + QUIET_S
        while True:
            found = self.led()
            if (
                len(found) >= 12
                and (JOURNAL_TOPIC, 0) in found
                and all(len(row["isr"]) == len(row["replicas"]) for row in found.values())
            ):
                return
            if time.monotonic() > deadline_s:
                lacking = {
                    key: (row["isr"], row["replicas"])
                    for key, row in found.items()
                    if len(row["isr"]) < len(row["replicas"])
                }
                raise AssertionError(f"the cluster does not come to rest: {lacking or sorted(found)}")
            time.sleep(0.2)

    def places(self, topic: str) -> list[Place]:
        """Return the partitions of a topic with their present roles."""
        return [
            Place(key[0], key[1], row["leader"], tuple(each for each in row["replicas"] if each != row["leader"]))
            for key, row in sorted(self.led().items())
            if key[0] == topic
        ]

    def why(self, place: Place, since_ms: int) -> dict[str, Any]:
        """Run the command and return what it prints."""
        since = datetime.fromtimestamp(since_ms / 1_000).astimezone().isoformat()
        command = [
            *(sys.executable, "-m", "syncline", "why", str(place), "--json"),
            *("--data", str(self.cluster.directory), "--since", since),
        ]
        environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
        done = subprocess.run(command, capture_output=True, env=environment, timeout=60, check=False)
        if done.returncode:
            raise AssertionError(f"why failed: {done.stderr.decode()}")
        answer: dict[str, Any] = json.loads(done.stdout)
        return answer


@contextlib.contextmanager
def ground() -> Iterator[Ground]:
    """A ground for the length of a with block."""
    started = Ground()
    try:
        started.prepare()
        yield started
    finally:
        started.close()
