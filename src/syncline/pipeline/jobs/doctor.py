"""What a Spark job needs of this machine and of its brokers, checked before the job fails.

Each check gives findings: what is there, whether that is suitable, and what to do if not. It never raises: an error
becomes a finding. `examine` yields them as they come, since starting Spark takes some seconds.

Units: seconds, bytes.
"""

import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from enum import StrEnum
from importlib import metadata
from pathlib import Path
from typing import Final, NamedTuple

from syncline.pipeline.errors import OptionError, PipelineError, SecurityError

PYTHONS: Final = ((3, 11), (3, 13))
# What the pipeline needs, and below which version of it: (package, from, below).
PACKAGES: Final = (
    ("pyspark", (4, 2), (4, 4)),
    ("pyarrow", (20,), None),
    ("numpy", (2,), None),
    ("pandas", (2,), (3,)),
    ("protobuf", (5,), None),
)
_FREE_BYTES_MIN: Final = 1 << 30
_WORKER_S: Final = 30.0
_CONNECT_S: Final = 3.0
_WORKER_CODE: Final = """
import json, sys
import pyarrow, pyspark, syncline.pipeline
print(json.dumps({"python": sys.version_info[:2], "pyspark": pyspark.__version__}))
"""
_UNSET: Final = "unset it, or correct it"
SESSION_S: Final = 150.0
_SESSION_CODE: Final = "import sys; from syncline.pipeline.jobs.doctor import run_task; run_task(sys.argv[1])"
_INSTALL: Final = "pip install 'syncline[spark]'"


class State(StrEnum):
    """Whether something is suitable."""

    OK = "ok"
    WARNING = "warning"
    FAILED = "failed"


class Finding(NamedTuple):
    """One thing that was checked."""

    subject: str
    state: State
    found: str
    advice: str = ""


def examine(*, options: Mapping[str, str], master: str | None = None, with_spark: bool = True) -> Iterator[Finding]:
    """Yield findings about Python, packages, Java, this host, the brokers that `options` name, and a session of Spark.

    `options` are those of the format "syncline". Without brokers among them, none are asked.
    """
    findings: list[Finding] = []
    for check in (python, packages, java, workers, host, room):
        for finding in check():
            findings.append(finding)
            yield finding
    if options:
        yield from brokers(options)
    if with_spark:
        is_hopeless = any(each.state is State.FAILED for each in findings)
        yield (
            Finding("session", State.WARNING, "not started, because the problems above would stop it")
            if is_hopeless
            else session(master)
        )


def python() -> Iterator[Finding]:
    """Yield whether this Python is suitable."""
    here = sys.version_info[:2]
    found = f"{'.'.join(map(str, sys.version_info[:3]))}, {sys.executable}"
    if PYTHONS[0] <= here <= PYTHONS[1]:
        yield Finding("python", State.OK, found)
    elif here < PYTHONS[0]:
        yield Finding("python", State.FAILED, found, "use Python 3.11 to 3.13")
    else:
        yield Finding("python", State.WARNING, found, "the pipeline is tested with Python 3.11 to 3.13")


def packages() -> Iterator[Finding]:
    """Yield which packages are there."""
    for name, least, below in PACKAGES:
        bounds = f"{_text(least)} or later" + (f", below {_text(below)}" if below else "")
        try:
            version = metadata.version(name)
        except metadata.PackageNotFoundError:
            yield Finding(name, State.FAILED, "not installed", _INSTALL)
            continue
        numbers = tuple(int(part) for part in version.split(".")[:2] if part.isdigit())
        if least <= numbers and (below is None or numbers < below):
            yield Finding(name, State.OK, version)
        else:
            yield Finding(name, State.FAILED, version, f"{bounds} is needed: {_INSTALL}")


def java() -> Iterator[Finding]:
    """Yield which Java Spark would run on."""
    from syncline.pipeline.java import JavaNotFoundError, java_home, java_version
    from syncline.pipeline.session import cache_directory

    try:
        home = java_home(cache_directory())
    except JavaNotFoundError as error:
        yield Finding("java", State.FAILED, "none that is suitable", str(error))
    except OSError as error:
        yield Finding("java", State.FAILED, str(error), "make the cache directory writable, or set XDG_CACHE_HOME")
    else:
        yield Finding("java", State.OK, f"{_text(java_version(home / 'bin' / 'java'))}, {home}")


