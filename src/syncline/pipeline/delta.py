"""Micro-batches into a Delta table, each once, without a jar: `deltalake` writes what Spark hands over as Arrow.

    query = stream.writeStream.foreachBatch(delta_batches("/data/flights")).option("checkpointLocation", ...).start()

Spark may hand over a micro-batch again, after a crash between the table's commit and its own. So each commit to the
table carries the id of the query and the number of the batch (the protocol's application transactions), and a batch
that the table already has is skipped. That holds as long as the checkpoint, which has the id, is kept; one that was
moved back is refused.

A micro-batch comes into the memory of the driver; bound it with `maxOffsetsPerTrigger` or `maxBytesPerTrigger`.
Source: the Delta transaction log protocol (txn actions).
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from syncline.pipeline.errors import DataLossError, OptionError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

log = logging.getLogger(__name__)

_QUERY: Final = "sql.streaming.queryId"


def delta_batches(
    table: str,
    *,
    partition_by: str | Sequence[str] = (),
    storage_options: Mapping[str, str] | None = None,
) -> Callable[["DataFrame", int], None]:
    """Return the function for `foreachBatch` that appends each micro-batch to a table once, and creates the table.

    `table` is a path or a URL that `deltalake` knows, `storage_options` go to it. Raises OptionError without it.
    """
    try:
        from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
    except ImportError as error:
        raise OptionError(f"Delta tables need one more package ({error}): pip install 'syncline[delta]'") from error
    options = dict(storage_options or {})

    def append(batch: "DataFrame", number: int) -> None:
        query = batch.sparkSession.sparkContext.getLocalProperty(_QUERY)
        if not query:
            raise OptionError("delta_batches needs foreachBatch of a stream: this batch belongs to no stream")
        application = f"syncline-{query}"
        target: Any = table
        if DeltaTable.is_deltatable(table, storage_options=options):
            # The write applies to the version that was checked: a second driver of this query cannot come between.
            target = DeltaTable(table, storage_options=options)
            written = target.transaction_version(application)
            if written is not None and written > number:
                raise DataLossError(
                    f"table {table} already has micro-batch {written} of query {query}, but this is number {number}: "
                    "the checkpoint was moved back. Start with a new checkpoint, or move the table back as well"
                )
            if written == number:
                log.warning("table %s already has micro-batch %s of query %s; skipping it", table, number, query)
                return
        write_deltalake(
            target,
            batch.toArrow(),
            mode="append",
            partition_by=[partition_by] if isinstance(partition_by, str) else list(partition_by) or None,
            storage_options=options or None,
            commit_properties=CommitProperties(app_transactions=[Transaction(application, number)]),
        )

    return append
