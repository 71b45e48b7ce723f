"""Availability to clients: a real client writes steadily and records when each write is acknowledged."""

import contextlib
import threading
import time
from itertools import pairwise
from typing import Any, Final

INTERVAL_S: Final = 0.03
STOP_TIMEOUT_S: Final = 10.0


class SteadyProducer:
    """Writes small records with acks=all, one after another, in its own thread."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        from confluent_kafka import Producer

        self._topic = topic
        self._producer: Any = Producer(
            {
                "bootstrap.servers": bootstrap,
                "acks": "all",
                "enable.idempotence": True,
                "linger.ms": 0,
                "message.timeout.ms": 300_000,
                "request.timeout.ms": 900,
                "socket.timeout.ms": 1_000,
                "reconnect.backoff.ms": 20,
                "reconnect.backoff.max.ms": 100,
                "retry.backoff.ms": 20,
                "retry.backoff.max.ms": 100,
                "topic.metadata.refresh.fast.interval.ms": 50,
                "log_level": 0,
            }
        )
        self._began_s = time.monotonic()
        self._stopping = threading.Event()
        self._is_given_up = False
        self.acknowledged: list[str] = []
        self.acknowledged_at_s: list[float] = []
        self.failures: list[str] = []
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    @property
    def now_s(self) -> float:
        """Seconds since the first record."""
        return time.monotonic() - self._began_s

    def stop(self) -> None:
        """Stop writing, and wait for outstanding acknowledgements."""
        self._stopping.set()
        self._thread.join(STOP_TIMEOUT_S)

    def give_up(self) -> None:
        """Stop writing, and drop outstanding records."""
        self._is_given_up = True
        self.stop()

    def longest_silence_s(self, from_s: float, to_s: float) -> float:
        """Return the longest time within an interval without an acknowledgement."""
        acknowledged = [at_s for at_s in self.acknowledged_at_s if from_s <= at_s <= to_s]
        edges = [from_s, *acknowledged, to_s]
        return max(later - earlier for earlier, later in pairwise(edges))

    def _run(self) -> None:
        number = 0
        while not self._stopping.is_set():
            value = f"r{number}"
            number += 1
            with contextlib.suppress(BufferError):
                self._producer.produce(
                    self._topic,
                    value.encode(),
                    partition=0,
                    on_delivery=lambda error, _, value=value: self._delivered(error, value),
                )
            self._producer.poll(INTERVAL_S)
            self._stopping.wait(INTERVAL_S)
        if self._is_given_up:
            self._producer.purge()
        self._producer.flush(0 if self._is_given_up else STOP_TIMEOUT_S / 2)

    def _delivered(self, error: Any, value: str) -> None:
        if error is not None:
            self.failures.append(str(error))
            return
        self.acknowledged.append(value)
        self.acknowledged_at_s.append(self.now_s)
