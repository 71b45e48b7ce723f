"""Standard output that takes nothing more: a full disk behind it, or nothing at all."""

import os
import subprocess
from pathlib import Path

import pytest

from tests.cli.terminal import ENVIRONMENT, command

FULL = Path("/dev/full")


# Python with buffers, as at a terminal: then output fails when the command is over.
BUFFERED = {name: value for name, value in ENVIRONMENT.items() if name != "PYTHONUNBUFFERED"}
ENVIRONMENTS = [
    pytest.param(BUFFERED, id="buffered"),
    pytest.param({**ENVIRONMENT, "PYTHONUNBUFFERED": "1"}, id="at once"),
]


@pytest.mark.skipif(not FULL.exists(), reason="needs /dev/full")
@pytest.mark.parametrize("environment", ENVIRONMENTS)
@pytest.mark.parametrize("arguments", [("--help",), ("lab", "list", "--json")], ids=" ".join)
def test_full_disk_behind_the_output_is_one_sentence(arguments: tuple[str, ...], environment: dict[str, str]) -> None:
    """Guards: it was called an internal error, or Python printed its own two lines and exited with 120."""
    with FULL.open("w") as full:
        ran = subprocess.run(
            command(*arguments), env=environment, stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )

    assert ran.stderr == "syncline: cannot write the output, or a file: No space left on device.\n"
    assert ran.returncode == 1


@pytest.mark.parametrize("environment", ENVIRONMENTS)
def test_reader_that_is_gone_before_the_end_gets_no_message(environment: dict[str, str]) -> None:
    """Guards: of output that fits into a buffer, `| true` printed "Exception ignored ... BrokenPipeError"."""
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w") as closed:
        ran = subprocess.run(
            command("lab", "list"), env=environment, stdout=closed, stderr=subprocess.PIPE, text=True, check=False
        )

    assert (ran.returncode, ran.stderr) == (1, "")


def test_closed_output_is_no_error() -> None:
    """Guards: with `>&-` there is no object for the output, and asking whether it is a terminal failed."""
    line = ["sh", "-c", 'exec "$@" >&-', "sh", *command("lab", "list")]
    ran = subprocess.run(line, env=ENVIRONMENT, stderr=subprocess.PIPE, text=True, check=False)

    assert (ran.returncode, ran.stderr) == (0, "")
