"""SIGKILL of the whole cluster, then `up` again on the same data."""

import time
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

from syncline.model.broker_config import BrokerConfig
from tests.cluster import start_cluster
from tests.patience import until
from tests.process import disks, processes
from tests.process.load import QUIET, Load, await_full_isr, check_history, create_topic, read_all

pytestmark = pytest.mark.process

# A total outage gives no reason to wait for sessions: everything that was alive is found dead at once. A wait would
# last for a session since the last heartbeats; what is less than that is the machine's business. Sessions are so long
# that no machine needs as much to start the processes, which is where brokers would wait.
SESSION_S = 30.0
CONFIG = {"broker.session.timeout.ms": str(int(SESSION_S * 1_000))}
BACK_WITHIN_S = SESSION_S - BrokerConfig().broker_heartbeat_interval_ms / 1_000


def commit_offsets(bootstrap: str, topic: str, offsets: dict[int, int]) -> None:
    """Commit offsets of the group `readers`."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "readers", **QUIET})
    wanted = [TopicPartition(topic, partition, offset) for partition, offset in offsets.items()]

    def is_committed() -> bool:
        try:
            consumer.commit(offsets=wanted, asynchronous=False)
        except KafkaException:
            return False
        return True

    until(is_committed, otherwise="no coordinator takes a commit")
    consumer.close()


def committed_offsets(bootstrap: str, topic: str, partitions: int) -> dict[int, int]:
    """Return what the group `readers` has committed."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "readers", **QUIET})
    found = consumer.committed([TopicPartition(topic, index) for index in range(partitions)], timeout=20)
    consumer.close()
    return {each.partition: each.offset for each in found}


@pytest.mark.parametrize("min_isr", [1, 2])
def test_everything_acknowledged_survives_a_kill_of_all_processes(tmp_path: Path, min_isr: int) -> None:
    """After SIGKILL of supervisor and brokers under load, `up` brings back records, offsets, leaders and identity."""
    port = processes.free_port_range(3)
    cluster = start_cluster(3, CONFIG, directory=tmp_path, port=port)
    try:
        create_topic(cluster.bootstrap, "kept", 3, config={"min.insync.replicas": str(min_isr)})
        offsets = {0: 11, 1: 22, 2: 33}
        with Load(cluster.bootstrap, "kept", 3) as load:
            load.wait_for_more(300)
            commit_offsets(cluster.bootstrap, "kept", offsets)
            for _ in range(2):
                load.wait_for_more(500)
                before = processes.stored_metadata(tmp_path)
                processes.kill_everything(cluster)
                began_s = time.monotonic()
                cluster = start_cluster(3, CONFIG, directory=tmp_path, port=port)
                load.wait_for_more(100, 20)
                back_s = time.monotonic() - began_s
                assert back_s < BACK_WITHIN_S
                after = processes.stored_metadata(tmp_path)
                assert after.cluster_id == before.cluster_id
                for name, topic in before.topics.items():
                    assert after.topics[name].topic_id == topic.topic_id
                    for old, new in zip(topic.partitions, after.topics[name].partitions, strict=True):
                        assert new.leader_epoch >= old.leader_epoch
                        assert new.partition_epoch >= old.partition_epoch
            load.stop()
            await_full_isr(cluster.bootstrap, ["kept", "__consumer_offsets"])
        check_history(load, read_all(cluster.bootstrap, "kept", 3))
        assert committed_offsets(cluster.bootstrap, "kept", 3) == offsets
        metadata = AdminClient({"bootstrap.servers": cluster.bootstrap, **QUIET}).list_topics(timeout=10)
        leaderless = [
            (topic.topic, partition.id)
            for topic in metadata.topics.values()
            for partition in topic.partitions.values()
            if partition.leader < 0
        ]
        assert not leaderless
        disks.check_identical(tmp_path, "kept", 3)
    finally:
        cluster.stop()
    processes.await_none(tmp_path)


def test_data_of_another_cluster_is_refused_not_deleted(tmp_path: Path) -> None:
    """Without the cluster's metadata the records would be strays: brokers refuse to start, and delete nothing."""
    cluster = start_cluster(1, directory=tmp_path)
    create_topic(cluster.bootstrap, "precious", 1, replicas=1)
    with Load(cluster.bootstrap, "precious", 1) as load:
        load.wait_for_more(50)
    cluster.stop()
    held = disks.log_bytes(tmp_path, 1, "precious", 0)
    for path in tmp_path.glob("cluster.db*"):
        path.unlink()
    with pytest.raises(AssertionError, match="belongs to cluster"):
        start_cluster(1, directory=tmp_path)
    assert held
    assert disks.log_bytes(tmp_path, 1, "precious", 0) == held
    processes.await_none(tmp_path)
