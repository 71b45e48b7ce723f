"""What other users of this machine can do to a running cluster: nothing but what clients can."""

import contextlib
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer

from syncline.local.control import Control, ControlError, controls
from syncline.local.faults import Faults
from syncline.local.layout import Layout, RunningCluster
from tests.process.load import QUIET, create_topic

pytestmark = pytest.mark.process


@contextlib.contextmanager
def running(data: Path) -> Iterator[RunningCluster]:
    """A cluster of one broker, started by the command alone, so that it makes the directory."""
    command = [sys.executable, "-m", "syncline"]
    where = ["--data", str(data)]
    options = ["--brokers", "1", "--port", "0", "--config", "log.segment.bytes=1048576", "--detach"]
    subprocess.run([*command, "up", *where, *options], check=True, capture_output=True, timeout=60)
    try:
        found = Layout(data).running()
        assert found is not None
        yield found
    finally:
        subprocess.run([*command, "down", *where], check=True, capture_output=True, timeout=60)


def others_may_use(directory: Path) -> list[str]:
    """Return what in a data directory has permissions for other users, the directory included."""
    found = []
    for path in (directory, *directory.rglob("*")):
        # A file that takes the place of another has a name of its own for a moment.
        with contextlib.suppress(FileNotFoundError):
            if stat.S_IMODE(path.lstat().st_mode) & 0o077:
                found.append(str(path.relative_to(directory)))
    return found


def produce(bootstrap: str, count: int) -> None:
    """Produce records to the topic `kept`, in several batches."""
    producer = Producer({"bootstrap.servers": bootstrap, "batch.size": 50_000, **QUIET})
    for _ in range(count):
        producer.produce("kept", bytes(1_000))
    assert producer.flush(20) == 0


def test_files_are_private_and_faults_need_the_secret_among_them(tmp_path: Path) -> None:
    """A cluster in use has private files only; those of a former version are made private at its next start."""
    data = tmp_path / "data"
    with running(data) as cluster:
        create_topic(cluster.bootstrap, "kept", 1, replicas=1)
        produce(cluster.bootstrap, 1_200)
        assert len(list(data.glob("broker-1/kept-0/*.log"))) > 1
        (port,) = cluster.internal_ports.values()
        stranger = Control("127.0.0.1", port)
        for verb in ("faults.add", "faults.list", "faults.clear", "broker.describe", "journal.unwritten"):
            with pytest.raises(ControlError, match=r"carries no secret.*with --data DIRECTORY"):
                stranger.call(verb, id="f1", kind="api-disconnect", apis=["PRODUCE"])
        with pytest.raises(ControlError, match="carries a wrong secret"):
            Control("127.0.0.1", port, secret="0" * 64).call("faults.list")
        assert controls(data)[1].call("faults.list") == {"faults": []}
        Faults(data).pause(1)
        assert others_may_use(data) == []
        Faults(data).clear()
        produce(cluster.bootstrap, 1)
    assert others_may_use(data) == []

    secret = Layout(data).control_secret()
    for path in (data, *data.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)
    with running(data):
        assert others_may_use(data) == []
        assert Layout(data).control_secret() == secret
        assert controls(data)[1].call("faults.list") == {"faults": []}
