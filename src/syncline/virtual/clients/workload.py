"""Unmodified clients at work: producers that record acknowledgements, consumers that record what they read.

Each value is unique (client, partition, number), so it identifies its writer and
its place in that writer's order. A send ends `ok` (with an offset) or `info`:
after a time-out or a broken connection it is open whether the record was stored.
Timestamps are passed explicitly, because the client's record builder, written
in C, would read the real clock.
"""

import asyncio
from typing import Any, Final, NamedTuple

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka import TopicPartition as ClientPartition
from aiokafka.errors import KafkaError

from syncline.model.ids import TopicPartition
from syncline.virtual.cluster import VirtualCluster
from syncline.virtual.time.clock import EPOCH_MS

BURST_MAX: Final = 8
# A pause after an error: without it, the client would raise the same error again and again at one instant.
POLL_AGAIN_S: Final = 0.1


class Sent(NamedTuple):
    """One record that was sent: its outcome, and when."""

    key: TopicPartition
    value: bytes
    is_ok: bool
    offset: int  # -1 when the client got none
    sent_ns: int
    done_ns: int


class ProducerClient:
    """One producer, acks=all, writing bursts to the partitions of one topic."""

    def __init__(
        self,
        cluster: VirtualCluster,
        number: int,
        topic: str,
        partitions: int,
        *,
        is_idempotent: bool,
        has_large_records: bool = False,
    ) -> None:
        self.topic = topic
        # Keys make them large: values say who wrote them.
        self._keys = (b"", b"k" * 10_000, b"k" * 40_000) if has_large_records else (None,)
        self._key_rng = cluster.rng("keys", number)
        self.is_idempotent = is_idempotent
        self.name = f"client-{number}"
        self.history: list[Sent] = []
        self.in_doubt = 0
        self.violations: list[str] = []
        self._cluster = cluster
        self._partitions = partitions
        self._rng = cluster.rng("client", number)
        self._is_open = True
        self._waiting: dict[asyncio.Task[None], None] = {}
        self.process = cluster.client_process(self.name)
        self.task: asyncio.Task[None] = self.process.context.run(cluster.loop.create_task, self._run())

    def stop_sending(self) -> None:
        """Send nothing new; requests in flight continue."""
        self._is_open = False

    async def _run(self) -> None:
        rng = self._rng
        producer = AIOKafkaProducer(
            bootstrap_servers=self._cluster.bootstrap,
            client_id=self.name,
            acks="all",
            enable_idempotence=self.is_idempotent,
            linger_ms=rng.choice((0, 0, 5, 50)),
            # Also how long it waits for a broker that lost power and no longer has the connection.
            request_timeout_ms=20_000 if self.is_idempotent else rng.choice((2_000, 5_000, 15_000)),
            retry_backoff_ms=100,
            metadata_max_age_ms=3_000,
        )
        await _started(producer)
        numbers = dict.fromkeys(range(self._partitions), 0)
        interval_s = rng.choice((0.1, 0.2, 0.4))
        while self._is_open:
            partition = rng.randrange(self._partitions)
            for _ in range(rng.randint(1, BURST_MAX)):
                value = f"{self.name}:{partition}:{numbers[partition]}".encode()
                numbers[partition] += 1
                await self._send(producer, TopicPartition(self.topic, partition), value)
            await asyncio.sleep(rng.expovariate(1 / interval_s))
        while self._waiting:  # noqa: ASYNC110 - a look now and then costs nothing in virtual time
            await asyncio.sleep(0.05)
        await producer.stop()

    async def _send(self, producer: Any, key: TopicPartition, value: bytes) -> None:
        loop = self._cluster.loop
        sent_ns = loop.now_ns
        try:
            delivery = await producer.send(
                key.topic,
                value,
                key=self._key_rng.choice(self._keys),
                partition=key.partition,
                timestamp_ms=EPOCH_MS + sent_ns // 1_000_000,
            )
        except KafkaError:
            self._note(Sent(key, value, is_ok=False, offset=-1, sent_ns=sent_ns, done_ns=loop.now_ns))
            return
        waiting = loop.create_task(self._await(key, value, sent_ns, delivery))
        self._waiting[waiting] = None
        waiting.add_done_callback(lambda task: self._waiting.pop(task, None))

    async def _await(self, key: TopicPartition, value: bytes, sent_ns: int, delivery: Any) -> None:
        offset, is_ok = -1, True
        try:
            offset = (await delivery).offset
        except KafkaError:
            is_ok = False
        end = self._cluster.ghost.committed_end(key)
        if offset >= end:
            self.violations.append(f"S9 {key}: {self.name} was acknowledged {offset}, committed is {end} only")
        self._note(Sent(key, value, is_ok=is_ok, offset=offset, sent_ns=sent_ns, done_ns=self._cluster.loop.now_ns))

    def _note(self, sent: Sent) -> None:
        self.history.append(sent)
        self.in_doubt += not sent.is_ok
        kind = "ok" if sent.is_ok else "info"
        self._cluster.trace.record(sent.done_ns, kind, str(sent.key), sent.value.decode(), sent.offset)


