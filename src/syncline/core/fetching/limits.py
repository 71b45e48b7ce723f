"""Fetch limits: how many bytes each partition of a fetch may return, and how many partitions may return some.

One hard idea: a reader must always make progress. Until some partition has
returned data, the first batch is returned whole even if it is larger than every
limit; a hard limit would block a reader for ever in front of one large batch.

Only a broker without memory for an answer returns nothing: then the reader waits.

A follower's session is a diff: what it does not list again is still wanted from the same offset. So an answer has
records of no more partitions than its next request can list; those of others would be sent again and again.

Units: bytes. A limit of zero allows nothing beyond the first batch. A negative one is the reader's mistake: the first
partition answers with an error if it has something to read; for the others the limit is zero.
Source: KIP-74.
"""

from typing import Final, NamedTuple

# Of how many partitions one answer in a follower's session has records. A request lists more (`fetcher.LISTED_MAX`).
RECORD_ROWS_MAX: Final = 100
_NO_LIMIT: Final = 1 << 62

# A named tuple's own constructor takes three times as long.
_make: Final = tuple.__new__


class Grant(NamedTuple):
    """What one partition may read."""

    max_bytes: int
    """Negative if the reader has set a negative limit."""
    whole_first_batch: bool


class FetchBudget:
    """The rest of a fetch's `max_bytes`, and of its `rows_max`, while its partitions are read in order."""

    __slots__ = ("_has_data", "_remaining_bytes", "_rows_left")

    def __init__(self, max_bytes: int, *, rows_max: int | None = None, has_room: bool = True) -> None:
        assert rows_max is None or rows_max > 0, (
            f"a reader that may have records of {rows_max} partitions waits for ever"
        )
        self._remaining_bytes = max_bytes
        self._rows_left = _NO_LIMIT if rows_max is None else rows_max
        # Without room even for the first batch, it is as if another partition had returned it.
        self._has_data = not has_room

    @property
    def is_spent(self) -> bool:
        """Return whether no further partition can return records."""
        return self._has_data and self._remaining_bytes <= 0

    def grant(self, partition_max_bytes: int) -> Grant:
        """Return what the next partition may read."""
        return _make(Grant, (min(partition_max_bytes, self._remaining_bytes), not self._has_data))

    def spend(self, size_bytes: int) -> None:
        """Count what a partition returned; call it also for a partition that returned nothing."""
        assert size_bytes >= 0, f"a partition returned {size_bytes} bytes"
        if size_bytes or self._remaining_bytes < 0:
            self._has_data = self._has_data or size_bytes > 0
            self._rows_left -= size_bytes > 0
            self._remaining_bytes = max(0, self._remaining_bytes - size_bytes) if self._rows_left else 0
