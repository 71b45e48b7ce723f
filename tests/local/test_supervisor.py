"""The supervisor and its brokers as processes: starts that fail, are given up, or are watched."""

import json
import os
import resource
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from pathlib import Path

import psutil
import pytest
from confluent_kafka.admin import AdminClient, ConfigResource

from syncline.local.broker_process import DISK_EXIT
from syncline.local.child import RESTART_DELAY_S, Child
from syncline.local.layout import Layout, LocalClusterError, RunningCluster
from syncline.local.profiles import PROFILES
from syncline.local.supervisor import KILLED_MAX, ClusterSpec, Supervisor
from tests.cli.terminal import ENVIRONMENT, command, refused, run, succeed
from tests.cluster import LocalCluster, start_cluster
from tests.patience import until
from tests.process import processes

pytestmark = pytest.mark.process


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The data directory of a cluster of two that was stopped."""
    directory = tmp_path_factory.mktemp("stopped")
    start_cluster(2, directory=directory).stop()
    return directory


@pytest.fixture
def copy(stopped: Path, tmp_path: Path) -> Path:
    """A copy of it to be damaged."""
    subprocess.run(["cp", "-r", stopped, tmp_path / "data"], check=True)
    return tmp_path / "data"


@pytest.fixture
def running(tmp_path: Path) -> Iterator[LocalCluster]:
    """A cluster of two of the test's own; nothing of it may be left."""
    cluster = start_cluster(2, directory=tmp_path)
    yield cluster
    cluster.stop()
    processes.await_none(tmp_path, 2)


def refused_start(data: Path, *more: str) -> str:
    """Return why `up` refuses, the same in the foreground and detached; nothing runs afterwards."""
    sentences = [refused("up", "--data", str(data), "--port", "0", *more, *mode) for mode in ((), ("--detach",))]
    processes.await_none(data, 2)
    return sentences[1]


def damage(data: Path, kind: str) -> None:
    """Damage a data directory."""
    if kind == "metadata":
        (data / "cluster.db").write_bytes(b"this is not a database, it is longer than its header" * 10)
    elif kind == "metadata-missing":
        (data / "cluster.db").unlink()
    elif kind == "foreign":
        properties = data / "broker-2" / "meta.properties"
        lines = properties.read_text().splitlines()
        properties.write_text("\n".join("cluster.id=other" if "cluster.id" in line else line for line in lines))
    elif kind == "swapped":
        (data / "broker-1").rename(data / "broker-x")
        (data / "broker-2").rename(data / "broker-1")
    else:
        (data / "broker-1").rename(data / "broker-x")
        (data / "broker-1").touch()


@pytest.mark.parametrize(
    ("kind", "complaint"),
    [
        ("metadata", "the cluster's metadata, cannot be used: file is not a database"),
        ("metadata-missing", "whose metadata (cluster.db) is missing"),
        ("foreign", "its data belongs to cluster other"),
        ("swapped", "belongs to node.id 2, this is 1"),
    ],
)
def test_damaged_directory_is_refused_with_the_broker_s_own_reason(copy: Path, kind: str, complaint: str) -> None:
    """The sentence at the terminal says what is wrong; no user has to look for it in a log."""
    damage(copy, kind)
    assert complaint in refused_start(copy)


def test_ready_file_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    """`up` refuses before it starts anything where it can know, and leaves no cluster where it cannot."""
    data = tmp_path / "data"
    assert "there is no directory" in refused_start(data, "--ready-file", str(tmp_path / "none" / "ready"))
    (tmp_path / "ready").mkdir()
    assert "cannot write the ready file" in refused_start(data, "--ready-file", str(tmp_path / "ready"))


def test_second_start_finds_as_many_brokers_under_their_ports(copy: Path) -> None:
    """The user need repeat neither the number of brokers nor their ports."""
    ports = json.loads((copy / "ports.json").read_text())
    up = json.loads(succeed("up", "--data", str(copy), "--detach", "--json"))
    try:
        assert up["broker_pids"].keys() == {"1", "2"}
        assert up["bootstrap"] == ",".join(f"127.0.0.1:{port}" for port in ports.values())
    finally:
        succeed("down", "--data", str(copy))


