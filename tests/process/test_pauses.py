"""SIGSTOP: a paused broker is silent, not dead, and the controller waits for its whole session."""

import logging
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from tests.cluster import LocalCluster, start_cluster
from tests.patience import eventually, until
from tests.process import disks, processes
from tests.process.journal import lags_of_removal_ms
from tests.process.load import QUIET, Load, await_full_isr, check_history, create_topic, read_all

pytestmark = pytest.mark.process

log = logging.getLogger(__name__)

SESSION_S = 3.0
LAG_S = 2.0
CONFIG = {
    "broker.session.timeout.ms": str(int(SESSION_S * 1000)),
    "broker.heartbeat.interval.ms": "500",
    "replica.lag.time.max.ms": str(int(LAG_S * 1000)),
}
PARTITIONS = 3


def isrs(cluster: LocalCluster, topic: str) -> dict[int, tuple[int, ...]]:
    """Return (leader, *ISR members sorted) of each partition, as soon as the broker that answers knows the topic."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap, **QUIET})
    partitions = eventually(lambda: admin.list_topics(topic, timeout=10).topics[topic].partitions, bool)
    assert partitions, f"no broker knows topic {topic}"
    return {index: (partition.leader, *sorted(partition.isrs)) for index, partition in partitions.items()}


def await_isr_without(cluster: LocalCluster, topic: str, broker_id: int, within_s: float) -> float:
    """Return after how many seconds no partition had `broker_id` in its ISR or as leader."""
    return until(
        lambda: all(broker_id not in members for members in isrs(cluster, topic).values()),
        within_s,
        otherwise=lambda: f"broker {broker_id} is still in sync: {isrs(cluster, topic)}",
    )


def test_paused_followers_leaders_and_controllers_lose_nothing(tmp_path: Path) -> None:
    """A paused broker leaves every ISR within session time-out + 1 s, comes back when it runs; nothing is lost."""
    cluster = start_cluster(3, CONFIG, directory=tmp_path)
    paused = None
    try:
        create_topic(cluster.bootstrap, "paused", PARTITIONS, config={"min.insync.replicas": "2"})
        # What the client itself waits for a broker that took its request and does not answer.
        settings = {"socket.timeout.ms": 1_000}
        with Load(cluster.bootstrap, "paused", PARTITIONS, settings=settings) as load:
            load.wait_for_more(300)
            holder, epoch = processes.lease(tmp_path)
            other = next(broker for broker in (1, 2, 3) if broker != holder)
            # Each broker leads one partition and follows two, so both roles are paused at once.
            for paused in (other, holder):
                cluster.pause(paused)
                gone_s = await_isr_without(cluster, "paused", paused, SESSION_S + 4)
                assert gone_s <= SESSION_S + 1, f"broker {paused} was noticed only after {gone_s:.2f} s"
                log.info("paused broker %s left ISRs and leaderships after %.2f s", paused, gone_s)
                load.wait_for_more(300)
                if paused == holder:
                    new_holder, new_epoch = processes.lease(tmp_path)
                    assert new_holder != holder
                    assert new_epoch == epoch + 1
                cluster.resume(paused)
                await_full_isr(cluster.bootstrap, ["paused"], 15)
                load.wait_for_more(100)
            assert processes.lease(tmp_path) == (new_holder, new_epoch), "the deposed controller did not stay deposed"
            assert "is no longer the controller" in cluster.log(holder)
            epochs = processes.lease_epochs_written(tmp_path)
            assert epochs == sorted(epochs), "something was committed under a lease that had gone"
            load.stop()
            await_full_isr(cluster.bootstrap, ["paused"])
        log.info("longest time without an acknowledgement: %.2f s", load.longest_gap_s)
        assert load.longest_gap_s <= SESSION_S + 1 + 1.5
        check_history(load, read_all(cluster.bootstrap, "paused", PARTITIONS))
        disks.check_identical(tmp_path, "paused", PARTITIONS)
    finally:
        if paused is not None:
            cluster.resume(paused)
        cluster.stop()
    processes.await_none(tmp_path)


def test_a_follower_leaves_the_isr_for_its_lag_and_returns(tmp_path: Path) -> None:
    """A follower paused longer than the lag window but not than its session leaves the ISR, and min ISR 2 holds."""
    config = {**CONFIG, "broker.session.timeout.ms": "30000"}
    cluster = start_cluster(3, config, directory=tmp_path)
    paused = None
    try:
        create_topic(cluster.bootstrap, "lagging", 1, config={"min.insync.replicas": "2"})
        leader = isrs(cluster, "lagging")[0][0]
        paused = next(broker for broker in (1, 2, 3) if broker not in (leader, processes.lease(tmp_path)[0]))
        with Load(cluster.bootstrap, "lagging", 1) as load:
            load.wait_for_more(300)
            cluster.pause(paused)
            gone_s = await_isr_without(cluster, "lagging", paused, 1.5 * LAG_S + 2)
            assert gone_s <= 1.5 * LAG_S + 1
            load.wait_for_more(300)
            cluster.resume(paused)
            await_full_isr(cluster.bootstrap, ["lagging"], 10)
        assert isrs(cluster, "lagging")[0][0] == leader, "the leader was alive all the time"
        assert min(lags_of_removal_ms(cluster, "lagging", paused)) > LAG_S * 1_000
        check_history(load, read_all(cluster.bootstrap, "lagging", 1))
        disks.check_identical(tmp_path, "lagging", 1)
    finally:
        if paused is not None:
            cluster.resume(paused)
        cluster.stop()
    processes.await_none(tmp_path)
