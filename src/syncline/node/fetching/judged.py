"""What the rows of a fetch say about whether it is answered now; summed up over many rows in parts."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final, NamedTuple

from syncline.core.fetching.delayed import must_answer_now
from syncline.core.fetching.session import NO_SESSION_ID, FetchContext, SessionPartition
from syncline.node.fetching.reader import PATIENT
from syncline.node.fetching.row import PARTITIONS_AT_ONCE, Row
from syncline.node.partitions.partition import Partition
from syncline.wire.fetch import FetchRequest

if TYPE_CHECKING:
    from syncline.node.serving.request import Request


class Judged(NamedTuple):
    """Some rows of a fetch: their bytes, how many have no error, and whether one has an answer that cannot wait."""

    readable_bytes: int
    good_count: int
    has_urgent: bool


NOTHING: Final = Judged(0, 0, has_urgent=False)

# A named tuple's own constructor takes three times as long.
_make: Final = tuple.__new__


def judged(rows: Iterable[Row], before: Judged = NOTHING) -> Judged:
    """Return `before` with more rows."""
    readable_bytes, good_count, has_urgent = before
    for row in rows:
        readable_bytes += len(row.records)
        if row.error:
            has_urgent = has_urgent or row.error not in PATIENT
        else:
            good_count += 1
            has_urgent = (
                has_urgent or row.diverging is not None or row.entry.fetch_offset > row.bound or row.preferred >= 0
            )
    return _make(Judged, (readable_bytes, good_count, has_urgent))


def has_news(rows: Iterable[Row]) -> bool:
    """Return whether some partition now has more than its reader has."""
    # `any` would take a call per row.
    for row in rows:  # noqa: SIM110
        if row.partition is not None and row.entry.fetch_offset < row.partition.log.log_end:
            return True
    return False


def lacks_records(entries: Iterable[SessionPartition]) -> bool:
    """Return whether some partition has records that the follower which asks for these entries has not."""
    # `any` would take a call per entry.
    for entry in entries:
        if isinstance(entry.target, Partition) and entry.fetch_offset < entry.target.log.log_end:
            return True
    return False


def without_records(entries: Iterable[SessionPartition]) -> list[SessionPartition]:
    """Return those of a follower's entries that are looked at when the answer has all the records that it can have.

    There may be thousands that wait for records. They wait for the next answer.
    """
    return [entry for entry in entries if entry.is_unproved or not lacks_records((entry,))]


def must_answer(fetch: FetchRequest, partition_count: int, row_count: int, sums: Judged) -> bool:
    """Return whether a fetch is answered after its first look; `row_count` of its partitions were looked at."""
    are_all_bad = row_count > 0 and not sums.good_count and partition_count <= row_count
    return must_answer_now(
        max_wait_ms=fetch.max_wait_ms,
        min_bytes=fetch.min_bytes,
        max_bytes=fetch.max_bytes,
        partition_count=partition_count,
        readable_bytes=sums.readable_bytes,
        has_urgent=sums.has_urgent or are_all_bad,
    )


def may_not_wait(context: FetchContext, request: "Request") -> bool:
    """Return whether a client's partitions take memory that is needed: no session has them, the budget is used up."""
    return (
        context.session_id == NO_SESSION_ID
        and context.partition_count > PARTITIONS_AT_ONCE
        and request.listener == "client"
        and not request.connection.holding.answer_bytes_max()
    )
