"""The build: plain sources or, with SYNCLINE_COMPILE=1, the request path compiled with mypyc.

`[tool.syncline.compile]` of pyproject.toml says which modules (docs/compiled-build.md). It takes a C compiler, and some
four minutes. Without the variable neither a compiler nor that list is used.
"""

import os
import shutil
import tomllib
from pathlib import Path

from setuptools import Extension, setup

# The release that checks the types, too (requirements/dev.txt).
MYPY = "mypy==2.4.1"
SOURCES = Path("src", "syncline")
# More makes the build slower and the brokers no faster: they spend their time in calls of Python's C functions.
OPTIMISATION = "1"


def modules() -> list[str]:
    """Return the paths of what is compiled."""
    chosen = tomllib.loads(Path("pyproject.toml").read_text("utf-8"))["tool"]["syncline"]["compile"]
    interpreted = {path for pattern in chosen["interpreted"] for path in _expanded(pattern)}
    paths = {path for package in chosen["packages"] for path in _expanded(package)}
    return sorted(str(path) for path in paths - interpreted if path.name != "__init__.py")


def _expanded(pattern: str) -> list[Path]:
    """Return the modules that match, those of a package included."""
    found = list(SOURCES.glob(pattern))
    assert found, f"pyproject.toml: [tool.syncline.compile] names {pattern}, and there is none in {SOURCES}"
    return [each for path in found for each in (path.rglob("*.py") if path.is_dir() else (path,))]


def compiled() -> list[Extension]:
    """Translate the modules to C; the result is compiled with the package."""
    from mypyc.build import mypycify

    # A wheel holds whatever is there, so also what an earlier list compiled: Python would prefer it to the sources.
    for stale in Path("build").glob("lib.*"):
        shutil.rmtree(stale)
    os.environ["MYPYPATH"] = "src"
    options = ["--config-file=", "--explicit-package-bases", "--ignore-missing-imports", "--python-version=3.11"]
    return mypycify([*options, *modules()], opt_level=OPTIMISATION, debug_level="0", group_name="syncline")


def main() -> None:
    """Build what pip asks for."""
    if os.environ.get("SYNCLINE_COMPILE") != "1":
        setup()
        return
    try:
        extensions = compiled()
    except ModuleNotFoundError:
        # pip asks first what a build needs.
        setup(setup_requires=[MYPY])
    else:
        setup(ext_modules=extensions)


if __name__ == "__main__":
    main()