def workers() -> Iterator[Finding]:
    """Yield whether the Python that Spark would start for tasks has what tasks import."""
    named = os.environ.get("PYSPARK_PYTHON")
    if not named:
        yield Finding("workers", State.OK, "this Python, because PYSPARK_PYTHON is not set")
        return
    command = shutil.which(named)
    if command is None:
        yield Finding("workers", State.FAILED, f"PYSPARK_PYTHON={named} is not a program", _UNSET)
        return
    found = f"PYSPARK_PYTHON={named}"
    try:
        ran = subprocess.run(  # noqa: S603 - what Spark itself would start
            [command, "-c", _WORKER_CODE], capture_output=True, text=True, timeout=_WORKER_S, check=False
        )
    except (OSError, subprocess.SubprocessError) as error:
        yield Finding("workers", State.FAILED, f"{found} does not start: {error}", _UNSET)
        return
    if ran.returncode:
        last = (ran.stderr.strip() or "no message").splitlines()[-1]
        yield Finding("workers", State.FAILED, f"{found}: {last}", f"install there what tasks import: {_INSTALL}")
        return
    try:
        theirs = json.loads(ran.stdout.strip().splitlines()[-1])
        version = _text(theirs["python"])
    except (ValueError, LookupError, TypeError):
        yield Finding(
            "workers", State.FAILED, f"{found} does not run Python: it prints {ran.stdout.strip()[-80:]!r}", _UNSET
        )
        return
    if tuple(theirs["python"]) != sys.version_info[:2]:
        advice = "Spark refuses workers whose minor version differs from the driver's: use the same"
        yield Finding("workers", State.FAILED, f"{found} is Python {version}", advice)
    elif theirs["pyspark"] != metadata.version("pyspark"):
        yield Finding("workers", State.FAILED, f"{found} has pyspark {theirs['pyspark']}", "install the same version")
    else:
        yield Finding("workers", State.OK, f"{found}, Python {version}")


def host() -> Iterator[Finding]:
    """Yield whether this host knows its own address, which Spark's driver sends to its executors."""
    name = socket.gethostname()
    advice = "write the name into /etc/hosts, or set SPARK_LOCAL_IP (spark_session does, for a local master)"
    try:
        address = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)[0][4][0]
    except OSError as error:
        yield Finding("host", State.WARNING, f"{name} has no address: {error}", advice)
        return
    wanted = os.environ.get("SPARK_LOCAL_IP", str(address))
    try:
        with socket.create_server((wanted, 0), family=socket.AF_INET6 if ":" in wanted else socket.AF_INET):
            pass
    except OSError as error:
        yield Finding("host", State.FAILED, f"cannot listen at {wanted}: {error}", advice)
        return
    is_loopback = wanted.startswith("127.") or wanted == "::1"
    yield Finding(
        "host", State.OK, f"{name}, {wanted}" + (", so executors on other machines cannot reach it" * is_loopback)
    )


def room() -> Iterator[Finding]:
    """Yield whether there is room for what Spark spills and shuffles."""
    place = Path(os.environ.get("SPARK_LOCAL_DIRS", tempfile.gettempdir()).split(",")[0])
    try:
        free = shutil.disk_usage(place).free
        with tempfile.TemporaryFile(dir=place):
            pass
    except OSError as error:
        yield Finding("room", State.FAILED, str(error), "set SPARK_LOCAL_DIRS to a directory that can be written to")
        return
    state = State.OK if free >= _FREE_BYTES_MIN else State.WARNING
    advice = "" if state is State.OK else "shuffles may fill it: set SPARK_LOCAL_DIRS to a larger disk"
    yield Finding("room", state, f"{free / 1e9:.1f} GB free in {place}", advice)


