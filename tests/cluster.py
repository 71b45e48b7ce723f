"""Real broker processes for tests: a local cluster of its own directory and free ports, always reaped."""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from syncline.local.layout import Layout, RunningCluster
from tests.patience import eventually

ROOT = Path(__file__).parent.parent
START_TIMEOUT_S = 60.0
# Groups rebalance at once, and a killed member is missed after a moment instead of six seconds.
QUICK_GROUPS = {"group.min.session.timeout.ms": "500", "group.initial.rebalance.delay.ms": "0"}


@dataclass
class LocalCluster:
    """A cluster started by `syncline up`."""

    directory: Path
    process: subprocess.Popen[bytes]
    _owns_directory: bool = field(default=False)

    @property
    def running(self) -> RunningCluster:
        """The cluster's own description of itself, as of now."""
        running = Layout(self.directory).running()
        assert running is not None, f"the cluster in {self.directory} is not running"
        return running

    @property
    def bootstrap(self) -> str:
        """host:port of every broker, comma-separated."""
        return self.running.bootstrap

    @property
    def pids(self) -> dict[int, int]:
        """Process id by broker id."""
        return self.running.broker_pids

    def kill(self, broker_id: int) -> None:
        """SIGKILL one broker."""
        os.kill(self.pids[broker_id], signal.SIGKILL)

    def pause(self, broker_id: int) -> None:
        """SIGSTOP one broker."""
        os.kill(self.pids[broker_id], signal.SIGSTOP)

    def resume(self, broker_id: int) -> None:
        """SIGCONT one broker."""
        os.kill(self.pids[broker_id], signal.SIGCONT)

    def log(self, broker_id: int) -> str:
        """The text of a broker's log."""
        return (self.directory / "logs" / f"broker-{broker_id}.log").read_text(errors="replace")

    def stop(self) -> None:
        """Stop everything and, if the directory was made here, remove it; fail if a broker logged a traceback."""
        with contextlib.suppress(ProcessLookupError):
            self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        tracebacks = [
            traceback for path in sorted(self.directory.glob("logs/*.log")) for traceback in tracebacks_in(path)
        ]
        if self._owns_directory:
            shutil.rmtree(self.directory, ignore_errors=True)
        assert not tracebacks, "\n".join(tracebacks)


def tracebacks_in(path: Path) -> list[str]:
    """Return each traceback in a log, with the line before it, which says what failed, and the error at its end."""
    lines = path.read_text(errors="replace").splitlines()
    starts = [index for index, line in enumerate(lines) if line.startswith("Traceback (most recent call last)")]
    found = []
    for start in starts:
        ends = (index for index in range(start + 1, len(lines)) if not lines[index].startswith(" "))
        found.append("\n".join([path.name, *lines[max(start - 1, 0) : next(ends, len(lines)) + 1]]))
    return found


def start_cluster(
    brokers: int = 3,
    configs: Mapping[str, str] | None = None,
    *,
    directory: Path | None = None,
    port: int = 0,
    restart: bool = True,
    racks: str = "",
) -> LocalCluster:
    """Start a cluster and return once every broker serves."""
    owns = directory is None
    where = directory or Path(tempfile.mkdtemp(prefix="syncline-test-"))
    command = [
        sys.executable,
        "-m",
        "syncline",
        "up",
        "--brokers",
        str(brokers),
        "--data",
        str(where),
        "--port",
        str(port),
        "--ready-file",
        str(where / "ready.json"),
    ]
    for name, value in (configs or {}).items():
        command += ["--config", f"{name}={value}"]
    if racks:
        command += ["--racks", racks]
    if not restart:
        command.append("--no-restart")
    where.mkdir(parents=True, exist_ok=True)
    (where / "ready.json").unlink(missing_ok=True)
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    with (where / "up.log").open("ab") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output, stdin=subprocess.DEVNULL, env=environment)
    cluster = LocalCluster(where, process, owns)
    ready = where / "ready.json"
    try:
        is_ready = eventually(lambda: ready.exists() or process.poll() is not None, bool, within_s=START_TIMEOUT_S)
    except BaseException:
        cluster.stop()
        raise
    if not is_ready or not ready.exists():
        message = (where / "up.log").read_text(errors="replace")
        cluster.stop()
        raise AssertionError(f"the cluster did not start: {message}")
    return cluster


@contextlib.contextmanager
def cluster(brokers: int = 3, configs: Mapping[str, str] | None = None) -> Iterator[LocalCluster]:
    """A cluster for the length of a with block."""
    started = start_cluster(brokers, configs)
    try:
        yield started
    finally:
        started.stop()
