"""A client in a process of its own that writes records at a steady rate, acks=all, and records how long each waits.

A process, because a thread beside a busy interpreter would measure the interpreter. It sends on schedule whether or not
earlier records are acknowledged, so a pause delays all records that come meanwhile.
"""

import gc
import multiprocessing
import os
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any, Final, NamedTuple, Self

_START_S: Final = 30.0
_FLUSH_S: Final = 30.0


class Load(NamedTuple):
    """What to write: records per second of this size, to all partitions in turn."""

    topic: str
    partitions: int
    records_per_s: float
    record_bytes: int


class Writer:
    """The client, as a context manager; it writes from the beginning to the end."""

    def __init__(self, bootstrap: str, load: Load) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=_write, args=(bootstrap, load, theirs), daemon=True)
        self._process.start()
        theirs.close()

    def __enter__(self) -> Self:
        self.waits_ms()
        return self

    def __exit__(self, *_: object) -> None:
        self._pipe.send("end")
        self._process.join(2 * _FLUSH_S)
        self._process.kill()
        self._process.join()
        self._pipe.close()

    def waits_ms(self) -> list[float]:
        """Return the waits of all records that were acknowledged since the last call, in order; infinity for errors."""
        self._pipe.send("waits")
        if not self._pipe.poll(_START_S):
            raise RuntimeError("the writing client does not answer")
        return list(self._pipe.recv())


def _write(bootstrap: str, load: Load, pipe: Connection) -> None:
    from confluent_kafka import Producer

    # Like untuned clients, which wait 5 ms for more records since Kafka 4.0.
    settings = {"acks": "all", "log_level": 0}
    producer = Producer({"bootstrap.servers": bootstrap, **settings})
    value = os.urandom(load.record_bytes)
    waits_ms: list[float] = []

    def noting(sent_s: float) -> Callable[[Any, Any], None]:
        def acknowledged(error: Any, _: Any) -> None:
            waits_ms.append(float("inf") if error is not None else (time.perf_counter() - sent_s) * 1000)

        return acknowledged

    # Pauses of the garbage collector would look like pauses of the cluster.
    gc.disable()
    due_s, number = time.monotonic(), 0
    while True:
        producer.produce(load.topic, value, partition=number % load.partitions, on_delivery=noting(time.perf_counter()))
        number += 1
        due_s += 1 / load.records_per_s
        # A poll returns with the first acknowledgement.
        while (left_s := due_s - time.monotonic()) > 0:
            producer.poll(left_s)
        if pipe.poll():
            if pipe.recv() == "end":
                break
            pipe.send(waits_ms)
            waits_ms.clear()
    producer.flush(_FLUSH_S)
