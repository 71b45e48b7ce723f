"""What lies where in a cluster's data directory, and who may use it.

cluster.json      how to reach the cluster that runs here now: written when it is up, removed when it is down
supervisor.lock   held (flock) by the supervisor for as long as it lives: one cluster per directory
cluster.db        cluster metadata (room `coordination`)
broker-N/         log directory of broker N
logs/             what supervisor and brokers had to say
"""

import fcntl
import json
import os
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Final

# How long brokers without a supervisor may take to hand over and stop.
ORPHANS_STOP_S: Final = 10.0


class LocalClusterError(Exception):
    """A local cluster cannot do what was asked; the message says why and what to do."""


@dataclass(frozen=True, kw_only=True)
class RunningCluster:
    """A cluster that is up: its processes and ports."""

    supervisor_pid: int
    bootstrap: str
    broker_pids: dict[int, int]
    client_ports: dict[int, int]
    started_at_ms: int


class Layout:
    """Paths inside one data directory."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.state_file = directory / "cluster.json"
        self.lock_file = directory / "supervisor.lock"
        self.logs = directory / "logs"

    def broker_directory(self, broker_id: int) -> Path:
        """Return the log directory of one broker."""
        return self.directory / f"broker-{broker_id}"

    def create(self) -> None:
        """Make the directory; `LocalClusterError` says why it cannot be used."""
        try:
            self.logs.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise LocalClusterError(
                f"cannot use {self.directory} as data directory: {error.strerror}. Choose another with --data."
            ) from None

    def lock(self) -> IO[str]:
        """Return the lock of this directory, held until it is closed and all brokers forked meanwhile have ended.

        Brokers share it with their supervisor: one that was killed leaves brokers behind that are just
        stopping, and they are waited for.
        """
        file = self.lock_file.open("a+")
        deadline_s = time.monotonic() + ORPHANS_STOP_S
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                running = self.running()
                if running is None and time.monotonic() < deadline_s:
                    time.sleep(0.02)
                    continue
                file.close()
                who = f" (process {running.supervisor_pid}, bootstrap {running.bootstrap})" if running else ""
                raise LocalClusterError(
                    f"the data directory {self.directory} is in use by a running cluster{who}. "
                    "Stop it with `syncline down`, or choose another with --data."
                ) from None
            return file

    def write_running(self, running: RunningCluster) -> None:
        """Tell others how to reach the cluster; atomically, since `status` may read at any moment."""
        temporary = self.state_file.with_suffix(".tmp")
        temporary.write_text(json.dumps(asdict(running), indent=1))
        temporary.replace(self.state_file)

    def running(self) -> RunningCluster | None:
        """Return the cluster that runs here, or None."""
        try:
            fields = json.loads(self.state_file.read_text())
        except (OSError, ValueError):
            return None
        running = RunningCluster(
            supervisor_pid=fields["supervisor_pid"],
            bootstrap=fields["bootstrap"],
            broker_pids={int(broker): pid for broker, pid in fields["broker_pids"].items()},
            client_ports={int(broker): port for broker, port in fields["client_ports"].items()},
            started_at_ms=fields["started_at_ms"],
        )
        # A process id is used again some day: without the lock that process is somebody else's.
        return running if is_alive(running.supervisor_pid) and self._is_locked() else None

    def _is_locked(self) -> bool:
        """Return whether a supervisor, or a broker that outlived it, holds the lock."""
        try:
            with self.lock_file.open() as file:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        except OSError:
            return False
        return False

    def remembered_ports(self) -> dict[int, int]:
        """Return the client ports of the last run, so that a cluster comes back where its clients look for it."""
        try:
            ports = json.loads((self.directory / "ports.json").read_text())
        except (OSError, ValueError):
            return {}
        return {int(broker): int(port) for broker, port in ports.items()}

    def remember_ports(self, ports: dict[int, int]) -> None:
        """Keep the client ports for the next run."""
        (self.directory / "ports.json").write_text(json.dumps(ports))


def is_alive(pid: int) -> bool:
    """Return whether a process with this id exists (a zombie counts as dead)."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return True
