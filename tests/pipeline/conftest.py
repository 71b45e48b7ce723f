"""What the pipeline's tests share: one Spark session, and brokers to read from."""

import os
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count

import pytest


@pytest.fixture(scope="package")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator:
    """One Spark session for the whole room: starting one takes seconds."""
    from syncline.pipeline.session import spark_session

    with warnings.catch_warnings():
        # What Spark warns of at its start is none of the tests' business.
        warnings.simplefilter("ignore")
        scratch = tmp_path_factory.mktemp("spark")
        session = spark_session(
            name="tests",
            master="local[2]",
            profile="test",
            extra={
                "spark.sql.warehouse.dir": str(scratch),
                "spark.local.dir": str(scratch),
            },
        )
        yield session
        session.stop()


@pytest.fixture(scope="package")
def bootstrap() -> Iterator[str]:
    """The address of three running brokers; SYNCLINE_TEST_BOOTSTRAP points the tests at any other cluster."""
    elsewhere = os.environ.get("SYNCLINE_TEST_BOOTSTRAP")
    if elsewhere:
        yield elsewhere
        return
    from tests.cluster import cluster

    with cluster(brokers=3) as running:
        yield running.bootstrap


@dataclass(frozen=True)
class Broker:
    """A cluster, and a way to fill topics on it that no other test uses."""

    bootstrap: str
    names: Iterator[int]

    def topic(self, partitions: int = 1, **configs: str) -> str:
        """Return the name of a new empty topic."""
        name = f"pipeline-{os.getpid()}-{next(self.names)}"
        self.create(name, partitions, **configs)
        return name

    def delete(self, topic: str) -> None:
        """Delete a topic, and wait until no broker knows it."""
        from confluent_kafka.admin import AdminClient

        from tests.patience import until

        admin = AdminClient({"bootstrap.servers": self.bootstrap})
        admin.delete_topics([topic])[topic].result(30)
        each = [AdminClient({"bootstrap.servers": address}) for address in self.bootstrap.split(",")]
        until(lambda: all(topic not in one.list_topics(timeout=10).topics for one in each))

    def recreate(self, topic: str, partitions: int = 1) -> None:
        """Delete a topic and create an empty one of the same name."""
        self.delete(topic)
        self.create(topic, partitions)

    def create(self, name: str, partitions: int = 1, **configs: str) -> None:
        """Create an empty topic."""
        from confluent_kafka.admin import AdminClient, NewTopic

        # Test records carry times of their own choice, which retention would take as a reason to delete them.
        settings = {"retention.ms": "-1", **configs}
        factor = min(3, self.bootstrap.count(",") + 1)
        admin = AdminClient({"bootstrap.servers": self.bootstrap})
        admin.create_topics([NewTopic(name, partitions, factor, config=settings)])[name].result(30)

    def create_on_first_broker(self, name: str, partitions: int) -> None:
        """Create an empty topic whose only replicas are on the broker with the smallest id."""
        from confluent_kafka.admin import AdminClient, NewTopic

        admin = AdminClient({"bootstrap.servers": self.bootstrap})
        first = min(admin.list_topics(timeout=10).brokers)
        topic = NewTopic(name, partitions, replica_assignment=[[first]] * partitions, config={"retention.ms": "-1"})
        admin.create_topics([topic])[name].result(30)

    def produce(self, topic: str, records, *, codec: str = "none", **settings) -> None:
        """Send (partition, key, value, timestamp_ms, headers) and wait until all are acknowledged."""
        from confluent_kafka import Producer

        failures: list = []

        def delivered(error, _message) -> None:
            if error is not None:
                failures.append(error)

        producer = Producer(
            {"bootstrap.servers": self.bootstrap, "compression.type": codec, "linger.ms": 5, "acks": "all", **settings}
        )
        for partition, key, value, timestamp_ms, headers in records:
            producer.produce(
                topic,
                value,
                key,
                partition,
                timestamp=timestamp_ms,
                headers=list(headers) or None,
                on_delivery=delivered,
            )
        assert producer.flush(30) == 0
        assert failures == []

    def delete_records(self, topic: str, partition: int, before: int) -> None:
        """Delete a partition's records before an offset."""
        from confluent_kafka import TopicPartition
        from confluent_kafka.admin import AdminClient

        admin = AdminClient({"bootstrap.servers": self.bootstrap})
        for deleted in admin.delete_records([TopicPartition(topic, partition, before)]).values():
            deleted.result(30)

    def committed(self, group: str, topic: str, partitions: int) -> list[int]:
        """Return a group's committed offsets of a topic."""
        from confluent_kafka import Consumer, TopicPartition

        reader = Consumer({"bootstrap.servers": self.bootstrap, "group.id": group})
        places = [TopicPartition(topic, index) for index in range(partitions)]
        offsets = [place.offset for place in reader.committed(places, timeout=20)]
        reader.close()
        return offsets

    def add_partitions(self, topic: str, total: int) -> None:
        """Grow a topic."""
        from confluent_kafka.admin import AdminClient, NewPartitions

        admin = AdminClient({"bootstrap.servers": self.bootstrap})
        admin.create_partitions([NewPartitions(topic, total)])[topic].result(30)


@pytest.fixture(scope="package")
def broker(bootstrap: str) -> Broker:
    """Topics and records on the brokers."""
    return Broker(bootstrap, count())


@pytest.fixture
def load(spark, bootstrap: str) -> Callable:
    """Return a function that makes a batch DataFrame from options."""

    def make(columns: str | None = None, **options: str):
        reader = spark.read.format("syncline").option("kafka.bootstrap.servers", bootstrap)
        reader = reader.schema(columns) if columns else reader
        return reader.options(**options).load()

    return make
