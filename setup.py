"""The build: plain sources or, with SYNCLINE_COMPILE=1, the request path compiled with mypyc.

`[tool.syncline.compile]` of pyproject.toml says which modules (docs/compiled-build.md). It takes a C compiler, and some
five minutes. Without the variable neither a compiler nor that list is used.
"""

import os
import shutil
import sys
import sysconfig
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
    if not found:
        raise SystemExit(f"pyproject.toml: [tool.syncline.compile] names {pattern}, and there is none in {SOURCES}.")
    return [each for path in found for each in (path.rglob("*.py") if path.is_dir() else (path,))]


def is_wanted() -> bool:
    """Return whether to compile; end the build with a sentence if that cannot be."""
    value = os.environ.get("SYNCLINE_COMPILE", "").strip()
    if value in ("", "0"):
        return False
    if value != "1":
        raise SystemExit(f"SYNCLINE_COMPILE is {value!r}: 1 compiles, 0 or nothing does not.")
    if "editable_wheel" in sys.argv:
        raise SystemExit("SYNCLINE_COMPILE=1 is not for editable installations: edited sources would be ignored.")
    command = (os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc").split()[0]
    if os.name == "posix" and shutil.which(command) is None:
        raise SystemExit(f"SYNCLINE_COMPILE=1 needs a C compiler, and there is no {command}; plain sources need none.")
    return True


def compiled() -> list[Extension]:
    """Translate the modules to C; the result is compiled with the package."""
    try:
        from mypyc.build import mypycify
    except ModuleNotFoundError:
        raise SystemExit(f"SYNCLINE_COMPILE=1 without build isolation needs {MYPY}: install it first.") from None
    os.environ["MYPYPATH"] = "src"
    options = ["--config-file=", "--explicit-package-bases", "--ignore-missing-imports", "--python-version=3.11"]
    return mypycify([*options, *modules()], opt_level=OPTIMISATION, debug_level="0", group_name="syncline")


def main() -> None:
    """Build what pip asks for."""
    # A wheel holds whatever is there, so also modules that are gone, and what an earlier list compiled.
    for stale in Path("build").glob("lib*"):
        shutil.rmtree(stale)
    if not is_wanted():
        setup()
    elif "egg_info" in sys.argv:
        # pip asks first what a build needs.
        setup(setup_requires=[MYPY])
    else:
        setup(ext_modules=compiled())


if __name__ == "__main__":
    main()
