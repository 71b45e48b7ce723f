"""One way to make a Spark session, with settings for small and medium-sized work.

Spark's defaults are made for clusters of many machines. Three of them cost a lot here: 200 shuffle partitions turn a
small streaming batch from 0.3 s into 5 s, TCP sockets between the JVM and Python cost 25 ms a task, and workers run
the first `python3` on the path. The caller chooses the master: `local[*]` for a laptop, or a cluster.

Profiles: `test` starts fast (serial collector, first compiler only), `local` is for a person's machine,
`throughput` gives the JVM its full compiler and more memory.
"""

import os
import sys
from pathlib import Path
from typing import Final, Literal, TypeAlias

from pyspark.sql import SparkSession

from syncline.pipeline.java import java_home

Profile: TypeAlias = Literal["test", "local", "throughput"]

_FAST_START: Final = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"
_JVM_OPTIONS: Final[dict[Profile, str]] = {"test": _FAST_START, "local": "-XX:+UseSerialGC", "throughput": ""}
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
_MEMORY: Final[dict[Profile, str]] = {"test": "1g", "local": "1g", "throughput": "2g"}


def cache_directory() -> Path:
    """Return the directory for files that can be recreated: a folder in the platform's cache directory."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "syncline"


def spark_session(
    *,
    name: str = "syncline",
    master: str | None = None,
    profile: Profile = "local",
    cache: Path | None = None,
    extra: dict[str, str] | None = None,
) -> SparkSession:
    """Return a Spark session that knows the format "syncline"; the running one, if there is one.

    `extra` are Spark properties that override ours. Raises `JavaNotFoundError` when there is no suitable Java.
    """
    master = master or "local[*]"
    cache = cache or cache_directory()
    # Workers must run this interpreter: another one does not have our packages, and dies without a message.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    if SparkSession.getActiveSession() is None:
        os.environ["JAVA_HOME"] = str(java_home(cache))
        # Spark writes its start-up notes to the terminal before any log level applies.
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1" if master.startswith("local") else "0.0.0.0")  # noqa: S104
    builder = SparkSession.builder.appName(name).master(master)
    for key, value in {**_properties(master, profile, _log_configuration(cache)), **(extra or {})}.items():
        builder = builder.config(key, value)
    session: SparkSession = builder.getOrCreate()
    return session


def _log_configuration(cache: Path) -> Path:
    """Return a file that limits Spark's log to errors; written elsewhere and renamed, as two sessions may start."""
    cache.mkdir(parents=True, exist_ok=True)
    file = cache / "spark-log4j2.properties"
    draft = file.with_name(f"{file.name}.{os.getpid()}")
    draft.write_text(_LOG_CONFIGURATION, encoding="utf-8")
    draft.replace(file)
    return file


def _properties(master: str, profile: Profile, log_configuration: Path) -> dict[str, str]:
    properties = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": str(_slots(master)),
        "spark.sql.adaptive.enabled": "true",
        "spark.python.unix.domain.socket.enabled": "true",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.driver.memory": _MEMORY[profile],
        "spark.driver.extraJavaOptions": f'{_JVM_OPTIONS[profile]} "-Dlog4j2.configurationFile={log_configuration}"',
    }
    if master.startswith("local"):
        properties |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    return properties


def _slots(master: str) -> int:
    """Return how many tasks run at once: two for `local[2]`, as many as there are processors for `local[*]`."""
    inside = master.partition("[")[2].rstrip("]").split(",")[0]
    if master.startswith("local") and inside.isdigit():
        return int(inside)
    return os.cpu_count() or 2
