"""Spark's Python processes run the PySpark that is installed, and everything else stays on their path."""

import os
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest

from syncline.pipeline import python_processes
from syncline.pipeline.python_processes import python_command

ZIP = Path(pyspark.__file__).parent / "python" / "lib" / "pyspark.zip"


def _imported(command: str, path: list[Path]) -> list[str]:
    """Return where a process finds PySpark, and its environment's path, as Spark would start it."""
    shown = subprocess.run(
        [command, "-c", "import os, pyspark; print(pyspark.__file__); print(os.environ['PYTHONPATH'])"],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, path))},
        capture_output=True,
        text=True,
        check=True,
    )
    return shown.stdout.splitlines()


def test_processes_do_not_compile_the_copy(tmp_path: Path) -> None:
    """Guards: half a second of CPU time for each process. Spark's own way would find the zip file."""
    (tmp_path / "with *, and blanks").mkdir()
    path = [ZIP, tmp_path / "with *, and blanks", ZIP.parent, tmp_path]

    place, left = _imported(python_command(tmp_path / "cache"), path)

    assert place == pyspark.__file__
    assert left == os.pathsep.join(map(str, (path[1], path[3])))
    assert ".zip" in _imported(sys.executable, path)[0]


def test_script_is_written_once_and_is_the_only_file(tmp_path: Path) -> None:
    """Sessions that start at once find the same script, never half of one."""
    first = python_command(tmp_path)
    written_ns = Path(first).stat().st_mtime_ns

    assert python_command(tmp_path) == first
    assert Path(first).stat().st_mtime_ns == written_ns
    assert list(tmp_path.iterdir()) == [Path(first)]


def test_other_installations_keep_the_interpreter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A PySpark of a Spark distribution may be found by nothing but Spark's own path; a cache may be read-only."""
    blocked = tmp_path / "file"
    blocked.touch()
    assert python_command(blocked) == sys.executable
    monkeypatch.setattr(python_processes.pyspark, "__file__", "/opt/spark/python/pyspark/__init__.py")
    assert python_command(tmp_path) == sys.executable


@pytest.mark.spark
@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_workers_of_a_session_run_the_installed_one(spark) -> None:
    """What the session chose reaches the tasks."""

    def place(_):
        import pyspark as found

        return [found.__file__]

    assert spark.sparkContext.parallelize([1], 1).mapPartitions(place).collect() == [pyspark.__file__]
