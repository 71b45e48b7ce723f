"""The files of a cluster's data directory, and the lock that gives it to one cluster.

cluster.json      how to reach the cluster that runs here now: written when it is up, removed when it is down
supervisor.lock   held (flock) by the supervisor for as long as it lives: one cluster per directory
cluster.db        cluster metadata (room `coordination`)
control.secret    what a call of the control API must carry
broker-N/         log directory of broker N
logs/             output of supervisor and brokers
paused-N.json     broker N is paused by `syncline fault`, until when, and by which process
"""

import contextlib
import fcntl
import json
import os
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import IO, Final, Literal, NamedTuple

from syncline.local.control_secret import ensure_secret, read_secret
from syncline.local.private_files import DIRECTORY_MODE, FILE_MODE, tighten, write_private
from syncline.model.immutable import Immutable

# How long brokers without a supervisor may take to hand over and stop.
ORPHANS_STOP_S: Final = 10.0
BROKERS_DEFAULT: Final = 3
BROKERS_MAX: Final = 64
LINE_BYTES_MAX: Final = 1000
ANOTHER: Final = "Choose another with --data."


class LocalClusterError(Exception):
    """A request to a local cluster failed; the message says why and what to do."""


class Deaths(NamedTuple):
    """How often the processes of one broker have ended since the cluster was up, and how the last one did."""

    times: int
    last_at_ms: int
    last: str


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class RunningCluster(Immutable):
    """A cluster that is up: its processes and ports."""

    supervisor_pid: int
    bootstrap: str
    broker_pids: dict[int, int]
    client_ports: dict[int, int]
    started_at_ms: int
    # The ports on which brokers serve each other and the control API.
    internal_ports: dict[int, int] = field(default_factory=dict)
    # The ports of the brokers' metrics; brokers without metrics are left out.
    metrics_ports: dict[int, int] = field(default_factory=dict)
    # Why brokers do not serve, as of the last change of the state; they are started again.
    failures: dict[int, str] = field(default_factory=dict)
    # Of brokers whose processes have ended since the cluster was up.
    deaths: dict[int, Deaths] = field(default_factory=dict)

    def metrics_url(self, broker_id: int) -> str | None:
        """Return the URL of a broker's metrics, None if it has none."""
        port = self.metrics_ports.get(broker_id)
        return None if port is None else f"http://127.0.0.1:{port}/metrics"


