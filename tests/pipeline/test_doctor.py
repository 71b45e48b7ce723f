"""What a job of Spark needs: each check by itself, and the command as a user runs it."""

import json
import subprocess
import sys
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path
from types import SimpleNamespace

import pytest

from syncline.pipeline.jobs import doctor
from syncline.pipeline.jobs.doctor import Finding, State


def states(findings: Iterable[Finding]) -> dict[str, State]:
    """Return the states by subject."""
    return {each.subject: each.state for each in findings}


def script(directory: Path, text: str) -> str:
    """Return a program that a task of Spark's would be started with."""
    file = directory / "python"
    file.write_text(f"#!/bin/sh\n{text}\n")
    file.chmod(0o755)
    return str(file)


def test_this_machine_serves(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else these tests would not run."""
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    found = states(doctor.examine(options={}, with_spark=False))

    assert {found[each] for each in ("python", "pyspark", "pyarrow", "numpy", "pandas", "protobuf")} == {State.OK}
    assert found["workers"] is State.OK
    assert {"java", "host", "room"} < found.keys()


def test_numbers_have_the_right_noun() -> None:
    """A new cluster has one topic, not "1 topics"."""
    assert (doctor._counted(1, "topic"), doctor._counted(3, "broker")) == ("1 topic", "3 brokers")


@pytest.mark.parametrize(
    ("version", "state"), [((3, 10, 1), State.FAILED), ((3, 13, 0), State.OK), ((3, 15, 0), State.WARNING)]
)
def test_python_is_of_a_version_that_is_tested(
    monkeypatch: pytest.MonkeyPatch, version: tuple[int, ...], state: State
) -> None:
    """An older one fails, a newer one is tried."""
    monkeypatch.setattr(doctor.sys, "version_info", version)

    assert [each.state for each in doctor.python()] == [state]


@pytest.mark.parametrize(
    ("version", "state"), [("4.1.9", State.FAILED), ("4.2.0", State.OK), ("4.4.0", State.FAILED), (None, State.FAILED)]
)
def test_package_is_of_a_version_that_serves(
    monkeypatch: pytest.MonkeyPatch, version: str | None, state: State
) -> None:
    """Both bounds, and a package that is not there; each says how it is had."""
    original = metadata.version

    def of(name: str) -> str:
        if name != "pyspark":
            return original(name)
        if version is None:
            raise metadata.PackageNotFoundError(name)
        return version

    monkeypatch.setattr(doctor.metadata, "version", of)
    (found,) = (each for each in doctor.packages() if each.subject == "pyspark")

    assert found.state is state
    assert ("pip install" in found.advice) == (state is State.FAILED)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('echo \'{"python": [3, 9], "pyspark": "4.3.0"}\'', "is Python 3.9"),
        (f"echo '{json.dumps({'python': sys.version_info[:2], 'pyspark': '4.0.0'})}'", "has pyspark 4.0.0"),
        ("echo ModuleNotFoundError: pyarrow >&2; exit 1", "ModuleNotFoundError: pyarrow"),
        ("exit 1", "no message"),
        ("echo hello", "does not run Python"),
        ("exit 0", "does not run Python"),
    ],
)
def test_workers_have_another_python(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, text: str, words: str) -> None:
    """A task would die without a word that a user could read."""
    monkeypatch.setenv("PYSPARK_PYTHON", script(tmp_path, text))
    (found,) = doctor.workers()

    assert found.state is State.FAILED
    assert words in found.found


def test_workers_without_a_program(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of that name."""
    monkeypatch.setenv("PYSPARK_PYTHON", "no-such-python")
    (found,) = doctor.workers()

    assert (found.state, "is not a program" in found.found) == (State.FAILED, True)


def test_room_and_host_that_do_not_serve(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A directory that is not there, and an address of another machine."""
    monkeypatch.setenv("SPARK_LOCAL_DIRS", str(tmp_path / "nowhere"))
    monkeypatch.setenv("SPARK_LOCAL_IP", "192.0.2.1")

    assert states((*doctor.room(), *doctor.host())) == {"room": State.FAILED, "host": State.FAILED}


@pytest.mark.process
def test_brokers_are_asked_and_each_address_is_tried(bootstrap: str) -> None:
    """All of them, whichever was named."""
    found = list(doctor.brokers({"bootstrap": bootstrap.split(",", maxsplit=1)[0]}))

    assert states(found) == dict.fromkeys(("brokers", "broker 1", "broker 2", "broker 3"), State.OK)
    assert all("only executors on this machine" in each.found for each in found[1:])


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"bootstrap": "localhost:1"}, "localhost:1"),
        ({"bootstrap": "localhost"}, "host:port"),
        ({"bootstrap": "localhost:1", "kafka.security.protocol": "SLS"}, "kafka.security.protocol"),
        ({"bootstrap": "localhost:1", "subscribee": "x"}, "subscribee"),
        ({"bootstrap": "localhost:1", "kafka.isolation.levle": "x"}, "kafka.isolation.level"),
    ],
)
def test_brokers_that_do_not_answer_are_named(options: dict[str, str], words: str) -> None:
    """And options that are wrong."""
    (found,) = doctor.brokers(options)

    assert found.state is State.FAILED
    assert words in found.found


def command(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the command as a user does."""
    return subprocess.run(
        [sys.executable, "-m", "syncline", "pipeline", "doctor", *arguments],
        check=False,
        capture_output=True,
        text=True,
        timeout=400,
    )


@pytest.mark.parametrize(("free", "state"), [(2 << 30, State.OK), (1 << 29, State.WARNING)])
def test_room_that_is_small_is_a_warning(monkeypatch: pytest.MonkeyPatch, free: int, state: State) -> None:
    """A shuffle may need a gigabyte."""
    monkeypatch.setattr(doctor.shutil, "disk_usage", lambda _: SimpleNamespace(free=free))

    assert states(doctor.room()) == {"room": state}


def test_no_session_is_started_where_it_would_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is above says why."""
    monkeypatch.setenv("PYSPARK_PYTHON", "no-such-python")
    last = list(doctor.examine(options={}))[-1]

    assert (last.subject, last.state) == ("session", State.WARNING)


@pytest.mark.spark
def test_session_that_hangs_is_told() -> None:
    """As one does whose master has no free core."""
    slow = doctor.session("local[1]", limit_s=0.1)

    assert slow.state is State.FAILED
    assert "no task within 0 s" in slow.found


def test_root_cause_is_the_innermost_one() -> None:
    """Of Java's stack traces; else the last error, else the last line."""
    assert doctor.root_cause("x\nCaused by: a\n  at b\nCaused by: c\n  at d\nlast") == "c"
    assert doctor.root_cause("spark ERROR one\nlast") == "spark ERROR one"
    assert doctor.root_cause("first\nlast\n") == "last"
    assert doctor.root_cause("") == "it ended without a message"


@pytest.mark.spark
@pytest.mark.process
def test_command_runs_a_task_and_ends_with_0(bootstrap: str) -> None:
    """A real session in a process of its own."""
    ran = command("--bootstrap", bootstrap, "--master", "local[1]", "--json")
    found = {each["subject"]: each for each in json.loads(ran.stdout)}

    assert ran.returncode == 0, ran.stdout
    assert found["session"]["state"] == "ok"
    assert found["brokers"]["state"] == "ok"


def test_command_says_what_to_do_and_ends_with_1() -> None:
    """For people, a line each; wrong options are refused."""
    ran = command("--bootstrap", "localhost:1", "--quick")
    wrong = [command("--quick", "--option", "x"), command("--quick", "--option", "kafka.client.id=x")]

    assert ran.returncode == 1
    lines = ran.stdout.splitlines()
    failed = next(number for number, line in enumerate(lines) if line.startswith("FAILED   brokers     "))
    assert lines[failed + 1].strip() == "-> check that they are running, and check the address"
    assert [each.returncode for each in wrong] == [1, 1]
    assert "NAME=VALUE" in wrong[0].stderr
    assert "--bootstrap" in wrong[1].stderr
