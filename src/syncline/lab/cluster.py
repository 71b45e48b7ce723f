"""The brokers of one run: start, end, pause and query each of them."""

import contextlib
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, Self

from syncline.lab.client import Client
from syncline.lab.errors import LabError
from syncline.local.control import Control, ControlError
from syncline.local.control_secret import ensure_secret
from syncline.local.ports import HOST
from syncline.records.batch import HEADER_BYTES, BatchHeader
from syncline.records.record import read_records

CONTROL_TIMEOUT_S: Final = 5.0
# A broker that does not answer in time, for instance because of its disk, is queried again at the next look.
LOOK_TIMEOUT_S: Final = 0.5
END_TIMEOUT_S: Final = 10.0
READ_BYTES: Final = 65_536
HIGH_WATERMARKS_FILE: Final = "replication-offset-checkpoint"

# A silent process runs but does not answer: it waits for its disk, starts or stops.
State = Literal["running", "silent", "paused", "dead"]


@dataclass
class Process:
    """The state of one broker process."""

    broker_id: int
    pid: int = 0
    port: int = 0
    internal_port: int = 0
    state: State = "dead"
    is_serving: bool = False
    is_gone: bool = True


class LabCluster:
    """Broker processes in a temporary directory that is removed with them."""

    def __init__(self, config: Mapping[str, str], broker_ids: list[int]) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="syncline-lab-"))
        (self.directory / "logs").mkdir()
        self._secret = ensure_secret(self.directory)
        self.processes = {broker_id: Process(broker_id) for broker_id in broker_ids}
        self._events = b""
        self._keeper = subprocess.Popen(  # noqa: S603 - ourselves
            [
                sys.executable,
                "-m",
                "syncline.lab.keeper",
                str(self.directory),
                json.dumps(dict(config)),
                str(len(broker_ids)),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End all processes and remove the directory."""
        assert self._keeper.stdin is not None
        assert self._keeper.stdout is not None
        with contextlib.suppress(OSError):
            self._keeper.stdin.close()
        try:
            self._keeper.wait(END_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._keeper.kill()
            self._keeper.wait()
        self._keeper.stdout.close()
        shutil.rmtree(self.directory, ignore_errors=True)

    def start(self, broker_id: int, config: Mapping[str, str] | None = None) -> None:
        """Start a broker; `is_serving` turns true when it serves."""
        assert self.processes[broker_id].is_gone, f"broker {broker_id} is already running"
        assert self._keeper.stdin is not None
        self.processes[broker_id].is_serving = False
        self.processes[broker_id].state = "running"
        self.processes[broker_id].is_gone = False
        command = {"start": broker_id, "config": dict(config or {})}
        self._keeper.stdin.write(json.dumps(command).encode() + b"\n")
        self._keeper.stdin.flush()

    def send_signal(self, broker_id: int, number: signal.Signals) -> None:
        """Send a signal to a broker; `read_events` reports when its process has ended."""
        process = self.processes[broker_id]
        os.kill(process.pid, number)
        if number == signal.SIGKILL:
            # The broker no longer answers; its process is gone when the keeper reports so.
            process.state = "dead"
        elif number == signal.SIGSTOP:
            process.state = "paused"
        elif number == signal.SIGCONT:
            process.state = "running"

    def read_events(self) -> None:
        """Apply all events that the keeper has reported."""
        assert self._keeper.stdout is not None
        descriptor = self._keeper.stdout.fileno()
        while select.select([descriptor], [], [], 0)[0]:
            part = os.read(descriptor, READ_BYTES)
            if not part:
                raise LabError("the process that runs the lab's brokers has ended, and its brokers with it.")
            *lines, self._events = (self._events + part).split(b"\n")
            for line in lines:
                self._apply(json.loads(line))

    def _apply(self, event: dict[str, Any]) -> None:
        process = self.processes[event["broker"]]
        if event["event"] == "started":
            process.pid, process.port = event["pid"], event["port"]
            process.internal_port = event["internal_port"]
        elif event["event"] == "serving":
            process.is_serving = True
        elif event["event"] == "failed":
            raise LabError(f"broker {process.broker_id} could not start: {event['why']}")
        else:
            process.state = "dead"
            process.is_gone = True
            process.is_serving = False

    def control(self, broker_id: int) -> Control:
        """Return the control API of a broker."""
        return Control(
            HOST,
            self.processes[broker_id].internal_port,
            broker_id=broker_id,
            secret=self._secret,
            timeout_s=CONTROL_TIMEOUT_S,
        )

    def view(self, broker_id: int, topic: str) -> dict[str, Any] | None:
        """Return a broker's report of its replicas; None if it does not run or does not answer."""
        process = self.processes[broker_id]
        if process.state != "running" or not process.internal_port:
            return None
        try:
            return self.control(broker_id).call("replicas.show", topic=topic, timeout_s=LOOK_TIMEOUT_S)
        except ControlError:
            # The broker is starting or ending.
            return None

    def client(self, broker_id: int, client_id: str = "lab") -> Client:
        """Return a client that is connected to one broker."""
        return Client(HOST, self.processes[broker_id].port, client_id)

    def partition_directory(self, broker_id: int, topic: str, partition: int = 0) -> Path:
        """Return the directory of a replica."""
        return self.directory / f"broker-{broker_id}" / f"{topic}-{partition}"

    def contents(self, broker_id: int, topic: str) -> list[tuple[int, int, str]]:
        """Return (offset, leader epoch, value) of each record that a replica's files hold, committed or not."""
        found = []
        for file in sorted(self.partition_directory(broker_id, topic).glob("*.log")):
            data, position = file.read_bytes(), 0
            while position + HEADER_BYTES <= len(data):
                header = BatchHeader.parse(data, position)
                if header.size_bytes < HEADER_BYTES or position + header.size_bytes > len(data):
                    break
                found += [
                    (record.offset, int(header.leader_epoch), (record.value or b"").decode())
                    for record in read_records(data, position, header)
                ]
                position += header.size_bytes
        return found

    def written_high_watermark(self, broker_id: int, topic: str) -> int | None:
        """Return the high watermark of a replica as of its broker's last checkpoint."""
        try:
            lines = (self.directory / f"broker-{broker_id}" / HIGH_WATERMARKS_FILE).read_text().splitlines()
        except OSError:
            return None
        for line in lines[2:]:
            name, partition, offset = line.split(" ")
            if (name, partition) == (topic, "0"):
                return int(offset)
        return None

    def log_lines(self, broker_id: int, containing: str) -> list[str]:
        """Return the lines of a broker's log that contain a text."""
        try:
            lines = (self.directory / "logs" / f"broker-{broker_id}.log").read_text(errors="replace").splitlines()
        except OSError:
            return []
        return [line for line in lines if containing in line]


def pause_between_looks() -> None:
    """Leave the CPU to the brokers for a moment."""
    time.sleep(0.004)
