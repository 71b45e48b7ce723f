"""The query that is killed, with its arguments: BOOTSTRAP SOURCE TARGET CHECKPOINT RECORDS GUARANTEE.

It copies a topic, RECORDS at a time, and ends when all are copied.
"""

import sys
import warnings

from syncline.pipeline.session import spark_session
from tests.pipeline.kills.pausing import PausingSource


def main() -> None:
    """Run the query."""
    bootstrap, source, target, checkpoint, records, guarantee = sys.argv[1:]
    warnings.simplefilter("ignore")
    # Two tasks at once, each tried up to four times, as on a cluster.
    extra = {"spark.sql.execution.arrow.maxRecordsPerBatch": "20", "spark.sql.adaptive.enabled": "false"}
    spark = spark_session(name="kills", master="local[2,4]", profile="test", extra=extra)
    spark.dataSource.register(PausingSource)
    rows = (
        spark.readStream.format("syncline")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", source)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", records)
        .load()
    )
    query = (
        rows.select("key", "value")
        .writeStream.format("syncline-killed")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("topic", target)
        .option("deliveryGuarantee", guarantee)
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


if __name__ == "__main__":
    main()
