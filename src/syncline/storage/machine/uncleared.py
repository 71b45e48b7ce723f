"""Buffers for reads, without the zeros that `bytearray(size)` writes: clearing takes a fifth of a read from memory.

CPython's `PyByteArray_FromStringAndSize` leaves the contents uninitialized when it gets no string. The caller must fill
the whole buffer, or discard it.
"""

import ctypes
from collections.abc import Callable


def _load() -> Callable[[int], bytearray]:
    try:
        make = ctypes.pythonapi.PyByteArray_FromStringAndSize
    except AttributeError:
        # Another Python than CPython.
        return bytearray
    make.argtypes = (ctypes.c_void_p, ctypes.c_ssize_t)
    make.restype = ctypes.py_object
    return lambda size: make(None, size)


uncleared: Callable[[int], bytearray] = _load()
