"""confluent-kafka (librdkafka) as an agent."""

import sys
import threading
import time
from typing import Any

from confluent_kafka import (
    Consumer,
    ConsumerGroupTopicPartitions,
    ElectionType,
    KafkaError,
    KafkaException,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourceType,
)

from tests.interop.agents.serve import decode, headers_of, received, serve

POLL_S = 0.05
PATIENCE_S = 30
# Answers to the commit of a member that the group does not count any more.
EXPELLED = (KafkaError.UNKNOWN_MEMBER_ID, KafkaError.ILLEGAL_GENERATION)


class Member:
    """One consumer of a group, polled by a thread of its own."""

    def __init__(self, bootstrap: str, group: str, topic: str, session_timeout_ms: int, strategy: str | None) -> None:
        settings = {"partition.assignment.strategy": strategy} if strategy else {}
        self.consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": group,
                "session.timeout.ms": session_timeout_ms,
                "heartbeat.interval.ms": session_timeout_ms // 10,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "fetch.wait.max.ms": 100,
                **settings,
            }
        )
        self.consumer.subscribe([topic])
        self.read: list[list[int]] = []
        self.owned: list[int] = []
        self.leaving = threading.Event()
        self.thread = threading.Thread(target=self._poll, daemon=True)
        self.thread.start()

    def _poll(self) -> None:
        while not self.leaving.is_set():
            message = self.consumer.poll(POLL_S)
            self.owned = sorted(each.partition for each in self.consumer.assignment())
            if message is not None and message.error() is None and self._is_committed(message):
                self.read.append([message.partition(), message.offset()])

    def _is_committed(self, message: Any) -> bool:
        """Commit; again if the coordinator has just died, which this call reports now and then.

        If the group has gone on without this member, whose process did not run for a while, only polls bring it back.
        """
        while not self.leaving.is_set():
            try:
                self.consumer.commit(message, asynchronous=False)
            except KafkaException as failure:
                if failure.args[0].code() in EXPELLED:
                    return False
                time.sleep(POLL_S)
            else:
                return True
        return False

    def leave(self) -> None:
        """Leave the group with a LeaveGroup request."""
        self.leaving.set()
        self.thread.join(10)
        self.consumer.close()