def brokers(options: Mapping[str, str]) -> Iterator[Finding]:
    """Yield whether brokers answer, and whether the addresses that they name can be reached from here."""
    from syncline.pipeline.client.cluster import Cluster
    from syncline.pipeline.client.security_options import security
    from syncline.pipeline.client.settings import ClientSettings
    from syncline.pipeline.options.bootstrap import bootstrap

    try:
        _check_names(options)
        settings = ClientSettings(bootstrap(options), client_id="syncline-doctor", security=security(options))
        with Cluster(settings) as cluster:
            topics = cluster.describe(None)
            addresses = cluster.whereabouts(()).brokers
    except PipelineError as error:
        yield Finding("brokers", State.FAILED, str(error), _advice(error))
        return
    count = sum(not topic.is_internal for topic in topics.values())
    yield Finding(
        "brokers",
        State.OK,
        f"{settings.bootstrap_text} answers: {_counted(len(addresses), 'broker')}, {_counted(count, 'topic')}",
    )
    for number, (name, port) in sorted(addresses.items()):
        subject, found = f"broker {number}", f"advertised as {name}:{port}"
        try:
            with socket.create_connection((name, port), timeout=_CONNECT_S) as connection:
                there = connection.getpeername()[0]
        except OSError as error:
            advice = "every executor connects there: correct the brokers' advertised.listeners, or the network"
            yield Finding(subject, State.FAILED, f"{found}, which cannot be reached: {error}", advice)
            continue
        is_local = there.startswith("127.") or there == "::1"
        note = ", so only executors on this machine reach it" if is_local else ""
        yield Finding(subject, State.OK, found + note)


def _check_names(options: Mapping[str, str]) -> None:
    """Raise OptionError for an option that neither tells how to reach brokers nor configures Kafka's consumers."""
    from syncline.pipeline.client.security_options import is_security_option
    from syncline.pipeline.options import kafka_names
    from syncline.pipeline.options.names import KAFKA, check_kafka

    for name in options:
        if name.startswith(KAFKA):
            check_kafka(name, "consumers", kafka_names.READER, ())
        elif name != "bootstrap" and not is_security_option(name):
            raise OptionError(
                f"option {name} does not tell how to reach brokers; the doctor takes only kafka.* and oauth*"
            )


def _advice(error: PipelineError) -> str:
    if isinstance(error, SecurityError):
        return "see docs/pipeline.md, encryption and authentication"
    return (
        "correct the option" if isinstance(error, OptionError) else "check that they are running, and check the address"
    )


def session(master: str | None, limit_s: float = SESSION_S) -> Finding:
    """Return whether a session starts, and a task runs Python with Arrow: in a process of its own, which may hang."""
    where = master or "local[*]"
    command = [sys.executable, "-c", _SESSION_CODE, where]
    try:
        ran = subprocess.run(command, capture_output=True, text=True, timeout=limit_s, check=False)  # noqa: S603
    except subprocess.TimeoutExpired:
        found = f"Spark at {where} ran no task within {limit_s:.0f} s"
        return Finding("session", State.FAILED, found, "check that the master has workers with a free core")
    if ran.returncode:
        return Finding("session", State.FAILED, f"Spark at {where}: {root_cause(ran.stderr)}", "fix what it names")
    version, started_s, task_s = json.loads(ran.stdout.strip().splitlines()[-1])
    return Finding(
        "session", State.OK, f"Spark {version} at {where}: {started_s:.1f} s to start, {task_s:.1f} s a task"
    )


def root_cause(log: str) -> str:
    """Return the most informative line of a failed session's output: the innermost cause, or the last error."""
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    for marks in (("Caused by: ",), ("ERROR", "unresponsive")):
        causes = [line for line in lines if any(mark in line for mark in marks)]
        if causes:
            return causes[-1].removeprefix("Caused by: ")
    return lines[-1] if lines else "it ended without a message"


def run_task(master: str) -> None:
    """Start a session, run a task, and print Spark's version, and the seconds of both."""
    from syncline.pipeline.session import spark_session

    began_s = time.monotonic()
    spark = spark_session(name="syncline doctor", master=master)
    started_s = time.monotonic()
    try:
        rows = spark.range(1).mapInArrow(_same, "id bigint").collect()
        assert len(rows) == 1, f"a task of one row returned {len(rows)}"
        figures = (spark.version, started_s - began_s, time.monotonic() - started_s)
    finally:
        spark.stop()
    sys.stdout.write(json.dumps(figures) + "\n")


def _same(batches: Iterator[object]) -> Iterator[object]:
    return batches


def _counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _text(version: tuple[int, ...] | list[int]) -> str:
    return ".".join(map(str, version))