def test_start_tells_that_a_port_of_last_time_is_taken(copy: Path) -> None:
    """Guards: the cluster had other ports from then on, in silence, and clients looked for it at those of before."""
    ports = json.loads((copy / "ports.json").read_text())
    with socket.create_server(("127.0.0.1", ports["2"])):
        up = run("up", "--data", str(copy), "--detach", "--json")
    succeed("down", "--data", str(copy))
    got = json.loads((copy / "ports.json").read_text())

    assert (up.returncode, got["1"]) == (0, ports["1"])
    assert up.stderr == (
        f"broker 2 uses port {got['2']}, now and at the next start: its last port, {ports['2']}, is in use "
        "(--port insists on a port)\n"
    )


@pytest.mark.parametrize("after_s", [0.05, 0.12, 0.2], ids=str)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL], ids=["interrupted", "killed"])
def test_detached_start_that_nobody_waits_for_is_given_up(
    tmp_path: Path, after_s: float, number: signal.Signals
) -> None:
    """Either the command reported that the cluster is up, or nothing of it is left.

    A command that was killed may have had the answer, and no time to report it.
    """
    arguments = ("up", "--brokers", "2", "--data", str(tmp_path / "data"), "--port", "0", "--detach")
    asking = subprocess.Popen(command(*arguments), env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    # Any moment of the start may be the one; most leave no trace that could be waited for.
    time.sleep(after_s)
    asking.send_signal(number)
    shown, errors = asking.communicate(timeout=10)
    assert b"syncline/" not in errors, errors.decode()
    data = tmp_path / "data"
    if b"are up" in shown:
        succeed("down", "--data", str(data))
    elif number == signal.SIGKILL:
        until(lambda: not processes.of_directory(data) or Layout(data).running() is not None, 10)
        # It may be ending by itself.
        run("down", "--data", str(data))
    processes.await_none(tmp_path, 10)


def test_paused_broker_shows_and_dead_one_is_started_again_meanwhile(running: LocalCluster) -> None:
    """`status` and the state file follow each broker by itself; it fails, for scripts, unless all run."""
    running.pause(2)
    status = ("status", "--data", str(running.directory))
    shown = run(*status)
    assert (shown.returncode, shown.stderr) == (1, "")
    assert "paused" in shown.stdout
    killed = running.pids[1]
    running.kill(1)
    until(lambda: f"process {killed} " not in run(*status).stdout)
    running.resume(2)
    rows = json.loads(succeed(*status, "--json"))["brokers"]
    assert [row["state"] for row in rows] == ["running", "running"]
    assert rows[0]["pid"] != killed
    said = (running.directory / "up.log").read_text()
    assert f"broker 1 (process {killed}) ended with SIGKILL; it is restarted" in said


def test_second_ctrl_c_does_not_wait_for_a_paused_broker_to_hand_over(running: LocalCluster) -> None:
    """A second Ctrl-C kills at once; what a killed broker had acknowledged is on its disk."""
    pid = running.pids[1]
    # It is woken to stop in good order, and put to sleep again.
    running.process.send_signal(signal.SIGINT)
    time.sleep(0.05)
    if processes_alive(pid):
        os.kill(pid, signal.SIGSTOP)
    running.process.send_signal(signal.SIGINT)
    began_s = time.monotonic()
    running.process.wait(10)
    assert time.monotonic() - began_s < 3


def processes_alive(pid: int) -> bool:
    """Return whether a process is there."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_broker_in_the_foreground_says_where_it_serves_and_stops_with_ctrl_c(tmp_path: Path) -> None:
    """One node by itself, as JSON for scripts, with the values of a profile; its directory cannot be used twice."""
    arguments = ("broker", "4", "--data", str(tmp_path), "--port", "0", "--json", "--profile", "test")
    itself = ConfigResource(ConfigResource.Type.BROKER, "4")
    with (
        (tmp_path / "errors").open("wb") as errors,
        subprocess.Popen(command(*arguments), env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=errors) as broker,
    ):
        assert broker.stdout is not None
        shown = json.loads(broker.stdout.readline())
        host, port = shown["bootstrap"].split(":")
        socket.create_connection((host, int(port)), 2).close()
        admin = AdminClient({"bootstrap.servers": shown["bootstrap"], "log_level": 0})
        configs = admin.describe_configs([itself])[itself].result(10)
        again = run(*arguments)
        taken = run("broker", "5", "--data", str(tmp_path), "--port", port)
        broker.send_signal(signal.SIGINT)
        assert broker.wait(10) == 0
    assert (shown["broker"], shown["pid"]) == (4, broker.pid)
    assert {name: configs[name].value for name in PROFILES["test"]} == PROFILES["test"]
    assert (again.returncode, "in use" in again.stderr) == (DISK_EXIT, True)
    assert f"port {port} is already in use" in taken.stderr
    assert "Traceback" not in (tmp_path / "errors").read_text()


def test_unknown_log_level_is_refused_by_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards: the broker's log had a traceback of Python's logging, and `up` only an exit code."""
    monkeypatch.setitem(ENVIRONMENT, "SYNCLINE_LOG_LEVEL", "loud")

    said = refused("up", "--data", str(tmp_path), "--brokers", "1", "--port", "0", "--detach")
    assert "the environment variable SYNCLINE_LOG_LEVEL is 'loud', but must be one of DEBUG, INFO," in said
    assert "Traceback" not in (tmp_path / "logs" / "broker-1.log").read_text()


def test_empty_log_level_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards: `SYNCLINE_LOG_LEVEL= syncline up` failed, because the empty value is not a level."""
    monkeypatch.setitem(ENVIRONMENT, "SYNCLINE_LOG_LEVEL", "")

    succeed("up", "--data", str(tmp_path), "--brokers", "1", "--port", "0", "--detach")
    succeed("down", "--data", str(tmp_path))
    assert " INFO broker-1 " in (tmp_path / "logs" / "broker-1.log").read_text()


def test_broker_may_open_as_many_files_as_its_user(tmp_path: Path) -> None:
    """A thousand written partitions need a thousand open logs; the soft limit of a shell does not end them."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    arguments = ("broker", "1", "--data", str(tmp_path), "--port", "0", "--json")
    with subprocess.Popen(
        ["sh", "-c", 'ulimit -Sn 256 && exec "$@"', "-", *command(*arguments)],
        env=ENVIRONMENT,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as broker:
        assert broker.stdout is not None
        json.loads(broker.stdout.readline())
        limit = psutil.Process(broker.pid).rlimit(psutil.RLIMIT_NOFILE)
        broker.send_signal(signal.SIGINT)

    assert limit == (hard, hard)


def supervisor_of(
    directory: Path, announce: Callable[[RunningCluster], None], serving: Mapping[int, bool], *, restart: bool = True
) -> Supervisor:
    """Return the supervisor of these brokers, of which none has a process."""
    supervisor = Supervisor(ClusterSpec(directory=directory, brokers=len(serving), restart=restart), announce)
    supervisor._layout.create()
    for broker_id, is_serving in serving.items():
        supervisor._children[broker_id] = Child(
            broker_id=broker_id,
            pid=broker_id,
            port=broker_id,
            internal_port=broker_id,
            metrics_port=None,
            started_at_s=time.monotonic(),
            ready=None,
            serving=is_serving,
        )
    return supervisor


def test_broker_that_is_killed_at_each_start_is_told_and_not_waited_for(tmp_path: Path) -> None:
    """Guards: `up` waited for ever while, say, the kernel killed one broker at each of its starts for its memory."""
    announced: list[RunningCluster] = []
    supervisor = supervisor_of(tmp_path, announced.append, {1: True, 2: False})
    for _ in range(KILLED_MAX):
        assert not announced
        supervisor._child_died(supervisor._children[2], -signal.SIGKILL)

    assert announced[0].failures == {2: "SIGKILL ended it 3 times"}
    assert supervisor._children[2].restart_at_s is not None


def test_deaths_of_a_broker_are_counted_once_the_cluster_is_up(tmp_path: Path) -> None:
    """Guards: a broker that died again and again under load left no trace but its changing process id."""
    supervisor = supervisor_of(tmp_path, lambda _: None, {1: True, 2: True})
    supervisor._announce_if_settled()
    before_ms = time.time_ns() // 1_000_000
    supervisor._child_died(supervisor._children[2], -signal.SIGKILL)
    supervisor._children[2].failure = "no room"
    supervisor._child_died(supervisor._children[2], 1)

    deaths = json.loads(supervisor._layout.state_file.read_text())["deaths"]
    assert list(deaths) == ["2"]
    times, last_at_ms, last = deaths["2"]
    assert (times, last) == (2, "exit code 1: no room")
    assert before_ms <= last_at_ms <= time.time_ns() // 1_000_000


def test_next_process_keeps_what_is_known_of_its_broker(tmp_path: Path) -> None:
    """Its deaths and its pauses; not its failure, nor when it is due."""
    with closing(socket.socket()) as ready:
        child = supervisor_of(tmp_path, lambda _: None, {1: True})._children[1]
        child.died("SIGKILL", 5)
        child.failure = "no room"
        child.start_again_later(child.started_at_s + 1)
        following = child.next_process(pid=77, internal_port=78, ready=ready, now_s=9.0)

    assert (following.pid, following.internal_port, following.started_at_s) == (77, 78, 9.0)
    assert (following.deaths, following.restart_delay_s) == (child.deaths, 2 * RESTART_DELAY_S)
    assert (following.failure, following.restart_at_s, following.serving) == ("", None, False)


def test_brokers_that_are_all_killed_at_each_start_are_refused(tmp_path: Path) -> None:
    """Guards: with none left that could serve, `up` went on for ever."""
    supervisor = supervisor_of(tmp_path, pytest.fail, {1: False, 2: False})
    first, second = supervisor._children.values()
    for _ in range(KILLED_MAX):
        supervisor._child_died(first, -signal.SIGKILL)
    for _ in range(KILLED_MAX - 1):
        supervisor._child_died(second, -signal.SIGKILL)

    with pytest.raises(LocalClusterError, match="broker 1 could not start: SIGKILL ended it 3 times"):
        supervisor._child_died(second, -signal.SIGKILL)


def test_broker_that_serves_after_a_failed_start_counts_as_one_that_is_left(tmp_path: Path) -> None:
    """Its directory was mended while another broker was still starting, and the other one fails then."""
    announced: list[RunningCluster] = []
    supervisor = supervisor_of(tmp_path, announced.append, {1: True, 2: False})
    supervisor._children[1].start_failure = "no directory"
    supervisor._child_died(supervisor._children[2], DISK_EXIT)

    assert list(announced[0].failures) == [2]


def test_broker_that_ends_after_it_served_keeps_no_other_from_starting(tmp_path: Path) -> None:
    """Guards: a disk that failed at once ended the whole start if the other brokers were not quite ready."""
    announced: list[RunningCluster] = []
    supervisor = supervisor_of(tmp_path, announced.append, {1: True, 2: True, 3: False})
    for _ in range(KILLED_MAX):
        supervisor._children[2].serving = True
        supervisor._child_died(supervisor._children[2], 1)
        assert supervisor._children[2].restart_at_s is not None
    assert not announced
    supervisor._children[3].serving = True
    supervisor._announce_if_settled()

    assert announced[0].failures == {2: "it had served, but ended with exit code 1 3 times"}


def test_broker_that_is_killed_at_its_start_is_refused_if_none_is_started_again(tmp_path: Path) -> None:
    """Guards: `up --no-restart` went on waiting for a broker that nobody started again."""
    supervisor = supervisor_of(tmp_path, pytest.fail, {1: True, 2: False}, restart=False)

    with pytest.raises(LocalClusterError, match="broker 2 could not start: it ended with SIGKILL"):
        supervisor._child_died(supervisor._children[2], -signal.SIGKILL)
