"""Throttled moves on real processes: brokers restart meanwhile, nobody looks after them, members keep up."""

import json
import os
import signal
import statistics
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from syncline.model.metadata import PartitionRecord
from tests.cli.terminal import ENVIRONMENT, call, command
from tests.cluster import LocalCluster, start_cluster
from tests.patience import until
from tests.process import disks, processes
from tests.process.load import QUIET, Load, check_history, read_all
from tests.process.test_metrics import Page

pytestmark = pytest.mark.process

MB = 1_000_000
KB = 1_000
BROKERS = 6
LAG_S = 1.5
CONFIG = {
    "replica.lag.time.max.ms": str(int(LAG_S * 1000)),
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "500",
    "auto.leader.rebalance.enable": "false",
}
FILLING = b"filling"
FILLING_BYTES = 10_000


@pytest.fixture(scope="module")
def six() -> Iterator[LocalCluster]:
    """Six brokers; each test has its own topics and leaves no throttle."""
    cluster = start_cluster(BROKERS, CONFIG)
    try:
        yield cluster
    finally:
        cluster.stop()


def make_topic(cluster: LocalCluster, topic: str, replicas: list[list[int]], size_bytes: int = 0) -> None:
    """Create a topic with these replicas, and fill each partition."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap, **QUIET})
    admin.create_topics([NewTopic(topic, len(replicas), replica_assignment=replicas)])[topic].result(10)
    if not size_bytes:
        return
    producer = Producer({"bootstrap.servers": cluster.bootstrap, **QUIET, "acks": "all", "linger.ms": 5})
    for _ in range(size_bytes // FILLING_BYTES):
        for partition in range(len(replicas)):
            producer.produce(topic, FILLING.ljust(FILLING_BYTES, b"."), partition=partition)
        producer.poll(0)
    assert producer.flush(20) == 0


def records(cluster: LocalCluster, topic: str) -> tuple[PartitionRecord, ...]:
    """Return the partitions of a topic, as the store has them."""
    return processes.stored_metadata(cluster.directory).topics[topic].partitions


def is_moved(cluster: LocalCluster, topic: str) -> bool:
    """Return whether nothing of a topic is being reassigned any more."""
    return not any(each.is_reassigned for each in records(cluster, topic))


def plan(where: Path, topic: str, replicas: list[list[int]]) -> str:
    """Write a plan; return the name of its file."""
    file = where / f"{topic}.json"
    rows = [{"topic": topic, "partition": index, "replicas": each} for index, each in enumerate(replicas)]
    file.write_text(json.dumps({"version": 1, "partitions": rows}))
    return str(file)


def limits(cluster: LocalCluster) -> dict[tuple[Any, ...], float]:
    """Return the limits that brokers keep to now, by broker, role and move."""
    return {
        (broker, *labels): value
        for broker, port in cluster.running.metrics_ports.items()
        for labels, value in Page(port).all_of("syncline_throttle_limit_bytes_per_second").items()
    }


def facts(cluster: LocalCluster, *arguments: str) -> Any:
    """Run a command with --json; return what it prints."""
    return json.loads(call(*arguments, "--data", str(cluster.directory), "--json"))


class Waits:
    """How long the records of a load waited for their acknowledgements."""

    def __init__(self) -> None:
        self._sent_s: list[float] = []
        self._waits_s: list[float] = []

    def sent(self) -> int:
        """Note that a record is sent; return its number."""
        self._sent_s.append(time.monotonic())
        return len(self._sent_s) - 1

    def acknowledged(self, record: int, /) -> None:
        """Note its acknowledgement."""
        self._waits_s.append(time.monotonic() - self._sent_s[record])

    def take_median_s(self) -> float:
        """Return how long half of those since the last call waited at the most: a stall of the machine is short."""
        waits_s, self._waits_s = self._waits_s, []
        return statistics.median(waits_s)


def test_t32_every_other_broker_restarts_during_a_throttled_move(six: LocalCluster, tmp_path: Path) -> None:
    """3 partitions of 9.1 MB at 1.4 MB/s, as 273 MB at 4 MiB/s: 6.5 s, at most twice as long, and nothing is lost.

    Beside the time in which a broker is away, as long as the machine needs to stop and to start it: what it sends and
    receives stands still.
    """
    size_bytes, rate = 9_100_000, (4 << 20) // 3
    estimate_s = size_bytes / rate
    make_topic(six, "t32", [[1, 2], [3, 4], [5, 6]], size_bytes)
    with Load(six.bootstrap, "t32", 3, rate_per_s=1_000, size_bytes=20) as load:
        load.wait_for_more(100)
        began_s, away_s = time.monotonic(), 0.0
        file = plan(tmp_path, "t32", [[2, 3], [4, 5], [6, 1]])
        call("reassign", "execute", "-f", file, "--throttle", str(rate), "--data", str(six.directory))
        for broker in (1, 3, 5):
            pid = six.pids[broker]
            os.kill(pid, signal.SIGTERM)
            away_s += until(
                lambda old=pid, each=broker: six.pids.get(each) not in (None, old), otherwise=f"{broker} is not back"
            )
        until(
            lambda: is_moved(six, "t32"), 2 * estimate_s, otherwise=lambda: f"the move goes on: {records(six, 't32')}"
        )
        took_s = time.monotonic() - began_s
        load.wait_for_more(100)
        load.stop()

    assert 0.9 * estimate_s <= took_s <= 2 * estimate_s + away_s
    assert [each.replicas for each in records(six, "t32")] == [(2, 3), (4, 5), (6, 1)]
    read = read_all(six.bootstrap, "t32", 3)
    assert all(sum(value.startswith(FILLING) for _, value in rows) == size_bytes // FILLING_BYTES for rows in read)
    check_history(load, [[row for row in rows if not row[1].startswith(FILLING)] for rows in read])
    for index, each in enumerate(records(six, "t32")):
        disks.check_identical_replicas(six.directory, "t32", index, each.replicas)


def test_t57_a_move_that_nobody_verifies_takes_its_throttle_along(six: LocalCluster, tmp_path: Path) -> None:
    """Its command is killed, too. A user's `*` on another topic and own rate of broker 4 are still there."""
    make_topic(six, "t57", [[1, 2], [2, 1]], 2 * MB)
    make_topic(six, "standing", [[4, 5]])
    at = ("--data", str(six.directory))
    call("throttle", "set", "--topic", "standing", "--replicas", "*", *at)
    call("throttle", "set", "--brokers", "4", "--rate", "5MB", *at)
    before = facts(six, "throttle", "show")
    file = plan(tmp_path, "t57", [[1, 4], [2, 4]])
    words = command("reassign", "execute", "-f", file, "--deadline", "3s", *at)
    with subprocess.Popen(words, env=ENVIRONMENT, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL) as process:
        try:
            until(lambda: not is_moved(six, "t57"), otherwise="the move does not begin")
            during = facts(six, "throttle", "show")
        finally:
            process.kill()
    until(lambda: is_moved(six, "t57"), 15, otherwise=lambda: f"the move goes on: {records(six, 't57')}")
    ended_s = time.monotonic()
    until(lambda: not processes.stored_metadata(six.directory).moves, 10, otherwise="the move is still there")
    own = {(4, "leader", ""): 5.0 * MB, (4, "follower", ""): 5.0 * MB}
    until(lambda: limits(six) == own, 10, otherwise=lambda: f"brokers keep to {limits(six)}")

    assert time.monotonic() - ended_s < 10
    assert [each["control"] for each in during["moves"]] == ["deadline"]
    after = facts(six, "throttle", "show")
    assert after == before
    assert after["moves"] == []
    assert {(each["topic"], each["replicas"]) for each in after["lists"]} == {("standing", "*")}
    assert {(each["broker"], each["bytes_per_s"], each["source"]) for each in after["rates"]} == {(4, 5 * MB, "broker")}
    call("throttle", "clear", "--topic", "standing", "--brokers", "4", *at)


