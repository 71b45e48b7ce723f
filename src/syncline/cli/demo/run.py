"""The demonstration's load and faults: a producer, a group of two consumers, a killed leader, a paused follower.

Everything is real: processes, clients, signals. The run writes each fault to the journal, so that the report can show
it beside the cluster's reaction.
"""

import contextlib
import os
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from syncline.cli.target import result_of
from syncline.local.layout import Layout, LocalClusterError, RunningCluster
from syncline.model.events import Fault, journal_key, to_json
from syncline.model.ids import JOURNAL_TOPIC, BrokerId

BROKERS: Final = 3
PARTITIONS: Final = 6
# Slow enough for the faults to happen while records flow: about 25 s in all.
RECORDS_PER_S: Final = 16_000
PAUSE_S: Final = 6.0
DRAIN_TIMEOUT_S: Final = 60.0
# How long an interrupted run waits until a fault is undone.
STOP_TIMEOUT_S: Final = 2.0


class DemoRun:
    """The part of the demonstration between the start of the brokers and the Spark job."""

    def __init__(self, cluster: RunningCluster, directory: Path, say: Callable[[str], None]) -> None:
        from confluent_kafka.admin import AdminClient

        from syncline.pipeline import flights

        self._flights = flights
        self.topic = flights.TOPIC
        self.produced = 0
        self._acknowledged = 0
        self._failed: list[str] = []
        self._cluster = cluster
        self._layout = Layout(directory)
        self._fault_producers: list[Any] = []
        self._say = say
        self._trouble: Exception | None = None
        self._admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
        self._consumed = [0, 0]
        # Set once all records are read.
        self._stop = threading.Event()
        # Set by a failure or Ctrl-C: threads stop waiting.
        self._given_up = threading.Event()

    def produce_and_consume(self) -> None:
        """Produce everything while a group of two reads it and two faults happen."""
        self._create_topic()
        consumers = [self._thread(self._consume, index) for index in range(2)]
        for consumer in consumers:
            consumer.start()
        # In another thread: in the main one, Ctrl-C in a client's callback would raise a SystemError.
        producer = self._thread(self._produce)
        faults = self._thread(self._inject_faults)
        producer.start()
        faults.start()
        try:
            producer.join()
            self._raise_trouble()
            faults.join()
            self._raise_trouble()
            self._drain()
        except BaseException:
            # Wait for a paused broker only: it must resume before it can stop.
            self._given_up.set()
            faults.join(STOP_TIMEOUT_S)
            raise
        self._stop.set()
        for consumer in consumers:
            consumer.join(10)
        self._say(f"all {self._acknowledged:,} flights acknowledged; the group of two read {sum(self._consumed):,}")
        self._wait_for_full_isr()

    def _thread(self, work: Callable[..., None], *arguments: int) -> threading.Thread:
        """Return a thread whose failure ends the run instead of being printed."""

        def run() -> None:
            try:
                work(*arguments)
            except Exception as error:  # noqa: BLE001 - raised again by `_raise_trouble`
                self._trouble = error

        return threading.Thread(target=run, daemon=True)

    def _raise_trouble(self) -> None:
        if self._trouble is not None:
            raise LocalClusterError(f"the demonstration failed: {self._trouble}")

    def _create_topic(self) -> None:
        from confluent_kafka.admin import NewTopic

        topic = NewTopic(self.topic, PARTITIONS, BROKERS, config=dict(self._flights.TOPIC_CONFIGS))
        result_of(self._admin.create_topics([topic])[self.topic], f"cannot create topic {self.topic!r}")
        self._say(f"topic {self.topic}: {PARTITIONS} partitions, {BROKERS} replicas each")

    def _produce(self) -> None:
        from confluent_kafka import Producer

        producer = Producer(
            {
                "bootstrap.servers": self._cluster.bootstrap,
                "acks": "all",
                "enable.idempotence": True,
                "linger.ms": 20,
                "reconnect.backoff.ms": 20,
                "reconnect.backoff.max.ms": 200,
                "log_level": 0,
            }
        )
        began_s = shown_s = time.monotonic()
        for record in self._flights.flight_records():
            while True:
                try:
                    producer.produce(
                        self.topic, record.value, record.key, timestamp=record.timestamp_ms, on_delivery=self._delivered
                    )
                    break
                except BufferError:
                    producer.poll(0.05)
                if self._given_up.is_set():
                    return
            self.produced += 1
            if self.produced % 500 == 0:
                producer.poll(0)
                ahead_s = self.produced / RECORDS_PER_S - (time.monotonic() - began_s)
                if ahead_s > 0:
                    producer.poll(ahead_s)
                if time.monotonic() - shown_s > 2:
                    shown_s = time.monotonic()
                    self._progress()
        while producer.flush(1) > 0 and not self._given_up.is_set():
            self._progress()
        if self._failed:
            raise LocalClusterError(f"{len(self._failed)} flights were not acknowledged: {self._failed[0]}")

    def _delivered(self, error: Any, _message: Any) -> None:
        if error is not None:
            self._failed.append(str(error))
        else:
            self._acknowledged += 1

    def _progress(self) -> None:
        share = self._acknowledged / self._flights.FLIGHT_COUNT
        self._say(f"{share:4.0%} acknowledged {self._acknowledged:>9,}   consumed {sum(self._consumed):>9,}")

    def _consume(self, index: int) -> None:
        from confluent_kafka import Consumer

        consumer = Consumer(
            {
                "bootstrap.servers": self._cluster.bootstrap,
                "group.id": "flight-watchers",
                "client.id": f"watcher-{index + 1}",
                "auto.offset.reset": "earliest",
                "session.timeout.ms": 6000,
                # What is shown as their lag is what they have not committed.
                "auto.commit.interval.ms": 200,
                "reconnect.backoff.ms": 20,
                "log_level": 0,
            }
        )
        consumer.subscribe([self.topic])
        try:
            while not self._stop.is_set():
                self._consumed[index] += sum(1 for message in consumer.consume(5000, 0.2) if not message.error())
        finally:
            consumer.close()

    def _drain(self) -> None:
        deadline_s = time.monotonic() + DRAIN_TIMEOUT_S
        while sum(self._consumed) < self._acknowledged:
            self._raise_trouble()
            if time.monotonic() > deadline_s:
                raise LocalClusterError(
                    f"the group stopped after it had read {sum(self._consumed):,} of {self._acknowledged:,} flights."
                )
            time.sleep(0.1)

    def _inject_faults(self) -> None:
        total = self._flights.FLIGHT_COUNT
        self._wait_until(lambda: self._acknowledged > total * 0.15)
        victim = self._leader_of(0)
        self._fault("kill", victim, "begin", f"SIGKILL of the leader of {self.topic}-0")
        killed = self._pid(victim)
        os.kill(killed, signal.SIGKILL)
        self._say(f"killed broker {victim}, the leader of {self.topic}-0, with SIGKILL; its supervisor restarts it")
        # The broker may return before the metadata shows it missing; a new process id proves that it was gone.
        self._wait_until(lambda: self._pid(victim) != killed, 20)
        self._wait_until(lambda: victim in self._isr_of(0), 30)
        self._fault("kill", victim, "end", "back in the in-sync set")
        self._say(f"broker {victim} is back in the in-sync set")

        self._wait_until(lambda: self._acknowledged > total * 0.45)
        follower = self._calm_follower()
        pid = self._pid(follower)
        self._fault("pause", follower, "begin", f"SIGSTOP for {PAUSE_S:.0f} s")
        os.kill(pid, signal.SIGSTOP)
        self._say(f"paused broker {follower} for {PAUSE_S:.0f} s")
        try:
            self._given_up.wait(PAUSE_S)
        finally:
            os.kill(pid, signal.SIGCONT)
        self._check_given_up()
        self._fault("pause", follower, "end", "SIGCONT")
        self._say(f"resumed broker {follower}")

    def _wait_until(self, condition: Any, timeout_s: float = 60) -> None:
        deadline_s = time.monotonic() + timeout_s
        while time.monotonic() < deadline_s:
            self._check_given_up()
            if condition():
                return
            time.sleep(0.05)

    def _check_given_up(self) -> None:
        """Raise an error in this thread if another one gave up the run."""
        if self._given_up.is_set():
            raise LocalClusterError("the demonstration was stopped early.")

    def _pid(self, broker_id: int) -> int:
        running = self._layout.running()
        return (running or self._cluster).broker_pids[broker_id]

    def _metadata(self) -> Any:
        return self._admin.list_topics(self.topic, timeout=10)

    def _leader_of(self, partition: int) -> int:
        return int(self._metadata().topics[self.topic].partitions[partition].leader)

    def _isr_of(self, partition: int) -> list[int]:
        with contextlib.suppress(Exception):
            return [int(broker) for broker in self._metadata().topics[self.topic].partitions[partition].isrs]
        return []

    def _calm_follower(self) -> int:
        """Return the follower whose pause disturbs the cluster least: not the controller, few leaderships."""
        metadata = self._metadata()
        partitions = metadata.topics[self.topic].partitions.values()
        led = {broker: sum(1 for partition in partitions if partition.leader == broker) for broker in metadata.brokers}
        candidates = [broker for broker in led if broker != metadata.controller_id]
        return int(min(candidates, key=lambda broker: (led[broker], broker)))

    def _fault(self, kind: str, broker_id: int, phase: Any, note: str) -> None:
        """Record a fault in the cluster's own journal."""
        from confluent_kafka import Producer

        event = Fault(
            ts_ms=time.time_ns() // 1_000_000,
            broker=BrokerId(-1),
            kind=kind,
            target=f"broker-{broker_id}",
            phase=phase,
            note=note,
        )
        producer = Producer({"bootstrap.servers": self._cluster.bootstrap, "acks": "all", "log_level": 0})
        producer.produce(JOURNAL_TOPIC, to_json(event), journal_key(event), partition=0, timestamp=event.ts_ms)
        producer.flush(0.001)
        self._fault_producers.append(producer)

    def _wait_for_full_isr(self) -> None:
        for producer in self._fault_producers:
            producer.flush(20)
        # Closed before the brokers stop, because clients would log the lost connections.
        self._fault_producers.clear()
        self._wait_until(lambda: all(len(self._isr_of(partition)) == BROKERS for partition in range(PARTITIONS)), 30)
