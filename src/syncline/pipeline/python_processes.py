"""The command that starts Spark's Python processes: with the PySpark that is installed, not the copy in its zip file.

Spark puts `pyspark.zip` first on the path of each Python process that it starts. That file has no bytecode, so each
process compiles PySpark anew, which takes half a second of CPU time; a query that reads one topic starts nine.
The file must stay where it is: Spark looks for data sources only if it is there. So this module writes a script to the
cache directory that takes it off the path and then becomes `python`.

Where PySpark is not an installed package, or the cache directory may hold no programs, it is the interpreter itself.
"""

import hashlib
import os
import sys
import sysconfig
from pathlib import Path
from typing import Final

import py4j  # type: ignore[import-untyped]
import pyspark

_SCRIPT: Final = """\
#!/bin/sh
# Starts a Python process of Spark without the copies inside of the package pyspark, which have no bytecode.
set -f
IFS=:
kept=
for entry in $PYTHONPATH; do
    case $entry in '{package}'/*) ;; *) kept="$kept${{kept:+:}}$entry" ;; esac
done
PYTHONPATH="$kept" exec '{python}' "$@"
"""


def python_command(cache: Path) -> str:
    """Return what starts this interpreter for Spark; the script goes to `cache`."""
    if not (_is_installed(pyspark.__file__) and _is_installed(py4j.__file__)):
        return sys.executable
    text = _SCRIPT.format(python=sys.executable, package=Path(pyspark.__file__).parent)
    script = cache / f"spark-python-{hashlib.sha256(text.encode()).hexdigest()[:16]}"
    try:
        _write(script, text)
    except OSError:
        return sys.executable
    return str(script) if os.access(script, os.X_OK) else sys.executable


def _is_installed(module_file: str) -> bool:
    """Return whether every process of this interpreter finds a package, whatever its path."""
    return str(Path(module_file).parents[1]) in {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}


def _write(script: Path, text: str) -> None:
    """Write elsewhere and rename, as two sessions may start at once."""
    if script.exists():
        return
    script.parent.mkdir(parents=True, exist_ok=True)
    draft = script.with_name(f"{script.name}.{os.getpid()}")
    draft.write_text(text, encoding="utf-8")
    draft.chmod(0o755)
    draft.replace(script)
