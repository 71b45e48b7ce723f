"""The controller is killed while it creates topics, and while partitions are written to."""

import logging
import threading
import time
from pathlib import Path
from typing import Any, Self

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, NewTopic

from syncline.model.errors import ErrorCode
from syncline.wire.api import ApiKey
from tests.cluster import LocalCluster, start_cluster
from tests.patience import eventually, until
from tests.process import disks, processes, raw
from tests.process.load import QUIET, Load, await_full_isr, check_history, create_topic, read_all

pytestmark = pytest.mark.process

log = logging.getLogger(__name__)

SESSION_S = 9.0
TOPICS_PER_REQUEST = 5
ROUNDS = 3
# Between two requests: many topics, but not thousands.
PAUSE_S = 0.1


def topics_of(cluster: LocalCluster, broker_id: int) -> dict[str, Any]:
    """Return what one broker says of all topics: (leader, leader epoch, replicas, ISR) of each partition."""
    return {
        topic.name: {
            int(row.partition_index): (
                int(row.leader_id),
                int(row.leader_epoch),
                tuple(row.replica_nodes),
                tuple(sorted(row.isr_nodes)),
            )
            for row in topic.partitions
        }
        for topic in raw.metadata(cluster.running.client_ports[broker_id]).topics
        if topic.name.startswith("made-")
    }


class Creator:
    """Creates topics without pause, and remembers the answer for each."""

    def __init__(self, bootstrap: str) -> None:
        self.outcomes: dict[str, str] = {}
        self._bootstrap = bootstrap
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(60)
        assert not self._thread.is_alive()

    def _run(self) -> None:
        admin = AdminClient({"bootstrap.servers": self._bootstrap, **QUIET})
        number = 0
        while not self._stop.wait(PAUSE_S):
            names = [f"made-{number}-{index}" for index in range(TOPICS_PER_REQUEST)]
            number += 1
            futures = admin.create_topics(
                [NewTopic(name, num_partitions=3, replication_factor=3) for name in names], request_timeout=20
            )
            for name, future in futures.items():
                try:
                    future.result(30)
                except KafkaException as failure:
                    code = failure.args[0].code()
                    # Asked again of the next controller, which found it done already.
                    done = code == KafkaError.TOPIC_ALREADY_EXISTS
                    self.outcomes[name] = "exists" if done else f"unknown: {failure}"
                else:
                    self.outcomes[name] = "created"


def test_killed_controllers_leave_one_outcome_of_topic_creation(tmp_path: Path) -> None:
    """Each topic exists on all brokers alike or on none; elections take less than session time-out + 1 s."""
    cluster = start_cluster(3, directory=tmp_path)
    takeovers_s = []
    try:
        create_topic(cluster.bootstrap, "written", 3, config={"min.insync.replicas": "2"})
        with Load(cluster.bootstrap, "written", 3) as load, Creator(cluster.bootstrap) as creator:
            load.wait_for_more(300)
            for _ in range(ROUNDS):
                before = len(creator.outcomes)
                wanted = before + 3 * TOPICS_PER_REQUEST
                until(lambda wanted=wanted: len(creator.outcomes) >= wanted, otherwise="no topics are created")
                holder, epoch = processes.lease(tmp_path)
                cluster.kill(holder)
                killed_s = time.monotonic()
                processes.await_new_lease(tmp_path, epoch, SESSION_S + 1)
                takeovers_s.append(time.monotonic() - killed_s)
                # Also partitions that the dead controller led have a leader again.
                load.wait_for_more(300, SESSION_S + 1)
                await_full_isr(cluster.bootstrap, ["written"])
        load.stop()
        names = [name for name, outcome in creator.outcomes.items() if not outcome.startswith("unknown")]
        assert len(names) >= 9 * TOPICS_PER_REQUEST
        await_full_isr(cluster.bootstrap, ["written", *names])
        log.info("take-overs of the lease after %s s", [round(each_s, 3) for each_s in takeovers_s])
        log.info("longest time without an acknowledgement: %.2f s", load.longest_gap_s)
        log.info("%s topics, outcomes %s", len(creator.outcomes), sorted(set(creator.outcomes.values())))
        assert max(takeovers_s) < 2.0, f"take-overs took {takeovers_s}"
        assert load.longest_gap_s < SESSION_S + 1
        check_one_outcome(cluster, tmp_path, creator.outcomes)
        check_history(load, read_all(cluster.bootstrap, "written", 3))
        disks.check_identical(tmp_path, "written", 3)
    finally:
        cluster.stop()
    processes.await_none(tmp_path)


def test_isr_proposals_over_a_forgotten_connection_are_void(tmp_path: Path) -> None:
    """An AlterPartition over another connection than its sender registered with changes nothing, however right."""
    cluster = start_cluster(2, directory=tmp_path)
    try:
        create_topic(cluster.bootstrap, "guarded", 2, replicas=2)
        before = processes.stored_metadata(tmp_path)
        holder, _ = processes.lease(tmp_path)
        topic = before.topics["guarded"]
        record = next(each for each in topic.partitions if each.leader != holder)
        row = {
            "partition_index": record.partition,
            "leader_epoch": record.leader_epoch,
            "new_isr_with_epochs": [{"broker_id": record.leader, "broker_epoch": -1}],
            "leader_recovery_state": 0,
            "partition_epoch": record.partition_epoch,
        }
        fields = {
            "broker_id": record.leader,
            "broker_epoch": before.brokers[record.leader].broker_epoch,
            "topics": [{"topic_id": topic.topic_id, "partitions": [row]}],
        }
        reply = raw.ask(before.brokers[holder].internal_port, ApiKey.ALTER_PARTITION, 3, fields)
        assert int(reply.error_code) == ErrorCode.NOT_CONTROLLER
        assert processes.stored_metadata(tmp_path).topics["guarded"] == topic
    finally:
        cluster.stop()
    processes.await_none(tmp_path)


def check_one_outcome(cluster: LocalCluster, data: Path, outcomes: dict[str, str]) -> None:
    """Assert that brokers, store and disks agree on which topics there are, and keep what was promised."""
    views = eventually(
        lambda: [topics_of(cluster, broker_id) for broker_id in (1, 2, 3)],
        lambda seen: seen[0] == seen[1] == seen[2],
        within_s=10,
    )
    assert views[0] == views[1] == views[2], "brokers disagree"
    promised = {name for name, outcome in outcomes.items() if not outcome.startswith("unknown")}
    assert promised <= set(views[0]), f"acknowledged and gone: {promised - set(views[0])}"
    assert all(len(partitions) == 3 for partitions in views[0].values()), "a topic was created in part"
    stored = processes.stored_metadata(data)
    assert {name for name in stored.topics if name.startswith("made-")} == set(views[0])
    for broker_id in (1, 2, 3):
        directory = data / f"broker-{broker_id}"
        on_disk = {
            path.name.rpartition("-")[0] for path in directory.glob("made-*") if not path.name.endswith("-delete")
        }
        # A log without records needs no directory.
        assert on_disk <= set(views[0]), f"broker {broker_id} has other directories"
