"""A client library at work in a process of its own, driven by JSON lines.

One hard idea: the tests are written once, in terms of what any Kafka client can
do, and each client library is an *agent* that does it: a small program in the
library's language that reads commands from standard input and answers on
standard output. A process each, because a member of a group must be killed
without a word of farewell.

Command: {"id": 1, "do": "consume", "with": {"topic": "t", "count": 3}}
Answer:  {"id": 1, "answer": [...]}  or  {"id": 1, "error": "text"}
Keys, values and header values are base64, null is null.
"""

import contextlib
import json
import os
import subprocess
import tempfile
import threading
from collections.abc import Mapping, Sequence
from typing import Any

ANSWER_TIMEOUT_S = 45.0


class ClientError(Exception):
    """The client library reported an error."""


class Agent:
    """One agent process."""

    def __init__(self, command: Sequence[str], bootstrap: str, environment: Mapping[str, str]) -> None:
        self.log = tempfile.NamedTemporaryFile(prefix="agent-", suffix=".log")  # noqa: SIM115 (closed with the agent)
        self.process = subprocess.Popen(
            [*command, bootstrap],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.log,
            text=True,
            env={**os.environ, **environment},
        )
        self._last = 0
        self._said_before = 0

    def send(self, command: str, **arguments: Any) -> int:
        """Send a command without waiting for its answer."""
        assert self.process.stdin is not None
        self._last += 1
        self._said_before = os.fstat(self.log.fileno()).st_size
        self.process.stdin.write(json.dumps({"id": self._last, "do": command, "with": arguments}) + "\n")
        self.process.stdin.flush()
        return self._last

    def answer(self, number: int) -> Any:
        """Wait for the answer to a command."""
        assert self.process.stdout is not None
        watchdog = threading.Timer(ANSWER_TIMEOUT_S, self.process.kill)
        watchdog.start()
        try:
            line = self.process.stdout.readline()
        finally:
            watchdog.cancel()
        if not line:
            raise AssertionError(f"the client's process gave no answer in {ANSWER_TIMEOUT_S} s: {self.said()}")
        answered = json.loads(line)
        assert number == answered["id"]
        if "error" in answered:
            raise ClientError(f"{answered['error']}\n{self.said()}")
        return answered["answer"]

    def do(self, command: str, **arguments: Any) -> Any:
        """Perform a command and return its answer."""
        return self.answer(self.send(command, **arguments))

    def produce(
        self,
        topic: str,
        records: list[dict[str, Any]],
        *,
        codec: str = "none",
        idempotent: bool = False,
        request_timeout_ms: int = 10_000,
        singly: bool = False,
    ) -> list[list[int]]:
        """Send records, acks=all; return partition and offset of each, sorted."""
        return self.answer(
            self.send_records(
                topic,
                records,
                codec=codec,
                idempotent=idempotent,
                request_timeout_ms=request_timeout_ms,
                singly=singly,
            )
        )

    def send_records(self, topic: str, records: list[dict[str, Any]], **how: Any) -> int:
        """Begin to send records; `answer` waits for the end."""
        return self.send("produce", topic=topic, records=records, **how)

    def consume(self, topic: str, count: int) -> list[dict[str, Any]]:
        """Read that many records from the beginning of a topic."""
        return self.do("consume", topic=topic, count=count)

    def join(
        self, member: str, group: str, topic: str, *, session_timeout_ms: int = 3000, strategy: str | None = None
    ) -> None:
        """Start a member of a group."""
        self.do(
            "join", member=member, group=group, topic=topic, session_timeout_ms=session_timeout_ms, strategy=strategy
        )

    def said(self) -> str:
        """Return the end of what the client wrote to standard error since the last command."""
        self.log.seek(self._said_before)
        return self.log.read()[-3000:].decode(errors="replace")

    def kill(self) -> None:
        """End the process at once, without any farewell to the brokers."""
        self.process.kill()
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout, self.log):
            if stream is not None:
                with contextlib.suppress(BrokenPipeError):
                    stream.close()
