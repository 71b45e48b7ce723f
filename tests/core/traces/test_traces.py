"""Every golden trace comes out as it is written."""

import difflib
from pathlib import Path

import pytest

from .script import ScriptError, files, play


@pytest.mark.parametrize("path", files(), ids=lambda path: path.stem)
def test_history_comes_out_as_it_is_written(path: Path) -> None:
    """The same input gives the same states and effects; `python -m tests.core.traces --write` takes over a change."""
    written = path.read_text()

    difference = "".join(
        difflib.unified_diff(written.splitlines(True), play(written).splitlines(True), path.name, "now")
    )

    assert difference == "", f"\n{difference}"


def test_a_change_of_behaviour_shows() -> None:
    """A trace whose output was edited differs from what comes of its input."""
    history = "> cluster\n> produce 1 a\n> fetch 2\n> fetch 3\n> fetch 2\n> fetch 3\n"
    played = play(history)

    assert "client: a acknowledged" in played
    assert play(played.replace("client: a acknowledged", "client: a refused")) == played


@pytest.mark.parametrize(
    "line", ["> produce 1 a", "> cluster\n> dance", "> cluster\n> fetch 9", "> cluster\n> clock -1"]
)
def test_a_line_that_cannot_be_played_is_named(line: str) -> None:
    """No cluster yet, no such command, no such broker, time that goes back."""
    with pytest.raises(ScriptError, match=r"line \d"):
        play(line)
