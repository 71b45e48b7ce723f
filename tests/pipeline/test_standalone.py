"""A Spark cluster of a master and two workers, each a process of its own: both read a topic, and write another."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tests.patience import until
from tests.pipeline.sink.test_delivery import values_in

pytestmark = [pytest.mark.spark, pytest.mark.process]
RECORDS = 400
PARTITIONS = 4
# Two JVMs start at once, beside other tests.
START_S = 90.0
# Five JVMs live for seconds: what they spend on compiling well, and on threads for garbage, does not pay.
FAST_START = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"
# What a user would submit. The directory of a Python worker is its executor's.
JOB = """
import json, os, sys, time
import pyarrow as pa
from syncline.pipeline.session import spark_session

master, bootstrap, source, target = sys.argv[1:]

def where(batches):
    for batch in batches:
        yield batch.append_column("place", pa.array([os.path.basename(os.getcwd())] * batch.num_rows))

spark = spark_session(name="standalone", master=master, profile="test", extra={"spark.executor.memory": "512m"})
rows = spark.read.format("syncline").option("bootstrap", bootstrap).option("subscribe", source)
rows = rows.option("slots", "2").option("minPartitions", "4").load().select("key", "value")
# Both executors are there before tasks are given out.
while spark.sparkContext._jsc.sc().getExecutorMemoryStatus().size() < 3:
    time.sleep(0.1)
placed = rows.mapInArrow(where, "key binary, value binary, place string")
found = {row.place: row["count"] for row in placed.groupBy("place").count().collect()}
rows.write.format("syncline").mode("append").option("bootstrap", bootstrap).option("topic", target).save()
print(json.dumps(found))
spark.stop()
"""


def environment() -> dict[str, str]:
    """Return what each process of Spark finds, and hands on to executors.

    If an earlier session has left an archive of Spark's classes, all JVMs take them from there.
    """
    from syncline.pipeline.java import java_home
    from syncline.pipeline.session import cache_directory, class_archive_options

    cache = cache_directory()
    options = FAST_START + class_archive_options(java_home(cache), cache, leave=False)
    spark = {"SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable, "JAVA_TOOL_OPTIONS": options}
    return {**os.environ, **spark}


@contextmanager
def spark_process(name: str, log: Path, *arguments: str) -> Iterator[None]:
    """Run a part of Spark until the end of the block."""
    import pyspark

    program = Path(pyspark.__file__).parent / "bin" / "spark-class"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [program, f"org.apache.spark.deploy.{name}", "--host", "127.0.0.1", "--webui-port", "0", *arguments],
            env=environment(),
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    try:
        yield
    finally:
        # A worker has started executors.
        os.killpg(process.pid, signal.SIGTERM)
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


@contextmanager
def standalone(directory: Path) -> Iterator[str]:
    """Run a master and two workers; yield the master's address."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    master = f"spark://127.0.0.1:{port}"
    master_log = directory / "master.log"
    with ExitStack() as running:
        running.enter_context(spark_process("master.Master", master_log, "--port", str(port)))
        for number in (1, 2):
            place = directory / f"worker-{number}"
            place.mkdir()
            arguments = ("--cores", "1", "--memory", "1g", "--work-dir", str(place), master)
            running.enter_context(spark_process("worker.Worker", place / "log", *arguments))
        until(lambda: master_log.read_text().count("Registering worker") == 2, START_S)
        yield master


def test_topic_is_read_on_two_workers_and_written(broker, bootstrap: str, tmp_path: Path) -> None:
    """Executors find the brokers by what these advertise, and have the package in their Python."""
    source, target = broker.topic(partitions=PARTITIONS), broker.topic(partitions=2)
    broker.produce(source, [(n % PARTITIONS, b"k%d" % n, b"v%d" % n, 0, ()) for n in range(RECORDS)])
    job = tmp_path / "job.py"
    job.write_text(JOB)
    with standalone(tmp_path) as master:
        ran = subprocess.run(
            [sys.executable, job, master, bootstrap, source, target],
            check=False,
            capture_output=True,
            text=True,
            timeout=400,
            env=environment(),
        )
    shutil.rmtree(tmp_path, ignore_errors=True)

    assert ran.returncode == 0, ran.stderr[-2_000:]
    found = json.loads(ran.stdout.splitlines()[-1])
    assert sum(found.values()) == RECORDS
    assert sorted(found) == ["0", "1"], "each of two executors has read a part"
    assert values_in(bootstrap, target) == sorted(b"v%d" % n for n in range(RECORDS))
