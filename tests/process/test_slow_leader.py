"""KIP-501 on three real brokers whose leader has a slow disk: without it, with solution 1, with solutions 1 and 2."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from syncline.local.control import controls
from syncline.local.faults import Faults
from tests.cluster import LocalCluster, start_cluster
from tests.patience import eventually, until
from tests.process import processes
from tests.process.load import QUIET, await_full_isr, read_all
from tests.process.test_pauses import isrs

pytestmark = pytest.mark.process

LAG_S = 1.5
CONFIG = {
    "replica.lag.time.max.ms": str(int(LAG_S * 1000)),
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "500",
    # Followers that left while nothing could be committed would otherwise lead: that is KIP-966's remedy.
    "eligible.leader.replicas.enable": "false",
    "leader.relinquish.min.tenure.ms": "0",
    "leader.relinquish.enable": "false",
}
READ_S = 30.0


@contextmanager
def slow_leader(directory: Path, **configs: str) -> Iterator[tuple[LocalCluster, int]]:
    """A topic of three replicas with records that its leader, which is not the controller, cannot read in time."""
    settings = {**CONFIG, **{name.replace("_", "."): value for name, value in configs.items()}}
    cluster = start_cluster(3, settings, directory=directory, restart=False)
    faults = Faults(directory)
    try:
        holder, _ = processes.lease(directory)
        leader, follower = (broker for broker in (1, 2, 3) if broker != holder)
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap, **QUIET})
        assigned = NewTopic(
            "slow", 1, replica_assignment=[[leader, follower, holder]], config={"min.insync.replicas": "2"}
        )
        admin.create_topics([assigned])["slow"].result(20)
        await_full_isr(cluster.bootstrap, ["slow"])
        assert produce(cluster, "all", 10) == 10
        fault = faults.add("disk-slow", broker="leader", topic="slow", partition=0, direction="read", delay_s=READ_S)
        assert produce(cluster, "1", 3) == 3
        until(lambda: fault.hits, otherwise="no broker read from the slow disk")
        yield cluster, leader
    finally:
        cluster.stop()
    processes.await_none(directory)


def produce(cluster: LocalCluster, acks: str, count: int, within_s: float = READ_S / 3) -> int:
    """Produce records one after the other; return how many were acknowledged, by default before the disk answers."""
    producer = Producer(
        {
            "bootstrap.servers": cluster.bootstrap,
            **QUIET,
            "acks": acks,
            "linger.ms": 0,
            "retry.backoff.ms": 20,
            "reconnect.backoff.ms": 20,
            "reconnect.backoff.max.ms": 100,
            "topic.metadata.refresh.interval.ms": 200,
            "message.timeout.ms": int(within_s * 1000),
        }
    )
    acknowledged = []
    for number in range(count):
        producer.produce(
            "slow", b"%d" % number, on_delivery=lambda error, _: acknowledged.append(error) if error is None else None
        )
        producer.flush(within_s + 2)
    return len(acknowledged)


def await_isr(cluster: LocalCluster, expected: tuple[int, ...]) -> None:
    """Return when leader and ISR are as expected."""
    found = eventually(lambda: isrs(cluster, "slow")[0], lambda seen: seen == expected)
    assert found == expected, "leader and ISR"


def test_slow_leader_takes_the_partition_with_it(tmp_path: Path) -> None:
    """Off: followers leave the ISR although they fetch, and after the leader's death no replica leads."""
    with slow_leader(tmp_path) as (cluster, leader):
        await_isr(cluster, (leader, leader))
        cluster.kill(leader)
        await_isr(cluster, (-1, leader))

        assert produce(cluster, "all", 1, within_s=2.0) == 0


def test_slow_leader_that_spares_its_followers_can_die(tmp_path: Path) -> None:
    """Solution 1: no follower leaves the ISR while it waits, and one of them leads at once."""
    with slow_leader(tmp_path, follower_fetch_pending_reads_insync_enable="true") as (cluster, leader):
        # What is shown is that nothing happens for two windows; there is no event to wait for.
        time.sleep(LAG_S * 2)
        assert isrs(cluster, "slow")[0] == (leader, 1, 2, 3)
        cluster.kill(leader)

        assert produce(cluster, "all", 3) == 3


def test_slow_leader_gives_up_before_anybody_notices(tmp_path: Path) -> None:
    """Solutions 1 and 2: another one leads before a follower leaves, with all records, while the disk is slow."""
    enabled = {"follower_fetch_pending_reads_insync_enable": "true", "leader_relinquish_enable": "true"}
    with slow_leader(tmp_path, **enabled) as (cluster, leader):
        until(lambda: isrs(cluster, "slow")[0][0] != leader, READ_S / 3, otherwise="the slow leader stays")
        assert isrs(cluster, "slow")[0][1:] == (1, 2, 3), "no member left the ISR for that"
        assert produce(cluster, "all", 3) == 3
        cluster.kill(leader)

        assert produce(cluster, "all", 3) == 3
        assert len(read_all(cluster.bootstrap, "slow", 1)[0]) >= 16


def test_slow_leader_that_gave_up_answers_while_its_log_waits_to_be_cut(tmp_path: Path) -> None:
    """Only the slow disk knows where to cut what the successor lacks; other requests do not wait for it."""
    enabled = {"follower_fetch_pending_reads_insync_enable": "true", "leader_relinquish_enable": "true"}
    with slow_leader(tmp_path, **enabled) as (cluster, leader):
        control = controls(tmp_path, timeout_s=5)[leader]
        longest_s, fenced, has_moved_on, began_s = 0.0, False, False, time.monotonic()
        while time.monotonic() < began_s + 6:
            asked_s = time.monotonic()
            answer = control.call("replicas.show", topic="slow")
            control.call("status.partitions")
            longest_s = max(longest_s, time.monotonic() - asked_s)
            (replica,) = answer["replicas"]
            fenced = fenced or leader not in answer["unfenced"]
            if replica["phase"] == "truncating" and not has_moved_on:
                # The successor gets records for offsets at which the old leader has others.
                has_moved_on = produce(cluster, "1", 1) == 1
            time.sleep(0.05)
        assert has_moved_on
        assert replica["phase"] == "truncating", "the disk has not answered yet"
        # A machine that stalls for a second delays a call; the disk would have for half a minute.
        assert longest_s < READ_S / 10
        assert not fenced

        Faults(tmp_path).clear()
        await_full_isr(cluster.bootstrap, ["slow"])
        assert produce(cluster, "all", 1) == 1
        assert len(read_all(cluster.bootstrap, "slow", 1)[0]) == 12
