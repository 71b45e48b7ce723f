"""aiokafka as an agent: its event loop runs in a thread, commands wait for it."""

import asyncio
import contextlib
import sys
import threading
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic, RecordsToDelete
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import CommitFailedError, NodeNotReadyError, for_code

from tests.interop.agents.serve import decode, headers_of, received, serve


def check(code: int, message: object) -> None:
    """Raise the error behind a code; this client's admin leaves that to its user."""
    if code:
        raise for_code(code)(message)


async def described_topic(admin: AIOKafkaAdminClient, topic: str) -> dict[str, Any]:
    """Return a topic's description; the client asks any broker that it knows, and reports one that has just died."""
    for _ in range(50):
        with contextlib.suppress(NodeNotReadyError):
            (described,) = await admin.describe_topics([topic])
            return described
        await asyncio.sleep(0.1)
    raise AssertionError(f"no broker described {topic}")


class Member:
    """One consumer of a group, polled by a task of its own."""

    def __init__(self, bootstrap: str, group: str, topic: str, session_timeout_ms: int) -> None:
        self.consumer = AIOKafkaConsumer(
            topic,
            bootstrap_servers=bootstrap,
            group_id=group,
            session_timeout_ms=session_timeout_ms,
            heartbeat_interval_ms=session_timeout_ms // 10,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            fetch_max_wait_ms=100,
        )
        self.read: list[list[int]] = []
        self.task = asyncio.get_running_loop().create_task(self._poll())

    async def _poll(self) -> None:
        await self.consumer.start()
        while True:
            read = await self.consumer.getmany(timeout_ms=50)
            if not read:
                continue
            # A member that the group missed for a while reads again what it has not committed.
            with contextlib.suppress(CommitFailedError):
                await self.consumer.commit()
                self.read.extend([each.partition, each.offset] for records in read.values() for each in records)

    async def leave(self) -> None:
        """Leave the group with a LeaveGroup request."""
        self.task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self.task
        await self.consumer.stop()


