"""Consumers read in their own rack (KIP-392), on real processes with a real client."""

import json
import time
from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.cli.terminal import run
from tests.cluster import LocalCluster, start_cluster

pytestmark = pytest.mark.process

SELECTOR = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
RECORDS = 500
PATIENCE_S = 20.0


@pytest.fixture(scope="module")
def racks() -> Iterator[LocalCluster]:
    """Return brokers 1, 2, 3 in racks a, b, c."""
    cluster = start_cluster(3, {"replica.selector.class": SELECTOR, "journal.enable": "false"}, racks="a,b,c")
    yield cluster
    cluster.stop()


def filled_topic(bootstrap: str, name: str) -> int:
    """Create a topic of one partition with three replicas, write to it, and return its leader."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(name, 1, 3)])[name].result(10)
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all"})
    for number in range(RECORDS):
        producer.produce(name, str(number))
    assert producer.flush(10) == 0
    return int(admin.list_topics(name, timeout=10).topics[name].partitions[0].leader)


def read_all(bootstrap: str, topic: str, rack: str) -> tuple[list[bytes], set[int]]:
    """Return the values that a consumer in `rack` reads, and the brokers that it fetched the last of them from."""
    brokers: set[int] = set()

    def stats(text: str) -> None:
        found = json.loads(text)["topics"].get(topic, {}).get("partitions", {}).get("0", {})
        if found.get("fetch_state") == "active":
            brokers.add(found["broker"])

    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": f"{topic}-{rack}",
            "client.rack": rack,
            "statistics.interval.ms": 50,
            "stats_cb": stats,
            "enable.auto.commit": False,
        }
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    values: list[bytes] = []
    deadline_s = time.monotonic() + PATIENCE_S
    try:
        while len(values) < RECORDS and time.monotonic() < deadline_s:
            values += [each.value() for each in consumer.consume(100, 0.1)]
        # The statistics of the time after the last record tell where the consumer ended up.
        brokers.clear()
        settle_s = time.monotonic() + 0.5
        while time.monotonic() < settle_s:
            consumer.poll(0.05)
    finally:
        consumer.close()
    return values, brokers


def test_h07_consumer_reads_from_the_follower_in_its_rack(racks: LocalCluster) -> None:
    """In each rack a consumer gets everything, from the broker of that rack, be it the leader or a follower."""
    filled_topic(racks.bootstrap, "near")

    for broker_id, rack in ((1, "a"), (2, "b"), (3, "c")):
        values, brokers = read_all(racks.bootstrap, "near", rack)
        assert values == [str(number).encode() for number in range(RECORDS)]
        assert brokers == {broker_id}


def test_consumer_of_another_rack_reads_from_the_leader(racks: LocalCluster) -> None:
    """No replica stands in its rack: the leader serves it."""
    leader = filled_topic(racks.bootstrap, "far")

    values, brokers = read_all(racks.bootstrap, "far", "z")

    assert len(values) == RECORDS
    assert brokers == {leader}


def test_racks_need_names() -> None:
    """`up` refuses an empty name before it starts anything."""
    ran = run("up", "--racks", "a,,b")

    assert ran.returncode == 2
    assert "takes names separated by commas, not 'a,,b'" in ran.stderr
