"""Tables that were large once: a dict keeps its room when its entries go.

A broker that has had five thousand connections or topics would keep some megabyte of empty tables, at the end of the
heap, where a burst has made them grow.
"""

import sys
from typing import Any, Final

# Smaller tables are left alone.
LARGE_BYTES: Final = 16 << 10
# What an entry takes of a table that has just grown; and how many times as much room there must be.
ENTRY_BYTES: Final = 64
WORTHWHILE: Final = 4


def has_spare_room(table: dict[Any, Any]) -> bool:
    """Return whether a table has room for many more entries than it has."""
    return sys.getsizeof(table) > LARGE_BYTES + WORTHWHILE * ENTRY_BYTES * len(table)


def shrink(table: dict[Any, Any]) -> None:
    """Give back the room of a table whose entries are mostly gone; to be called when one of them went.

    The entries are copied, and they are few: a fraction of those that went since the last time.
    """
    if has_spare_room(table):
        entries = table.copy()
        table.clear()
        table.update(entries)
