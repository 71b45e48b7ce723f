"""How much memory this machine has, and when a broker gives some back."""

import json
import platform
import subprocess
import sys

import pytest

from syncline.local.memory import (
    BUSY_SHARE,
    GROWTH_BYTES,
    PIECES,
    GivesBack,
    machine_memory_bytes,
    resident_bytes,
    trim_heap,
)
from syncline.node.clock import SystemClock
from syncline.node.loop.loop_holds import LoopHolds
from syncline.virtual.time.loop import VirtualLoop
from tests.cluster import ROOT

LOOK_S = 30.0
# What a worker does that opens batches: it has many buffers at once, then none; its thread goes on.
BURST_BYTES = 24 << 20
WORKER = f"""
import json, threading
from syncline.local.memory import keep_freed_memory, resident_bytes, trim_heap
keep_freed_memory()
made, looked, freed, over = (threading.Event() for _ in range(4))
def work():
    buffers = [bytearray(60_000).replace(bytes(1), b"1") for _ in range({BURST_BYTES} // 60_000)]
    made.set()
    looked.wait()
    buffers.clear()
    freed.set()
    over.wait()
sizes = [resident_bytes()]
threading.Thread(target=work).start()
made.wait()
sizes.append(resident_bytes())
looked.set()
freed.wait()
trim_heap()
sizes.append(resident_bytes())
over.set()
print(json.dumps(sizes))
"""


class Figures:
    """What the system says of a process."""

    def __init__(self) -> None:
        self.resident_bytes = 100 << 20
        self.cpu_s = 0.0
        self.trims = 0

    def trim(self) -> None:
        """Return what is more than at the start."""
        self.trims += 1
        self.resident_bytes = 100 << 20


def looked(figures: Figures, grown_bytes: int, cpu_s: float) -> int:
    """Return how often memory is given back in two looks, the first after a process has grown and used its CPU."""
    loop = VirtualLoop()
    gives_back = GivesBack(
        loop,
        LoopHolds(SystemClock()),
        resident=lambda: figures.resident_bytes,
        cpu_s=lambda: figures.cpu_s,
        trim=figures.trim,
        look_s=LOOK_S,
    )
    figures.resident_bytes += grown_bytes
    figures.cpu_s += cpu_s
    loop.call_later(2.5 * LOOK_S, loop.stop)
    loop.run_forever()
    gives_back.close()
    loop.close()
    return figures.trims


@pytest.mark.parametrize(
    ("grown_bytes", "expected"), [(GROWTH_BYTES + 1, 1), (GROWTH_BYTES, 0), (0, 0)], ids=["grown", "little", "not"]
)
def test_memory_is_given_back_once_after_it_has_grown(grown_bytes: int, expected: int) -> None:
    """The look after it finds nothing to do, since the memory is what it was at the start."""
    assert looked(Figures(), grown_bytes, 0) == expected


def test_busy_process_keeps_its_memory_until_it_is_idle() -> None:
    """While it works it would need the memory again; the next look finds it idle."""
    assert looked(Figures(), 100 << 20, LOOK_S * BUSY_SHARE + 1) == 1


def test_machine_tells_its_memory() -> None:
    """The figures are real ones."""
    trim_heap()

    assert 0 < resident_bytes() < machine_memory_bytes()


TUPLES = """
import gc, json
from syncline.local.memory import free_kept_objects
gc.freeze()
gc.disable()
circle = []
circle.append(circle)
del circle
kept = [tuple(range(19)) for _ in range(2_000)]
addresses = {id(each) for each in kept}
del kept
free_kept_objects()
made = [tuple(range(19)) for _ in range(2_000)]
print(json.dumps([sum(id(each) in addresses for each in made), gc.get_freeze_count(), gc.collect()]))
"""


def test_freed_tuples_are_not_kept_for_later_ones() -> None:
    """Each would keep a page of a burst; the look that frees them visits nothing, so garbage waits for the next one."""
    run = subprocess.run([sys.executable, "-c", TUPLES], cwd=ROOT / "src", check=True, capture_output=True, text=True)
    reused, frozen, garbage = json.loads(run.stdout)

    assert frozen == 0
    assert garbage >= 1
    # In a list of freed tuples the last one is taken first: all would be the same again, in the opposite order.
    assert reused < 2_000 or platform.python_implementation() != "CPython"


NAMES = """
import json, sys
from syncline.local.memory import free_kept_objects
names = ["".join(("__match", "_args__")) for _ in range(2_000)]
def kept():
    return sum(sys.getrefcount(names[index]) > 2 for index in range(len(names)))
told = [kept()]
for index in range(len(names)):
    getattr(object, names[index], None)
told.append(kept())
free_kept_objects()
print(json.dumps([*told, kept()]))
"""


@pytest.mark.skipif(platform.python_implementation() != "CPython", reason="others remember in another way")
def test_names_that_were_looked_up_are_not_kept() -> None:
    """Equal names at other places are remembered one by one: each would keep a page of a burst."""
    run = subprocess.run([sys.executable, "-c", NAMES], cwd=ROOT / "src", check=True, capture_output=True, text=True)
    before, looked_up, after = json.loads(run.stdout)

    assert looked_up > before + 500
    assert after == before


# Buffers too large for Python's own allocator, of which some are freed; where those lay, and where the next ones lie.
EXCHANGED = """
import ctypes, json
from syncline.local.memory import PIECES, exchange_kept_pieces, keep_freed_memory
keep_freed_memory()
def place(buffer):
    return ctypes.addressof(ctypes.c_char.from_buffer(buffer))
buffers = [bytearray(700) for _ in range(2_000)]
def reused():
    freed = set()
    for index in range(PIECES):
        freed.add(place(buffers[-1 - 100 * index]))
        buffers[-1 - 100 * index] = None
    yield
    buffers.extend(bytearray(700) for _ in range(PIECES))
    yield len(freed & {place(each) for each in buffers[-PIECES:]})
found = []
for before in (lambda: None, exchange_kept_pieces):
    looks = reused()
    next(looks)
    before()
    found.append(next(looks))
print(json.dumps(found))
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other libraries keep pieces in another way")
def test_freed_pieces_that_lie_anywhere_are_not_kept_for_the_thread() -> None:
    """Each would keep a page of a burst; those that are kept instead come from gaps."""
    run = subprocess.run(
        [sys.executable, "-c", EXCHANGED], cwd=ROOT / "src", check=True, capture_output=True, text=True
    )
    usually, exchanged = json.loads(run.stdout)

    assert usually == PIECES
    assert exchanged == 0


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc can be told to return memory")
def test_memory_that_a_worker_freed_is_given_back() -> None:
    """The end of a thread's own heap would never be: tens of megabytes after a worker has opened large batches."""
    run = subprocess.run([sys.executable, "-c", WORKER], cwd=ROOT / "src", check=True, capture_output=True, text=True)
    before, burst, after = json.loads(run.stdout)

    assert burst - before > BURST_BYTES * 0.9
    assert after - before < BURST_BYTES * 0.1
