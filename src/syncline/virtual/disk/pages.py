"""Which pages of simulated files are in memory: the one used longest ago goes first.

It reads nothing ahead and drops whole pages only, so what a read finds in memory is exact.
Units: bytes, pages of `PAGE_BYTES`.
"""

from syncline.core.lag.lru import PAGE_BYTES, PageCache
from syncline.virtual.disk.medium import Inode


class SimPages:
    """The page cache of one simulated host."""

    def __init__(self, memory_bytes: int) -> None:
        self.memory_bytes = memory_bytes
        self._cache = PageCache(memory_bytes)

    def touch(self, inode: Inode, position: int, size: int) -> None:
        """Have the pages of a range in memory, as those used last."""
        for page in _pages(position, size):
            self._cache.write((inode, page))

    def bytes_in_memory(self, inode: Inode, position: int, size: int) -> int:
        """Return how many bytes of a range are in memory."""
        missing = [page for page in _pages(position, size) if (inode, page) not in self._cache]
        ends = ((page * PAGE_BYTES, (page + 1) * PAGE_BYTES) for page in missing)
        return size - sum(min(end, position + size) - max(start, position) for start, end in ends)

    def drop(self, inode: Inode, position: int, size: int) -> None:
        """Forget the pages that lie in a range as a whole."""
        for page in range(-(-position // PAGE_BYTES), (position + size) // PAGE_BYTES):
            self._cache.drop((inode, page))


def _pages(position: int, size: int) -> range:
    return range(position // PAGE_BYTES, -(-(position + size) // PAGE_BYTES))
