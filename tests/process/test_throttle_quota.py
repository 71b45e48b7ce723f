"""KIP-73's test plan on broker processes: two of its layouts, with and without producers.

The sheet moves 60 MB; these move less at the same rates, in as much less time. Half a second of the quota, which a
bucket may hold, remains half a second.
"""

import itertools
import json
import time
from collections.abc import Iterator, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tests.cli.terminal import call
from tests.cluster import LocalCluster
from tests.patience import until
from tests.process.load import Load, check_history, read_all

pytestmark = pytest.mark.process

_NUMBERS = itertools.count(1)
MB = 1_000_000
QUOTA = 3 * MB
MOVED_BYTES = 4 * MB
RECORD_BYTES = 10_000
PRODUCED_BYTES_S = MB
BURST_BYTES = QUOTA // 2
# One of the producer that fills the topic, for each partition: a batch is sent whole, however little is left.
BATCHES_BYTES = 2 * 100_000
PRODUCED_RECORD_BYTES = 4_000


@dataclass
class Arrivals:
    """Bytes at the destinations, each time that something is looked at: seconds since the start, bytes by broker."""

    cluster: LocalCluster
    topic: str
    destinations: Mapping[int, int]
    began_s: float = field(default_factory=time.monotonic)
    seen: list[tuple[float, dict[int, int]]] = field(default_factory=list)

    def look(self) -> None:
        """Add what is there now."""
        size_bytes = dict.fromkeys(self.destinations.values(), 0)
        for partition, broker in self.destinations.items():
            log = self.cluster.directory / f"broker-{broker}" / f"{self.topic}-{partition}"
            size_bytes[broker] += sum(file.stat().st_size for file in log.glob("*.log"))
        self.seen.append((time.monotonic() - self.began_s, size_bytes))


@pytest.fixture
def at(three_brokers: LocalCluster) -> tuple[str, str]:
    """The options that point a command at the shared cluster."""
    return "--data", str(three_brokers.directory)


@pytest.fixture
def topic(three_brokers: LocalCluster, at: tuple[str, str]) -> Iterator[str]:
    """The name of a topic; the throttles of all brokers and of the topic are removed afterwards."""
    name = f"throttled-{next(_NUMBERS)}"
    yield name
    call("throttle", "clear", "--topic", name, "--brokers", "all", *at)


def filled(cluster: LocalCluster, topic: str, sources: list[int]) -> int:
    """Create a topic with one replica per partition, and fill it; return the records of each partition."""
    places = [[broker] for broker in sources]
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
    admin.create_topics([NewTopic(topic, len(sources), replica_assignment=places)])[topic].result(10)
    settings = {"log_level": 0, "acks": "all", "batch.size": 100_000}
    producer = Producer({"bootstrap.servers": cluster.bootstrap, **settings})
    count = MOVED_BYTES // len(sources) // RECORD_BYTES
    for _ in range(count):
        for partition in range(len(sources)):
            producer.produce(topic, b"x" * RECORD_BYTES, partition=partition)
    assert producer.flush(20) == 0
    return count


def moved(at: tuple[str, str], plan: Path, arrivals: Arrivals) -> float:
    """Execute a plan; return after how many seconds nothing moves, and look at the destinations meanwhile."""
    call("reassign", "execute", "-f", str(plan), *at)

    def is_done() -> bool:
        arrivals.look()
        return json.loads(call("reassign", "list", "--json", *at)) == []

    until(is_done)
    return time.monotonic() - arrivals.began_s


@pytest.mark.parametrize(
    ("sources", "destinations"), [((1, 1), (2, 3)), ((1, 2), (3, 3))], ids=["one_to_two", "two_to_one"]
)
@pytest.mark.parametrize("produced_bytes_s", [0, PRODUCED_BYTES_S], ids=["idle", "produced"])
def test_t26_t27_t28_moves_on_processes_take_what_the_quota_says(
    three_brokers: LocalCluster,
    at: tuple[str, str],
    topic: str,
    tmp_path: Path,
    sources: tuple[int, int],
    destinations: tuple[int, int],
    produced_bytes_s: int,
) -> None:
    """4 MB at 3 MB/s take 1.3 s, with 1 MB/s from producers 2 s; nothing is lost."""
    filled_count = filled(three_brokers, topic, list(sources))
    rows = [{"topic": topic, "partition": index, "replicas": [broker]} for index, broker in enumerate(destinations)]
    plan = tmp_path / "plan.json"
    plan.write_text(json.dumps({"version": 1, "partitions": rows}))
    for role, brokers in (("sending", sources), ("receiving", destinations)):
        items = ",".join(f"{partition}:{broker}" for partition, broker in enumerate(brokers))
        rate = ("--rate", "3MB", "--brokers", "all", "--topic", topic)
        call("throttle", "set", *rate, "--replicas", items, "--role", role, *at)
    load = Load(
        three_brokers.bootstrap,
        topic,
        2,
        rate_per_s=PRODUCED_BYTES_S / PRODUCED_RECORD_BYTES,
        size_bytes=PRODUCED_RECORD_BYTES,
    )
    arrivals = Arrivals(three_brokers, topic, dict(enumerate(destinations)))
    with load if produced_bytes_s else nullcontext():
        if produced_bytes_s:
            load.wait_for_more(10)
        arrivals.began_s = time.monotonic()
        took_s = moved(at, plan, arrivals)
    catching_up_bytes_s = QUOTA - produced_bytes_s
    usual_s, burst_s = MOVED_BYTES / catching_up_bytes_s, BURST_BYTES / catching_up_bytes_s

    # The second is for what else this machine does.
    assert usual_s * 0.9 - burst_s <= took_s <= usual_s * 2 + 1
    for at_s, sizes in arrivals.seen:
        assert sum(sizes.values()) <= QUOTA * at_s + BURST_BYTES + BATCHES_BYTES, f"{sizes} after {at_s:.2f} s"
    if produced_bytes_s:
        records = read_all(three_brokers.bootstrap, topic, 2)
        check_history(load, [each[filled_count:] for each in records])