class Agent:
    """What the tests ask for, said in aiokafka's words."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self.producers: dict[tuple[Any, ...], AIOKafkaProducer] = {}
        self.members: dict[str, Member] = {}
        self._admin: AIOKafkaAdminClient | None = None

    async def admin(self) -> AIOKafkaAdminClient:
        """Return the admin client, connected."""
        if self._admin is None:
            self._admin = AIOKafkaAdminClient(bootstrap_servers=self.bootstrap)
            await self._admin.start()
        return self._admin

    # This client gives up a record that finds no room in a batch for as long as a request may take: batches stay large.
    async def _producer(
        self, codec: str, *, idempotent: bool, request_timeout_ms: int, singly: bool
    ) -> AIOKafkaProducer:
        key = (codec, idempotent, request_timeout_ms, singly)
        if key not in self.producers:
            producer = AIOKafkaProducer(
                bootstrap_servers=self.bootstrap,
                compression_type=None if codec == "none" else codec,
                enable_idempotence=idempotent,
                acks="all",
                request_timeout_ms=request_timeout_ms,
                retry_backoff_ms=50,
                linger_ms=0 if singly else 5,
            )
            await producer.start()
            self.producers[key] = producer
        return self.producers[key]

    async def produce(
        self, topic: str, records: list[Any], codec: str, idempotent: bool, request_timeout_ms: int, singly: bool
    ) -> list[list[int]]:
        """Send records and return where each one went."""
        producer = await self._producer(
            codec, idempotent=idempotent, request_timeout_ms=request_timeout_ms, singly=singly
        )
        futures = [
            await producer.send(
                topic,
                decode(record["value"]),
                decode(record["key"]),
                record["partition"],
                record["timestamp_ms"],
                headers_of(record),
            )
            for record in records
        ]
        sent = await asyncio.gather(*futures)
        return sorted([each.partition, each.offset] for each in sent)

    async def begin_transaction(self, topic: str, transactional_id: str) -> None:
        """Write a record in a transaction, with a producer of its own."""
        producer = AIOKafkaProducer(bootstrap_servers=self.bootstrap, transactional_id=transactional_id)
        try:
            await producer.start()
            await producer.begin_transaction()
            await producer.send_and_wait(topic, b"x")
        finally:
            await producer.stop()

    async def consume(self, topic: str, count: int) -> list[Any]:
        """Read that many records from the beginning of all partitions."""
        consumer = AIOKafkaConsumer(
            bootstrap_servers=self.bootstrap, auto_offset_reset="earliest", fetch_max_wait_ms=50
        )
        await consumer.start()
        await consumer._client.force_metadata_update()
        admin = await self.admin()
        described = await described_topic(admin, topic)
        consumer.assign([TopicPartition(topic, each["partition"]) for each in described["partitions"]])
        records: list[Any] = []
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(20):
                while len(records) < count:
                    for batch in (await consumer.getmany(timeout_ms=200)).values():
                        records.extend(
                            received(each.partition, each.offset, each.key, each.value, each.headers, each.timestamp)
                            for each in batch
                        )
        await consumer.stop()
        return records

    async def join(self, member: str, group: str, topic: str, session_timeout_ms: int, strategy: str | None) -> None:
        """Start a member of a group."""
        assert strategy is None
        self.members[member] = Member(self.bootstrap, group, topic, session_timeout_ms)

    async def assignment(self, member: str) -> list[int]:
        """Return a member's partitions."""
        return sorted(each.partition for each in self.members[member].consumer.assignment())

    async def received(self, member: str) -> list[list[int]]:
        """Return the partition and offset of each record that a member has read and committed."""
        return self.members[member].read

    async def leave(self, member: str) -> None:
        """Take a member out of its group."""
        await self.members.pop(member).leave()

    async def create_topic(self, topic: str, partitions: int, replication: int, configs: dict[str, str]) -> None:
        """Create a topic."""
        new = NewTopic(topic, partitions, replication, topic_configs=configs)
        for _, code, message in (await (await self.admin()).create_topics([new])).topic_errors:
            check(code, message)

    async def delete_topic(self, topic: str) -> None:
        """Delete a topic."""
        for name, code in (await (await self.admin()).delete_topics([topic])).topic_error_codes:
            check(code, name)

    async def list_topics(self) -> list[str]:
        """Return all topics."""
        return sorted(await (await self.admin()).list_topics())

    async def describe_topic(self, topic: str) -> list[Any]:
        """Return leader, replicas and ISR by partition."""
        (described,) = await (await self.admin()).describe_topics([topic])
        return [
            {name: each[name] for name in ("partition", "leader", "replicas", "isr")}
            for each in described["partitions"]
        ]

    async def create_partitions(self, topic: str, total: int) -> None:
        """Grow a topic."""
        await (await self.admin()).create_partitions({topic: NewPartitions(total)})

    async def delete_records(self, topic: str, partition: int, before: int) -> int:
        """Delete records below an offset; return the new beginning."""
        place = TopicPartition(topic, partition)
        return (await (await self.admin()).delete_records({place: RecordsToDelete(before)}))[place]

    async def list_offsets(self, topic: str, partition: int, timestamp_ms: int) -> list[int]:
        """Return the earliest offset, the latest, and the first at or after a time."""
        place = TopicPartition(topic, partition)
        consumer = AIOKafkaConsumer(bootstrap_servers=self.bootstrap)
        await consumer.start()
        try:
            earliest = (await consumer.beginning_offsets([place]))[place]
            latest = (await consumer.end_offsets([place]))[place]
            at_time = (await consumer.offsets_for_times({place: timestamp_ms}))[place]
        finally:
            await consumer.stop()
        return [earliest, latest, at_time.offset]

    async def describe_configs(self, kind: str, name: str) -> dict[str, str | None]:
        """Return every configuration of a topic or broker."""
        resource = ConfigResource(ConfigResourceType[kind.upper()], name)
        (described,) = await (await self.admin()).describe_configs([resource])
        code, message, _, _, entries = described.resources[0]
        check(code, message)
        return {entry[0]: entry[1] for entry in entries}

    async def replace_configs(self, topic: str, configs: dict[str, str]) -> None:
        """Set these configurations and reset all others."""
        resource = ConfigResource(ConfigResourceType.TOPIC, topic, configs)
        for answer in await (await self.admin()).alter_configs([resource]):
            for code, message, *_ in answer.resources:
                check(code, message)

    async def describe_cluster(self) -> dict[str, Any]:
        """Return the cluster's id and brokers."""
        cluster = await (await self.admin()).describe_cluster()
        return {"cluster_id": cluster["cluster_id"], "brokers": sorted(each["node_id"] for each in cluster["brokers"])}

    async def list_groups(self) -> list[str]:
        """Return all groups."""
        return [group[0] for group in await (await self.admin()).list_consumer_groups()]

    async def describe_group(self, group: str) -> dict[str, Any]:
        """Return a group's state and size."""
        (described,) = await (await self.admin()).describe_consumer_groups([group])
        code, _, state, _, _, members, *_ = described.groups[0]
        check(code, group)
        return {"state": state, "members": len(members)}

    async def group_offsets(self, group: str, topic: str) -> dict[int, int]:
        """Return the committed offsets of a group."""
        offsets = await (await self.admin()).list_consumer_group_offsets(group)
        return {place.partition: committed.offset for place, committed in offsets.items() if place.topic == topic}

    async def set_group_offsets(self, group: str, topic: str, offsets: list[list[int]]) -> None:
        """Commit offsets for a group without members, as a consumer that assigns itself does."""
        consumer = AIOKafkaConsumer(bootstrap_servers=self.bootstrap, group_id=group, enable_auto_commit=False)
        await consumer.start()
        try:
            consumer.assign([TopicPartition(topic, partition) for partition, _ in offsets])
            await consumer.commit({TopicPartition(topic, partition): offset for partition, offset in offsets})
        finally:
            await consumer.stop()


if __name__ == "__main__":
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, daemon=True).start()
    agent = Agent(sys.argv[1])
    serve(lambda name, arguments: asyncio.run_coroutine_threadsafe(getattr(agent, name)(**arguments), loop).result(60))
