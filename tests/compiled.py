"""The compiled build against the interpreted one: the same traces in virtual time, and the tests of what is compiled.

    PYTHONPATH=DIRECTORY python -m tests.compiled [--seeds 0..49] [--only traces|tests]

DIRECTORY is where the compiled build is installed (`make test-compiled` builds it). Exit code 1 if a trace differs or a
test fails. Tests that replace methods or constants are skipped, and counted (marker `interpreted`).
"""

import argparse
import os
import re
import subprocess
import sys
from pathlib import Path

import syncline
from syncline.model.compiled import is_compiled
from tests.saying import say

ROOT = Path(__file__).resolve().parent.parent
COMPILED = Path(syncline.__file__).resolve().parent.parent
PACKAGES = ("model", "core", "records", "wire", "storage", "node", "virtual", "process")
KINDS: tuple[tuple[str, ...], ...] = ((), ("--lasting",))


def digests(sources: Path, seeds: str, kind: tuple[str, ...]) -> list[str]:
    """Return a line per seed with the hash of its trace, as the build in `sources` makes it."""
    command = [sys.executable, "-m", "syncline.virtual", "run", "--seeds", seeds, "--seconds", "30", "--jobs", "2"]
    environment = {**os.environ, "PYTHONPATH": str(sources)}
    ran = subprocess.run(
        [*command, "--digests", *kind], env=environment, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=False
    )
    return sorted(line for line in ran.stdout.splitlines() if re.fullmatch(r"\S+ [0-9a-f]{32}", line.strip()))


def compare_traces(seeds: str) -> bool:
    """Return whether both builds make the same traces."""
    is_same = True
    for kind in KINDS:
        name = "lasting faults" if kind else "short faults"
        interpreted, compiled = (digests(each, seeds, kind) for each in (ROOT / "src", COMPILED))
        differing = [line for line in compiled if line not in interpreted]
        say(f"{name}: {len(interpreted)} traces, {len(differing)} of {len(compiled)} differ")
        for line in differing:
            say(f"  {line}")
        is_same &= not differing and len(interpreted) == len(compiled) == _count(seeds)
    return is_same


def _count(seeds: str) -> int:
    first, _, last = seeds.partition("..")
    return int(last or first) - int(first) + 1


def main() -> int:
    """Compare traces, and run the tests."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", default="0..49")
    parser.add_argument("--only", choices=("traces", "tests"))
    arguments, options = parser.parse_known_args()
    if not is_compiled():
        say("this is the interpreted build: `make test-compiled` builds the other one and runs this")
        return 2
    is_good = arguments.only == "tests" or compare_traces(arguments.seeds)
    if arguments.only == "traces":
        return 0 if is_good else 1
    command = [sys.executable, "-m", "pytest", "-n", "3", "-p", "no:cacheprovider", "-o", "faulthandler_timeout=120"]
    ran = subprocess.run([*command, *options, *(f"tests/{each}" for each in PACKAGES)], cwd=ROOT, check=False)
    return 0 if is_good and ran.returncode == 0 else 1


if __name__ == "__main__":
    raise SystemExit(main())
