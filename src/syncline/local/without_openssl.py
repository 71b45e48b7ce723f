"""A process of brokers without OpenSSL, which no broker uses: its library takes 3 MB of each broker's memory.

asyncio and uvloop import `ssl`; `hmac`, which compares secrets, imports `_hashlib`. Two of the three can do without:
asyncio runs on a Python that was built without OpenSSL, too, and `hashlib` has functions of its own for the hashes that
it promises. uvloop takes some names from `ssl` for TLS connections; where there are none it only keeps them.
"""

import sys
from importlib.util import find_spec
from types import ModuleType


def spare_openssl() -> None:
    """Import asyncio and uvloop without OpenSSL, unless this process has it already.

    TLS connections of these two will not work here. `import ssl` does, afterwards.
    """
    if not {"ssl", "_hashlib", "asyncio", "uvloop"}.isdisjoint(sys.modules):
        return
    # Python raises ImportError for a module that is None.
    sys.modules["_hashlib"] = sys.modules["ssl"] = None  # type: ignore[assignment]
    try:
        import asyncio  # noqa: F401

        if find_spec("uvloop") is not None:
            sys.modules["ssl"] = _names_of_ssl()
            import uvloop  # noqa: F401
    finally:
        del sys.modules["ssl"]


def _names_of_ssl() -> ModuleType:
    """Return a module that has a value for each name that uvloop may take: numbers, and exceptions and classes."""
    names = ModuleType("ssl")
    names.__getattr__ = lambda name: -1 if name.isupper() else type(name, (OSError,), {})  # type: ignore[method-assign]
    return names