def test_kafka_4313_no_member_leaves_and_cold_partitions_go_on_behind_a_hot_one(
    six: LocalCluster, tmp_path: Path
) -> None:
    """Members take four times the quota for two lag windows; with more of it, cold newcomers end before the hot."""
    make_topic(six, "hot", [[1, 2, 3]], 16 * MB)
    make_topic(six, "cold", [[1, 2, 3]] * 4, 200 * KB)
    at = ("--data", str(six.directory))
    brokers = ",".join(map(str, range(1, BROKERS + 1)))
    call("throttle", "set", "--topic", "hot", "--topic", "cold", "--replicas", "*", *at)
    call("throttle", "set", "--brokers", brokers, "--rate", "300kB", *at)
    of_hot, of_cold = Waits(), Waits()
    with (
        Load(six.bootstrap, "hot", 1, rate_per_s=600, size_bytes=1_000, experience=of_hot) as hot,
        Load(six.bootstrap, "cold", 4, rate_per_s=40, size_bytes=100, experience=of_cold) as cold,
    ):
        hot.wait_for_more(100)
        cold.wait_for_more(20)
        call("reassign", "execute", "-f", plan(tmp_path, "hot", [[1, 2, 4]]), *at)
        call("reassign", "execute", "-f", plan(tmp_path, "cold", [[1, 2, 4]] * 4), "--additional", *at)
        before = {topic: [each.partition_epoch for each in records(six, topic)] for topic in ("hot", "cold")}
        of_hot.take_median_s()
        of_cold.take_median_s()
        time.sleep(2 * LAG_S)
        usual_s = max(of_hot.take_median_s(), of_cold.take_median_s())
        held = {topic: [each.partition_epoch for each in records(six, topic)] for topic in ("hot", "cold")}
        members = [set(each.isr) for topic in ("hot", "cold") for each in records(six, topic)]
        call("throttle", "set", "--brokers", brokers, "--rate", "2MB", *at)
        until(lambda: is_moved(six, "cold"), 15, otherwise=lambda: f"cold ones starve: {records(six, 'cold')}")
        is_hot_last = not is_moved(six, "hot")
        hot.stop()
        cold.stop()
    call("reassign", "cancel", "-f", str(tmp_path / "hot.json"), *at)
    call("throttle", "clear", "--topic", "hot", "--topic", "cold", "--brokers", brokers, *at)

    assert held == before
    assert members == [{1, 2, 3}] * 5
    # If members had to share the quota, each record would wait longer than the one before, at last for seconds.
    assert usual_s < 0.5
    assert is_hot_last
    assert hot.failures == cold.failures == []
