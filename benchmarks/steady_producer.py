"""A producer that writes at a steady rate to all partitions of a topic, and records how writes are affected.

It is a client with default configuration except `acks=all` and `linger.ms=0`: when a leadership moves, it finds the new
leader as any client does, and that time is part of the acknowledgement's.
"""

import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Self

from confluent_kafka import Producer

RECORD_BYTES: Final = 1_000


@dataclass(frozen=True)
class Felt:
    """What a producer experienced between `begin` and `end`."""

    # The bytes that were acknowledged, as a share of what it wanted to write in that time.
    share: float
    slowest_ms: float
    failed_count: int


class SteadyProducer:
    """Writes from a thread of its own, as a context manager."""

    def __init__(self, bootstrap: str, topic: str, partition_count: int, bytes_per_s: int) -> None:
        settings = {"acks": "all", "linger.ms": 0, "log_level": 0}
        self._producer = Producer({"bootstrap.servers": bootstrap, **settings})
        self._topic = topic
        self._partition_count = partition_count
        self._records_per_s = bytes_per_s / RECORD_BYTES
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="steady producer", daemon=True)
        self._began_s = time.monotonic()
        self._acknowledged = 0
        self._slowest_ms = 0.0
        self._failed = 0

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()
        self._producer.purge()

    def begin(self) -> None:
        """Record from now on."""
        self._began_s = time.monotonic()
        self._acknowledged = self._failed = 0
        self._slowest_ms = 0.0

    def end(self) -> Felt:
        """Stop; return the results, those of the last records included."""
        share = self._acknowledged / self._records_per_s / (time.monotonic() - self._began_s)
        self._is_over.set()
        self._thread.join()
        left = self._producer.flush(30)
        return Felt(share, self._slowest_ms, self._failed + left)

    def _run(self) -> None:
        value, due_s, number = os.urandom(RECORD_BYTES), time.monotonic(), 0
        while not self._is_over.is_set():
            self._producer.produce(
                self._topic, value, partition=number % self._partition_count, on_delivery=self._noting(time.monotonic())
            )
            number += 1
            due_s += 1 / self._records_per_s
            # A poll returns with the first acknowledgement.
            while (left_s := due_s - time.monotonic()) > 0:
                self._producer.poll(left_s)

    def _noting(self, began_s: float) -> Callable[[Any, Any], None]:
        def delivered(error: Any, _: Any) -> None:
            self._acknowledged += error is None
            self._failed += error is not None
            self._slowest_ms = max(self._slowest_ms, (time.monotonic() - began_s) * 1_000)

        return delivered