class Agent:
    """What the tests ask for, said in confluent-kafka's words."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self.admin = AdminClient({"bootstrap.servers": bootstrap})
        self.producers: dict[tuple[Any, ...], Producer] = {}
        self.members: dict[str, Member] = {}

    def _producer(self, codec: str, *, idempotent: bool, request_timeout_ms: int, singly: bool) -> Producer:
        key = (codec, idempotent, request_timeout_ms, singly)
        if key not in self.producers:
            self.producers[key] = Producer(
                {
                    "bootstrap.servers": self.bootstrap,
                    "compression.type": codec,
                    "enable.idempotence": idempotent,
                    "acks": "all",
                    "socket.timeout.ms": request_timeout_ms,
                    "retry.backoff.ms": 50,
                    "linger.ms": 0 if singly else 5,
                    "batch.num.messages": 1 if singly else 1000,
                }
            )
        return self.producers[key]

    def produce(
        self, topic: str, records: list[Any], codec: str, idempotent: bool, request_timeout_ms: int, singly: bool
    ) -> list[list[int]]:
        """Send records and return where each one went."""
        producer = self._producer(codec, idempotent=idempotent, request_timeout_ms=request_timeout_ms, singly=singly)
        reports: list[tuple[Any, Any]] = []
        for record in records:
            producer.produce(
                topic,
                decode(record["value"]),
                decode(record["key"]),
                record["partition"],
                timestamp=record["timestamp_ms"],
                headers=headers_of(record) or None,
                on_delivery=lambda error, message: reports.append((error, message)),
            )
        assert producer.flush(30) == 0
        for error, _ in reports:
            if error is not None:
                raise KafkaException(error)
        return sorted([message.partition(), message.offset()] for _, message in reports)

    def begin_transaction(self, topic: str, transactional_id: str) -> None:
        """Write a record in a transaction, with a producer of its own."""
        producer = Producer({"bootstrap.servers": self.bootstrap, "transactional.id": transactional_id})
        producer.init_transactions(PATIENCE_S)
        producer.begin_transaction()
        producer.produce(topic, b"x")
        producer.commit_transaction(PATIENCE_S)

    def consume(self, topic: str, count: int) -> list[Any]:
        """Read that many records from the beginning of all partitions."""
        consumer = Consumer({"bootstrap.servers": self.bootstrap, "group.id": "none", "fetch.wait.max.ms": 50})
        partitions = consumer.list_topics(topic, 10).topics[topic].partitions
        consumer.assign([TopicPartition(topic, partition, 0) for partition in partitions])
        records = []
        deadline = time.monotonic() + 20
        while len(records) < count and time.monotonic() < deadline:
            message = consumer.poll(POLL_S)
            if message is not None and message.error() is None:
                records.append(
                    received(
                        message.partition(),
                        message.offset(),
                        message.key(),
                        message.value(),
                        message.headers(),
                        message.timestamp()[1],
                    )
                )
        consumer.close()
        return records

    def join(self, member: str, group: str, topic: str, session_timeout_ms: int, strategy: str | None) -> None:
        """Start a member of a group."""
        self.members[member] = Member(self.bootstrap, group, topic, session_timeout_ms, strategy)

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
        self.admin.create_topics([NewTopic(topic, partitions, replication, config=configs)])[topic].result(10)

    def delete_topic(self, topic: str) -> None:
        """Delete a topic."""
        self.admin.delete_topics([topic])[topic].result(10)

    def list_topics(self) -> list[str]:
        """Return all topics."""
        return sorted(self.admin.list_topics(timeout=10).topics)

    def describe_topic(self, topic: str) -> list[Any]:
        """Return leader, replicas and ISR by partition."""
        from confluent_kafka import TopicCollection

        described = self.admin.describe_topics(TopicCollection([topic]))[topic].result(10)
        return [
            {
                "partition": each.id,
                "leader": each.leader.id,
                "replicas": [node.id for node in each.replicas],
                "isr": [node.id for node in each.isr],
            }
            for each in described.partitions
        ]

    def create_partitions(self, topic: str, total: int) -> None:
        """Grow a topic."""
        self.admin.create_partitions([NewPartitions(topic, total)])[topic].result(10)

    def delete_records(self, topic: str, partition: int, before: int) -> int:
        """Delete records below an offset; return the new beginning."""
        place = TopicPartition(topic, partition, before)
        return self.admin.delete_records([place])[place].result(10).low_watermark

    def list_offsets(self, topic: str, partition: int, timestamp_ms: int) -> list[int]:
        """Return the earliest offset, the latest, and the first at or after a time."""
        place = TopicPartition(topic, partition)
        specs = (OffsetSpec.earliest(), OffsetSpec.latest(), OffsetSpec.for_timestamp(timestamp_ms))
        return [self.admin.list_offsets({place: spec})[place].result(10).offset for spec in specs]

    def describe_configs(self, kind: str, name: str) -> dict[str, str | None]:
        """Return every configuration of a topic or broker."""
        resource = ConfigResource(ResourceType[kind.upper()], name)
        entries = self.admin.describe_configs([resource])[resource].result(10)
        return {entry.name: entry.value for entry in entries.values()}

    def alter_configs(self, topic: str, configs: dict[str, str]) -> None:
        """Set some configurations and leave the others."""
        entries = [
            ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET) for name, value in configs.items()
        ]
        resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=entries)
        self.admin.incremental_alter_configs([resource])[resource].result(10)

    def replace_configs(self, topic: str, configs: dict[str, str]) -> None:
        """Set these configurations and reset all others."""
        resource = ConfigResource(ResourceType.TOPIC, topic, set_config=configs)
        self.admin.alter_configs([resource])[resource].result(10)

    def describe_cluster(self) -> dict[str, Any]:
        """Return the cluster's id and brokers."""
        cluster = self.admin.describe_cluster().result(10)
        return {"cluster_id": cluster.cluster_id, "brokers": sorted(node.id for node in cluster.nodes)}

    def list_groups(self) -> list[str]:
        """Return all groups."""
        return [group.group_id for group in self.admin.list_consumer_groups().result(10).valid]

    def describe_group(self, group: str) -> dict[str, Any]:
        """Return a group's state and size."""
        described = self.admin.describe_consumer_groups([group])[group].result(10)
        return {"state": described.state.name.title(), "members": len(described.members)}

    def delete_group(self, group: str) -> None:
        """Delete a group."""
        self.admin.delete_consumer_groups([group])[group].result(10)

    def group_offsets(self, group: str, topic: str) -> dict[int, int]:
        """Return the committed offsets of a group."""
        answered = self.admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])[group].result(10)
        return {each.partition: each.offset for each in answered.topic_partitions if each.topic == topic}

    def set_group_offsets(self, group: str, topic: str, offsets: list[list[int]]) -> None:
        """Commit offsets for a group without members."""
        places = [TopicPartition(topic, partition, offset) for partition, offset in offsets]
        altered = self.admin.alter_consumer_group_offsets([ConsumerGroupTopicPartitions(group, places)])[group]
        for place in altered.result(10).topic_partitions:
            # Refusals, as of a group that has members, come with the partitions.
            if place.error is not None:
                raise KafkaException(place.error)

    def elect_preferred(self, topic: str, partition: int) -> None:
        """Let a partition's preferred replica lead."""
        elected = self.admin.elect_leaders(ElectionType.PREFERRED, [TopicPartition(topic, partition)]).result(10)
        for error in elected.values():
            if error is not None:
                raise KafkaException(error)


if __name__ == "__main__":
    agent = Agent(sys.argv[1])
    serve(lambda name, arguments: getattr(agent, name)(**arguments))
