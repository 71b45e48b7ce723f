"""The keeper: a separate process that forks the lab's brokers on request, and ends them when it ends.

It reads commands from its standard input and writes events to its standard
output, both as lines of JSON:

    command   {"start": 1, "config": {...}}      start broker 1 with these configurations over the common ones
    event     {"event": "started", "broker": 1, "pid": ..., "port": ..., "internal_port": ...}
              {"event": "serving", "broker": 1}
              {"event": "failed", "broker": 1, "why": "..."}
              {"event": "ended", "broker": 1, "code": -9}

The keeper ends when its input does, so however the lab ends, the keeper removes
brokers and data directory. Unlike the supervisor of `up`, it never restarts a
broker on its own: the history decides when a broker returns.
"""

import contextlib
import gc
import json
import os
import select
import shutil
import signal
import socket
import sys
import traceback
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from syncline.local.broker_process import BrokerProcess
from syncline.local.ports import BetweenBrokers, listen, port_of
from syncline.local.preload import preload
from syncline.local.private_files import FILE_MODE
from syncline.local.supervisor import FAILURE_BYTES_MAX, SERVING

READ_BYTES: Final = 65_536


@dataclass
class Kept:
    """One broker process."""

    broker_id: int
    pid: int
    ready: socket.socket | None


class Keeper:
    """Starts brokers on command, and reports when they serve, fail or end."""

    def __init__(self, directory: Path, config: dict[str, str], cluster_size: int) -> None:
        self._directory = directory
        self._config = config
        self._cluster_size = cluster_size
        self._ports: dict[int, int] = {}
        self._kept: dict[int, Kept] = {}
        # Brokers hold the reading end; it ends when this process does.
        self._alive_reader, self._alive_writer = os.pipe()
        self._wake_reader, self._wake_writer = os.pipe()

    def run(self) -> None:
        """Serve until the input ends."""
        os.set_blocking(self._wake_writer, False)
        os.set_blocking(self._wake_reader, False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(self._wake_writer, warn_on_full_buffer=False)
        commands = b""
        while True:
            ready = {kept.ready: kept for kept in self._kept.values() if kept.ready is not None}
            sources: list[int | socket.socket] = [0, self._wake_reader, *ready]
            for source in select.select(sources, [], [])[0]:
                if isinstance(source, socket.socket):
                    self._report_serving(ready[source])
                elif source == self._wake_reader:
                    with contextlib.suppress(BlockingIOError):
                        os.read(self._wake_reader, READ_BYTES)
                    self._reap()
                else:
                    part = os.read(0, READ_BYTES)
                    if not part:
                        return
                    *lines, commands = (commands + part).split(b"\n")
                    for line in lines:
                        command = json.loads(line)
                        self._start(command["start"], command.get("config", {}))

    def end_all(self) -> None:
        """Kill every broker, and remove all data."""
        for kept in self._kept.values():
            with contextlib.suppress(ProcessLookupError):
                os.kill(kept.pid, signal.SIGKILL)
            with contextlib.suppress(ChildProcessError):
                os.waitpid(kept.pid, 0)
        shutil.rmtree(self._directory, ignore_errors=True)

    def _start(self, broker_id: int, config: dict[str, str]) -> None:
        ready, child_ready = socket.socketpair()
        # The client port stays the same; other brokers learn the new internal port from the registration.
        client = listen(self._ports.get(broker_id, 0))
        internal = listen(0)
        self._ports[broker_id] = port_of(client)
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                signal.set_wakeup_fd(-1)
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                os.close(self._alive_writer)
                ready.close()
                for kept in self._kept.values():
                    if kept.ready is not None:
                        kept.ready.close()
                code = self._be_broker(broker_id, config, client, internal, child_ready)
            except BaseException:  # noqa: BLE001 - this process ends here, and its log says why
                traceback.print_exc()
            finally:
                os._exit(code)
        self._kept[broker_id] = Kept(broker_id, pid, ready)
        _report(event="started", broker=broker_id, pid=pid, port=port_of(client), internal_port=port_of(internal))
        for mine in (child_ready, client, internal):
            mine.close()

    def _be_broker(
        self,
        broker_id: int,
        config: dict[str, str],
        client: socket.socket,
        internal: socket.socket,
        ready: socket.socket,
    ) -> int:
        log_file = self._directory / "logs" / f"broker-{broker_id}.log"
        null = os.open(os.devnull, os.O_RDONLY)
        output = os.open(log_file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, FILE_MODE)
        for descriptor, place in ((null, 0), (output, 1), (output, 2)):
            os.dup2(descriptor, place)
        return BrokerProcess(
            broker_id=broker_id,
            cluster_directory=self._directory,
            log_directory=self._directory / f"broker-{broker_id}",
            config={**self._config, **config},
            cluster_size=self._cluster_size,
            client_listener=client,
            internal=BetweenBrokers(internal, None),
            supervisor_alive_fd=self._alive_reader,
            on_serving=lambda: ready.send(SERVING),
            on_failed=lambda why: ready.send(why.encode()[:FAILURE_BYTES_MAX]),
        ).run()

    def _report_serving(self, kept: Kept) -> None:
        assert kept.ready is not None
        message = b""
        with contextlib.suppress(OSError):
            message = kept.ready.recv(FAILURE_BYTES_MAX)
        kept.ready.close()
        kept.ready = None
        if message == SERVING:
            _report(event="serving", broker=kept.broker_id)
        else:
            _report(event="failed", broker=kept.broker_id, why=message.decode(errors="replace"))

    def _reap(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            for kept in self._kept.values():
                if kept.pid == pid:
                    _report(event="ended", broker=kept.broker_id, code=os.waitstatus_to_exitcode(status))


def _report(**event: Any) -> None:
    with contextlib.suppress(OSError):
        os.write(1, json.dumps(event).encode() + b"\n")


def main() -> None:
    """Keep brokers for the lab that started this process."""
    directory, config, cluster_size = Path(sys.argv[1]), json.loads(sys.argv[2]), int(sys.argv[3])
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        # Ctrl-C reaches this process, too, but the lab decides when to end: it closes the input.
        signal.signal(number, signal.SIG_IGN)
    preload()
    gc.collect()
    gc.freeze()
    keeper = Keeper(directory, config, cluster_size)
    try:
        keeper.run()
    finally:
        keeper.end_all()


if __name__ == "__main__":
    main()
