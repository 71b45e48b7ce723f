"""Bursts: what they took is given back although some of their objects live on."""

import gc
import json
import platform
import subprocess
import sys

import pytest

from syncline.local.bursts import Bursts
from syncline.virtual.loop import VirtualLoop
from tests.cluster import ROOT

QUIET_S = 2.0
# What brokers do: a burst of small objects, of which every thousandth lives on.
BURST = """
import asyncio, gc, json
from syncline.local.bursts import Bursts, ObjectHeap
from syncline.local.cyclic_garbage import collect_in_small_parts
from syncline.local.memory import free_kept_objects, keep_freed_memory, resident_bytes, trim_heap
keep_freed_memory()
collect_in_small_parts()
heap, loop, changes = ObjectHeap(), asyncio.new_event_loop(), []
def changed(is_burst):
    changes.append(is_burst)
    heap.use_system(is_burst)
bursts = Bursts(loop, changed, quiet_s=0.1)
def look():
    free_kept_objects()
    trim_heap()
    return resident_bytes()
sizes = [look()]
items = [(number, str(number), bytes(100)) for number in range(200_000)]
sizes.append(look())
kept = items[::1_000]
items.clear()
sizes.append(look())
loop.run_until_complete(asyncio.sleep(0.25))
later = [(number, str(number), bytes(100)) for number in range(1_000)]
print(json.dumps({"sizes": sizes, "changes": changes, "can_change": heap.can_change, "kept": sum(map(len, kept))}))
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc can be told to return memory")
def test_survivors_of_a_burst_keep_little_more_than_themselves() -> None:
    """In arenas of Python's allocator, two hundred tuples would keep all of the forty megabytes."""
    run = subprocess.run([sys.executable, "-c", BURST], cwd=ROOT / "src", check=True, capture_output=True, text=True)
    told = json.loads(run.stdout)
    before, burst, after = told["sizes"]

    assert told["can_change"]
    assert told["changes"] == [True, False]
    assert burst - before > 30 << 20
    assert after - before < 4 << 20


def test_another_allocator_is_left_alone() -> None:
    """It was asked for, and may not know memory that it did not give: a debugger's checks, or the C library."""
    for name in ("debug", "malloc"):
        run = subprocess.run(
            [sys.executable, "-c", BURST],
            cwd=ROOT / "src",
            env={"PATH": "", "PYTHONMALLOC": name},
            check=True,
            capture_output=True,
            text=True,
        )
        told = json.loads(run.stdout)

        assert not told["can_change"]
        assert told["kept"] == 3 * 200


@pytest.fixture
def changes() -> list[bool]:
    """Return what was said about bursts."""
    return []


def test_burst_lasts_from_the_first_look_of_the_collector_until_two_seconds_without_one(changes: list[bool]) -> None:
    """Each look within that time makes it last longer."""
    loop = VirtualLoop()
    bursts = Bursts(loop, changes.append, quiet_s=QUIET_S)
    seen: list[tuple[float, bool]] = []
    for at_s in (1.0, 3.0, 5.0):
        loop.call_later(at_s, gc.collect, 0)
    for at_s in (0.5, 1.5, 7.5, 8.5):
        loop.call_later(at_s, lambda at_s=at_s: seen.append((at_s, bool(changes) and changes[-1])))
    loop.call_later(9.0, loop.stop)
    gc.disable()
    try:
        loop.run_forever()
    finally:
        gc.enable()
        bursts.close()
        loop.close()

    assert seen == [(0.5, False), (1.5, True), (7.5, True), (8.5, False)]
    assert changes == [True, False]


def test_burst_begins_when_a_long_request_says_so(changes: list[bool]) -> None:
    """Lists of names or numbers are no containers: the collector would not look."""
    loop = VirtualLoop()
    bursts = Bursts(loop, changes.append, quiet_s=QUIET_S)
    loop.call_later(1.0, bursts.begins)
    loop.call_later(7.0, loop.stop)
    gc.disable()
    try:
        loop.run_forever()
    finally:
        gc.enable()
        bursts.close()
        loop.close()

    assert changes == [True, False]


def test_look_at_everything_is_no_burst(changes: list[bool]) -> None:
    """It is asked for when there is little to do (`local.cyclic_garbage`, `local.memory`)."""
    loop = VirtualLoop()
    bursts = Bursts(loop, changes.append, quiet_s=QUIET_S)
    gc.disable()
    try:
        gc.collect()
    finally:
        gc.enable()
        bursts.close()
        loop.close()

    assert not changes


def test_closing_ends_a_burst(changes: list[bool]) -> None:
    """Nothing would end it later."""
    loop = VirtualLoop()
    bursts = Bursts(loop, changes.append, quiet_s=QUIET_S)
    gc.collect(0)
    bursts.close()
    gc.collect(0)
    loop.close()

    assert changes == [True, False]
