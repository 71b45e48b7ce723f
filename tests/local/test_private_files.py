"""Files that only their user may read, and the secret among them."""

import os
import stat
import threading
from pathlib import Path

import pytest

from syncline.coordination.sqlite import SqliteCoordination
from syncline.local.control import Control, ControlError, controls
from syncline.local.control_secret import FILE_NAME, ensure_secret, read_secret
from syncline.local.layout import Layout, LocalClusterError, RunningCluster
from syncline.local.private_files import tighten
from syncline.storage.machine.real_disk import RealDisk


def mode(path: Path) -> int:
    """Return the permissions of a file or directory."""
    return stat.S_IMODE(path.stat().st_mode)


def readable_by_others(directory: Path) -> list[Path]:
    """Return what other users may read or enter, the directory itself included."""
    return [path for path in (directory, *directory.rglob("*")) if mode(path) & 0o077]


@pytest.fixture
def _generous() -> object:
    """A umask that forbids nothing: what is private then is private by intention."""
    before = os.umask(0)
    yield
    os.umask(before)


@pytest.mark.usefixtures("_generous")
def test_new_directory_is_private_whatever_the_umask(tmp_path: Path) -> None:
    """Each way of writing a file there names its mode."""
    layout = Layout(tmp_path / "deep" / "data")
    layout.create()
    layout.lock().close()
    layout.remember_ports({1: 9092})
    layout.remember_metrics_ports({1: 9000})
    layout.write_running(
        RunningCluster(supervisor_pid=1, bootstrap="", broker_pids={}, client_ports={}, started_at_ms=0)
    )
    SqliteCoordination(layout.directory, lambda *_: None).close()
    disk = RealDisk(lambda *_: None)
    logs = str(layout.broker_directory(1))
    disk.make_directory(f"{logs}/t-0")
    disk.open(f"{logs}/t-0/0.log", create=True).close()
    disk.replace_file(f"{logs}/meta.properties", b"version=1")
    disk.lock(f"{logs}/.lock").release()
    disk.close()

    assert readable_by_others(layout.directory) == []
    assert len(list(layout.directory.rglob("*"))) >= 12


def former(directory: Path) -> Path:
    """Make a data directory as a former version left it."""
    partition = directory / "broker-1" / "t-0"
    partition.mkdir(parents=True)
    (directory / "logs").mkdir()
    for file in (
        partition / "0.log",
        directory / "broker-1" / "meta.properties",
        directory / "cluster.db",
        directory / "cluster.db-wal",
        directory / "lease-7.lock",
        directory / "logs" / "broker-1.log",
    ):
        file.touch()
    for path in (directory, *directory.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)
    return directory


def test_directory_of_a_former_version_is_tightened_at_the_start(tmp_path: Path) -> None:
    """What is executable by its user stays so; only others lose."""
    directory = former(tmp_path / "data")
    Layout(directory).create()

    assert readable_by_others(directory) == []
    assert mode(directory / "broker-1") == 0o700
    assert mode(directory / "broker-1" / "t-0" / "0.log") == 0o600


def test_tightening_leaves_alone_what_is_not_ours(tmp_path: Path) -> None:
    """A user who names a directory with other things in it keeps these, and the way to them."""
    directory = former(tmp_path / "home")
    (directory / "public.txt").touch(0o644)
    (directory / "public.txt").chmod(0o644)
    elsewhere = former(tmp_path / "elsewhere")
    (directory / "broker-2").symlink_to(elsewhere / "broker-1")
    (directory / "broker-1" / "link").symlink_to(directory / "public.txt")
    tighten(directory)

    assert (mode(directory), mode(directory / "public.txt")) == (0o755, 0o644)
    assert readable_by_others(directory / "broker-1") == [directory / "broker-1" / "link"]
    assert readable_by_others(directory / "logs") == []
    # A broker's directory may be on another disk.
    assert readable_by_others(elsewhere / "broker-1") == []
    assert mode(elsewhere / "cluster.db") == 0o644


def test_tightening_that_was_interrupted_is_done_at_the_next_start(tmp_path: Path) -> None:
    """A directory becomes private after what is in it."""
    directory = former(tmp_path / "data")
    (directory / "broker-1" / "t-0").chmod(0o700)
    directory.chmod(0o700)
    tighten(directory)

    assert readable_by_others(directory) == []


def test_secret_is_made_once_and_by_one_process(tmp_path: Path) -> None:
    """Brokers that start at the same time agree on it."""
    assert read_secret(tmp_path) is None
    found: list[str] = []
    threads = [threading.Thread(target=lambda: found.append(ensure_secret(tmp_path))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(set(found)) == 1
    assert len(found[0]) == 64
    assert found[0] == read_secret(tmp_path) == ensure_secret(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [FILE_NAME]
    assert mode(tmp_path / FILE_NAME) == 0o600


@pytest.mark.parametrize("content", [b"", b"\n", b"\xff\xfe", b"\0" * 64])
def test_damaged_secret_is_replaced(tmp_path: Path, content: bytes) -> None:
    """An empty secret would be one that everyone knows."""
    (tmp_path / FILE_NAME).write_bytes(content)

    assert len(ensure_secret(tmp_path)) == 64


def test_directory_that_this_user_may_not_read_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It would be wrong that no cluster is running, and a traceback no help."""
    layout = Layout(tmp_path)

    def denied(path: Path, *_: object, **__: object) -> str:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "read_text", denied)
    monkeypatch.setattr(Path, "read_bytes", denied)
    with pytest.raises(LocalClusterError, match=r"cannot read .*cluster\.json: Permission denied.* run this as that"):
        layout.running()
    with pytest.raises(LocalClusterError, match=r"cannot read .*control\.secret: Permission denied"):
        layout.control_secret()
    with pytest.raises(LocalClusterError, match="Permission denied"):
        controls(tmp_path)
    assert issubclass(ControlError, LocalClusterError)
    assert "secret" not in repr(Control("127.0.0.1", 1, secret="hush"))
