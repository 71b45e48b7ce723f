"""What code may reach during a run: the simulated world, and nothing else.

Third-party clients take time and random numbers from the standard library. Within
`sealed` they get virtual time and a seeded stream instead. Syncline's own modules
get an error: they receive a clock and a generator and must use those. An audit
hook refuses files, sockets, processes and threads. The cyclic garbage collector
is off, so that finalisers run when reference counts reach 0, which is the same in
every run.

Imports may still read files: modules are loaded when they are first needed, which
takes no virtual time.
"""

import contextlib
import functools
import gc
import logging
import os
import random
import sys
import threading
import time
import uuid
import zlib
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any, Final

from syncline.virtual.determinism.streams import stream
from syncline.virtual.time.clock import world_wall_ns
from syncline.virtual.time.loop import VirtualLoop

QUIET_LOGGERS: Final = ("aiokafka", "asyncio")
DICE: Final = (
    "random", "uniform", "randint", "randrange", "choice", "choices", "shuffle", "sample", "getrandbits", "randbytes",
    "expovariate", "gauss", "normalvariate", "triangular",
)  # fmt: skip
REFUSED_EVENTS: Final = frozenset({
    "open", "os.listdir", "os.scandir", "os.remove", "os.rename", "os.mkdir", "os.rmdir", "os.truncate",
    "subprocess.Popen", "os.system", "os.exec", "os.fork", "os.forkpty", "os.posix_spawn", "os.kill", "pty.spawn",
    "_thread.start_new_thread", "sqlite3.connect",
    "socket.__new__", "socket.connect", "socket.bind", "socket.getaddrinfo", "socket.gethostbyname",
})  # fmt: skip
THREAD_STARTERS: Final = ("_start_new_thread", "_start_joinable_thread")
# Loading modules and formatting tracebacks reads source files.
MAY_OPEN: Final = ("importlib", "_frozen_importlib", "linecache", "tokenize", "zipimport", "encodings")

# The simulated thread. Other threads of this process belong to libraries and are not restricted.
_armed_thread = 0
_is_hooked = False


class OutsideWorldError(RuntimeError):
    """Something reached for the real world during a run."""


def _audit(
    event: str,
    args: tuple[Any, ...],
    # Bound here, because the interpreter clears the names of a module before its last events.
    refused: frozenset[str] = REFUSED_EVENTS,
    own_thread: Callable[[], int] = threading.get_ident,
) -> None:
    if event not in refused or own_thread() != _armed_thread:
        return
    # At any depth: files that a module reads during its import are part of loading it.
    frame: FrameType | None = sys._getframe(1)  # noqa: SLF001 - the caller decides
    while frame is not None:
        if str(frame.f_globals.get("__name__", "")).startswith(MAY_OPEN):
            return
        frame = frame.f_back
    raise OutsideWorldError(f"{event}{args!r} during a simulated run")


def _refuse_own(name: str) -> None:
    """Raise if the caller's caller is one of our modules, which receive a clock and a generator."""
    caller = str(sys._getframe(2).f_globals.get("__name__", ""))  # noqa: SLF001 - the caller decides
    if caller.startswith("syncline.") and not caller.startswith("syncline.virtual"):
        raise OutsideWorldError(f"{caller} called {name}: it must use the clock and the generator that it was given")


def _virtual_time(loop: VirtualLoop) -> dict[str, Callable[..., object]]:
    def wall_ns() -> int:
        _refuse_own("time.time_ns")
        return world_wall_ns(loop)

    def wall() -> float:
        _refuse_own("time.time")
        return world_wall_ns(loop) / 1e9

    def monotonic_ns() -> int:
        _refuse_own("time.monotonic_ns")
        return loop.now_ns

    def monotonic() -> float:
        _refuse_own("time.monotonic")
        return loop.now_ns / 1e9

    real_sleep, own_thread = time.sleep, threading.get_ident()

    def sleep(seconds: float) -> None:
        if threading.get_ident() != own_thread:
            real_sleep(seconds)
            return
        raise OutsideWorldError(f"time.sleep({seconds}) would block the loop")

    return {
        "time": wall,
        "time_ns": wall_ns,
        "monotonic": monotonic,
        "monotonic_ns": monotonic_ns,
        "perf_counter": monotonic,
        "perf_counter_ns": monotonic_ns,
        "sleep": sleep,
    }


