"""What clients of a cluster feel: a producer of small records with acks=all, and how long it waits.

A broker does not say how long its clients wait, and a command must not write to their topics. So the probe has a topic
of its own with a partition on each broker, which it removes at the end; that of a command that was killed is used by
the next one, so none is left behind for ever. A hundred records per second of a hundred bytes are no load. Percentiles
are of what was acknowledged since the last question.
"""

import threading
import time
from typing import Any, Final, Self

from syncline.cli.target import REQUEST_TIMEOUT_S, admin_client, client_config, find_topic, guarded, result_of
from syncline.local.layout import LocalClusterError

TOPIC: Final = "syncline-probe"
PER_S: Final = 100
_RECORD: Final = b"x" * 100


class Probe:
    """A producer that measures, in a thread of its own."""

    def __init__(self, bootstrap: str, brokers: int) -> None:
        from confluent_kafka import KafkaError, Producer
        from confluent_kafka.admin import NewTopic

        self._admin = admin_client(bootstrap)
        what = f"cannot create the topic {TOPIC!r}, with which the impact on clients is measured"
        new = NewTopic(TOPIC, brokers, min(3, brokers), config={"retention.ms": "60000"})
        created = guarded(what, lambda: self._admin.create_topics([new]))[TOPIC]
        refusal = created.exception(REQUEST_TIMEOUT_S)
        if refusal is None or refusal.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
            result_of(created, what)
        self._partitions = max(len(find_topic(self._admin, TOPIC).partitions), 1)
        self._producer: Any = Producer(client_config(bootstrap, **{"linger.ms": 0, "acks": "all"}))
        self._waits_ms: list[float] = []
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="probe", daemon=True)
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._thread.join()
        self._producer.flush(REQUEST_TIMEOUT_S)
        what = f"cannot remove the topic {TOPIC!r} of the measurements"
        result_of(guarded(what, lambda: self._admin.delete_topics([TOPIC]))[TOPIC], what)

    def p99_ms(self, samples_min: int = 30) -> float | None:
        """Return the 99th percentile of waits since the last call; None if there are too few of them."""
        with self._lock:
            if len(self._waits_ms) < max(samples_min, 1):
                return None
            waits, self._waits_ms = sorted(self._waits_ms), []
        return waits[min(round(len(waits) * 0.99), len(waits) - 1)]

    def baseline_ms(self, for_s: float) -> float:
        """Return the percentile of the next seconds. Raises LocalClusterError if nothing is acknowledged."""
        self.p99_ms(1)
        time.sleep(for_s)
        found = self.p99_ms()
        if found is None:
            raise LocalClusterError(
                f"fewer than 30 records were acknowledged in {for_s:g} s, so the impact on clients cannot be measured. "
                "Give --throttle or --deadline."
            )
        return found

    def _run(self) -> None:
        number = 0
        due_s = time.monotonic()
        while not self._stopping.is_set():
            begun_s = time.perf_counter()
            self._producer.produce(
                TOPIC, _RECORD, partition=number % self._partitions, callback=self._acknowledged(begun_s)
            )
            number += 1
            due_s = max(due_s + 1 / PER_S, time.monotonic() - 1)
            self._producer.poll(max(due_s - time.monotonic(), 0))
            self._stopping.wait(max(due_s - time.monotonic(), 0))

    def _acknowledged(self, begun_s: float) -> Any:
        def note(error: Any, _message: Any) -> None:
            if error is None:
                with self._lock:
                    self._waits_ms.append((time.perf_counter() - begun_s) * 1000)

        return note
