"""kafka-python as an agent."""

import contextlib
import sys
import threading
import time
from typing import Any

from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType, OffsetSpec
from kafka.errors import CommitFailedError, ElectionNotNeededError, KafkaError
from kafka.structs import OffsetAndMetadata

from tests.interop.agents.serve import decode, headers_of, received, serve

PREFERRED = 0


class Member:
    """One consumer of a group, polled by a thread of its own."""

    def __init__(self, bootstrap: str, group: str, topic: str, session_timeout_ms: int) -> None:
        self.consumer = KafkaConsumer(
            topic,
            bootstrap_servers=bootstrap,
            group_id=group,
            session_timeout_ms=session_timeout_ms,
            heartbeat_interval_ms=session_timeout_ms // 10,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            fetch_max_wait_ms=100,
        )
        # This client forgets a rejoin that new metadata caused if its poll times out meanwhile: it then neither takes
        # its partitions nor sends heartbeats. So the topic must be known before the first poll joins.
        self.consumer.partitions_for_topic(topic)
        self.read: list[list[int]] = []
        self.owned: list[int] = []
        self.leaving = threading.Event()
        self.thread = threading.Thread(target=self._poll, daemon=True)
        self.thread.start()

    def _poll(self) -> None:
        while not self.leaving.is_set():
            read = self.consumer.poll(timeout_ms=50)
            self.owned = sorted(each.partition for each in self.consumer.assignment())
            if not read:
                continue
            # A member that the group missed for a while reads again what it has not committed.
            with contextlib.suppress(CommitFailedError):
                self.consumer.commit()
                self.read.extend([each.partition, each.offset] for records in read.values() for each in records)
        self.consumer.close()

    def leave(self) -> None:
        """Leave the group with a LeaveGroup request."""
        self.leaving.set()
        self.thread.join(10)


