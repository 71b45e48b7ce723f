"""What a query of the option table returns, by any format of Spark: run in the tests' session, or as a program.

    python live_rows.py JARS < cases.json > rows.json

As a program it reads with Spark's own Kafka connector, in an environment of its own: pyspark 4.0.0, the newest version
whose connector is complete in Maven, cannot live beside ours. So nothing but pyspark is imported here.
"""

import json
import os
import sys
import tempfile
from typing import Any

# One row as JSON shows it: bytes as text, times in milliseconds, headers as Spark writes them.
COLUMNS = (
    "topic",
    "partition",
    "offset",
    "unix_millis(timestamp) as time_ms",
    "timestampType",
    "hex(key) as key",
    "hex(value) as value",
)


def rows_of(spark: Any, kind: str, case: dict[str, Any], bootstrap: str) -> dict[str, Any]:
    """Return the rows of each batch of a case's query, sorted, or the first words of what went wrong."""
    options = {"kafka.bootstrap.servers": bootstrap, **case["options"]}
    try:
        read = _stream if case["streams"] else _batch
        return {"batches": read(spark, kind, options)}
    except Exception as error:  # noqa: BLE001 -- whatever Spark raises is the outcome
        return {"error": str(error)}


def _columns(options: dict[str, str]) -> tuple[str, ...]:
    headers = ("to_json(headers) as headers",) if options.get("includeHeaders") == "true" else ()
    gaps = ("to_json(gap) as gap",) if options.get("includeGaps", "false") != "false" else ()
    return (*COLUMNS, *headers, *gaps)


def _batch(spark: Any, kind: str, options: dict[str, str]) -> list[list[list[Any]]]:
    return [_sorted(spark.read.format(kind).options(**options).load().selectExpr(*_columns(options)))]


def _stream(spark: Any, kind: str, options: dict[str, str]) -> list[list[list[Any]]]:
    frame = spark.readStream.format(kind).options(**options).load().selectExpr(*_columns(options))
    batches: list[list[list[Any]]] = []
    with tempfile.TemporaryDirectory() as checkpoint:
        query = (
            frame.writeStream.foreachBatch(lambda batch, _number: batches.append(_sorted(batch)))
            .option("checkpointLocation", checkpoint)
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
    return batches


def _sorted(frame: Any) -> list[list[Any]]:
    return sorted([list(row) for row in frame.collect()], key=lambda row: row[:3])


def main() -> None:
    """Read all cases with the connector."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    from pyspark.sql import SparkSession

    asked = json.load(sys.stdin)
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.jars", sys.argv[1])
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("OFF")
    found = {case["name"]: rows_of(spark, "kafka", case, asked["bootstrap"]) for case in asked["cases"]}
    spark.stop()
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main()