class Read(NamedTuple):
    """One record that a consumer got."""

    offset: int
    value: bytes


class ConsumerClient:
    """One consumer of one topic, by assignment or in a group."""

    def __init__(self, cluster: VirtualCluster, number: int, topic: str, partitions: int, *, group: str | None) -> None:
        self.topic = topic
        self.group = group
        self.name = f"client-{number}"
        self.reads: dict[TopicPartition, list[Read]] = {
            TopicPartition(topic, partition): [] for partition in range(partitions)
        }
        self.violations: list[str] = []
        self.resets = 0
        self._cluster = cluster
        self._is_open = True
        self.process = cluster.client_process(self.name)
        self.task: asyncio.Task[None] = self.process.context.run(cluster.loop.create_task, self._run())

    def stop(self) -> None:
        """Stop reading."""
        self._is_open = False

    def has_read(self, key: TopicPartition, end: int) -> bool:
        """Return whether everything below `end` was read."""
        reads = self.reads[key]
        return end == 0 or (bool(reads) and reads[-1].offset >= end - 1)

    async def _run(self) -> None:
        consumer = AIOKafkaConsumer(
            bootstrap_servers=self._cluster.bootstrap,
            client_id=self.name,
            group_id=self.group,
            auto_offset_reset="earliest",
            enable_auto_commit=self.group is not None,
            auto_commit_interval_ms=1_000,
            session_timeout_ms=6_000,
            heartbeat_interval_ms=1_000,
            request_timeout_ms=15_000,
            retry_backoff_ms=100,
            metadata_max_age_ms=3_000,
            fetch_max_wait_ms=500,
        )
        if self.group is None:
            consumer.assign([ClientPartition(*key) for key in self.reads])
        else:
            consumer.subscribe([self.topic])
        await _started(consumer)
        while self._is_open:
            try:
                records = await consumer.getmany(timeout_ms=500)
            except KafkaError as error:
                self._cluster.trace.record(self._cluster.loop.now_ns, "poll", self.name, type(error).__name__)
                await asyncio.sleep(POLL_AGAIN_S)
                continue
            for partition, batch in records.items():
                self._take(TopicPartition(*partition), batch)
        await consumer.stop()

    def _take(self, key: TopicPartition, batch: list[Any]) -> None:
        loop = self._cluster.loop
        reads = self.reads[key]
        end = self._cluster.ghost.committed_end(key)
        for record in batch:
            expected = reads[-1].offset + 1 if reads else 0
            if record.offset == 0 and expected > 0:
                # This client does not check leader epochs: a former leader with a shorter log (it lost its unsynced
                # end) makes it start over, as it would with Kafka (KIP-320, KIP-392).
                self.resets += 1
            elif record.offset > expected or (record.offset < expected and self.group is None):
                self.violations.append(f"H7 {key}: {self.name} read {record.offset} where {expected} was next")
            if record.offset >= end:
                self.violations.append(f"H10 {key}: {self.name} read {record.offset}, committed is {end} only")
            reads.append(Read(record.offset, record.value))
        self._cluster.trace.record(loop.now_ns, "read", self.name, str(key), batch[0].offset, batch[-1].offset)


async def _started(client: Any) -> None:
    """Start a client; retry while no broker can be reached."""
    while True:
        try:
            await client.start()
        except KafkaError:
            await asyncio.sleep(0.2)
        else:
            return
