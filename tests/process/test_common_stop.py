"""A clean stop of the whole cluster: any broker may come back first, and one damaged log costs nothing."""

import shutil
import time
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tests.cluster import LocalCluster, start_cluster
from tests.patience import until
from tests.process.load import await_full_isr, read_all

pytestmark = pytest.mark.process

TOPIC, PARTITIONS, RECORDS = "kept", 6, 600
PATIENCE_S = 15.0


def fill(bootstrap: str, acks: str) -> None:
    """Create the topic and write to it until the very end."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(TOPIC, PARTITIONS, 3)])[TOPIC].result(10)
    producer = Producer({"bootstrap.servers": bootstrap, "acks": acks, "linger.ms": 0})
    for number in range(RECORDS):
        producer.produce(TOPIC, str(number), partition=number % PARTITIONS)
    assert producer.flush(10) == 0


def read(bootstrap: str) -> list[int]:
    """Return all values, sorted, once every partition is led."""
    admin = AdminClient({"bootstrap.servers": bootstrap})

    def without_leader() -> list[int]:
        partitions = admin.list_topics(TOPIC, timeout=10).topics[TOPIC].partitions.values()
        return [each.id for each in partitions if each.leader < 0]

    until(lambda: not without_leader(), PATIENCE_S, otherwise=lambda: f"{without_leader()} have no leader")
    found = read_all(bootstrap, TOPIC, PARTITIONS)
    return sorted(int(value) for partition in found for _, value in partition)


def stopped(directory: Path, acks: str = "1") -> float:
    """Start, fill and stop a cluster; return how long the stop took."""
    cluster = start_cluster(3, {"journal.enable": "false"}, directory=directory)
    fill(cluster.bootstrap, acks)
    began_s = time.monotonic()
    cluster.stop()
    return time.monotonic() - began_s


@pytest.mark.parametrize("broker_id", [1, 2, 3])
def test_any_broker_may_have_lost_its_logs(tmp_path: Path, broker_id: int) -> None:
    """After a clean stop the logs of one broker are damaged or gone: the others have everything, also of acks=1."""
    took_s = stopped(tmp_path)
    directory = tmp_path / f"broker-{broker_id}"
    logs = sorted(each for each in directory.iterdir() if each.name.startswith(f"{TOPIC}-"))
    assert len(logs) == PARTITIONS
    for log in logs[::2]:
        shutil.rmtree(log)
    for log in logs[1::2]:
        segment = log / "00000000000000000000.log"
        segment.write_bytes(b"\xff" * segment.stat().st_size)

    cluster = start_cluster(3, {"journal.enable": "false"}, directory=tmp_path)
    try:
        assert read(cluster.bootstrap) == list(range(RECORDS))
        await_full_isr(cluster.bootstrap, [TOPIC], PATIENCE_S)
    finally:
        cluster.stop()
    assert took_s < 3


def test_leaders_and_in_sync_sets_are_where_they_were(tmp_path: Path) -> None:
    """A stop and a start move no leadership, and every replica is in sync from the first moment."""
    cluster = start_cluster(3, {"journal.enable": "false"}, directory=tmp_path)
    fill(cluster.bootstrap, "all")
    before = _leaders(cluster)
    cluster.stop()

    cluster = start_cluster(3, {"journal.enable": "false"}, directory=tmp_path)
    try:
        assert read(cluster.bootstrap) == list(range(RECORDS))
        assert _leaders(cluster) == before
        assert len(set(before)) == 3
    finally:
        cluster.stop()


def _leaders(cluster: LocalCluster) -> list[int]:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    partitions = admin.list_topics(TOPIC, timeout=10).topics[TOPIC].partitions
    return [partitions[index].leader for index in range(PARTITIONS)]
