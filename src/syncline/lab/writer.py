"""A client that writes at a steady rate with acks=all, batch after batch, and records how long each one waited."""

import threading
import time
from typing import Final

from syncline.lab.client import Client

STOP_TIMEOUT_S: Final = 10.0


class PacedWriter:
    """Writes batches of one record to a partition's leader, in its own thread."""

    def __init__(self, client: Client, topic: str, *, batch_bytes: int, interval_s: float) -> None:
        self._client = client
        self._topic = topic
        self._interval_s = interval_s
        self._value = "x" * batch_bytes
        self._stopping = threading.Event()
        self.waits_ms: list[float] = []
        self.failures: list[str] = []
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop writing, when the outstanding batch is acknowledged."""
        self._stopping.set()
        self._thread.join(STOP_TIMEOUT_S)

    @property
    def acknowledged(self) -> int:
        """Return how many batches were acknowledged."""
        return len(self.waits_ms)

    @property
    def slowest_ms(self) -> float:
        """Return how long the slowest acknowledgement took."""
        return max(self.waits_ms, default=0.0)

    def _run(self) -> None:
        due_s = time.monotonic()
        while not self._stopping.is_set():
            begun_s = time.monotonic()
            try:
                produced = self._client.produce(self._topic, [self._value], acks=-1)
            except (OSError, ConnectionError) as error:
                self.failures.append(str(error))
                return
            if produced.error:
                self.failures.append(produced.error.name)
                return
            self.waits_ms.append((time.monotonic() - begun_s) * 1_000)
            due_s = max(due_s + self._interval_s, time.monotonic())
            self._stopping.wait(max(0.0, due_s - time.monotonic()))
