"""Groups that keep up, are slow, stall, stop and rewind, and a producer that pauses and bursts.

No consumer reads here: a group is what it commits. Each thread is one group, whose behaviour changes now and then.

Units: seconds, records.
"""

import random
import threading
import time
from collections.abc import Sequence

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

COMMIT_S = 1.0
RECORDS_PER_S = 50
QUIET = {"log_level": 0}
# What a group does, and how long at least and at most.
KEEPS_UP, SLOW, STALLS, STOPS, REWINDS = "keeps up", "slow", "stalls", "stops", "rewinds"
BEHAVIOURS = (KEEPS_UP, SLOW, STALLS, STOPS, REWINDS)
LENGTH_S = (18.0, 45.0)
# Who is slow commits less often than ends are sampled, or each new end would seem to be caught up with; a window of
# ten such commits takes half a minute.
SLOW_COMMIT_S = 2.5
SLOW_LENGTH_S = (45.0, 60.0)
# So far back that the lag is known as such whenever ends are sampled.
REWIND_RECORDS = RECORDS_PER_S * 8


class Ends:
    """Writes to all partitions, and knows where they end."""

    def __init__(self, bootstrap: str, topic: str, partitions: int, seed: int) -> None:
        self.ends = [0] * partitions
        self.is_over = threading.Event()
        self._topic = topic
        self._rng = random.Random(seed)
        self._producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5, **QUIET})
        self.thread = threading.Thread(target=self._run, name="ends", daemon=True)

    def _run(self) -> None:
        while not self.is_over.is_set():
            kind = self._rng.choice(("steady", "steady", "steady", "silent", "burst"))
            until_s = time.monotonic() + self._rng.uniform(5, 25)
            if kind == "silent":
                self.is_over.wait(until_s - time.monotonic())
                continue
            if kind == "burst":
                self._write(RECORDS_PER_S * 20)
            while time.monotonic() < until_s and not self.is_over.wait(0.2):
                self._write(RECORDS_PER_S // 5)

    def _write(self, count: int) -> None:
        """Write that many records to each partition."""
        for partition in range(len(self.ends)):
            for _ in range(count):
                self._producer.produce(self._topic, b"x" * 50, partition=partition, on_delivery=self._delivered)
        self._producer.flush(20)

    def _delivered(self, error: object, message: object) -> None:
        if error is None:
            partition = message.partition()  # type: ignore[attr-defined]
            self.ends[partition] = max(self.ends[partition], message.offset() + 1)  # type: ignore[attr-defined]


class Group:
    """One group, which commits once a second as its behaviour of the moment wants."""

    def __init__(self, bootstrap: str, name: str, ends: Ends, topic: str, plan: Sequence[str], seed: int) -> None:
        self.name = name
        # When the behaviour changed, and to what.
        self.history: list[tuple[float, str]] = []
        self.failed_commits = 0
        self.is_over = threading.Event()
        self._ends = ends
        self._topic = topic
        self._plan = plan
        self._rng = random.Random(f"{name} {seed}")
        self._committed = [0] * len(ends.ends)
        self._consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": name, **QUIET})
        self.thread = threading.Thread(target=self._run, name=name, daemon=True)

    def _run(self) -> None:
        turn = 0
        while not self.is_over.is_set():
            behaviour = self._plan[turn] if turn < len(self._plan) else self._rng.choice(BEHAVIOURS)
            turn += 1
            self.history.append((time.time(), behaviour))
            length_s = self._rng.uniform(*(SLOW_LENGTH_S if behaviour == SLOW else LENGTH_S))
            self._behave(behaviour, time.monotonic() + length_s)
        self._consumer.close()

    def _behave(self, behaviour: str, until_s: float) -> None:
        if behaviour == REWINDS:
            self._committed = [max(0, offset - REWIND_RECORDS) for offset in self._committed]
        pause_s = SLOW_COMMIT_S if behaviour == SLOW else COMMIT_S
        while time.monotonic() < until_s and not self.is_over.wait(pause_s):
            if behaviour == STOPS:
                continue
            for partition, end in enumerate(self._ends.ends):
                before = self._committed[partition]
                if behaviour == KEEPS_UP:
                    self._committed[partition] = end
                elif behaviour == SLOW:
                    self._committed[partition] = min(max(before, end - 4 * RECORDS_PER_S), before + RECORDS_PER_S // 3)
                elif behaviour == REWINDS:
                    self._committed[partition] = min(end, before + 5)
            self._commit()

    def _commit(self) -> None:
        offsets = [TopicPartition(self._topic, partition, offset) for partition, offset in enumerate(self._committed)]
        try:
            self._consumer.commit(offsets=offsets, asynchronous=False)
        except KafkaException:
            self.failed_commits += 1