class Layout:
    """Paths inside one data directory."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.state_file = directory / "cluster.json"
        self.ports_file = directory / "ports.json"
        self.metrics_ports_file = directory / "metrics-ports.json"
        self.configs_file = directory / "configs.json"
        self.lock_file = directory / "supervisor.lock"
        self.metadata_file = directory / "cluster.db"
        self.logs = directory / "logs"

    def broker_directory(self, broker_id: int) -> Path:
        """Return the log directory of one broker."""
        return self.directory / f"broker-{broker_id}"

    def create(self) -> None:
        """Create the directory, for its user alone; `LocalClusterError` says why it cannot be used."""
        try:
            with contextlib.suppress(FileExistsError):
                self.directory.mkdir(mode=DIRECTORY_MODE, parents=True)
            self.logs.mkdir(mode=DIRECTORY_MODE, exist_ok=True)
            self._open_lock_file().close()
            tighten(self.directory)
            ensure_secret(self.directory)
        except OSError as error:
            raise self.unusable(error) from None

    def control_secret(self) -> str | None:
        """Return what calls of the control API must carry, None if an older Syncline created this directory."""
        try:
            return read_secret(self.directory)
        except OSError as error:
            raise self.unreadable(error) from None

    def unreadable(self, error: OSError) -> LocalClusterError:
        """Return the error for a data directory that this user may not read."""
        return LocalClusterError(
            f"cannot read {error.filename or self.directory}: {error.strerror or error}. A data directory is private "
            "to the user who started its cluster: run this as that user."
        )

    def _open_lock_file(self) -> IO[str]:
        descriptor = os.open(self.lock_file, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, FILE_MODE)
        return open(descriptor, "a+", encoding="utf-8")  # noqa: PTH123 - a descriptor

    def unusable(self, error: OSError) -> LocalClusterError:
        """Return the error for a data directory that cannot be used."""
        where = error.filename if error.filename not in (None, str(self.directory)) else None
        return LocalClusterError(
            f"cannot use {self.directory} as data directory: {error.strerror or error}"
            f"{f' ({where})' if where else ''}. {ANOTHER}"
        )

    def broker_count(self, asked: int | None, *, ports: int = 0) -> int:
        """Return how many brokers to start: as many as asked for, or as ports; as many as last time, or three.

        A single port is the first broker's, and says nothing of the others.
        Refuses fewer brokers than have data here: partitions of the missing brokers could be without a leader.
        """
        held = self._brokers_with_data()
        if held and not self.metadata_file.exists():
            broker_id, cluster_id = next(iter(held.items()))
            raise LocalClusterError(
                f"broker-{broker_id} in {self.directory} belongs to cluster {cluster_id}, whose metadata "
                f"({self.metadata_file.name}) is missing. Put it back, or choose another directory with --data."
            )
        if self.metadata_file.exists() and not os.access(self.metadata_file, os.R_OK | os.W_OK):
            raise LocalClusterError(f"cannot use {self.metadata_file}: it cannot be read and written. {ANOTHER}")
        least = max(held, default=0)
        if least > BROKERS_MAX:
            raise LocalClusterError(
                f"{self.directory} holds data of broker {least}, but `up` starts only brokers 1 to "
                f"{BROKERS_MAX}. Start its brokers with `syncline broker ID`."
            )
        if asked is None and ports > 1:
            if ports < least:
                raise LocalClusterError(
                    f"{self.directory} holds data of broker {least}, but --port names {ports} ports. Name "
                    f"{least} ports, or only the first, or choose another directory with --data."
                )
            return ports
        if asked is None:
            return max(least, *self.remembered_ports(), 0) or BROKERS_DEFAULT
        if asked < least:
            raise LocalClusterError(
                f"{self.directory} holds data of broker {least}, which --brokers {asked} would leave out. "
                f"Start {least} brokers, or choose another directory with --data."
            )
        return asked

    def last_words(self) -> str:
        """Return the newest line of the newest log, "" if there is none; it shows why a start takes long."""
        try:
            newest = max(self.logs.glob("broker-*.log"), key=lambda file: file.stat().st_mtime_ns)
            with newest.open("rb") as file:
                file.seek(max(0, newest.stat().st_size - LINE_BYTES_MAX))
                return (file.read().decode(errors="replace").splitlines() or [""])[-1].strip()
        except (OSError, ValueError):
            return ""

    def _brokers_with_data(self) -> dict[int, str]:
        """Return the cluster id by broker, for each broker that has joined a cluster with this directory."""
        held = {}
        for file in self.directory.glob("broker-*/meta.properties"):
            number = file.parent.name.removeprefix("broker-")
            try:
                properties = dict(line.partition("=")[::2] for line in file.read_text(errors="replace").splitlines())
            except OSError:
                continue  # Its broker has a better message.
            if number.isdecimal() and properties.get("cluster.id"):
                held[int(number)] = properties["cluster.id"]
        return dict(sorted(held.items()))

    def lock(self) -> IO[str]:
        """Return the lock of this directory, held until it is closed and all brokers forked meanwhile have ended.

        Brokers share the lock with their supervisor. If that was killed, its brokers are still stopping; this
        call waits for them.
        """
        try:
            file = self._open_lock_file()
        except OSError as error:
            raise self.unusable(error) from None
        deadline_s = time.monotonic() + ORPHANS_STOP_S
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                running = self.running()
                if running is None and time.monotonic() < deadline_s:
                    time.sleep(0.02)
                    continue
                file.close()
                raise self._in_use(running) from None
            except OSError as error:
                file.close()
                raise self.unusable(error) from None
            return file

    def _in_use(self, running: RunningCluster | None) -> LocalClusterError:
        if running is not None:
            return LocalClusterError(
                f"the data directory {self.directory} is in use by a running cluster (process "
                f"{running.supervisor_pid}, bootstrap {running.bootstrap}). "
                "Stop it with `syncline down`, or choose another with --data."
            )
        last = self._last_run()
        left = [pid for pid in last.broker_pids.values() if is_alive(pid)] if last else []
        who = f" (process {', '.join(map(str, left))})" if left else ""
        return LocalClusterError(
            f"the data directory {self.directory} is still in use: a cluster there is starting, or brokers that lost "
            f"their supervisor have not stopped{who}. Wait, end those processes, or choose another with --data."
        )

    def write_running(self, running: RunningCluster) -> None:
        """Write how to reach the cluster; atomically, since `status` may read the file at any moment."""
        temporary = self.state_file.with_suffix(".tmp")
        write_private(temporary, json.dumps(asdict(running), indent=1))
        temporary.replace(self.state_file)

    def running(self) -> RunningCluster | None:
        """Return the cluster that runs here, or None; `LocalClusterError` if this user may not know."""
        last = self._last_run()
        # The system reuses process ids: without the lock, the process with this id is another one.
        return last if last is not None and is_alive(last.supervisor_pid) and self._is_locked() else None

    def _last_run(self) -> RunningCluster | None:
        """Return the contents of the state file, None if there is none or it is invalid."""
        try:
            fields = json.loads(self.state_file.read_text())
            return RunningCluster(
                supervisor_pid=int(fields["supervisor_pid"]),
                bootstrap=str(fields["bootstrap"]),
                broker_pids={int(broker): int(pid) for broker, pid in fields["broker_pids"].items()},
                client_ports={int(broker): int(port) for broker, port in fields["client_ports"].items()},
                started_at_ms=int(fields["started_at_ms"]),
                internal_ports={int(broker): int(port) for broker, port in fields.get("internal_ports", {}).items()},
                metrics_ports={int(broker): int(port) for broker, port in fields.get("metrics_ports", {}).items()},
                failures={int(broker): str(why) for broker, why in fields.get("failures", {}).items()},
                deaths={
                    int(broker): Deaths(int(times), int(last_at_ms), str(last))
                    for broker, (times, last_at_ms, last) in fields.get("deaths", {}).items()
                },
            )
        except PermissionError as error:
            raise self.unreadable(error) from None
        except (OSError, ValueError, TypeError, KeyError, AttributeError):
            return None

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

    def pause_file(self, broker_id: int) -> Path:
        """Return the path of a paused broker's state (`process_faults`)."""
        return self.directory / f"paused-{broker_id}.json"

    def forget_pauses(self) -> None:
        """Remove the states of paused brokers: none of them runs any more."""
        for file in self.directory.glob("paused-*.json"):
            file.unlink()

    def remembered_ports(self) -> dict[int, int]:
        """Return the client ports of the last run, so that clients find the cluster again."""
        return _ports_in(self.ports_file)

    def remember_ports(self, ports: dict[int, int]) -> None:
        """Store the client ports for the next run."""
        write_private(self.ports_file, json.dumps(ports))

    def remembered_metrics_ports(self) -> dict[int, int]:
        """Return the metrics ports of the last run: Prometheus has them in its configuration."""
        return _ports_in(self.metrics_ports_file)

    def remember_metrics_ports(self, ports: dict[int, int]) -> None:
        """Store the metrics ports for the next run."""
        write_private(self.metrics_ports_file, json.dumps(ports))

    def remembered_configs(self) -> dict[str, str]:
        """Return what the last run was configured with, to say what this one lacks; it is not applied."""
        try:
            configs = json.loads(self.configs_file.read_text())
            return {str(name): str(value) for name, value in configs.items()}
        except (OSError, ValueError, AttributeError):
            return {}

    def remember_configs(self, configs: Mapping[str, str]) -> None:
        """Store what this run is configured with."""
        write_private(self.configs_file, json.dumps(dict(configs)))


