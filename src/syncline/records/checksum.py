"""CRC-32C (Castagnoli), the checksum of every record batch.

The `crc32c` wheel reaches 25 GB/s, the same algorithm in Python 0.014 GB/s. The
wheel's package also imports a command line, which would slow down every start,
so only its extension module is loaded; the package is the fallback. Without the
wheel everything still works, slowly.

Check value: CRC-32C of ASCII "123456789" is E3069283 (RFC 3720, appendix B.4).
"""

import importlib.util
from collections.abc import Callable
from importlib.machinery import PathFinder
from typing import Final

from syncline.records.buffers import Buffer

# The Castagnoli polynomial 0x1EDC6F41, bits reversed.
POLYNOMIAL: Final = 0x82F63B78


def _table() -> tuple[int, ...]:
    entries = []
    for byte in range(256):
        value = byte
        for _ in range(8):
            value = (value >> 1) ^ (POLYNOMIAL if value & 1 else 0)
        entries.append(value)
    return tuple(entries)


def crc32c_in_python(data: Buffer) -> int:
    """Return the checksum of `data`, computed a byte at a time."""
    table = _table()
    value = 0xFFFFFFFF
    for byte in bytes(data):
        value = (value >> 8) ^ table[(value ^ byte) & 0xFF]
    return value ^ 0xFFFFFFFF


def _load() -> Callable[[Buffer], int]:
    """Return the fastest available implementation."""
    package = importlib.util.find_spec("crc32c")
    if package is None:
        return crc32c_in_python
    try:
        spec = PathFinder.find_spec("_crc32c", package.submodule_search_locations)
        if spec is not None and spec.loader is not None:
            module = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
            return _checked(module.crc32c)
    except (ImportError, AttributeError):
        # Another release has its extension elsewhere; the public import still works.
        pass
    from crc32c import crc32c as from_package

    return _checked(from_package)


def _checked(function: Callable[[Buffer], int]) -> Callable[[Buffer], int]:
    """Return `function` if it computes the right polynomial (a wrong one would corrupt every batch)."""
    return function if function(b"123456789") == 0xE3069283 else crc32c_in_python


crc32c: Final = _load()
