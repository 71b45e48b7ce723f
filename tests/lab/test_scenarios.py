"""The lab: every scenario has the expected outcome in every mode, on real brokers, and leaves nothing behind."""

import os
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from syncline.lab.picture import draw
from syncline.lab.run import NAMES, as_json, run, scenario_of
from tests.pages import check_page

RUNS = [(name, mode) for name in NAMES for mode in scenario_of(name).modes]


@pytest.mark.parametrize(("name", "mode"), RUNS, ids=lambda value: value)
def test_scenario_comes_out_as_it_must(name: str, mode: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The outcome is the expected one, the picture is well formed, and no file or process remains."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    output: list[str] = []

    story = run(scenario_of(name), mode, output.append)

    assert story.outcome.is_expected, "\n".join(output)
    assert list(tmp_path.iterdir()) == []
    assert processes_with(str(tmp_path)) == []
    page = scenario_of(name).page
    if page is not None:
        check_page(page([story]))
    picture = ET.fromstring(draw(scenario_of(name), [story]))
    words = " ".join(picture.itertext())
    assert story.outcome.text.split()[0] in words
    fields: dict[str, Any] = as_json(story)
    assert fields["as_expected"] is True
    assert [step["number"] for step in fields["steps"]] == list(range(1, len(story.steps) + 1))


def processes_with(text: str) -> list[str]:
    """Return the command lines of living processes that contain a text."""
    found = []
    for directory in Path("/proc").glob("[0-9]*"):
        try:
            line = (directory / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            state = re.sub(r".*\)", "", (directory / "stat").read_text()).split()[0]
        except OSError:
            continue
        if text in line and state != "Z" and int(directory.name) != os.getpid():
            found.append(line)
    return found
