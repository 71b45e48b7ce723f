"""The neighbour: a well-behaved client in a process of its own, which reports what it experiences.

A producer (acks=all, idempotent) writes some records per second to every partition of its topic, and a consumer group
of one reads them. The time of an acknowledgement is measured from the call of `produce` to the call of the delivery
report, as an application sees it. A third thread measures how late this process itself wakes up: what the machine did
to it is not the brokers' doing.

Times are seconds of the monotonic clock, which all processes of a machine share.

    out     {"at": now, "oldest": when the oldest unacknowledged record was sent, or null, "acks": [[sent, took], ...],
            "late": seconds, "consumed": n, "trouble": [...]}, four times a second
    in      any line: stop, then read everything back
    out     {"verdict": "" or what is wrong, "records": n}
"""

import json
import sys
import threading
import time
from collections import deque
from typing import Any

from confluent_kafka import Consumer, KafkaError, Message

from tests.attack.scene import NEIGHBOUR
from tests.patience import until
from tests.process.load import QUIET, Load, check_history, read_all
from tests.saying import say

REPORT_S = 0.25
TICK_S = 0.005
CATCH_UP_S = 40.0


class Experience:
    """What the producer has experienced since the last report; its own thread adds, the reporting one takes."""

    def __init__(self) -> None:
        self._acks: deque[tuple[float, float]] = deque()
        self._waiting: dict[int, float] = {}
        self._count = 0

    def sent(self) -> int:
        """Note that a record is sent; return its name for `acknowledged`."""
        self._count += 1
        self._waiting[self._count] = time.monotonic()
        return self._count

    def acknowledged(self, record: int) -> None:
        """Note its acknowledgement."""
        sent_s = self._waiting.pop(record)
        self._acks.append((sent_s, time.monotonic() - sent_s))

    def take(self) -> dict[str, Any]:
        """Return and forget what is new."""
        now_s = time.monotonic()
        oldest_s = min(list(self._waiting.values()), default=None)
        acks = [self._acks.popleft() for _ in range(len(self._acks))]
        return {"at": now_s, "oldest": oldest_s, "acks": [(round(sent, 4), round(took, 5)) for sent, took in acks]}


class Lateness:
    """How late a thread that sleeps for a moment wakes up."""

    def __init__(self) -> None:
        self._worst_s = 0.0
        threading.Thread(target=self._run, name="lateness", daemon=True).start()

    def take(self) -> float:
        """Return the worst since the last call, in seconds."""
        worst_s, self._worst_s = self._worst_s, 0.0
        return round(worst_s, 4)

    def _run(self) -> None:
        while True:
            began_s = time.monotonic()
            time.sleep(TICK_S)
            self._worst_s = max(self._worst_s, time.monotonic() - began_s - TICK_S)


class Reader:
    """A consumer group of one member, which reads the topic as it grows."""

    def __init__(self, bootstrap: str) -> None:
        self.count = 0
        self.trouble: list[str] = []
        self._next: dict[int, int] = {}
        self._stop = threading.Event()
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                **QUIET,
                "group.id": NEIGHBOUR,
                "auto.offset.reset": "earliest",
                "auto.commit.interval.ms": 1_000,
                "error_cb": self._failed,
            }
        )
        self._consumer.subscribe([NEIGHBOUR])
        self._thread = threading.Thread(target=self._run, name="reader", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Leave the group."""
        self._stop.set()
        self._thread.join(10)
        self._consumer.close()

    def _failed(self, error: KafkaError) -> None:
        if error.fatal():
            self.trouble.append(f"the consumer failed: {error}")

    def _run(self) -> None:
        while not self._stop.is_set():
            for message in self._consumer.consume(500, 0.1):
                self._take(message)

    def _take(self, message: Message) -> None:
        error = message.error()
        if error is not None:
            if not error.retriable() and error.code() != KafkaError._MAX_POLL_EXCEEDED:
                self.trouble.append(f"the consumer got {error}")
            return
        offset, partition = message.offset(), message.partition()
        expected = self._next.get(partition, 0)
        if offset > expected:
            self.trouble.append(f"the consumer missed {partition}:{expected} to {offset - 1}")
        # After a rebalance it may read again what it has not committed.
        if offset >= expected:
            self.count += 1
            self._next[partition] = offset + 1


def main(bootstrap: str, partitions: int, rate_per_s: float) -> None:
    """Produce and consume until told to stop."""
    experience, lateness, reader = Experience(), Lateness(), Reader(bootstrap)
    stopped = threading.Event()

    def await_word() -> None:
        sys.stdin.readline()
        stopped.set()

    threading.Thread(target=await_word, name="word", daemon=True).start()
    # A client may wait for long: what it waits for counts, not whether it gives up.
    settings = {"linger.ms": 0, "socket.timeout.ms": 30_000}
    load = Load(bootstrap, NEIGHBOUR, partitions, rate_per_s=rate_per_s, settings=settings, experience=experience)
    with load:
        while not stopped.wait(REPORT_S):
            trouble = [*reader.trouble, *load.failures]
            told = {**experience.take(), "late": lateness.take(), "consumed": reader.count, "trouble": trouble[:5]}
            say(json.dumps(told))
        load.stop()
    say(json.dumps({"verdict": judged(bootstrap, partitions, load, reader), "records": load.count}))


def judged(bootstrap: str, partitions: int, load: Load, reader: Reader) -> str:
    """Return what is wrong with what can be read, compared with what was acknowledged."""
    try:
        until(
            lambda: reader.count >= load.count,
            CATCH_UP_S,
            otherwise=lambda: f"the consumer read {reader.count} of {load.count} acknowledged records",
        )
        reader.close()
        assert not reader.trouble, reader.trouble[0]
        check_history(load, read_all(bootstrap, NEIGHBOUR, partitions))
    except AssertionError as error:
        return str(error)
    return ""


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), float(sys.argv[3]))
