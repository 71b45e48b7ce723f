"""Bytes that change on the disks of real brokers: what one disk still holds is served in the end."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import Producer

from syncline.local.faults import Faults
from tests.cluster import LocalCluster, start_cluster
from tests.patience import until
from tests.process import disks, processes
from tests.process.load import QUIET, await_full_isr, create_topic, read_all
from tests.process.test_pauses import isrs

pytestmark = pytest.mark.process

CONFIG = {"replica.lag.time.max.ms": "2000", "journal.enable": "false"}
TOPIC = "precious"
RECORDS = 10_000


def produce(bootstrap: str) -> None:
    """Write the records with acks=all, in many batches."""
    failures: list[object] = []
    settings = {"acks": "all", "enable.idempotence": True, "batch.num.messages": 100, "linger.ms": 5}
    producer = Producer({"bootstrap.servers": bootstrap, **QUIET, **settings})
    for number in range(RECORDS):
        while True:
            try:
                producer.produce(
                    TOPIC,
                    b"%d" % number,
                    partition=0,
                    on_delivery=lambda error, _: failures.append(error) if error else None,
                )
                break
            except BufferError:
                producer.poll(0.05)
    assert producer.flush(30) == 0
    assert not failures


def strike(cluster: LocalCluster, broker_id: int, act: Callable[[Path], None]) -> None:
    """Change the disk of a broker that does not run, and end it; the supervisor starts another process."""
    old = cluster.pids[broker_id]
    cluster.pause(broker_id)
    act(cluster.directory / f"broker-{broker_id}")
    cluster.kill(broker_id)
    until(lambda: cluster.pids.get(broker_id) not in (old, None), otherwise=f"broker {broker_id} does not come back")


def flip(position: Callable[[int], int]) -> Callable[[Path], None]:
    """Return what flips a bit of the log at a position, which is computed from its size."""

    def act(directory: Path) -> None:
        (path,) = (directory / f"{TOPIC}-0").glob("*.log")
        with path.open("r+b") as file:
            place = position(path.stat().st_size)
            file.seek(place)
            (old,) = file.read(1)
            file.seek(place)
            file.write(bytes([old ^ 4]))

    return act


def replace_disk(directory: Path) -> None:
    """Remove everything in a broker's directory."""
    for path in directory.iterdir():
        shutil.rmtree(path) if path.is_dir() else path.unlink()


def test_chain_of_three_faults_loses_no_record_that_a_disk_holds(tmp_path: Path) -> None:
    """A follower's disk is replaced, the leader damaged in its middle, the last good copy at its end: all is read.

    Between the faults nothing can be copied, because the disks of those that lead do not answer reads.
    """
    cluster = start_cluster(3, CONFIG, directory=tmp_path)
    try:
        create_topic(cluster.bootstrap, TOPIC, 1)
        produce(cluster.bootstrap)
        leader, *members = isrs(cluster, TOPIC)[0]
        emptied, last = (broker for broker in members if broker != leader)
        sound = {each: disks.log_bytes(tmp_path, each, TOPIC, 0) for each in (leader, emptied, last)}
        assert len(set(sound.values())) == 1
        faults = Faults(tmp_path)
        for broker_id in (leader, last):
            faults.add("disk-stuck", broker=broker_id, topic=TOPIC, direction="read")

        strike(cluster, emptied, replace_disk)
        until(lambda: sorted(isrs(cluster, TOPIC)[0][1:]) == sorted((leader, last)), otherwise="the ISR is unchanged")
        strike(cluster, leader, flip(lambda size: size // 2))
        until(lambda: isrs(cluster, TOPIC)[0] == (last, last), otherwise=lambda: f"{isrs(cluster, TOPIC)}")
        aside = tmp_path / f"broker-{leader}" / f"{TOPIC}-0.0-aside"
        until(aside.exists, otherwise="the damaged log is not set aside")
        copied = len(disks.log_bytes(tmp_path, leader, TOPIC, 0))
        strike(cluster, last, flip(lambda size: size - 1))

        await_full_isr(cluster.bootstrap, [TOPIC])
        (records,) = read_all(cluster.bootstrap, TOPIC, 1)
        assert copied == 0
        assert [value for _, value in records] == [b"%d" % number for number in range(RECORDS)]
        until(lambda: not aside.exists(), otherwise="the log stays aside")
        disks.check_identical(tmp_path, TOPIC, 1)
        assert disks.log_bytes(tmp_path, last, TOPIC, 0) == sound[last]
        assert "restored from broker" in cluster.log(last)
    finally:
        cluster.stop()
    processes.await_none(tmp_path)
