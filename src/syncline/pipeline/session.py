"""One way to make a Spark session, with settings for small and for large data.

Spark's defaults are made for clusters of many machines. Three of them cost a lot here: 200 shuffle partitions turn a
small streaming batch from 0.3 s into 5 s, TCP sockets between the JVM and Python cost 25 ms a task, and workers run
the first `python3` on the path. The caller chooses the master: `local[*]` for a laptop, or a cluster.

Profiles: `small` is for work of seconds, where starting and compiling is most of it: the serial collector, the first
compiler only, plans that are not made anew while they run, and classes from an archive that the first session leaves
behind (`class_archive`). `large` is for work of minutes: the full compiler, the parallel collector, more memory, and
plans that Spark adapts to what it finds. `test` is `small` that leaves nothing behind.
"""

import hashlib
import os
import sys
from pathlib import Path
from typing import Final, Literal, TypeAlias

import pyspark
from pyspark.sql import SparkSession

from syncline.pipeline.java import java_home
from syncline.pipeline.notebook import show_sentences_first
from syncline.pipeline.python_processes import python_command
from syncline.pipeline.slots import leave_note, slots_of_master

Profile: TypeAlias = Literal["test", "small", "large"]

_FAST_START: Final = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"
_JVM_OPTIONS: Final[dict[Profile, str]] = {"test": _FAST_START, "small": _FAST_START, "large": "-XX:+UseParallelGC"}
# Spark prints start-up messages unless it finds a log configuration.
_LOG_CONFIGURATION: Final = """\
rootLogger.level = error
rootLogger.appenderRef.stderr.ref = stderr
# The gateway wants warnings, and says so, unless its own level is set.
logger.gateway.name = org.apache.spark.api.python.PythonGatewayServer
logger.gateway.level = error
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = spark %p %c{1}: %m%n
"""
# What plans, logs and the UI never show: Spark's own words, and the options whose names and values have none of them.
# A plan of a stream that was not started lists all its options, a private key among them.
REDACTED: Final = "(?i)secret|password|passphrase|token|access[.]?key|credential|jaas|keystore[.]key|PRIVATE KEY"
_MEMORY: Final[dict[Profile, str]] = {"test": "1g", "small": "1g", "large": "2g"}


def cache_directory() -> Path:
    """Return the directory for files that can be recreated: a folder in the platform's cache directory."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "syncline"


def spark_session(
    *,
    name: str = "syncline",
    master: str | None = None,
    profile: Profile = "small",
    cache: Path | None = None,
    extra: dict[str, str] | None = None,
) -> SparkSession:
    """Return a Spark session that knows the format "syncline"; the running one, if there is one.

    `extra` are Spark properties that override ours. Raises `JavaNotFoundError` when there is no suitable Java.
    """
    master = master or "local[*]"
    cache = cache or cache_directory()
    # Workers must run this interpreter: another one does not have our packages, and dies without a message.
    os.environ.setdefault("PYSPARK_PYTHON", python_command(cache) if master.startswith("local") else sys.executable)
    java_options = _JVM_OPTIONS[profile]
    if SparkSession.getActiveSession() is None:
        home = java_home(cache)
        os.environ["JAVA_HOME"] = str(home)
        if profile != "large":
            java_options += class_archive_options(home, cache, leave=profile == "small")
        # Spark writes its start-up notes to the terminal before any log level applies.
        leave_note(master)
        for variable, value in environment_of(master).items():
            os.environ.setdefault(variable, value)
    builder = SparkSession.builder.appName(name).master(master)
    for key, value in {
        **_properties(master, profile, java_options, _log_configuration(cache)),
        **(extra or {}),
    }.items():
        builder = builder.config(key, value)
    session: SparkSession = builder.getOrCreate()
    show_sentences_first()
    return session


def environment_of(master: str) -> dict[str, str]:
    """Return the variables that a session needs, unless they are set.

    A local session is only for this machine. The driver of a cluster sends its executors its address: the one that
    Spark finds for the name of this host, because they cannot use an address that means any.
    """
    return {"SPARK_LOCAL_IP": "127.0.0.1"} if master.startswith("local") else {}


def _log_configuration(cache: Path) -> Path:
    """Return a file that limits Spark's log to errors; written elsewhere and renamed, as two sessions may start."""
    cache.mkdir(parents=True, exist_ok=True)
    file = cache / "spark-log4j2.properties"
    draft = file.with_name(f"{file.name}.{os.getpid()}")
    draft.write_text(_LOG_CONFIGURATION, encoding="utf-8")
    draft.replace(file)
    return file


def class_archive_options(home: Path, cache: Path, *, leave: bool) -> str:
    """Return options with which the JVM takes Spark's classes from an archive, or leaves one in the cache if `leave`.

    A JVM reads and checks 12,000 classes in its first seconds, and an archive of those of an earlier JVM halves that.
    It is written when that one ends, which takes some seconds more, once; it has 200 MB. A JVM of another version, or
    one that finds half an archive, goes on without it: what the file is comes last into the file.
    """
    origin = f"{home.resolve()} {_release(home)} {pyspark.__file__} {pyspark.__version__}"
    archive = cache / f"spark-classes-{hashlib.sha256(origin.encode()).hexdigest()[:16]}.jsa"
    if archive.exists():
        wanted = f"-XX:SharedArchiveFile={archive}"
    elif leave:
        wanted = f"-XX:ArchiveClassesAtExit={archive}"
    else:
        return ""
    # Nobody needs its list of the classes that it does not archive.
    return f' "{wanted}" -Xlog:disable -Xlog:all=error:stderr'


def _release(home: Path) -> str:
    try:
        return (home / "release").read_text(encoding="utf-8")
    except OSError:
        return ""


def _properties(master: str, profile: Profile, java_options: str, log_configuration: Path) -> dict[str, str]:
    properties = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": str(slots_of_master(master).count),
        "spark.sql.adaptive.enabled": str(profile == "large").lower(),
        "spark.python.unix.domain.socket.enabled": "true",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.redaction.regex": REDACTED,
        "spark.driver.memory": _MEMORY[profile],
        "spark.driver.extraJavaOptions": f'{java_options} "-Dlog4j2.configurationFile={log_configuration}"',
    }
    if master.startswith("local"):
        properties |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    return properties
