"""Help: it lists and explains every command and its arguments."""

import errno
import os
from pathlib import Path

import pytest

from tests.cli.terminal import USAGE, refusal, refused, succeed

COMMANDS = {
    (): {
        "up",
        "down",
        "status",
        "broker",
        "produce",
        "consume",
        "demo",
        "why",
        "isr",
        "pipeline",
        "lag",
        "cache",
        "topics",
        "groups",
        "configs",
        "fault",
        "check",
        "lab",
        "reassign",
        "throttle",
    },
    ("reassign",): {"generate", "execute", "verify", "cancel", "list", "plan", "status", "resume", "report"},
    ("throttle",): {"show", "set", "clear", "explain"},
    ("topics",): {"create", "list", "describe", "delete", "alter", "elect-leaders"},
    ("groups",): {"list", "describe", "delete", "reset-offsets"},
    ("configs",): {"describe", "alter"},
    ("fault",): {"add", "list", "clear"},
    ("lab",): {"list", "run"},
}


@pytest.mark.parametrize("path", COMMANDS, ids=lambda path: " ".join(path) or "syncline")
def test_help_lists_every_command_in_one_line_each(path: tuple[str, ...]) -> None:
    """The help lists every command, and truncates no explanation."""
    listed = succeed(*path, "--help").partition("Commands:")[2]
    rows = dict(line.split(maxsplit=1) for line in listed.splitlines() if line.startswith("  "))
    assert rows.keys() == COMMANDS[path]
    assert not [text for text in rows.values() if text.endswith("...")]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (
            ("up",),
            ("--brokers", "--data", "--port", "--config", "--profile", "--detach", "--ready-file", "--no-restart"),
        ),
        (("broker",), ("Id of this broker", "--data", "--port", "--config", "--profile")),
        (("produce",), ("Name of the topic", "--key-separator", "--header", "--json-input", "--bootstrap")),
        (("consume",), ("Name of the topic", "--from", "--until", "--group", "--keys", "--json")),
        (("why",), ("Partition to explain", "--replica", "--since", "--bootstrap", "--json")),
        (("isr",), ("Show only this topic", "--watch", "--json")),
        (("groups", "delete"), ("Ids of the groups", "must have no members", "--bootstrap", "--json")),
        (("groups", "reset-offsets"), ("Id of the group", "--to", "--execute", "--json")),
    ],
    ids=lambda value: " ".join(value)[:20],
)
def test_help_explains_options_and_arguments(arguments: tuple[str, ...], words: tuple[str, ...]) -> None:
    """The help of a command explains each option and argument; `-h` is `--help`."""
    shown = succeed(*arguments, "-h")
    assert [word for word in words if word not in shown] == []


def test_wrong_usage_is_exit_code_2_and_points_to_the_help() -> None:
    """An unknown command, a missing argument or an option out of range exits with 2, a failure with 1."""
    assert "No such command 'tpoics'" in refused("tpoics", code=USAGE)
    assert "Missing argument 'NAME'" in refused("topics", "create", code=USAGE)
    assert "from 1 to 64" in refused("up", "--brokers", "0", code=USAGE)
    assert "from 0 to 65535" in refused("up", "--port", "70000", code=USAGE)
    assert "takes each port once" in refused("up", "--port", "9092,9093,9092", code=USAGE)
    assert "takes ports from 0 to 65535, separated by commas" in refused("up", "--port", "9092,,9093", code=USAGE)
    assert "x>=1" in refused("consume", "t", "--limit", "0", code=USAGE)


@pytest.mark.parametrize(("unknown", "meant"), [(("statu",), "status"), (("topics", "crate"), "create")])
def test_unknown_command_is_answered_by_one_suggestion(unknown: tuple[str, ...], meant: str) -> None:
    """Guards: "Did you mean 'status'? Did you mean 'status'?", by typer and by click."""
    answer = refused(*unknown, code=USAGE)

    assert answer.count("Did you mean") == 1
    assert answer.count(repr(meant)) == 1


@pytest.mark.parametrize("arguments", [("down",), ("status",), ("isr",), ("topics", "list"), ("fault", "list")])
def test_directory_that_may_not_be_read_is_no_wrong_usage(
    arguments: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Guards: typer refused it before the command could say that it is private to the user who started the cluster."""

    def deny(*_: object, **__: object) -> str:
        raise PermissionError(errno.EACCES, "Permission denied", str(tmp_path))

    # Tests may run as root, who may read everything.
    monkeypatch.setattr(os, "access", lambda *_: False)
    monkeypatch.setattr(Path, "read_text", deny)

    assert "private to the user who started its cluster: run this as that user" in refusal(
        *arguments, "--data", str(tmp_path)
    )


def test_version_is_shown() -> None:
    """`--version` is one line with the name."""
    assert succeed("--version").startswith("syncline ")
