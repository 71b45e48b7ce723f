"""The pipeline's tests on other versions of Python and PySpark, each in an environment of its own.

    python -m tests.pipeline.versions [--only 3.12 ...] [-- PYTEST ARGUMENTS]

`make test` has Python of the developer and the newest PySpark; here are the others that users may have. An environment
is made once, in `.work/versions`, from the same pinned packages. A Python that is not here is skipped, and counted.
The command exits with 1 if a test has failed, or if nothing could be run.
"""

import argparse
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tests.saying import say

ROOT = Path(__file__).parents[3]
WORK = ROOT / ".work" / "versions"
TESTS = ("tests/pipeline",)
PROCESSES = 2


class Pair(NamedTuple):
    """One environment."""

    python: str
    pyspark: str

    def __str__(self) -> str:
        return f"Python {self.python}, PySpark {self.pyspark}"


PAIRS = (Pair("3.11", "4.2.0"), Pair("3.12", "4.3.0"), Pair("3.13", "4.2.0"), Pair("3.13", "4.3.0"))


def pythons(version: str) -> Iterator[str]:
    """Yield the interpreters of a version that may be there: those on the path, then those of pyenv."""
    found = shutil.which(f"python{version}")
    if found:
        yield found
    yield from map(str, sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/python{version}")))


def interpreter(version: str) -> str | None:
    """Return an interpreter that starts; pyenv leaves links of versions that are not chosen."""
    for each in pythons(version):
        ran = subprocess.run([each, "--version"], capture_output=True, text=True, check=False)
        if ran.returncode == 0 and ran.stdout.startswith(f"Python {version}."):
            return each
    return None


def requirements(pair: Pair) -> str:
    """Return all pinned packages, with another PySpark."""
    texts = [(ROOT / "requirements" / name).read_text() for name in ("base.txt", "spark.txt", "dev.txt")]
    lines = [line for text in texts for line in text.splitlines() if line and not line.startswith(("#", "-r"))]
    return "\n".join(re.sub(r"^pyspark==.*", f"pyspark=={pair.pyspark}", line) for line in lines) + "\n"


def environment(pair: Pair, python: str) -> Path:
    """Return the interpreter of the environment of a pair; made anew if other packages are wanted."""
    directory = WORK / f"{pair.python}-{pair.pyspark}"
    wanted = requirements(pair)
    made = directory / "requirements.txt"
    inner = directory / "bin" / "python"
    if made.exists() and made.read_text() == wanted:
        return inner
    shutil.rmtree(directory, ignore_errors=True)
    say(f"{pair}: setting up")
    subprocess.run([python, "-m", "venv", directory], check=True)
    listed = directory / "wanted.txt"
    listed.write_text(wanted)
    pip = [inner, "-m", "pip", "install", "-q", "--disable-pip-version-check"]
    subprocess.run([*pip, "-r", listed], check=True)
    subprocess.run([*pip, "--no-deps", "-e", ROOT], check=True)
    listed.replace(made)
    return inner


def main() -> int:
    """Run all, and return 1 if any has failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", metavar="PYTHON", default=[], help="these versions of Python")
    parser.add_argument("rest", nargs="*", help="for pytest")
    asked = parser.parse_args()
    failed, skipped, passed = [], [], []
    for pair in PAIRS:
        if asked.only and pair.python not in asked.only:
            continue
        python = interpreter(pair.python)
        if python is None:
            skipped.append(pair)
            say(f"{pair}: skipped, as there is no Python {pair.python} here")
            continue
        command = [environment(pair, python), "-m", "pytest", "-n", str(PROCESSES), "-p", "no:cacheprovider"]
        say(f"{pair}:")
        ran = subprocess.run([*command, *asked.rest, *TESTS], cwd=ROOT, check=False)
        (failed if ran.returncode else passed).append(pair)
    say(f"{len(passed)} passed, {len(failed)} failed, {len(skipped)} skipped")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
