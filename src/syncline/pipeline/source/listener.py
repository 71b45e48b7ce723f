# ruff: noqa: N802 -- Spark calls these methods by their Java-style names.
"""A listener that makes a stream visible: after each batch it commits to the consumer group and reports the lag.

    spark.streams.addListener(QueryLag(options, query="orders", report=print))

`options` are those of the source. With `commitOffsetsToGroup` among them the group's offsets follow each finished
batch at once; without a listener, the source commits them one batch later, because Spark tells it no sooner.

It runs in the driver's own process. A failure is a line in the log: a query does not stop because its lag is unknown.
"""

import json
import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final

from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)

from syncline.pipeline.client.cluster import Cluster
from syncline.pipeline.client.commits import commit
from syncline.pipeline.errors import PipelineError
from syncline.pipeline.source.lag import PartitionLag, lag_of
from syncline.pipeline.source.offsets import Position, from_json
from syncline.pipeline.source.options import SourceOptions

log = logging.getLogger(__name__)

_LOOK_BYTES: Final = 16_384


class QueryLag(StreamingQueryListener):  # type: ignore[misc]  # Spark's class is untyped
    """Follows the source of one query; `lag` is that after its last batch, and `report` is called with it."""

    def __init__(
        self,
        options: Mapping[str, str],
        *,
        query: str,
        report: Callable[[tuple[PartitionLag, ...]], object] | None = None,
    ) -> None:
        """Follow the query of that name or id, which reads with these options; raise `OptionError` for wrong ones."""
        self._options = SourceOptions.parse(options, streaming=True)
        self._query = query
        self._report = report
        # A look at the next record of a partition needs no more than its batch.
        self._cluster = Cluster(replace(self._options.client, fetch_bytes_max=_LOOK_BYTES))
        self.lag: tuple[PartitionLag, ...] = ()

    def onQueryStarted(self, event: QueryStartedEvent) -> None:
        """Take no note: nothing was read yet."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        """Commit and report what the batch has reached."""
        progress = event.progress
        if self._query not in {progress.name, str(progress.id)}:
            return
        for source in progress.sources:
            position = _position(source.endOffset)
            # A query may read from several sources; this one's has topics of its own.
            if position is not None and all(map(self._options.topics.chooses, position.offsets)):
                self._follow(position)

    def onQueryIdle(self, event: QueryIdleEvent) -> None:
        """Take no note: the position has not moved."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        """Close the connections; the next use opens new ones. The event does not say the name of the query."""
        self._cluster.close()

    def _follow(self, position: Position) -> None:
        try:
            if self._options.commit_group is not None:
                commit(self._cluster, self._options.commit_group, position.offsets)
            self.lag = lag_of(self._cluster, position, time.time_ns() // 1_000_000)
        except PipelineError as error:
            log.warning("the position of query %s was not reported: %s", self._query, error)
            return
        if self._report is not None:
            self._report(self.lag)


def _position(written: Any) -> Position | None:
    """Return the position that a source reports, None for that of another format, which a query may read as well."""
    try:
        position = from_json(json.loads(written))
    except (AttributeError, TypeError, ValueError):
        return None
    is_ours = all(isinstance(offset, int) for offset in position.offsets.values())
    return position if position.offsets and is_ours else None
