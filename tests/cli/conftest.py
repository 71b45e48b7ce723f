"""What tests of the commands share. Topics and groups that a test only needs are created without commands: faster."""

import contextlib
import itertools
import json
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

# Before a test replaces what it takes from `syncline.local.control`.
import syncline.local.named_brokers  # noqa: F401
from syncline.model.ids import TopicPartition as Key
from tests.cli.scripted_kafka import ScriptedKafka, Serve, serving
from tests.cluster import QUICK_GROUPS, LocalCluster, cluster

with warnings.catch_warnings():
    # typer uses what click is about to drop, whichever test imports it first.
    warnings.simplefilter("ignore", DeprecationWarning)
    import typer  # noqa: F401


_NUMBERS = itertools.count(1)
THREE_PARTITIONS = {Key("foo", 0): (1, 2, 3), Key("foo", 1): (1, 2, 3), Key("bar", 0): (2, 3, 4)}


@pytest.fixture(scope="package")
def three_brokers() -> Iterator[LocalCluster]:
    """Three brokers, shared by tests that do not harm them: each test makes its own topics."""
    with cluster(brokers=3, configs=QUICK_GROUPS) as started:
        yield started


@pytest.fixture
def at(three_brokers: LocalCluster) -> tuple[str, str]:
    """The options that point a command at the shared cluster."""
    return "--data", str(three_brokers.directory)


@pytest.fixture(scope="package")
def admin(three_brokers: LocalCluster) -> AdminClient:
    """A client of the shared cluster."""
    return AdminClient({"bootstrap.servers": three_brokers.bootstrap, "log_level": 0})


@pytest.fixture(scope="package")
def make_topic(admin: AdminClient) -> Callable[..., str]:
    """Create a topic with so many partitions; return its name.

    One replica: what its leader has acknowledged can be read at once, whatever the acks.
    """

    def make(partitions: int = 1) -> str:
        name = f"cli-{next(_NUMBERS)}"
        admin.create_topics([NewTopic(name, partitions, 1)])[name].result(10)
        return name

    return make


@pytest.fixture
def topic(make_topic: Callable[..., str]) -> str:
    """A topic for this test alone, with two partitions."""
    return make_topic(2)


@pytest.fixture(scope="package")
def any_topic(make_topic: Callable[..., str]) -> str:
    """A topic with two partitions, for tests that do not change it."""
    return make_topic(2)


@pytest.fixture(scope="package")
def ten_read_to_four(three_brokers: LocalCluster, make_topic: Callable[..., str]) -> Callable[[], tuple[str, str]]:
    """Create a topic of one partition with the records 0 to 9, and a group that has committed 4; return both names."""

    def make() -> tuple[str, str]:
        topic = make_topic(1)
        group = f"readers-of-{topic}"
        quiet = {"bootstrap.servers": three_brokers.bootstrap, "log_level": 0}
        producer = Producer(quiet)
        for number in range(10):
            producer.produce(topic, str(number))
        assert producer.flush(10) == 0
        consumer = Consumer({**quiet, "group.id": group})
        consumer.commit(offsets=[TopicPartition(topic, 0, 4)], asynchronous=False)
        consumer.close()
        return topic, group

    return make


@pytest.fixture(scope="package")
def read(ten_read_to_four: Callable[[], tuple[str, str]]) -> tuple[str, str]:
    """Such a topic and group, for tests that do not change them."""
    return ten_read_to_four()


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Serve a scripted cluster until the end of the test; without replicas, with three partitions."""
    with contextlib.ExitStack() as stack:

        def start(**more: Any) -> ScriptedKafka:
            replicas = more.pop("replicas", dict(THREE_PARTITIONS))
            return stack.enter_context(serving(ScriptedKafka(replicas, **more)))

        yield start


@pytest.fixture
def plan(tmp_path: Path) -> Callable[..., str]:
    """Write a plan; return the name of its file."""

    def write(targets: dict[Key, tuple[int, ...]], **log_dirs: list[str]) -> str:
        rows = [
            {"topic": key.topic, "partition": key.partition, "replicas": list(replicas)}
            | ({"log_dirs": log_dirs[str(key).replace("-", "_")]} if str(key).replace("-", "_") in log_dirs else {})
            for key, replicas in targets.items()
        ]
        file = tmp_path / "plan.json"
        file.write_text(json.dumps({"version": 1, "partitions": rows}))
        return str(file)

    return write
