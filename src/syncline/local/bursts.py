"""Bursts: from where small objects get their memory while many of them are made.

Python's allocator, for objects of at most 512 bytes, returns only whole arenas of a megabyte, and one object that is
left keeps one. A burst of a million objects leaves a few hundred that live on, all over what it took: a broker would
keep some ten megabytes for good. So during a burst, objects get their memory from the C library, which gives back
every free page (`local.memory`). It takes 6 to 8 % more processor time for a small request, so only then.

    Python's allocator ──many objects more, or `begins`──> the C library's heap
                       <──two seconds without a sign of more──

The collector looks when there are some thousand containers more than at its last look (`local.cyclic_garbage`). Many
small requests at once make it look, too, but what they make is freed with them. So each look counts the objects that
Python's allocator holds, and many more than there were lately are a burst. While one lasts they cannot be counted: then
several looks within one turn of the loop, or one in another thread, mean that there are more. A long request would have
made megabytes before it is seen, and lists of names or numbers are no containers: who begins one says so.

What is freed goes back to where it came from: Python's allocator passes on what is in none of its arenas.
"""

import asyncio
import ctypes
import gc
import sys
import threading
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Final

# CPython's `PyMemAllocatorDomain`.
RAW: Final = 0
MEMORY: Final = 1
OBJECTS: Final = 2

# For how long no sign of more objects means that a burst is over.
QUIET_S: Final = 2.0
# So many more objects than the fewest of the last `QUIET_S` are a burst: one or two megabytes.
GROWTH_OBJECTS: Final = 20_000
# Looks in one turn of the loop, at some 1,500 new containers each, of which requests that wait make fewer.
LOOKS: Final = 8


class _Allocator(ctypes.Structure):
    """CPython's `PyMemAllocatorEx`. Source: "Memory Management" of the Python/C API."""

    _fields_: ClassVar = [(name, ctypes.c_void_p) for name in ("context", "malloc", "calloc", "realloc", "free")]


class ObjectHeap:
    """From where new objects get their memory."""

    def __init__(self) -> None:
        self._usual = _get(OBJECTS)
        raw = _get(RAW)
        # Another allocator (PYTHONMALLOC) may have a context, or may not know memory that it did not give.
        self.can_change = (
            # A free-threaded build. `sysconfig` would say so as well, and takes 0.2 MB.
            "t" not in sys.abiflags and not (self._usual.context or raw.context) and self._usual.malloc != raw.malloc
        )
        self._system = _Allocator(None, raw.malloc, raw.calloc, self._usual.realloc, self._usual.free)

    def use_system(self, is_burst: bool, /) -> None:
        """Have new objects get their memory from the C library, or from Python's allocator again."""
        if not self.can_change:
            return
        allocator = self._system if is_burst else self._usual
        for domain in (OBJECTS, MEMORY):
            ctypes.pythonapi.PyMem_SetAllocator(domain, ctypes.byref(allocator))


def _get(domain: int) -> _Allocator:
    allocator = _Allocator()
    ctypes.pythonapi.PyMem_GetAllocator(domain, ctypes.byref(allocator))
    return allocator


class Bursts:
    """Sees from the collector's looks, and hears, when a burst begins; and sees when it ends."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        changed: Callable[[bool], object],
        *,
        quiet_s: float = QUIET_S,
        objects: Callable[[], int] = sys.getallocatedblocks,
    ) -> None:
        self._loop = loop
        # Called with whether there is a burst now; its beginning, from the thread that makes the objects.
        self._changed = changed
        self._quiet_s = quiet_s
        # Returns how many objects Python's allocator holds, less those of bursts that were freed since; a tenth of a
        # millisecond at most.
        self._objects = objects
        self._least = objects()
        self._is_burst = False
        self._has_more = False
        # Looks within this turn of the loop, which runs in this thread.
        self._looks = 0
        self._thread_id = threading.get_ident()
        gc.callbacks.append(self._collector_looks)
        self._timer = loop.call_later(quiet_s, self._tick)

    def _collector_looks(self, phase: str, info: Mapping[str, Any]) -> None:
        # A look at everything is asked for: it says nothing about new objects.
        if phase != "start" or info["generation"] == 2:
            return
        if not self._is_burst:
            count = self._objects()
            self._least = min(self._least, count)
            if count - self._least > GROWTH_OBJECTS:
                self.begins()
        elif threading.get_ident() != self._thread_id:
            # A worker that opens batches.
            self._has_more = True
        else:
            self._looks += 1
            if self._looks == 1:
                self._loop.call_soon(self._turn_ended)
            elif self._looks >= LOOKS:
                self._has_more = True

    def _turn_ended(self) -> None:
        self._looks = 0

    def begins(self) -> None:
        """Record that many objects are about to be made."""
        self._has_more = True
        if not self._is_burst:
            self._is_burst = True
            self._changed(True)

    def _tick(self) -> None:
        self._timer = self._loop.call_later(self._quiet_s, self._tick)
        if self._is_burst and not self._has_more:
            # In this order: what is made meanwhile may make the collector look, which begins no burst as long as one
            # is there.
            self._changed(False)
            self._least = self._objects()
            self._is_burst = False
        elif not self._is_burst:
            self._least = self._objects()
        self._has_more = False

    def close(self) -> None:
        """End the burst, and look no more."""
        gc.callbacks.remove(self._collector_looks)
        self._timer.cancel()
        if self._is_burst:
            self._is_burst = False
            self._changed(False)
