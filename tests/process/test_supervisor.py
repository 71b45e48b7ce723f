"""`syncline up`, `down`, `status`: what a person at a terminal sees, and what is left behind (nothing)."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from syncline.local.layout import Layout
from tests.cli.terminal import ENVIRONMENT, command
from tests.cli.terminal import run as syncline
from tests.cluster import LocalCluster, start_cluster
from tests.patience import until
from tests.process import processes
from tests.process.load import Load, create_topic

pytestmark = pytest.mark.process


def await_other_pid(cluster: LocalCluster, broker_id: int, old_pid: int, within_s: float = 10.0) -> int:
    """Return the process id of a broker once it is a new one."""
    until(lambda: cluster.pids[broker_id] != old_pid, within_s, otherwise=f"broker {broker_id} was not started again")
    return cluster.pids[broker_id]


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """One cluster for tests that leave it as it was."""
    directory = tmp_path_factory.mktemp("shared")
    cluster = start_cluster(2, directory=directory)
    yield cluster
    cluster.stop()
    processes.await_none(directory)


def test_supervisor_starts_a_dead_broker_again(shared: LocalCluster) -> None:
    """A broker that was killed is back under its old port, with another process id."""
    ports = shared.running.client_ports
    old_pid = shared.pids[1]
    shared.kill(1)
    assert await_other_pid(shared, 1, old_pid) != old_pid
    shown = syncline("status", "--data", str(shared.directory)).stdout
    assert "broker 1 has ended once since the cluster came up, most recently at " in shown
    assert shown.splitlines()[-1].endswith(": SIGKILL")
    assert shared.running.client_ports == ports


def test_broker_that_is_stopped_alone_is_said_to_have_ended_in_good_order(shared: LocalCluster) -> None:
    """Somebody has sent it SIGTERM, as for a rolling restart; its supervisor starts it again."""
    old_pid = shared.pids[2]
    os.kill(old_pid, signal.SIGTERM)
    assert await_other_pid(shared, 2, old_pid) != old_pid
    assert syncline("status", "--data", str(shared.directory)).stdout.splitlines()[-1].endswith(": a clean stop")


def test_status_shows_every_process(shared: LocalCluster) -> None:
    """`status` names bootstrap, ports and processes, in words and as JSON."""
    shown = syncline("status", "--data", str(shared.directory))
    assert shown.returncode == 0
    assert shared.bootstrap in shown.stdout
    assert shown.stdout.count("running") == 2
    as_json = json.loads(syncline("status", "--data", str(shared.directory), "--json").stdout)
    assert as_json["bootstrap"] == shared.bootstrap
    assert {each["broker"]: each["pid"] for each in as_json["brokers"]} == shared.pids


def test_second_up_on_a_directory_in_use_says_so(shared: LocalCluster) -> None:
    """One sentence names the directory and the running cluster; that one is not disturbed."""
    second = syncline("up", "--data", str(shared.directory), "--port", "0")
    assert second.returncode == 1
    assert "in use by a running cluster" in second.stderr
    assert shared.bootstrap in second.stderr
    assert "Traceback" not in second.stderr
    assert shared.process.poll() is None


@pytest.mark.parametrize("detach", [[], ["--detach"]], ids=["foreground", "detached"])
def test_a_port_in_use_is_named(tmp_path: Path, detach: list[str]) -> None:
    """The error names a port that is in use, and nothing is left running."""
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        refused = syncline("up", "--data", str(tmp_path), "--port", str(port), *detach)
    assert refused.returncode == 1
    assert f"port {port} is already in use" in refused.stderr
    assert len(refused.stderr.strip().splitlines()) == 1
    processes.await_none(tmp_path, 2)


@pytest.mark.parametrize(
    ("config", "complaint"),
    [
        ("no.such.config=1", "no.such.config"),
        ("broker.session.timeout.ms=soon", "broker.session.timeout.ms"),
        ("min.insync.replicas=0", "min.insync.replicas"),
        ("replica.lag.time.max.ms", "NAME=VALUE"),
    ],
)
def test_a_bad_config_is_named(tmp_path: Path, config: str, complaint: str) -> None:
    """An unknown name, a bad value and a bad pair are each refused in one sentence, before anything starts."""
    refused = syncline("up", "--data", str(tmp_path), "--port", "0", "--config", config)
    assert refused.returncode == 1
    assert complaint in refused.stderr
    assert len(refused.stderr.strip().splitlines()) == 1
    assert not list(tmp_path.glob("broker-*"))


def test_up_goes_on_without_a_broker_whose_directory_is_bad(tmp_path: Path) -> None:
    """Guards: one bad directory kept all brokers from starting. `up` names it, and serves with all once it is good."""
    bad = tmp_path / "broker-2"
    bad.write_text("no directory")
    started = syncline("up", "--brokers", "3", "--detach", "--data", str(tmp_path), "--port", "0")
    try:
        # A script that goes on as if all were up would find out much later.
        assert started.returncode == 1, started.stderr
        assert started.stdout.startswith("2 brokers are up: ")
        assert "broker 2 is not up; it is restarted repeatedly: " in started.stderr
        assert str(bad) in started.stderr
        status = syncline("status", "--data", str(tmp_path))
        shown = status.stdout
        assert status.returncode == 1
        assert f"broker 2 could not start; it is restarted repeatedly: Not a directory: {bad}" in shown
        bad.unlink()

        def is_complete() -> bool:
            running = Layout(tmp_path).running()
            return running is not None and not running.failures

        until(is_complete, 20, otherwise="broker 2 does not come back")
    finally:
        assert syncline("down", "--data", str(tmp_path)).returncode == 0


def test_up_names_all_brokers_when_all_directories_are_bad(tmp_path: Path) -> None:
    """Guards: it named the one that was last to say so. Each sentence says what to do."""
    (tmp_path / "broker-1").write_text("no directory")
    (tmp_path / "broker-2" / "meta.properties").mkdir(parents=True)
    refused = syncline("up", "--brokers", "2", "--data", str(tmp_path), "--port", "0")

    assert refused.returncode == 1
    (sentence,) = refused.stderr.strip().splitlines()[-1:]
    assert f"broker 1 could not start: Not a directory: {tmp_path}/broker-1/.lock. Something else has" in sentence
    assert f"broker 2 could not start: Is a directory: {tmp_path}/broker-2/meta.properties. Something" in sentence
    processes.await_none(tmp_path)


def test_a_data_directory_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    """A file in the place of the data directory is refused in one sentence."""
    (tmp_path / "file").write_text("")
    refused = syncline("up", "--data", str(tmp_path / "file"), "--port", "0")
    assert refused.returncode == 1
    assert str(tmp_path / "file") in refused.stderr
    assert len(refused.stderr.strip().splitlines()) == 1


def test_down_and_status_without_a_cluster_say_so(tmp_path: Path) -> None:
    """There is nothing to stop or to show: one sentence, exit code 1."""
    for verb in ("down", "status"):
        refused = syncline(verb, "--data", str(tmp_path))
        assert refused.returncode == 1
        assert "no cluster is running" in refused.stderr


def test_detached_cluster_outlives_its_command_and_stops_with_down(tmp_path: Path) -> None:
    """`up --detach` returns when the cluster serves, writes the ready file, and `down` leaves nothing."""
    ready_file = tmp_path / "ready.json"
    data = tmp_path / "data"
    up = syncline("up", "--brokers", "2", "--data", str(data), "--port", "0", "-d", "--ready-file", str(ready_file))
    try:
        assert up.returncode == 0, up.stderr
        ready = json.loads(ready_file.read_text())
        assert ready["bootstrap"] in up.stdout
        for address in ready["bootstrap"].split(","):
            host, port = address.split(":")
            socket.create_connection((host, int(port)), 2).close()
    finally:
        down = syncline("down", "--data", str(data))
    assert down.returncode == 0, down.stderr
    processes.await_none(data, 1)


def test_up_names_the_options_of_the_last_start_that_it_lacks(tmp_path: Path) -> None:
    """They are not remembered: `log.retention.ms=-1`, once forgotten, would let data go."""
    up = ("up", "--brokers", "1", "--data", str(tmp_path), "--port", "0", "-d")
    said = []
    for options in (
        ("--config", "log.retention.ms=-1", "--racks", "a", "--config", "num.partitions=2"),
        ("--config", "num.partitions=3"),
        ("--config", "num.partitions=3"),
    ):
        ran = syncline(*up, *options)
        syncline("down", "--data", str(tmp_path))
        assert ran.returncode == 0, ran.stderr
        said.append(ran.stderr)

    options = "these options of the last start were not given now and are not in effect"
    assert said == ["", f"{options}: --config log.retention.ms=-1 --racks a\n", ""]


def test_no_restart_leaves_a_dead_broker_dead(tmp_path: Path) -> None:
    """With `--no-restart` the supervisor reports a killed broker and restarts none; `status` shows it as dead."""
    cluster = start_cluster(2, directory=tmp_path, restart=False)
    try:
        pid = cluster.pids[2]
        cluster.kill(2)
        reports = tmp_path / "up.log"
        until(lambda: f"broker 2 (process {pid}) ended with SIGKILL" in reports.read_text())
        assert "it is restarted" not in reports.read_text()
        status = syncline("status", "--data", str(tmp_path), "--json")
        rows = json.loads(status.stdout)["brokers"]
        assert {row["broker"]: row["state"] for row in rows} == {1: "running", 2: "dead"}
        assert status.returncode == 1
    finally:
        cluster.stop()
    processes.await_none(tmp_path, 1)


def test_brokers_stop_when_their_supervisor_is_killed_and_up_works_at_once(tmp_path: Path) -> None:
    """SIGKILL of the supervisor stops the brokers; `up` right after it waits for them, and loses nothing."""
    port = processes.free_port_range(3)
    cluster = start_cluster(3, directory=tmp_path, port=port)
    try:
        create_topic(cluster.bootstrap, "orphaned", 1)
        with Load(cluster.bootstrap, "orphaned", 1) as load:
            load.wait_for_more(100)
            os.kill(cluster.running.supervisor_pid, signal.SIGKILL)
            cluster.process.wait(5)
            cluster = start_cluster(3, directory=tmp_path, port=port)
            load.wait_for_more(100, 20)
        # Without a successor they are gone soon, too.
        os.kill(cluster.running.supervisor_pid, signal.SIGKILL)
        cluster.process.wait(5)
        processes.await_none(tmp_path, 8)
    finally:
        cluster.stop()
    processes.await_none(tmp_path)


@pytest.mark.parametrize("moment", ["data/supervisor.lock", "data/broker-1", "data/cluster.db", "ready.json"])
def test_ctrl_c_leaves_nothing_behind(tmp_path: Path, moment: str) -> None:
    """SIGINT to the whole process group, when any of these files is there for the first time, ends all processes."""
    arguments = ["up", "--data", str(tmp_path / "data"), "--port", "0", "--ready-file", str(tmp_path / "ready.json")]
    up = subprocess.Popen(
        command(*arguments),
        env=ENVIRONMENT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    try:
        until((tmp_path / moment).exists, otherwise=f"no {moment}", pause_s=0.001)
        os.killpg(up.pid, signal.SIGINT)
        began_s = time.monotonic()
        _, errors = up.communicate(timeout=15)
        assert time.monotonic() - began_s < 7
        # Before its own code runs, Python itself says that it was interrupted.
        assert b"Traceback" not in errors or b"KeyboardInterrupt" in errors, errors.decode()
        processes.await_none(tmp_path / "data", 1)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(up.pid, signal.SIGKILL)


def test_down_stops_a_cluster_with_a_paused_broker(tmp_path: Path) -> None:
    """`down` leaves nothing behind, although a broker is paused."""
    cluster = start_cluster(2, directory=tmp_path)
    try:
        cluster.pause(2)
        assert syncline("down", "--data", str(tmp_path)).returncode == 0
        processes.await_none(tmp_path, 1)
    finally:
        cluster.stop()
