"""Sessions start with what an earlier one left, and tell the processes of Spark how many tasks run at once."""

import os
from pathlib import Path

import pytest

from syncline.pipeline.session import class_archive_options, environment_of
from syncline.pipeline.slots import Slots, leave_note, noted_slots, slots_of_master


def test_driver_of_a_cluster_gives_executors_an_address_of_its_own() -> None:
    """Guards: 0.0.0.0 means any address, and on an executor that is the executor itself."""
    assert environment_of("local[2]") == {"SPARK_LOCAL_IP": "127.0.0.1"}
    assert environment_of("spark://host:7077") == {}


def test_first_session_leaves_an_archive_and_the_next_one_takes_it(tmp_path: Path) -> None:
    """Guards: the class-data archive is made once; a session for tests uses one and leaves none."""
    home, cache = tmp_path / "java", tmp_path
    told = class_archive_options(home, cache, leave=True)
    archive = Path(told.partition("-XX:ArchiveClassesAtExit=")[2].partition('"')[0])

    assert archive.parent == cache
    assert class_archive_options(home, cache, leave=False) == ""
    archive.touch()
    for leave in (True, False):
        assert f'"-XX:SharedArchiveFile={archive}"' in class_archive_options(home, cache, leave=leave)


def test_an_archive_is_for_one_version_of_java(tmp_path: Path) -> None:
    """After an update of Java in its place the classes are archived anew."""
    home = tmp_path / "java"
    home.mkdir()
    before = class_archive_options(home, tmp_path, leave=True)
    (home / "release").write_text('JAVA_VERSION="17.0.16"')

    assert class_archive_options(home, tmp_path, leave=True) != before


@pytest.mark.parametrize(
    ("master", "expected"),
    [
        ("local[3]", Slots(3)),
        ("local[2,4]", Slots(2)),
        ("local[*]", Slots(os.cpu_count() or 2)),
        ("spark://somewhere:7077", Slots(os.cpu_count() or 2, is_guess=True)),
    ],
)
def test_slots_are_told_through_the_environment(monkeypatch: pytest.MonkeyPatch, master: str, expected: Slots) -> None:
    """What a local master says is known where queries are planned; of a cluster there is a guess."""
    monkeypatch.setenv("SYNCLINE_SPARK_SLOTS", "99")

    leave_note(master)

    assert slots_of_master(master) == noted_slots() == expected
