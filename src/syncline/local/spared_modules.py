"""A process of brokers without modules of which others want a name or two: they take 2 MB of each broker's memory.

`dataclasses`, asyncio and uvloop import `inspect`, and with it what reads source code and bytecode; `linecache`
imports `tokenize`. asyncio and uvloop import `subprocess`, `pathlib` what takes URLs apart, `uuid` what describes the
system, and `kio`, for annotations, `typing_extensions`.

Instead they get stand-ins. Any name that one of these lacks is taken from the real module, which is imported then.
"""

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from types import CodeType, FunctionType, GeneratorType, ModuleType
from typing import Any, Final

_CO_COROUTINE: Final = 0x80


@contextmanager
def spared_modules() -> Iterator[None]:
    """Have what is imported meanwhile get the stand-ins, except for modules that this process has already."""
    stand_ins = {name: _StandIn(name, names) for name, names in _NAMES.items() if name not in sys.modules}
    sys.modules.update(stand_ins)
    try:
        yield
    finally:
        for name, stand_in in stand_ins.items():
            if sys.modules.get(name) is stand_in:
                del sys.modules[name]


class _StandIn(ModuleType):
    """Stands for a module."""

    def __init__(self, name: str, names: Mapping[str, object]) -> None:
        super().__init__(name)
        self.__dict__.update(names)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if sys.modules.get(self.__name__) is self:
            del sys.modules[self.__name__]
        return getattr(import_module(self.__name__), name)


def _signature(*arguments: Any, **options: Any) -> Any:
    """Return what `inspect.signature` does; to `dataclasses` "": it makes docstrings of it, where there are none."""
    if sys._getframe(1).f_globals.get("__name__") == "dataclasses":  # noqa: SLF001 - the caller's name, and no more
        return ""
    return import_module("inspect").signature(*arguments, **options)


def _annotations(of: Any, **options: Any) -> Any:
    """Return what `inspect.get_annotations` does: from Python 3.12 on, `dataclasses` asks for those of classes."""
    if isinstance(of, type) and not options:
        return dict(of.__dict__.get("__annotations__") or {})  # noqa: RUF063 - it stands for that function
    return import_module("inspect").get_annotations(of, **options)


def _is_coroutine_function(value: Any) -> bool:
    """Return what `inspect.iscoroutinefunction` does; uvloop asks it of signal handlers."""
    while isinstance(value, partial):
        value = value.func
    code = getattr(value, "__code__", None)
    return isinstance(code, CodeType) and bool(code.co_flags & _CO_COROUTINE)


def _unwrapped(function: Any) -> Any:
    """Return what `inspect.unwrap` does: asyncio names callbacks in errors, also where no file can be opened."""
    while hasattr(function, "__wrapped__"):
        function = function.__wrapped__
    return function


def _quote_from_bytes(*arguments: Any, **options: Any) -> str:
    """Return what `urllib.parse.quote_from_bytes` does: `pathlib` writes paths as URLs with it."""
    text: str = import_module("urllib.parse").quote_from_bytes(*arguments, **options)
    return text


_NAMES: Final[Mapping[str, Mapping[str, object]]] = {
    "inspect": {
        "signature": _signature,
        "isgenerator": lambda value: isinstance(value, GeneratorType),
        "iscoroutinefunction": _is_coroutine_function,
        "get_annotations": _annotations,
        "unwrap": _unwrapped,
        "isfunction": lambda value: isinstance(value, FunctionType),
    },
    # `uuid` asks for the system's name, `platform.system()`.
    "platform": {"system": lambda: os.uname().sysname},
    "subprocess": {
        "PIPE": -1,
        "STDOUT": -2,
        "DEVNULL": -3,
        "SubprocessError": type("SubprocessError", (Exception,), {}),
    },
    "tokenize": {},
    "typing_extensions": {"Buffer": memoryview},
    "urllib.parse": {"quote_from_bytes": _quote_from_bytes},
}
