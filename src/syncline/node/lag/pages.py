"""Pages of long lists, as the verbs about lag answer them: where one begins, and where the next one does."""

from collections.abc import Mapping
from typing import Any, Final

from syncline.node.control.verbs import ControlRefused

# Rows of one answer: writing them takes some milliseconds.
PAGE_MAX: Final = 500


def page_of(fields: Mapping[str, Any]) -> tuple[int, int]:
    """Return (first row, rows) of the page that is asked for; raises `ControlRefused`."""
    first, count = fields.get("from", 0), fields.get("count", PAGE_MAX)
    if not isinstance(first, int) or not isinstance(count, int) or first < 0 or not 1 <= count <= PAGE_MAX:
        raise ControlRefused(f'a page has "from" (a number from 0 on) and "count" (1 to {PAGE_MAX}).')
    return first, count


def next_page(first: int, count: int, length: int) -> int | None:
    """Return where the page after this one begins, None if this is the last."""
    return first + count if first + count < length else None
