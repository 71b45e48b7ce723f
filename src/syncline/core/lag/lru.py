"""A page cache as the model of it assumes: a fixed number of pages, and the one used longest ago goes first.

Real page caches have two lists, read ahead and write back. This one is for comparisons: between the miss-ratio curve
and what a cache of that size would have done with the same reads, and between both and what a broker measured.
"""

from collections import OrderedDict
from typing import Final

PAGE_BYTES: Final = 4_096


class PageCache:
    """Pages of logs in memory, least recently used first. A page is named by whatever can be hashed."""

    __slots__ = ("_pages", "_pages_max", "hits", "misses")

    def __init__(self, memory_bytes: int) -> None:
        self._pages_max = memory_bytes // PAGE_BYTES
        assert self._pages_max >= 1, f"{memory_bytes} bytes hold no page"
        self._pages: OrderedDict[object, None] = OrderedDict()
        self.hits = 0
        self.misses = 0

    def __contains__(self, page: object) -> bool:
        """Return whether a page is in memory, without using it."""
        return page in self._pages

    def drop(self, page: object) -> None:
        """Forget a page."""
        self._pages.pop(page, None)

    def write(self, page: object) -> None:
        """Write to a page; it is in memory afterwards."""
        self._use(page)

    def read(self, page: object) -> bool:
        """Read a page, and return whether it was in memory; it is afterwards."""
        is_hit = page in self._pages
        self.hits += is_hit
        self.misses += not is_hit
        self._use(page)
        return is_hit

    @property
    def hit_ratio(self) -> float:
        """Share of reads that found their page; 1 without reads."""
        reads = self.hits + self.misses
        return self.hits / reads if reads else 1.0

    def _use(self, page: object) -> None:
        pages = self._pages
        pages[page] = None
        pages.move_to_end(page)
        if len(pages) > self._pages_max:
            pages.popitem(last=False)
