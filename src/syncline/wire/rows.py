"""Rows of long answers, made when they are written (`wire.stepwise`), so that an answer never exists twice."""

from collections.abc import Callable, Iterator, Mapping, Sequence, Sized
from typing import Any, Final, Protocol

# A message with at most so many rows is written in one call.
ROWS_AT_ONCE: Final = 200


class Countable(Protocol):
    """What has a length and can be iterated over."""

    def __len__(self) -> int:
        """Return the number of items."""

    def __iter__(self) -> Iterator[Any]:
        """Return the items in order."""


class Rows:
    """The rows of an array, each made of an item when it is written: a hundred thousand never exist at once.

    `make` returns what stands in the array for an item, and `parts` its items in an array inside that row, if any.
    """

    __slots__ = ("_items", "_make", "_parts")

    def __init__(
        self, items: Countable, make: Callable[[Any], Any], parts: Callable[[Any], Sized] | None = None
    ) -> None:
        self._items = items
        self._make = make
        self._parts = parts

    def __len__(self) -> int:
        return len(self._items)

    def __iter__(self) -> Iterator[Any]:
        return map(self._make, self._items)

    def count(self, enough: int) -> int:
        """Return the number of rows, with those inside; counting stops above `enough`."""
        count, parts = len(self._items), self._parts
        if parts is not None and count <= enough:
            for item in self._items:
                count += len(parts(item))
                if count > enough:
                    break
        return count


class SharedRows:
    """Rows that stand in several places of one message, and are written once."""

    __slots__ = ("encoded", "rows")

    def __init__(self, rows: Sequence[Any]) -> None:
        self.rows = rows
        # The array as bytes, after it was written in steps for the first time.
        self.encoded: bytes | None = None

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.rows)


def is_long(fields: Mapping[str, Any]) -> bool:
    """Return whether a message with these fields (see `build`) has too many rows to be written in one call."""
    return _rows(fields, ROWS_AT_ONCE) > ROWS_AT_ONCE


def _rows(fields: Mapping[str, Any], enough: int) -> int:
    """Return the number of rows in all arrays; counting stops above `enough`."""
    count = 0
    for value in fields.values():
        if isinstance(value, Rows):
            count += value.count(enough)
        elif isinstance(value, SharedRows):
            count += len(value)
        elif isinstance(value, (list, tuple)) and value and isinstance(value[0], Mapping):
            count += len(value)
            for row in value:
                if count > enough:
                    break
                count += _rows(row, enough - count)
    return count
