"""What clients of a cluster feel: a producer of small records with acks=all, and how long it waits.

A broker does not say how long its clients wait, and a command must not write to their topics. So each probe has a topic
of its own with a partition on each broker, which it removes at the end, also after its command was killed. Two hundred
records per second of a hundred bytes are no load.

The producer is a process of its own: beside a thread that reads a cluster's state it would wait for the interpreter,
and what it measured then would be the command. They talk in lines: the command sends one, and gets the waits since the
last, as JSON. The process ends when the command says so, or has ended.
"""

import contextlib
import gc
import json
import os
import secrets
import select
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from typing import Any, Final, Self

from syncline.cli.target import REQUEST_TIMEOUT_S, admin_client, client_config, guarded, result_of
from syncline.local.layout import LocalClusterError

TOPIC_PREFIX: Final = "syncline-probe-"
PER_S: Final = 200
ANSWERS_MIN: Final = 100
_RECORD: Final = b"x" * 100
_MORE: Final = "more\n"
_END: Final = "end\n"
# A record that is not acknowledged by then never is: the next question does not wait for it.
_GIVEN_UP_MS: Final = 5_000


class Probe:
    """The command's end."""

    def __init__(self, bootstrap: str, brokers: int) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", __name__, bootstrap, str(brokers)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            # An interrupt at the terminal is for the command, which then ends the probe.
            start_new_session=True,
        )
        assert self._process.stdin is not None, "it is a pipe"
        assert self._process.stdout is not None, "it is a pipe"
        self._questions, self._answers = self._process.stdin, self._process.stdout
        try:
            self._answer()
        except BaseException:
            # Also on Ctrl-C: the process would go on until it notices that nobody listens.
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the process, and remove the topic."""
        with contextlib.suppress(BrokenPipeError):
            self._questions.write(_END)
            self._questions.flush()
        with contextlib.suppress(BrokenPipeError):
            self._questions.close()
        try:
            self._process.wait(3 * REQUEST_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._answers.close()

    def waits_ms(self) -> list[float]:
        """Return how long each record waited that was sent since the last call; infinitely if nothing answers."""
        try:
            self._questions.write(_MORE)
            self._questions.flush()
        except BrokenPipeError:
            raise LocalClusterError("the process that measures client latency ended unexpectedly.") from None
        return [float(wait) for wait in self._answer()]

    def baseline_ms(self, for_s: float) -> list[float]:
        """Return the waits of the next seconds. Raises LocalClusterError if hardly anything is acknowledged."""
        self.waits_ms()
        time.sleep(for_s)
        found = [wait for wait in self.waits_ms() if wait != float("inf")]
        if len(found) < ANSWERS_MIN:
            raise LocalClusterError(
                f"fewer than {ANSWERS_MIN} records were acknowledged in {for_s:g} s: too few to measure how "
                "long clients wait. Give --throttle or --deadline instead."
            )
        return found

    def _answer(self) -> Any:
        line = self._answers.readline()
        answer = (
            json.loads(line) if line else {"refused": "the process that measures client latency ended unexpectedly."}
        )
        if isinstance(answer, dict):
            raise LocalClusterError(str(answer["refused"]))
        return answer


class _Producer:
    """Sends records at their times, and notes the waits."""

    def __init__(self, bootstrap: str, topic: str, partitions: int) -> None:
        from confluent_kafka import Producer

        self._producer: Any = Producer(client_config(bootstrap, **{"linger.ms": 0, "acks": "all"}))
        self._topic = topic
        self._partitions = partitions
        self._number = 0
        self._due_s = time.monotonic()
        self._waits_ms: list[float] = []
        self._sent_s: dict[int, float] = {}

    def turn(self) -> None:
        """Send the next record at its time, noting acknowledgements meanwhile."""
        while (left_s := self._due_s - time.monotonic()) > 0:
            self._producer.poll(left_s)
        # After a pause of the machine it does not catch up with more than a second's records.
        self._due_s = max(self._due_s + 1 / PER_S, time.monotonic() - 1)
        number = self._number
        self._number += 1
        self._sent_s[number] = time.perf_counter()
        self._producer.produce(
            self._topic,
            _RECORD,
            partition=number % self._partitions,
            callback=lambda error, _: self._note(number, error),
        )

    def take(self) -> list[float]:
        """Return the waits since the last call, infinity for each record that was given up."""
        now_s = time.perf_counter()
        lost = [number for number, sent_s in self._sent_s.items() if (now_s - sent_s) * 1000 > _GIVEN_UP_MS]
        for number in lost:
            del self._sent_s[number]
        waits_ms, self._waits_ms = self._waits_ms, []
        return [*waits_ms, *[float("inf")] * len(lost)]

    def end(self) -> None:
        """Wait for what is under way, and end the client: one that is left would create the topic again."""
        self._producer.flush(REQUEST_TIMEOUT_S)
        self._producer = None

    def _note(self, number: int, error: Any) -> None:
        sent_s = self._sent_s.pop(number, None)
        if sent_s is not None:
            self._waits_ms.append(float("inf") if error is not None else (time.perf_counter() - sent_s) * 1000)


def main(arguments: Sequence[str]) -> None:
    """Measure until the command has ended."""
    bootstrap, brokers = arguments[0], int(arguments[1])
    topic = f"{TOPIC_PREFIX}{secrets.token_hex(4)}"
    try:
        admin = admin_client(bootstrap)
        with _created(admin, topic, brokers) as partitions:
            _answer_questions(_Producer(bootstrap, topic, partitions))
    except LocalClusterError as error:
        print(json.dumps({"refused": str(error)}), flush=True)


def _answer_questions(producer: _Producer) -> None:
    # The collector's pauses would be taken for those of the cluster.
    gc.disable()
    try:
        print(json.dumps([]), flush=True)
        while True:
            producer.turn()
            if not select.select([0], [], [], 0)[0]:
                continue
            asked = os.read(0, 1024).decode()
            if not asked or asked.endswith(_END):
                return
            print(json.dumps(producer.take()), flush=True)
    finally:
        producer.end()


@contextlib.contextmanager
def _created(admin: Any, topic: str, brokers: int) -> Iterator[int]:
    """Create the topic, give its number of partitions, and remove it whatever happens."""
    from confluent_kafka.admin import NewTopic

    what = f"cannot create the topic {topic!r} for measuring the impact on clients"
    new = NewTopic(topic, brokers, min(3, brokers), config={"retention.ms": "60000"})
    result_of(guarded(what, lambda: admin.create_topics([new]))[topic], what)
    try:
        yield brokers
    finally:
        with contextlib.suppress(LocalClusterError):
            what = f"cannot remove the topic {topic!r} for measuring the impact on clients"
            result_of(guarded(what, lambda: admin.delete_topics([topic]))[topic], what)


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except BrokenPipeError:
        # The command was killed, so nobody reads the answer; the interpreter's last flush shall not complain either.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
