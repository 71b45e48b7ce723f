"""`syncline demo`, interrupted: nothing of it is left, and it prints no traceback."""

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from threading import Timer

import psutil
import pytest

from tests.cluster import ROOT
from tests.process import processes

pytestmark = pytest.mark.process

# Long enough for whatever the demonstration writes before the moment that is waited for.
REACHED_WITHIN_S = 240.0
ENDED_WITHIN_S = 60.0


@contextlib.contextmanager
def demonstration(directory: Path) -> Iterator[subprocess.Popen[str]]:
    """Start the demonstration as a terminal does, in a process group of its own; kill what is left of it."""
    data, report = directory / "data", directory / "report.html"
    started = subprocess.Popen(
        [sys.executable, "-m", "syncline", "demo", "--output", str(report), "--data", str(data)],
        env={**os.environ, "PYTHONPATH": str(ROOT / "src"), "TMPDIR": str(directory)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    watchdog = Timer(REACHED_WITHIN_S, os.killpg, [started.pid, signal.SIGKILL])
    watchdog.start()
    try:
        yield started
    finally:
        watchdog.cancel()
        with contextlib.suppress(ProcessLookupError):
            os.killpg(started.pid, signal.SIGKILL)
        started.communicate()


def running_in_group(group: int) -> list[psutil.Process]:
    """Return the processes of a process group that run: one that has ended may wait for init to notice."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(ProcessLookupError, psutil.NoSuchProcess):
            if os.getpgid(process.pid) == group and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
    return found


@pytest.mark.parametrize("moment", ["brokers are up", "acknowledged", "paused broker"])
def test_demo_leaves_nothing_behind_when_it_is_interrupted(tmp_path: Path, moment: str) -> None:
    """Ctrl-C at the start, while records flow and while a broker is stopped ends all its processes, in silence."""
    with demonstration(tmp_path) as demo:
        assert demo.stdout is not None
        assert any(moment in line for line in demo.stdout), f"never said: {moment}"
        os.killpg(demo.pid, signal.SIGINT)
        _, errors = demo.communicate(timeout=ENDED_WITHIN_S)

        assert demo.returncode == 130, errors
        assert errors == ""
        assert not running_in_group(demo.pid)
        processes.await_none(tmp_path / "data", 1)
        # Where the sentence about an internal error would have put its details.
        assert not list(tmp_path.glob("syncline-error-*"))
