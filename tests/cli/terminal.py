"""The `syncline` command as a user at a terminal runs it: its own process, its output and its exit code.

Long tables of refusals call the command line inside this process (`refusal`): what a refusal says does not depend
on the process, and a process of its own costs a quarter of a second.
"""

import contextlib
import io
import json
import os
import subprocess
import sys
import warnings
from typing import Any

import pytest

from syncline.local.layout import LocalClusterError
from tests.cli.forking import server
from tests.cluster import ROOT

ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
USAGE = 2


def command(*arguments: str) -> list[str]:
    """Return the command line of `syncline` with these arguments."""
    return [sys.executable, "-m", "syncline", *arguments]


# What any command may say on a busy machine: who has not answered within a second, and which broker starts slowly.
WAITS = ("syncline: no answer from ", "still waiting for ")


def messages(errors: bytes) -> str:
    """Return what a command said on standard error, but for whom it waited."""
    lines = errors.decode(errors="replace").splitlines(keepends=True)
    return "".join(each for each in lines if not each.startswith(WAITS))


def run(*arguments: str, given: str | bytes = b"", within_s: float = 30.0) -> subprocess.CompletedProcess[str]:
    """Run a command to its end, as a process of its own; fail if it prints a traceback."""
    data = given.encode() if isinstance(given, str) else given
    if arguments[:1] == ("up",):
        # What it has imported when it begins matters.
        ran = subprocess.run(
            command(*arguments), env=ENVIRONMENT, input=data, capture_output=True, timeout=within_s, check=False
        )
    else:
        ran = server(tuple(ENVIRONMENT.items())).run(arguments, data, within_s)
    shown = subprocess.CompletedProcess(
        ran.args, ran.returncode, ran.stdout.decode(errors="surrogateescape"), messages(ran.stderr)
    )
    assert "Traceback" not in shown.stderr, shown.stderr
    assert "internal error" not in shown.stderr, shown.stderr
    return shown


def succeed(*arguments: str, given: str | bytes = b"", within_s: float = 30.0) -> str:
    """Run a command that succeeds; return its output."""
    ran = run(*arguments, given=given, within_s=within_s)
    assert ran.returncode == 0, f"{arguments}: {ran.stderr}"
    return ran.stdout


def as_json(*arguments: str, given: str | bytes = b"", within_s: float = 30.0) -> Any:
    """Run a command with --json; return the parsed output."""
    return json.loads(succeed(*arguments, "--json", given=given, within_s=within_s))


def records(*arguments: str) -> list[dict[str, Any]]:
    """Run `consume --json` with these arguments; return the records."""
    return [json.loads(line) for line in succeed("consume", *arguments, "--json").splitlines()]


def refused(*arguments: str, given: str | bytes = b"", code: int = 1) -> str:
    """Run a command that fails with one sentence; return the sentence."""
    ran = run(*arguments, given=given)
    assert ran.returncode == code, (arguments, ran.returncode, ran.stderr)
    if code == 1:
        assert ran.stderr.startswith("syncline: "), ran.stderr
        assert len(ran.stderr.splitlines()) == 1, ran.stderr
    return ran.stderr


def call(*arguments: str, given: str = "") -> str:
    """Call the command line inside this process; return its output."""
    with warnings.catch_warnings():
        # typer uses what click is about to drop.
        warnings.simplefilter("ignore", DeprecationWarning)
        from syncline.cli.commands import command_line
    shown, usual = io.TextIOWrapper(io.BytesIO()), sys.stdin
    sys.stdin = io.TextIOWrapper(io.BytesIO(given.encode()))
    try:
        with contextlib.redirect_stdout(shown):
            command_line()(list(arguments), standalone_mode=False)
    finally:
        sys.stdin = usual
    shown.seek(0)
    return shown.read()


def refusal(*arguments: str, given: str = "") -> str:
    """Call a command that fails; return the sentence."""
    with pytest.raises(LocalClusterError) as caught:
        call(*arguments, given=given)
    sentence = str(caught.value)
    assert "\n" not in sentence
    return sentence
