"""Counting the pages of a file that are in memory, without touching them.

A read with RWF_NOWAIT is no measure: it has the kernel fetch what is missing, and some disks, those of virtual machines
among them, are done before it returns. So the kernel is asked (`cachestat`, Linux 6.5). Where it does not know that
call, the first look with RWF_NOWAIT has to do.

Units: bytes; pages of the machine's size. Source: cachestat(2).
"""

import ctypes
import errno
import mmap
import sys
from collections.abc import Callable
from typing import Final

UNKNOWN: Final = -1
_CACHESTAT: Final = 451
_PAGE_BYTES: Final = mmap.PAGESIZE
# An older system, and one that does not let us ask.
_NEVER: Final = frozenset({errno.ENOSYS, errno.EPERM, errno.EACCES})


class _Range(ctypes.Structure):
    _fields_ = (("position", ctypes.c_uint64), ("size", ctypes.c_uint64))


class _Counts(ctypes.Structure):
    _fields_ = tuple((name, ctypes.c_uint64) for name in ("cached", "dirty", "writeback", "evicted", "recently"))


class _Question:
    """A range, and room for the answer: making these takes longer than asking."""

    __slots__ = ("counts", "range", "refer_to_counts", "refer_to_range")

    def __init__(self) -> None:
        self.range = _Range()
        self.counts = _Counts()
        self.refer_to_range = ctypes.byref(self.range)
        self.refer_to_counts = ctypes.byref(self.counts)


class ResidentPages:
    """Asks the kernel, as long as it answers; may be used in any thread."""

    def __init__(self) -> None:
        self._ask = _load()
        # Those that no thread uses.
        self._questions: list[_Question] = []

    def bytes_in_memory(self, descriptor: int, position: int, size: int) -> int:
        """Return how many bytes of a range lie in pages that are in memory, UNKNOWN if nobody can tell."""
        assert position >= 0, f"a range begins at {position}"
        assert size > 0, f"a range of {size} bytes has no pages"
        if self._ask is None:
            return UNKNOWN
        try:
            question = self._questions.pop()
        except IndexError:
            question = _Question()
        asked = question.range
        asked.position, asked.size = position, size
        if self._ask(_CACHESTAT, descriptor, question.refer_to_range, question.refer_to_counts, 0):
            if ctypes.get_errno() in _NEVER:
                self._ask = None
            return UNKNOWN
        cached = int(question.counts.cached)
        self._questions.append(question)
        pages = -(-(position + size) // _PAGE_BYTES) - position // _PAGE_BYTES
        return size if cached >= pages else min(size, cached * _PAGE_BYTES)


def _load() -> Callable[..., int] | None:
    if sys.platform != "linux":
        # The number would be that of another call.
        return None
    try:
        # Without giving up the interpreter's lock: the call takes a microsecond or two.
        ask: Callable[..., int] = ctypes.PyDLL(None, use_errno=True).syscall
    except (AttributeError, OSError):
        return None
    return ask
