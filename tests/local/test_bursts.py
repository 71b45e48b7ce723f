"""Bursts: what they took is given back although some of their objects live on."""

import gc
import json
import platform
import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest

from syncline.local.bursts import GROWTH_OBJECTS, LOOKS, Bursts
from syncline.virtual.time.loop import VirtualLoop
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
for _ in range(200):
    loop.run_until_complete(asyncio.sleep(0.05))
    if changes[-1:] == [False]:
        break
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


class Watched:
    """Bursts of a simulated loop, with a number of objects that a test sets; the collector looks when it is told to."""

    def __init__(self) -> None:
        self.loop = VirtualLoop()
        self.changes: list[bool] = []
        self.is_closed = False
        self.objects = 1_000_000
        self.bursts = Bursts(self.loop, self.changes.append, quiet_s=QUIET_S, objects=lambda: self.objects)

    def at(self, time_s: float, *, more: int = 0, looks: int = 1) -> None:
        """Have objects made at a time, and the collector look so often in the same turn of the loop."""

        def make() -> None:
            self.objects += more
            for _ in range(looks):
                gc.collect(0)

        self.loop.call_later(time_s, make)

    def seen_at(self, *times_s: float) -> list[bool]:
        """Run until the last of these times; return at which of them there was a burst."""
        seen: list[bool] = []
        for time_s in times_s:
            self.loop.call_later(time_s, lambda: seen.append(bool(self.changes) and self.changes[-1]))
        self.loop.call_later(times_s[-1], self.loop.stop)
        self.loop.run_forever()
        return seen


@pytest.fixture
def watched() -> Iterator[Watched]:
    """Return bursts that are watched; nothing but the test makes the collector look."""
    gc.disable()
    made = Watched()
    yield made
    if not made.is_closed:
        made.bursts.close()
    made.loop.close()
    gc.enable()


def test_burst_begins_with_many_more_objects_than_lately_and_ends_two_seconds_after_the_last_sign(
    watched: Watched,
) -> None:
    """The first look sees the least there was; during a burst several looks in one turn are a sign of more."""
    watched.at(0.5)
    watched.at(1.0, more=GROWTH_OBJECTS)
    watched.at(1.2, more=1)
    watched.at(3.0, looks=LOOKS)
    watched.at(5.0, looks=LOOKS)

    assert watched.seen_at(1.1, 1.3, 7.5, 8.5) == [False, True, True, False]
    assert watched.changes == [True, False]


def test_many_looks_at_small_requests_are_no_burst(watched: Watched) -> None:
    """Guards: two hundred small requests at once made each of them 7 % more expensive, as long as they came."""
    for number in range(100):
        watched.at(0.1 * number, more=GROWTH_OBJECTS if number % 2 else -GROWTH_OBJECTS)

    assert watched.seen_at(9.95) == [False]


def test_growth_after_a_fall_is_a_burst(watched: Watched) -> None:
    """What counts is the least there was, also between two ends of a quiet time."""
    watched.at(2.1, more=-GROWTH_OBJECTS)
    watched.at(2.2, more=GROWTH_OBJECTS + 1)

    assert watched.seen_at(2.3) == [True]


def test_looks_of_another_thread_prolong_a_burst(watched: Watched) -> None:
    """A worker opens batches: the loop has no turn of that."""

    def look() -> None:
        thread = threading.Thread(target=gc.collect, args=(0,))
        thread.start()
        thread.join()

    watched.loop.call_later(1.0, watched.bursts.begins)
    watched.loop.call_later(3.0, look)

    assert watched.seen_at(5.5, 6.5) == [True, False]


def test_a_look_while_a_burst_ends_begins_none(watched: Watched) -> None:
    """Guards: to switch the allocator makes objects, and a look at them began the burst again, for ever."""
    changes = watched.changes
    watched.bursts.close()
    bursts = Bursts(
        watched.loop,
        lambda is_burst: (changes.append(is_burst), gc.collect(0)),
        quiet_s=QUIET_S,
        objects=lambda: watched.objects,
    )
    watched.bursts = bursts
    bursts.begins()
    watched.objects += 2 * GROWTH_OBJECTS

    assert watched.seen_at(9.0) == [False]
    assert changes == [True, False]


def test_slow_growth_is_no_burst(watched: Watched) -> None:
    """What lives long may grow; what there was lately is what there was in the last two seconds."""
    for number in range(20):
        watched.at(number + 0.5, more=GROWTH_OBJECTS // 3)

    assert watched.seen_at(20.0) == [False]


def test_few_looks_in_a_turn_do_not_prolong_a_burst(watched: Watched) -> None:
    """Small requests make the collector look in many turns, for as long as they come."""
    watched.loop.call_later(1.0, watched.bursts.begins)
    for number in range(100):
        watched.at(1.0 + 0.1 * number, looks=LOOKS - 1)

    assert watched.seen_at(1.1, 3.9, 4.1) == [True, True, False]


def test_burst_begins_when_a_long_request_says_so(watched: Watched) -> None:
    """Lists of names or numbers are no containers: the collector would not look."""
    watched.loop.call_later(1.0, watched.bursts.begins)

    assert watched.seen_at(1.1, 7.0) == [True, False]


def test_look_at_everything_is_no_burst(watched: Watched) -> None:
    """It is asked for when there is little to do (`local.cyclic_garbage`, `local.memory`)."""
    watched.objects += 2 * GROWTH_OBJECTS
    gc.collect()

    assert not watched.changes


def test_closing_ends_a_burst(watched: Watched) -> None:
    """Nothing would end it later."""
    watched.bursts.begins()
    watched.bursts.close()
    watched.is_closed = True
    watched.objects += 2 * GROWTH_OBJECTS
    gc.collect(0)

    assert watched.changes == [True, False]
