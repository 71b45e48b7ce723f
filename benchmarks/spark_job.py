"""One Spark driver that reads topics again and again and reports each round's time; `spark_read` starts it.

    python spark_job.py FORMAT BOOTSTRAP [--jars A.jar,B.jar] QUERY:TOPIC:ROUNDS...

FORMAT is syncline, or kafka for Spark's own connector, which runs in an environment with another version of Spark: so
this file imports nothing of ours unless it reads with ours. Queries: `full` reads all columns, `pruned` offset and
timestamp, `count` counts the rows, `stream` reads in micro-batches of 100 records.

Each round is one line of JSON: query, rows, seconds, and seconds of CPU time of this process and all that it
started (JVM, planners, workers), from /proc, in ticks of 10 ms.
"""

import json
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


def tree_cpu_s(root: int) -> float:
    """Return the CPU time of a process and its descendants, ended ones included."""
    parents: dict[int, int] = {}
    ticks: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            parents[int(entry.name)] = int(fields[1])
            ticks[int(entry.name)] = sum(map(int, fields[11:15]))
    total = 0
    for pid, spent in ticks.items():
        above = pid
        while above != root and above in parents:
            above = parents[above]
        total += spent if above == root else 0
    return total / _TICKS_PER_S


def session(kind: str, jars: str) -> Any:
    """Return a session of two slots: ours in its profile for large data, theirs as its documentation says."""
    if kind == "syncline":
        from syncline.pipeline.session import spark_session

        return spark_session(name="benchmark", master="local[2]", profile="large")
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[2]").config("spark.jars", jars).config("spark.ui.enabled", "false")
    return (
        builder.config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.memory", "2g")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.sql.shuffle.partitions", "2")
        .getOrCreate()
    )


def read(spark: Any, kind: str, bootstrap: str, query: str, topic: str) -> int:
    """Return how many rows one round read."""
    reader = spark.read.format(kind).option("kafka.bootstrap.servers", bootstrap).option("subscribe", topic)
    reader = reader.option("startingOffsets", "earliest")
    if query == "pruned" and kind == "syncline":
        reader = reader.schema("offset long, timestamp timestamp")
    wanted = {
        "full": ("count(*)", "sum(length(value))"),
        "pruned": ("count(*)", "max(offset)", "max(timestamp)"),
        "count": ("count(*)",),
    }[query]
    return int(reader.load().selectExpr(*wanted).collect()[0][0])


def stream(spark: Any, kind: str, bootstrap: str, topic: str) -> list[float]:
    """Return how long each micro-batch of about 100 records took, in seconds."""
    frame = (
        spark.readStream.format(kind)
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", "100")
        .load()
    )
    with tempfile.TemporaryDirectory(prefix="spark-read-") as checkpoint:
        query = frame.writeStream.format("noop").option("checkpointLocation", checkpoint).start()
        batches: dict[int, float] = {}
        while len(batches) < 30:
            time.sleep(0.5)
            for progress in query.recentProgress:
                if progress["numInputRows"]:
                    batches[progress["batchId"]] = progress["durationMs"]["triggerExecution"] / 1000
        query.stop()
    # The first ones compile.
    return [batches[number] for number in sorted(batches)[5:]]


def main() -> None:
    """Run the rounds that the command line names."""
    kind, bootstrap, *wanted = sys.argv[1:]
    jars = wanted[wanted.index("--jars") + 1] if "--jars" in wanted else ""
    spark = session(kind, jars)
    for word in wanted:
        if word.count(":") != 2 or word == jars:
            continue
        query, topic, rounds = word.split(":")
        for _ in range(int(rounds)):
            cpu_s, began_s = tree_cpu_s(os.getpid()), time.monotonic()
            told: dict[str, Any] = {"query": query}
            if query == "stream":
                told["batches_s"] = stream(spark, kind, bootstrap, topic)
            else:
                told["rows"] = read(spark, kind, bootstrap, query, topic)
            told["seconds"] = time.monotonic() - began_s
            told["cpu_s"] = tree_cpu_s(os.getpid()) - cpu_s
            print(json.dumps(told), flush=True)
    spark.stop()


if __name__ == "__main__":
    main()
