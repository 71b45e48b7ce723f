"""Load with an oracle: remembers what brokers acknowledged, and compares it with what can be read afterwards.

Each record carries its number within its partition. An idempotent producer
with acks=all promises order and no duplicates whatever happens meanwhile, so
the numbers of a partition must be read back as 0, 1, 2, ... without a gap, as
far as they were acknowledged, each at the acknowledged offset.
"""

import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, Self

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.patience import until

UNKNOWN_OFFSET = -1
READ_TIMEOUT_S = 40.0
# Lost connections are what these tests are about: the client need not report each.
QUIET = {"log_level": 0}
# Records that wait for their acknowledgement in the client; bounds the load to what the cluster takes.
IN_FLIGHT_MAX = 2_000


def create_topic(
    bootstrap: str, topic: str, partitions: int, *, replicas: int = 3, config: Mapping[str, str] | None = None
) -> None:
    """Create a topic and wait until every partition has a leader and all its replicas in sync."""
    admin = AdminClient({"bootstrap.servers": bootstrap, **QUIET})
    new = NewTopic(topic, num_partitions=partitions, replication_factor=replicas, config=dict(config or {}))
    admin.create_topics([new])[topic].result(20)
    await_full_isr(bootstrap, [topic])


def await_full_isr(bootstrap: str, topics: Sequence[str], within_s: float = 30.0) -> float:
    """Return after how many seconds every partition of `topics` had a leader and all its replicas in sync."""
    admin = AdminClient({"bootstrap.servers": bootstrap, **QUIET})
    began_s = time.monotonic()
    state: dict[str, Any] = {}
    while time.monotonic() - began_s < within_s:
        try:
            metadata = admin.list_topics(timeout=5)
        except KafkaException:
            continue
        state = {topic: metadata.topics[topic].partitions for topic in topics if topic in metadata.topics}
        if len(state) == len(topics) and all(
            partition.leader >= 0 and sorted(partition.isrs) == sorted(partition.replicas)
            for partitions in state.values()
            for partition in partitions.values()
        ):
            return time.monotonic() - began_s
        time.sleep(0.05)
    seen = {
        f"{topic}-{index}": (partition.leader, partition.isrs, partition.replicas)
        for topic, partitions in state.items()
        for index, partition in partitions.items()
        if partition.leader < 0 or len(partition.isrs) != len(partition.replicas)
    }
    raise AssertionError(f"not all replicas of {topics} came back in sync within {within_s} s: {seen}")


@dataclass
class Acknowledged:
    """What brokers acknowledged in one partition."""

    # Offset by record number, in the order of acknowledgement.
    offsets: dict[int, int] = field(default_factory=dict)
    first_s: float = 0.0
    last_s: float = 0.0
    longest_gap_s: float = 0.0
    # When the longest silence ended, in seconds since the start of the load.
    longest_gap_at_s: float = 0.0

    def around(self, number: int) -> dict[int, int]:
        """Return the offsets of some records before and after one."""
        return {each: self.offsets[each] for each in range(number - 12, number + 13) if each in self.offsets}


class Experience(Protocol):
    """What takes note of each record on its way."""

    def sent(self) -> int:
        """Note that a record is sent; return its name for `acknowledged`."""

    def acknowledged(self, record: int, /) -> None:
        """Note its acknowledgement."""