def _seeded_dice(rng: random.Random) -> dict[str, Callable[..., object]]:
    def die(name: str) -> Callable[..., object]:
        method = getattr(rng, name)

        def throw(*args: Any, **options: Any) -> object:
            _refuse_own(f"random.{name}")
            return method(*args, **options)

        return throw

    return {name: die(name) for name in DICE}


_salt_free = functools.lru_cache(maxsize=4096)(lambda text: zlib.crc32(text.encode()))


def _partition_hash(self: tuple[str, int]) -> int:
    return hash((_salt_free(self[0]), self[1]))


def _stable_hash(self: tuple[Any, ...]) -> int:
    """Return the hash of a named tuple without salt (str) and without addresses (None, before Python 3.12)."""
    return hash(tuple([_salt_free(item) if isinstance(item, str) else item or 0 for item in self]))


@contextlib.contextmanager
def _replaced(owner: object, replacements: dict[str, Any]) -> Iterator[None]:
    originals = {name: getattr(owner, name) for name in replacements}
    for name, replacement in replacements.items():
        setattr(owner, name, replacement)
    try:
        yield
    finally:
        for name, original in originals.items():
            setattr(owner, name, original)


@contextlib.contextmanager
def _stable_client_hashes() -> Iterator[None]:
    """Make the hashes of aiokafka's brokers and partitions independent of the salt: it iterates over sets of them."""
    from aiokafka import structs

    with contextlib.ExitStack() as stack:
        stack.enter_context(_replaced(structs.TopicPartition, {"__hash__": _partition_hash}))
        for structure in (structs.BrokerMetadata, structs.OffsetAndMetadata):
            stack.enter_context(_replaced(structure, {"__hash__": _stable_hash}))
        yield


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    levels = {name: logging.getLogger(name).level for name in QUIET_LOGGERS}
    for name in QUIET_LOGGERS:
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        for name, level in levels.items():
            logging.getLogger(name).setLevel(level)


@contextlib.contextmanager
def _no_collector() -> Iterator[None]:
    was_enabled = gc.isenabled()
    gc.collect()
    if not gc.get_freeze_count():
        # Later collections need not visit every module again. Freeze before a run, not after it: objects of the
        # last run are still referenced in places and would never be freed.
        gc.freeze()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


@contextlib.contextmanager
def _armed_hook() -> Iterator[None]:
    global _armed_thread, _is_hooked  # noqa: PLW0603 - an audit hook cannot be removed, so there is one for all runs
    if not _is_hooked:
        sys.addaudithook(_audit)
        _is_hooked = True
    _armed_thread = threading.get_ident()
    try:
        yield
    finally:
        _armed_thread = 0


@contextlib.contextmanager
def sealed(loop: VirtualLoop, seed: int) -> Iterator[None]:
    """Replace time, random numbers, files and sockets by simulated ones while the body runs."""
    rng = stream(seed, "third-party")
    with contextlib.ExitStack() as stack:
        stack.enter_context(_stable_client_hashes())
        stack.enter_context(_quiet())
        stack.enter_context(_no_collector())
        stack.enter_context(_replaced(time, _virtual_time(loop)))
        stack.enter_context(_replaced(random, _seeded_dice(rng)))
        stack.enter_context(_replaced(os, {"urandom": rng.randbytes}))
        stack.enter_context(_replaced(uuid, {"uuid1": _no_uuid1}))
        # Audit events for threads exist only from Python 3.12 on.
        starters = [name for name in THREAD_STARTERS if hasattr(threading, name)]
        stack.enter_context(_replaced(threading, dict.fromkeys(starters, _no_thread)))
        stack.enter_context(_armed_hook())
        yield


def _no_thread(*_args: object, **_options: object) -> None:
    raise OutsideWorldError("threads run in real time")


def _no_uuid1(*_args: object) -> uuid.UUID:
    raise OutsideWorldError("uuid1 reads the clock and the network card")
