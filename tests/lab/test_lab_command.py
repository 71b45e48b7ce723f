"""`syncline lab`: its list, its runs, and how it ends when it is interrupted or gets invalid arguments."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

from tests.lab.test_scenarios import processes_with
from tests.patience import until

LAB = [sys.executable, "-m", "syncline", "lab"]


def lab(*arguments: str, directory: Path) -> subprocess.CompletedProcess[str]:
    """Run the command with its temporary files in `directory`."""
    return subprocess.run(
        [*LAB, *arguments],
        capture_output=True,
        text=True,
        cwd=directory,
        env={**os.environ, "TMPDIR": str(directory)},
        timeout=200,
        check=False,
    )


def test_list_names_every_scenario_and_mode(tmp_path: Path) -> None:
    """As text, and as JSON for scripts."""
    words = lab("list", directory=tmp_path)
    rows = json.loads(lab("list", "--json", directory=tmp_path).stdout)

    assert words.returncode == 0
    assert [row["name"] for row in rows][:2] == ["data-loss", "divergence"]
    assert all(row["name"] in words.stdout and mode in words.stdout for row in rows for mode in row["modes"])


def test_run_tells_each_step_and_writes_the_picture(tmp_path: Path) -> None:
    """One mode of one scenario, with the picture at the given path."""
    done = lab("run", "data-loss", "--mode", "epoch-fetch", "--output", "picture.svg", directory=tmp_path)

    assert done.returncode == 0, done.stderr
    assert "  1. L leads, F follows" in done.stdout
    assert "as expected: m0 is on both replicas" in done.stdout
    assert (tmp_path / "picture.svg").read_text().startswith("<svg")
    assert [file.name for file in tmp_path.iterdir()] == ["picture.svg"]


def test_run_prints_json_for_scripts(tmp_path: Path) -> None:
    """Progress goes to standard error, and the outcome is one object."""
    done = lab("run", "data-loss", "--mode", "high-watermark", "--json", directory=tmp_path)
    fields = json.loads(done.stdout)

    assert done.returncode == 0
    assert fields["as_expected"] is True
    assert fields["runs"][0]["contents"] == {"1": [], "2": []}
    assert Path(fields["picture"]).name == "lab-data-loss.svg"


def test_run_says_what_there_is_when_asked_for_something_else(tmp_path: Path) -> None:
    """An unknown scenario, an unknown mode, a missing directory: one sentence each, and no broker starts."""
    for arguments, sentence in (
        (["run", "data-los"], "there is no scenario 'data-los'. Did you mean data-loss?"),
        (["run", "data-loss", "--mode", "elr-on"], "data-loss has no mode 'elr-on'. Its modes: epoch-fetch"),
        (["run", "data-loss", "--mode", "epoch-fetc"], "Did you mean epoch-fetch?"),
        (["run", "data-loss", "--output", "nowhere/picture.svg"], "cannot write nowhere/picture.svg"),
    ):
        done = lab(*arguments, directory=tmp_path)
        assert done.returncode == 1
        assert sentence in done.stderr
        assert "Traceback" not in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_an_interrupted_run_leaves_nothing_behind(tmp_path: Path) -> None:
    """Ctrl-C in the middle: the lab ends its brokers and removes their data."""
    with subprocess.Popen(
        [*LAB, "run", "zombie-leader"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    ) as running:
        assert running.stdout is not None
        for line in running.stdout:
            if line.startswith("  1."):
                break
        running.send_signal(signal.SIGINT)
        code = running.wait(30)

    assert code == 130
    assert list(tmp_path.iterdir()) == []
    assert processes_with(str(tmp_path)) == []


def test_a_killed_run_takes_its_brokers_along(tmp_path: Path) -> None:
    """SIGKILL leaves the lab no time to clean up: the keeper does it when its input ends."""
    with subprocess.Popen(
        [*LAB, "run", "zombie-leader"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    ) as running:
        assert running.stdout is not None
        for line in running.stdout:
            if line.startswith("  1."):
                break
        running.kill()

    until(
        lambda: not list(tmp_path.iterdir()) and not processes_with(str(tmp_path)),
        otherwise=lambda: f"left behind: {list(tmp_path.iterdir())}, {processes_with(str(tmp_path))}",
    )