class Load:
    """An idempotent producer with acks=all that keeps writing to all partitions of a topic until `stop`."""

    def __init__(
        self,
        bootstrap: str,
        topic: str,
        partitions: int,
        *,
        rate_per_s: float = 2_000.0,
        size_bytes: int = 200,
        settings: Mapping[str, object] | None = None,
        experience: Experience | None = None,
    ) -> None:
        self.topic = topic
        self._experience = experience
        self.acknowledged = [Acknowledged() for _ in range(partitions)]
        self.failures: list[str] = []
        self.sent = [0] * partitions
        self._rate_per_s = rate_per_s
        self._padding = b"x" * size_bytes
        self._stop = threading.Event()
        self._in_flight = 0
        self._slowest_s = 0.0
        self._began_s = time.monotonic()
        self._fatal: str | None = None
        self._is_abandoned = False
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                **QUIET,
                "acks": "all",
                "enable.idempotence": True,
                "linger.ms": 2,
                "message.timeout.ms": 120_000,
                "retry.backoff.ms": 20,
                "retry.backoff.max.ms": 200,
                "reconnect.backoff.ms": 20,
                "reconnect.backoff.max.ms": 200,
                "topic.metadata.refresh.fast.interval.ms": 50,
                "socket.timeout.ms": 5_000,
                "error_cb": self._on_error,
                **(settings or {}),
            }
        )
        self._thread = threading.Thread(target=self._run, name=f"load-{topic}", daemon=True)

    def __enter__(self) -> Self:
        self._began_s = time.monotonic()
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self.stop()
        else:
            # The test has failed: what is still on its way does not matter any more.
            self._is_abandoned = True
            self._stop.set()
            self._thread.join(10)

    @property
    def count(self) -> int:
        """How many records were acknowledged so far."""
        return sum(len(each.offsets) for each in self.acknowledged)

    @property
    def longest_gap_s(self) -> float:
        """The longest time in which one partition acknowledged nothing."""
        return max(each.longest_gap_s for each in self.acknowledged)

    def take_slowest_s(self) -> float:
        """Return how long the slowest acknowledgement since the last call took, from the first attempt on."""
        slowest_s, self._slowest_s = self._slowest_s, 0.0
        return slowest_s

    def change_rate(self, rate_per_s: float) -> None:
        """Send so many records per second from now on."""
        self._rate_per_s = rate_per_s

    def wait_for_more(self, records: int, within_s: float = 30.0) -> None:
        """Return once `records` more were acknowledged, in every partition at least one."""
        target = self.count + records
        before = [len(each.offsets) for each in self.acknowledged]

        def is_there() -> bool:
            assert self._fatal is None, self._fatal
            rose = all(len(each.offsets) > old for each, old in zip(self.acknowledged, before, strict=True))
            return rose and self.count >= target

        until(is_there, within_s, otherwise=lambda: f"{self.count} of {target} records acknowledged", pause_s=0.005)

    def stop(self, within_s: float = 60.0) -> None:
        """Stop sending; return when everything sent was acknowledged."""
        if self._stop.is_set():
            return
        self._stop.set()
        self._thread.join(within_s)
        assert not self._thread.is_alive(), "the producer does not come to an end"

    def _on_error(self, error: KafkaError) -> None:
        if error.fatal():
            self._fatal = str(error)

    def _run(self) -> None:
        partition = 0
        due_s = time.monotonic()
        while not self._stop.is_set() and self._fatal is None:
            batch = max(1, int(self._rate_per_s / 200))
            if self._in_flight < IN_FLIGHT_MAX:
                for _ in range(batch):
                    self._send(partition)
                    partition = (partition + 1) % len(self.sent)
            self._producer.poll(0)
            due_s = max(due_s + batch / self._rate_per_s, time.monotonic() - 0.1)
            # A poll returns with the first event.
            while (left_s := due_s - time.monotonic()) > 0 and not self._stop.is_set():
                self._producer.poll(left_s)
        while len(self._producer) and not self._is_abandoned:
            self._producer.poll(0.1)
        self._producer.purge()

    def _send(self, partition: int) -> None:
        number = self.sent[partition]
        self.sent[partition] += 1
        self._in_flight += 1
        value = b"%d:%d:" % (partition, number) + self._padding
        record = self._experience.sent() if self._experience else 0

        def delivered(error: KafkaError | None, message: Message) -> None:
            self._in_flight -= 1
            if error is not None:
                self.failures.append(f"{partition}:{number}: {error}")
                return
            self._slowest_s = max(self._slowest_s, message.latency() or 0.0)
            if self._experience:
                self._experience.acknowledged(record)
            # A retry that the broker recognised as an old duplicate is acknowledged without an offset.
            offset = message.offset()
            self._note(self.acknowledged[partition], number, UNKNOWN_OFFSET if offset is None else offset)

        self._producer.produce(self.topic, value, partition=partition, on_delivery=delivered)

    def _note(self, acknowledged: Acknowledged, number: int, offset: int) -> None:
        now_s = time.monotonic()
        acknowledged.offsets[number] = offset
        gap_s = now_s - (acknowledged.last_s or now_s)
        if gap_s > acknowledged.longest_gap_s:
            acknowledged.longest_gap_s = gap_s
            acknowledged.longest_gap_at_s = now_s - self._began_s
        acknowledged.last_s = now_s


def read_all(
    bootstrap: str, topic: str, partitions: int, within_s: float = READ_TIMEOUT_S
) -> list[list[tuple[int, bytes]]]:
    """Return (offset, value) of everything in each partition, from its start to its end."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            **QUIET,
            "group.id": "reader",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "error",
            "isolation.level": "read_uncommitted",
        }
    )
    consumer.assign([TopicPartition(topic, index, OFFSET_BEGINNING) for index in range(partitions)])
    records: list[list[tuple[int, bytes]]] = [[] for _ in range(partitions)]
    at_end: set[int] = set()
    deadline_s = time.monotonic() + within_s
    try:
        while len(at_end) < partitions:
            assert time.monotonic() < deadline_s, f"could not read {topic} to its end: only {sorted(at_end)} done"
            for message in consumer.consume(10_000, 0.2):
                error = message.error()
                if error is None:
                    records[message.partition()].append((message.offset(), message.value()))
                elif error.code() == KafkaError._PARTITION_EOF:
                    at_end.add(message.partition())
                elif not error.retriable():
                    raise AssertionError(f"reading {topic} failed: {error}")
    finally:
        consumer.close()
    return records


def check_history(load: Load, records: Sequence[Sequence[tuple[int, bytes]]]) -> None:
    """Assert that everything acknowledged was read exactly once, in order, at its acknowledged offset."""
    assert not load.failures, f"{len(load.failures)} records failed: {load.failures[:3]}"
    for partition, (acknowledged, found) in enumerate(zip(load.acknowledged, records, strict=True)):
        numbers = []
        for offset, value in found:
            owner, number, _ = value.split(b":", 2)
            assert int(owner) == partition, f"partition {partition} holds a record of partition {owner!r}"
            numbers.append(int(number))
            promised = acknowledged.offsets.get(int(number), offset)
            assert promised in (offset, UNKNOWN_OFFSET), (
                f"record {partition}:{int(number)} was acknowledged at {promised}, it is read at {offset};"
                f" it is at {[each for each, other in found if other.split(b':', 2)[1] == number]}, and"
                f" acknowledged around it were (number: offset) {acknowledged.around(int(number))}"
            )
        twice = len(numbers) - len(set(numbers))
        assert not twice, f"{twice} records of partition {partition} are there twice"
        lost = sorted(set(acknowledged.offsets) - set(numbers))
        assert not lost, (
            f"{len(lost)} acknowledged records of partition {partition} are lost, the first ones {lost[:5]}"
        )
        assert numbers == sorted(numbers), f"partition {partition} is out of order"
