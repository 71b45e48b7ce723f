"""The memory of this machine: how much there is, and giving back what a broker no longer uses.

The C library keeps freed memory for later (a broker has it keep even large buffers, because page faults cost more than
reading a megabyte). After a burst, a broker would keep it for good. So a broker whose resident memory has grown tells
the library to return free pages to the system.

By default, glibc gives each thread a heap of its own, and of those it never returns the end: after a worker has opened
large batches, as much as is kept at the end of a heap, per worker. So there is one heap for all threads. They hardly
compete for it: they hold the interpreter's lock wherever they allocate much.

Python keeps up to two thousand freed tuples of each length for the next ones. After a burst they are all over the heap,
and each keeps a page. Only a look of the collector at everything empties these lists, so there is one that has nothing
to look at. What small objects take otherwise is told in `local.bursts`.

The C library keeps seven freed pieces of each size for each thread (its *tcache*), wherever they lie, and a thread has
a stack. So threads without work end before memory is given back, and the loop's thread exchanges its pieces for others:
the allocator takes those from gaps between what is in use, where they keep no page.

Python also remembers by which names it last looked something up in a class, four thousand of them, and finds a name by
where it lies. Until version 3.12, each `match` with a class makes the name `__match_args__` anew: thousands of equal
ones are remembered, each in a page of a burst.

How the rows of a long list are read and written is found out while the first one is served, thousands of small objects
that live on (`wire.stepwise`). They are forgotten, too, and found out again by the next such list.

The allocator is locked meanwhile: up to 1 ms per returned megabyte, far less if there is nothing to return. So a broker
looks every half minute, and only after one in which it was mostly idle: a busy one would need the memory again.
"""

import asyncio
import contextlib
import ctypes
import gc
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from syncline.node.loop.loop_holds import LoopHolds

STATM: Final = Path("/proc/self/statm")
# Where a control group sets a limit, in version 2 and 1.
LIMITS: Final = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))
# Where neither the system nor a control group tells.
UNKNOWN_MEMORY_BYTES: Final = 4 << 30

# glibc's <malloc.h>. A part of a fetch answer is about a megabyte; the freed memory that is kept is far less than a
# broker may use (the trim threshold applies only to the end of a heap).
M_MXFAST: Final = 1
M_TRIM_THRESHOLD: Final = -1
M_MMAP_THRESHOLD: Final = -3
M_ARENA_MAX: Final = -8
KEPT_BUFFER_BYTES: Final = 8 << 20
KEPT_BYTES_MAX: Final = 32 << 20
# Of the sizes and the number of freed pieces that glibc keeps for a thread. Source: glibc's manual, "Memory Allocation
# Tunables".
PIECE_BYTES: Final = range(24, 1_033, 16)
PIECES: Final = 7

LOOK_S: Final = 30.0
GROWTH_BYTES: Final = 4 << 20
AFTER_S: Final = 0.1
# The share of a processor above which a broker is busy.
BUSY_SHARE: Final = 0.25


def machine_memory_bytes() -> int:
    """Return how much memory this process may use: the machine's, or less if a control group limits it."""
    found = []
    with contextlib.suppress(OSError, ValueError, AttributeError):
        found.append(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    for path in LIMITS:
        with contextlib.suppress(OSError, ValueError):
            found.append(int(path.read_text()))
    return min(found, default=UNKNOWN_MEMORY_BYTES)


def resident_bytes() -> int:
    """Return this process's resident memory, 0 where it is unknown."""
    try:
        return int(STATM.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, IndexError, ValueError, AttributeError):
        return 0


def keep_freed_memory() -> None:
    """Make the C library keep freed buffers for later ones, in one heap; to be called before there are threads.

    By default it gets each large buffer from the kernel and returns it there; the page faults of that cost more than
    everything else in reading a megabyte for a consumer. Without glibc nothing happens.
    """
    with contextlib.suppress(OSError, AttributeError):
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(M_MMAP_THRESHOLD, KEPT_BUFFER_BYTES)
        mallopt(M_TRIM_THRESHOLD, KEPT_BYTES_MAX)
        mallopt(M_ARENA_MAX, 1)
        # Small pieces are joined with their neighbours one by one as they are freed, not all at once after a burst:
        # that would hold the event loop for tens of milliseconds.
        mallopt(M_MXFAST, 0)


def free_kept_objects() -> None:
    """Free for good what Python keeps of freed objects for later ones.

    A look of its collector at everything does, and here it visits nothing, because all objects are out of its sight.
    Afterwards they all belong to the old generation. The names of attributes are forgotten, too; the next look finds
    each again.
    """
    gc.freeze()
    gc.collect()
    gc.unfreeze()
    sys._clear_type_cache()  # noqa: SLF001 - it is documented, for such references


def exchange_kept_pieces() -> None:
    """Have the C library keep other freed pieces for this thread; without glibc nothing is gained.

    Those that it keeps are taken, and others; then the others are freed first, and kept. The interpreter's lock is held
    throughout: each call takes less than giving it to another thread.
    """
    with contextlib.suppress(OSError, AttributeError):
        library = ctypes.PyDLL(None)
        allocate, free = library.malloc, library.free
        allocate.argtypes, allocate.restype = (ctypes.c_size_t,), ctypes.c_void_p
        free.argtypes, free.restype = (ctypes.c_void_p,), None
        kept, others = ([allocate(size) for size in PIECE_BYTES for _ in range(PIECES)] for _ in range(2))
        for piece in (*others, *kept):
            free(piece)


def trim_heap() -> None:
    """Return free pages of the C library to the system; without glibc nothing happens."""
    with contextlib.suppress(OSError, AttributeError):
        exchange_kept_pieces()
        ctypes.CDLL(None).malloc_trim(0)


def _no_threads() -> None:
    """There are no threads to end."""


class GivesBack:
    """Gives memory back when a process has grown."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        holds: LoopHolds,
        *,
        resident: Callable[[], int] = resident_bytes,
        cpu_s: Callable[[], float] = time.process_time,
        end_threads: Callable[[], object] = _no_threads,
        free: Callable[[], object] = free_kept_objects,
        trim: Callable[[], object] = trim_heap,
        look_s: float = LOOK_S,
    ) -> None:
        self._loop = loop
        self._holds = holds
        self._resident = resident
        self._cpu_s = cpu_s
        # Callbacks of their own, so that other work comes between them.
        self._end_threads = end_threads
        self._free = free
        self._trim = trim
        self._look_s = look_s
        self._least_bytes = resident()
        self._used_cpu_s = cpu_s()
        self._timer = loop.call_later(look_s, self._look)

    def _look(self) -> None:
        self._timer = self._loop.call_later(self._look_s, self._look)
        before_s, self._used_cpu_s = self._used_cpu_s, self._cpu_s()
        is_busy = self._used_cpu_s - before_s > BUSY_SHARE * self._look_s
        if not is_busy and self._resident() > self._least_bytes + GROWTH_BYTES:
            self._end_threads()
            self._perform(self._free)
            # Threads have ended by then.
            self._loop.call_later(AFTER_S, self._give_back)

    def _give_back(self) -> None:
        self._perform(self._trim)
        self._least_bytes = min(self._least_bytes, self._resident())

    def _perform(self, work: Callable[[], object]) -> None:
        began_ms = self._holds.now_ms()
        work()
        self._holds.ended(began_ms, "giving memory back")

    def close(self) -> None:
        """Look no more."""
        self._timer.cancel()