class Agent:
    """What the tests ask for, said in kafka-python's words."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self.admin = KafkaAdminClient(bootstrap_servers=bootstrap)
        self.producers: dict[tuple[Any, ...], KafkaProducer] = {}
        self.members: dict[str, Member] = {}

    def _producer(self, codec: str, *, idempotent: bool, request_timeout_ms: int, singly: bool) -> KafkaProducer:
        key = (codec, idempotent, request_timeout_ms, singly)
        if key not in self.producers:
            self.producers[key] = KafkaProducer(
                bootstrap_servers=self.bootstrap,
                compression_type=None if codec == "none" else codec,
                enable_idempotence=idempotent,
                acks="all",
                request_timeout_ms=request_timeout_ms,
                retry_backoff_ms=50,
                linger_ms=0 if singly else 5,
                batch_size=0 if singly else 16384,
            )
        return self.producers[key]

    def produce(
        self, topic: str, records: list[Any], codec: str, idempotent: bool, request_timeout_ms: int, singly: bool
    ) -> list[list[int]]:
        """Send records and return where each one went."""
        producer = self._producer(codec, idempotent=idempotent, request_timeout_ms=request_timeout_ms, singly=singly)
        futures = [
            producer.send(
                topic,
                decode(record["value"]),
                decode(record["key"]),
                headers_of(record),
                record["partition"],
                record["timestamp_ms"],
            )
            for record in records
        ]
        producer.flush(30)
        return sorted([future.get(30).partition, future.get(30).offset] for future in futures)

    def begin_transaction(self, topic: str, transactional_id: str) -> None:
        """Write a record in a transaction, with a producer of its own."""
        producer = KafkaProducer(bootstrap_servers=self.bootstrap, transactional_id=transactional_id)
        try:
            producer.init_transactions()
            producer.begin_transaction()
            producer.send(topic, b"x").get()
        finally:
            producer.close(0)

    def consume(self, topic: str, count: int) -> list[Any]:
        """Read that many records from the beginning of all partitions."""
        consumer = KafkaConsumer(bootstrap_servers=self.bootstrap, auto_offset_reset="earliest", fetch_max_wait_ms=50)
        consumer.assign([TopicPartition(topic, partition) for partition in consumer.partitions_for_topic(topic)])
        records: list[Any] = []
        deadline = time.monotonic() + 20
        while len(records) < count and time.monotonic() < deadline:
            for batch in consumer.poll(timeout_ms=200).values():
                records.extend(
                    received(each.partition, each.offset, each.key, each.value, each.headers, each.timestamp)
                    for each in batch
                )
        consumer.close()
        return records

    def join(self, member: str, group: str, topic: str, session_timeout_ms: int, strategy: str | None) -> None:
        """Start a member of a group."""
        assert strategy is None
        self.members[member] = Member(self.bootstrap, group, topic, session_timeout_ms)

    def assignment(self, member: str) -> list[int]:
        """Return a member's partitions."""
        return self.members[member].owned

    def received(self, member: str) -> list[list[int]]:
        """Return the partition and offset of each record that a member has read and committed."""
        return self.members[member].read

    def leave(self, member: str) -> None:
        """Take a member out of its group."""
        self.members.pop(member).leave()

    def create_topic(self, topic: str, partitions: int, replication: int, configs: dict[str, str]) -> None:
        """Create a topic."""
        settings = {"num_partitions": partitions, "replication_factor": replication, "configs": configs}
        self.admin.create_topics({topic: settings})

    def delete_topic(self, topic: str) -> None:
        """Delete a topic."""
        self.admin.delete_topics([topic])

    def list_topics(self) -> list[str]:
        """Return all topics."""
        return sorted(self.admin.list_topics())

    def describe_topic(self, topic: str) -> list[Any]:
        """Return leader, replicas and ISR by partition."""
        (described,) = self.admin.describe_topics([topic])
        return [
            {
                "partition": each["partition_index"],
                "leader": each["leader_id"],
                "replicas": each["replica_nodes"],
                "isr": each["isr_nodes"],
            }
            for each in described["partitions"]
        ]

    def create_partitions(self, topic: str, total: int) -> None:
        """Grow a topic."""
        self.admin.create_partitions({topic: total})

    def delete_records(self, topic: str, partition: int, before: int) -> int:
        """Delete records below an offset; return the new beginning."""
        place = TopicPartition(topic, partition)
        return self.admin.delete_records({place: before})[place]["low_watermark"]

    def list_offsets(self, topic: str, partition: int, timestamp_ms: int) -> list[int]:
        """Return the earliest offset, the latest, and the first at or after a time."""
        place = TopicPartition(topic, partition)
        specs = (OffsetSpec.EARLIEST, OffsetSpec.LATEST, timestamp_ms)
        return [self.admin.list_partition_offsets({place: spec})[place].offset for spec in specs]

    def describe_configs(self, kind: str, name: str) -> dict[str, str | None]:
        """Return every configuration of a topic or broker."""
        resource = ConfigResource(ConfigResourceType[kind.upper()], name)
        described = self.admin.describe_configs([resource], config_filter="all")
        return {key: entry["value"] for key, entry in described[kind][name].items()}

    def alter_configs(self, topic: str, configs: dict[str, str]) -> None:
        """Set some configurations and leave the others."""
        self._alter(topic, configs, incremental=True)

    def replace_configs(self, topic: str, configs: dict[str, str]) -> None:
        """Set configurations with the older request (this client adds those that are already there)."""
        self._alter(topic, configs, incremental=False)

    def _alter(self, topic: str, configs: dict[str, str], *, incremental: bool) -> None:
        resource = ConfigResource(ConfigResourceType.TOPIC, topic, configs)
        answered = self.admin.alter_configs([resource], incremental=incremental)["topic"][topic]
        if answered != "OK":
            raise KafkaError(answered)

    def describe_cluster(self) -> dict[str, Any]:
        """Return the cluster's id and brokers."""
        cluster = self.admin.describe_cluster()
        return {
            "cluster_id": cluster["cluster_id"],
            "brokers": sorted(broker.get("broker_id", broker.get("node_id")) for broker in cluster["brokers"]),
        }

    def list_groups(self) -> list[str]:
        """Return all groups."""
        return [group["group_id"] for group in self.admin.list_groups()]

    def describe_group(self, group: str) -> dict[str, Any]:
        """Return a group's state and size."""
        described = self.admin.describe_groups([group])[group]
        return {"state": described["group_state"], "members": len(described["members"])}

    def delete_group(self, group: str) -> None:
        """Delete a group."""
        for name, answered in self.admin.delete_groups([group]).items():
            if answered != "OK":
                raise KafkaError(f"{name}: {answered}")

    def group_offsets(self, group: str, topic: str) -> dict[int, int]:
        """Return the committed offsets of a group."""
        offsets = self.admin.list_group_offsets({group: None})[group]
        return {place.partition: committed.offset for place, committed in offsets.items() if place.topic == topic}

    def set_group_offsets(self, group: str, topic: str, offsets: list[list[int]]) -> None:
        """Commit offsets for a group without members."""
        wanted = {TopicPartition(topic, partition): OffsetAndMetadata(offset, "", -1) for partition, offset in offsets}
        self.admin.alter_group_offsets(group, wanted)

    def delete_group_offsets(self, group: str, topic: str, partition: int) -> None:
        """Forget a committed offset."""
        self.admin.delete_group_offsets(group, [TopicPartition(topic, partition)])

    def log_dirs(self, topic: str) -> dict[int, int]:
        """Return how many bytes of a topic each broker holds."""
        sizes: dict[int, int] = {}
        for broker in self.admin.describe_log_dirs([topic]):
            partitions = [
                partition
                for directory in broker["log_dirs"]
                for each in directory["topics"]
                for partition in each["partitions"]
            ]
            sizes[broker["broker"]] = sum(partition["partition_size"] for partition in partitions)
        return sizes

    def reassign(self, topic: str, partition: int, replicas: list[int] | None) -> None:
        """Give a partition other replicas; None cancels."""
        for error in self.admin.alter_partition_reassignments({TopicPartition(topic, partition): replicas}).values():
            if error is not None:
                raise error

    def reassignment(self, topic: str, partition: int) -> list[list[int]] | None:
        """Return replicas, adding and removing ones of a partition; None if it is not reassigned."""
        place = TopicPartition(topic, partition)
        listed = self.admin.list_partition_reassignments([place]).get(place)
        return listed and [listed[key] for key in ("replicas", "adding_replicas", "removing_replicas")]

    def elect_preferred(self, topic: str, partition: int) -> None:
        """Let a partition's preferred replica lead."""
        answered = self.admin.elect_leaders(PREFERRED, {topic: [partition]})
        # The library passes over this error.
        codes = [each.error_code for row in answered.replica_election_results for each in row.partition_result]
        if ElectionNotNeededError.errno in codes:
            raise ElectionNotNeededError


if __name__ == "__main__":
    agent = Agent(sys.argv[1])
    serve(lambda name, arguments: getattr(agent, name)(**arguments))