def _ports_in(file: Path) -> dict[int, int]:
    try:
        ports = json.loads(file.read_text())
        return {int(broker): int(port) for broker, port in ports.items() if 0 < int(port) < 65_536}
    except (OSError, ValueError, TypeError, AttributeError):
        return {}


def is_alive(pid: int) -> bool:
    """Return whether a process with this id exists (a zombie counts as dead)."""
    return state_of(pid) != "dead"


def state_of(pid: int) -> Literal["running", "paused", "dead"]:
    """Return the state of a process; "paused" means stopped by a signal."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return "dead"
    except PermissionError:
        return "running"
    try:
        letter = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (OSError, IndexError):
        # There is no /proc, or the process ended just now; then the next call returns "dead".
        return "running"
    if letter in "ZX":
        return "dead"
    return "paused" if letter in "Tt" else "running"


def write_ready_file(file: Path, running: RunningCluster) -> None:
    """Write where the cluster is, for scripts that wait for this file: JSON, atomically."""
    temporary = file.with_name(file.name + ".tmp")
    fields = {
        "bootstrap": running.bootstrap,
        "supervisor_pid": running.supervisor_pid,
        "broker_pids": running.broker_pids,
    }
    try:
        temporary.write_text(json.dumps(fields) + "\n")
        temporary.replace(file)
    except OSError as error:
        raise LocalClusterError(f"cannot write the ready file {file}: {error.strerror}.") from None
