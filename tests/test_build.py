"""What `SYNCLINE_COMPILE` asks of the build, and what the build says when it cannot do that."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("setuptools")
ROOT = Path(__file__).resolve().parent.parent


def built(tmp_path: Path, command: str, **environment: str) -> tuple[int, str]:
    """Return the exit code and what a command of setup.py wrote."""
    shutil.copy(ROOT / "setup.py", tmp_path)
    ran = subprocess.run(
        [sys.executable, "setup.py", command],
        cwd=tmp_path,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    return ran.returncode, ran.stdout + ran.stderr


def test_mypy_that_compiles_is_the_one_that_checks() -> None:
    """Another release of either would see other types."""
    compiles = re.search(r'^MYPY = "(mypy==[^"]+)"$', (ROOT / "setup.py").read_text(), re.MULTILINE)
    checks = re.search(r"^mypy==.+$", (ROOT / "requirements" / "dev.txt").read_text(), re.MULTILINE)

    assert compiles is not None
    assert checks is not None
    assert compiles[1] == checks[0]


@pytest.mark.parametrize("value", ["", "0", " 0 "])
def test_plain_build_asks_for_no_compiler(tmp_path: Path, value: str) -> None:
    """Whatever `CC` is."""
    code, said = built(tmp_path, "--name", SYNCLINE_COMPILE=value, CC="/nonexistent/cc")

    assert code == 0, said


@pytest.mark.parametrize(
    ("value", "compiler", "command", "named"),
    [
        ("yes", "cc", "--name", "'yes'"),
        ("1", "/nonexistent/cc", "--name", "/nonexistent/cc"),
        (" 1 ", "/nonexistent/cc -O1", "--name", "/nonexistent/cc"),
        ("1", sys.executable, "editable_wheel", "editable"),
    ],
)
def test_what_cannot_be_compiled_is_named_at_once(
    tmp_path: Path, value: str, compiler: str, command: str, named: str
) -> None:
    """In one line, before anything is translated; no plain build instead."""
    code, said = built(tmp_path, command, SYNCLINE_COMPILE=value, CC=compiler)

    assert code == 1
    assert named in said
    assert len(said.strip().splitlines()) == 1
    assert sorted(each.name for each in tmp_path.iterdir()) == ["setup.py"]
