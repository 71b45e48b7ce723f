"""A data directory: which process holds it, which brokers it knows, and which damage in it is harmless."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from syncline.local.layout import Layout, LocalClusterError, RunningCluster, is_alive, state_of

RUNNING = RunningCluster(
    supervisor_pid=os.getpid(),
    bootstrap="127.0.0.1:1,127.0.0.1:2",
    broker_pids={1: os.getpid(), 2: 4_000_000},
    client_ports={1: 1, 2: 2},
    started_at_ms=5,
)


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    """A new data directory."""
    made = Layout(tmp_path / "data")
    made.create()
    return made


def add_broker(layout: Layout, broker_id: int, cluster_id: str = "abc") -> None:
    """Leave what a broker leaves that has joined a cluster."""
    directory = layout.broker_directory(broker_id)
    directory.mkdir()
    (directory / "meta.properties").write_text(f"version=1\nnode.id={broker_id}\ncluster.id={cluster_id}\n")
    layout.metadata_file.touch()


def test_running_cluster_is_found_by_others_while_its_lock_is_held(layout: Layout) -> None:
    """The state file alone is not enough: process ids are used again."""
    layout.write_running(RUNNING)
    assert layout.running() is None
    with layout.lock():
        assert layout.running() == RUNNING
    assert layout.running() is None


def test_second_lock_names_the_running_cluster(layout: Layout) -> None:
    """The error names the running cluster, and how to stop it."""
    layout.write_running(RUNNING)
    with layout.lock(), pytest.raises(LocalClusterError, match=r"in use by a running cluster .*bootstrap.*down"):
        layout.lock()


def test_second_lock_waits_for_brokers_that_lost_their_supervisor(
    layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The command waits for them to stop; otherwise the error names their processes."""
    monkeypatch.setattr("syncline.local.layout.ORPHANS_STOP_S", 0.05)
    orphaned = {"supervisor_pid": 4_000_000, "bootstrap": "", "client_ports": {}, "started_at_ms": 0}
    layout.state_file.write_text(json.dumps({**orphaned, "broker_pids": {"1": os.getpid()}}))
    with layout.lock(), pytest.raises(LocalClusterError, match=rf"have not stopped \(process {os.getpid()}\)"):
        layout.lock()


@pytest.mark.parametrize("nonsense", ["", "{", "[]", "1", "{}", '{"supervisor_pid": "x"}', '{"broker_pids": []}', "\0"])
def test_state_and_ports_without_sense_count_as_absent(layout: Layout, nonsense: str) -> None:
    """A torn or foreign file is ignored."""
    layout.state_file.write_text(nonsense)
    layout.ports_file.write_text(nonsense)
    assert layout.running() is None
    assert layout.broker_count(None) == 3


def test_ports_of_metrics_are_remembered_beside_those_of_clients(layout: Layout) -> None:
    """Each kind in a file of its own; what makes no sense counts as absent."""
    layout.remember_ports({1: 9092})
    layout.remember_metrics_ports({1: 9404, 2: 9405})
    assert (layout.remembered_ports(), layout.remembered_metrics_ports()) == ({1: 9092}, {1: 9404, 2: 9405})
    layout.metrics_ports_file.write_text("[]")
    assert layout.remembered_metrics_ports() == {}


def test_running_cluster_knows_where_its_metrics_are(layout: Layout) -> None:
    """The ports of the brokers that have one; a state file of an earlier release has none."""
    layout.write_running(replace(RUNNING, metrics_ports={2: 9405}))
    with layout.lock():
        running = layout.running()
    assert running is not None
    assert (running.metrics_url(1), running.metrics_url(2)) == (None, "http://127.0.0.1:9405/metrics")
    fields = json.loads(layout.state_file.read_text())
    del fields["metrics_ports"]
    layout.state_file.write_text(json.dumps(fields))
    with layout.lock():
        assert layout.running() == RUNNING


def test_ports_are_remembered_but_impossible_ones(layout: Layout) -> None:
    """Remembered ports come back, except values that cannot be ports."""
    layout.remember_ports({1: 9092, 2: 9093})
    assert layout.remembered_ports() == {1: 9092, 2: 9093}
    layout.ports_file.write_text('{"1": 9092, "2": 70000, "3": 0}')
    assert layout.remembered_ports() == {1: 9092}


def test_as_many_brokers_as_last_time_or_three(layout: Layout) -> None:
    """`up` without a number finds the cluster as it was."""
    assert layout.broker_count(None) == 3
    assert layout.broker_count(1) == 1
    assert [layout.broker_count(None, ports=ports) for ports in (0, 1, 2, 4)] == [3, 3, 2, 4]
    layout.remember_ports({broker_id: 9000 + broker_id for broker_id in range(1, 6)})
    assert layout.broker_count(None) == 5


def test_fewer_brokers_than_have_data_are_refused(layout: Layout) -> None:
    """Their partitions would be without a leader; more brokers are welcome."""
    for broker_id in (1, 2, 3):
        add_broker(layout, broker_id)
    assert layout.broker_count(None) == 3
    assert layout.broker_count(5) == 5
    with pytest.raises(LocalClusterError, match=r"holds data of broker 3, which --brokers 2 would leave out"):
        layout.broker_count(2)
    with pytest.raises(LocalClusterError, match="holds data of broker 3, but --port names 2 ports\\. Name 3 ports"):
        layout.broker_count(None, ports=2)
    add_broker(layout, 100)
    with pytest.raises(LocalClusterError, match=r"`syncline broker ID`"):
        layout.broker_count(None)


def test_brokers_whose_cluster_metadata_is_missing_are_refused(layout: Layout) -> None:
    """Another cluster would take their records for strays."""
    add_broker(layout, 1, "the-first")
    layout.metadata_file.unlink()
    with pytest.raises(
        LocalClusterError, match=r"belongs to cluster the-first, whose metadata \(cluster.db\) is missing"
    ):
        layout.broker_count(None)


def test_broker_that_never_joined_holds_no_data(layout: Layout) -> None:
    """A first start that was interrupted leaves directories, and hinders nothing."""
    layout.broker_directory(3).mkdir()
    (layout.broker_directory(3) / "meta.properties").write_text("version=1\nnode.id=3\ncluster.id=\n")
    assert layout.broker_count(1) == 1


def test_file_in_the_place_of_the_directory_is_named(tmp_path: Path) -> None:
    """What is wrong, and what to do."""
    (tmp_path / "file").touch()
    for directory in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(LocalClusterError, match=r"cannot use .*Not a directory.*Choose another with --data"):
            Layout(directory).create()


def test_last_words_are_the_newest_line(layout: Layout) -> None:
    """The command shows what the brokers logged last while it waits."""
    assert layout.last_words() == ""
    (layout.logs / "broker-1.log").write_bytes(b"\xff" * 5000 + b"\nwaiting for the disk\n")
    assert layout.last_words() == "waiting for the disk"


def test_state_of_a_process_is_running_paused_or_dead() -> None:
    """A zombie counts as dead."""
    child = subprocess.Popen([sys.executable, "-c", "import os, signal; os.kill(os.getpid(), signal.SIGSTOP)"])
    os.waitid(os.P_PID, child.pid, os.WSTOPPED | os.WNOWAIT)
    assert state_of(child.pid) == "paused"
    assert is_alive(child.pid)
    child.kill()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert state_of(child.pid) == "dead"
    child.wait()
    assert not is_alive(child.pid)
    assert state_of(os.getpid()) == "running"
