"""Tables give back the room of entries that went, and keep those that stay, in order."""

import sys
from typing import Any

import pytest

from syncline.model.tables import LARGE_BYTES, has_spare_room, shrink

# As many as fit into the smallest table that is never looked at; of a large one, far more go than stay.
FEW = 300
MANY = 5_000


def emptied(count: int, kept: int) -> dict[Any, Any]:
    """Return a table of which only the last entries are left."""
    table = {(number, "key"): number for number in range(count)}
    for number in range(count - kept):
        del table[number, "key"]
        shrink(table)
    return table


@pytest.mark.parametrize("kept", [0, 1, 50])
def test_table_that_was_large_gives_its_room_back(kept: int) -> None:
    """What is left is in the order in which it came."""
    table = emptied(MANY, kept)

    assert list(table.values()) == list(range(MANY - kept, MANY))
    assert not has_spare_room(table)
    assert sys.getsizeof(table) < sys.getsizeof(dict.fromkeys(range(MANY))) / 4


def test_entries_are_copied_rarely() -> None:
    """Each copy is of a fraction of the entries that went since the one before: fewer than one per entry, in all."""
    table = {number: number for number in range(MANY)}
    copied = 0
    for number in range(MANY):
        del table[number]
        before_bytes = sys.getsizeof(table)
        shrink(table)
        copied += len(table) if sys.getsizeof(table) != before_bytes else 0

    assert 0 < copied < MANY / 4


@pytest.mark.parametrize("kept", [MANY // 2, MANY - 1])
def test_table_that_is_still_used_keeps_its_room(kept: int) -> None:
    """It may well need it again."""
    table = {number: number for number in range(MANY)}
    before_bytes = sys.getsizeof(table)
    for number in range(MANY - kept):
        del table[number]
        shrink(table)

    assert sys.getsizeof(table) == before_bytes


def test_small_table_is_left_alone() -> None:
    """It has nothing worth a copy."""
    table = dict.fromkeys(range(FEW))
    before_bytes = sys.getsizeof(table)
    table.clear()
    table.update(dict.fromkeys(range(FEW)))
    for number in range(FEW):
        del table[number]
        shrink(table)

    assert sys.getsizeof(table) == before_bytes <= LARGE_BYTES
