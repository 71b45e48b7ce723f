"""What happens when records that a query should read are gone: an error, a line in the log, or a row that says so.

With `includeGaps` a query has a row for each span of offsets that is gone, so that its table shows what is missing;
with `includeGaps=all` also for each span that holds no record.

Units: offsets count records; ends are exclusive.
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import pyarrow as pa

from syncline.model.ids import TopicPartition
from syncline.pipeline.errors import DataLossError

log = logging.getLogger(__name__)


class GapReason(StrEnum):
    """Why offsets are gone."""

    EXPIRED = "expired"
    """The log begins later: by retention, or because records were deleted."""
    CUT = "cut"
    """The log ends before them: it was cut, as after an unclean election, or never held them."""
    TOPIC_GONE = "topic gone"
    """The topic was deleted while the query read it; perhaps another one has its name now."""
    TOPIC_CREATED_AGAIN = "topic created again"
    """What was not read yet of the topic that had this name before; the amount is unknown."""
    NO_RECORD = "no record"
    """Not lost: what compaction or a transaction left has no record at these offsets for this reader."""


@dataclass(frozen=True, slots=True)
class Gap:
    """Offsets of a partition that a query should have read and has no record of; `end` is None if it is not known."""

    place: TopicPartition
    start: int
    end: int | None
    reason: GapReason


def report_loss(what: str, *, fail: bool) -> None:
    """Raise `DataLossError` for what is gone, or write it to the log; `fail` is the option `failOnDataLoss`."""
    if fail:
        raise DataLossError(f"{what}; set the option failOnDataLoss to false to continue without the lost records")
    log.warning("records are lost to this query: %s", what)


def gap_rows(gaps: Sequence[Gap], schema: pa.Schema) -> pa.RecordBatch:
    """Return one row for each gap: `topic`, `partition`, `offset` (its first) and `gap`; all else is null."""
    told = {
        "topic": [gap.place.topic for gap in gaps],
        "partition": [gap.place.partition for gap in gaps],
        "offset": [gap.start for gap in gaps],
        "gap": [{"end": gap.end, "reason": gap.reason.value} for gap in gaps],
    }
    columns = [
        pa.array(told[column.name], type=column.type) if column.name in told else pa.nulls(len(gaps), column.type)
        for column in schema
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)
