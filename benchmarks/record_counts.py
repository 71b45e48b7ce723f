"""What it costs to count the records of uncompressed batches: broker CPU per produce, with the check and without.

    python -m benchmarks.record_counts [--turns 10]

Two brokers run at the same time from this tree; one of them has `check_body` replaced by a function that checks
nothing. Each gets the same requests (acks=1, one partition, several in flight) in turns, so that the machine's drift
affects both. The command prints the least CPU time of one request in any turn, without the check and with it, and their
ratio: other processes on the machine only ever add to it.
"""

import argparse
import os
import random
import shutil
import signal
import socket
import struct
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from confluent_kafka.admin import AdminClient, NewTopic

from syncline.local.broker_process import BrokerProcess
from syncline.local.ports import HOST, listen, port_of
from syncline.records import validate
from syncline.records.body_check import BodyCheck, Verdict
from syncline.records.builder import BatchBuilder
from syncline.wire.api import ApiKey
from syncline.wire.frames import frame_request
from syncline.wire.produce import encode_produce_request

TOPIC = "produced"
VERSION = 9
NOW_MS = 1_700_000_000_000


class Case(NamedTuple):
    """Requests of one batch each."""

    name: str
    sizes: Sequence[int]
    requests: int
    in_flight: int


def _odd(count: int, around: int) -> list[int]:
    dice = random.Random(1)
    return [dice.randrange(around // 2, around * 3 // 2) for _ in range(count)]


CASES = (
    Case("1 record of 100 bytes", [100], 8_000, 50),
    Case("16 KB: 150 records of 100 bytes", [100] * 150, 2_000, 20),
    Case("16 KB: 150 records of 50 to 150 bytes", _odd(150, 100), 2_000, 20),
    Case("1 MB: 1,000 records of 1 KB", [1_000] * 1_000, 30, 4),
    Case("1 MB: 1,000 records of 0.5 to 1.5 KB", _odd(1_000, 1_000), 30, 4),
    Case("1 MB: 14,000 records of 30 to 90 bytes", _odd(14_000, 60), 30, 4),
)


class Broker:
    """A broker in a process of its own, and a connection to it."""

    def __init__(self, directory: Path, prepare: Callable[[], None]) -> None:
        client, internal = listen(0), listen(0)
        ready, child_ready = socket.socketpair()
        self.pid = os.fork()
        if self.pid == 0:
            code = 1
            try:
                prepare()
                os.dup2(os.open(directory / "log", os.O_WRONLY | os.O_CREAT, 0o600), 2)
                code = BrokerProcess(
                    broker_id=1,
                    cluster_directory=directory,
                    log_directory=directory / "broker-1",
                    config={},
                    cluster_size=1,
                    client_listener=client,
                    internal_listener=internal,
                    on_serving=lambda: child_ready.send(b"\1"),
                ).run()
            finally:
                os._exit(code)
        child_ready.close()
        internal.close()
        if ready.recv(1) != b"\1":
            raise RuntimeError((directory / "log").read_text())
        self.address = f"{HOST}:{port_of(client)}"
        admin = AdminClient({"bootstrap.servers": self.address})
        admin.create_topics([NewTopic(TOPIC, 1, 1)])[TOPIC].result(20)
        self._line = socket.create_connection((HOST, port_of(client)))
        client.close()

    def cpu_us(self) -> float:
        """Return the CPU time of the process's threads so far, from the scheduler."""
        files = Path(f"/proc/{self.pid}/task").glob("*/schedstat")
        return sum(int(file.read_text().split()[0]) for file in files) / 1_000

    def produce(self, frame: bytes, requests: int, in_flight: int) -> float:
        """Send a request `count` times; return the broker's CPU time for one, in us."""
        before_us = self.cpu_us()
        for number in range(requests + in_flight):
            if number < requests:
                self._line.sendall(frame)
            if number >= in_flight:
                self._take_answer()
        return (self.cpu_us() - before_us) / requests

    def _take_answer(self) -> None:
        (size,) = struct.unpack(">i", self._receive(4))
        answer = self._receive(size)
        # Header (correlation id, tags), then one topic with one partition: its index, then its error.
        place = 4 + 1 + 1 + 1 + len(TOPIC) + 1 + 4
        if answer[place : place + 2] != b"\0\0":
            raise RuntimeError(f"the broker refuses the batch: {answer!r}")

    def _receive(self, size: int) -> bytes:
        received = bytearray()
        while len(received) < size:
            received += self._line.recv(size - len(received))
        return bytes(received)

    def stop(self) -> None:
        """End the process."""
        self._line.close()
        os.kill(self.pid, signal.SIGTERM)
        os.waitpid(self.pid, 0)


def request_of(case: Case) -> bytes:
    """Return the request of a case."""
    builder = BatchBuilder()
    for number, size in enumerate(case.sizes):
        builder.append(NOW_MS + number // 10, None, bytes(size))
    parts = encode_produce_request(VERSION, acks=1, timeout_ms=30_000, topics=[(TOPIC, [(0, bytes(builder.build()))])])
    return b"".join(bytes(part) for part in frame_request(ApiKey.PRODUCE, VERSION, 0, "benchmark", parts))


def look_at_nothing() -> None:
    """Replace the check in this process."""
    validate.check_body = lambda *_, **__: BodyCheck(Verdict.OK)


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--turns", type=int, default=10)
    turns = parser.parse_args().turns
    directory = Path(tempfile.mkdtemp(prefix="syncline-benchmark-"))
    brokers: list[Broker] = []
    try:
        for name, prepare in (("without", look_at_nothing), ("with", lambda: None)):
            (directory / name).mkdir()
            brokers.append(Broker(directory / name, prepare))
        print(f"{'broker CPU per request, us':42}{'without':>10}{'with':>10}{'ratio':>8}")
        for case in CASES:
            frame = request_of(case)
            spent: list[list[float]] = [[], []]
            for turn in range(turns + 1):
                for side in (0, 1) if turn % 2 else (1, 0):
                    used_us = brokers[side].produce(frame, case.requests, case.in_flight)
                    if turn:
                        spent[side].append(used_us)
            without, present = map(min, spent)
            print(f"{case.name:42}{without:10.1f}{present:10.1f}{present / without:8.2f}", flush=True)
    finally:
        for broker in brokers:
            broker.stop()
        shutil.rmtree(directory)


if __name__ == "__main__":
    sys.exit(main())
