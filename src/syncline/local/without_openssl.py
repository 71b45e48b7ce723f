"""A process of brokers without OpenSSL, which no broker uses: its library takes 3 MB of each broker's memory.

asyncio and uvloop import `ssl`; `hmac`, which compares secrets, imports `_hashlib`. Two of the three can do without:
asyncio runs on a Python that was built without OpenSSL, too, and most Pythons have functions of their own for the
hashes that `hashlib` promises (others, such as `scrypt`, are missing then). uvloop takes some names from `ssl` for TLS
connections; where there are none it only keeps them.
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
    sys.modules["ssl"] = None  # type: ignore[assignment]
    if _has_hashes():
        sys.modules["_hashlib"] = None  # type: ignore[assignment]
    try:
        import asyncio  # noqa: F401

        if find_spec("uvloop") is not None:
            sys.modules["ssl"] = _names_of_ssl()
            import uvloop  # noqa: F401
    finally:
        del sys.modules["ssl"]


def _has_hashes() -> bool:
    """Return whether this Python has the hashes by itself: some distributions leave them to OpenSSL."""
    names: tuple[str, ...] = ("_md5", "_sha1", "_sha3", "_blake2")
    names += ("_sha2",) if sys.version_info >= (3, 12) else ("_sha256", "_sha512")
    return all(find_spec(name) is not None for name in names)


def _names_of_ssl() -> ModuleType:
    """Return a module that has a value for each name that uvloop may take: numbers, and exceptions and classes."""
    names = ModuleType("ssl")
    names.__getattr__ = lambda name: -1 if name.isupper() else type(name, (OSError,), {})  # type: ignore[method-assign]
    return names
