"""What the rows of a fetch say about whether it is answered now; summed up over many rows in parts."""

from collections.abc import Iterable
from typing import Final, NamedTuple

from syncline.node.fetching.reader import PATIENT
from syncline.node.fetching.row import Row


class Judged(NamedTuple):
    """Some rows of a fetch: their bytes, how many have no error, and whether one has an answer that cannot wait."""

    readable_bytes: int
    good_count: int
    has_urgent: bool


NOTHING: Final = Judged(0, 0, has_urgent=False)


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
    return Judged(readable_bytes, good_count, has_urgent)


def has_news(rows: Iterable[Row]) -> bool:
    """Return whether some partition now has more than its reader has."""
    # `any` would take a call per row.
    for row in rows:  # noqa: SIM110
        if row.partition is not None and row.entry.fetch_offset < row.partition.log.log_end:
            return True
    return False
