"""How many objects Python's collector visits in one go, and when all of them are looked at."""

import json
import subprocess
import sys

import pytest

from syncline.local.cyclic_garbage import IDLE_SHARE, VISITED_MAX, WORTHWHILE, OldGarbage
from syncline.node.clock import SystemClock
from syncline.node.loop.loop_holds import LoopHolds
from syncline.virtual.time.loop import VirtualLoop
from tests.cluster import ROOT

LOOK_S = 30.0
# What a broker does between its start and its stop, as far as the collector is concerned: some objects stay, then a
# request with many items makes a million.
LIFE = """
import gc, json
from syncline.local.cyclic_garbage import collect_in_small_parts, collect_rarely
collect_rarely()
loaded = [[] for _ in range(300_000)]
collect_in_small_parts()
visited = []
gc.callbacks.append(lambda phase, info: phase == "start" and visited.append(
    sum(len(gc.get_objects(generation=each)) for each in range(info["generation"] + 1))))
items = [[] for _ in range(1_000_000)]
print(json.dumps(visited))
"""


def test_collector_visits_few_objects_at_a_time() -> None:
    """A million objects in one go take a tenth of a second, in which a broker answers nobody."""
    run = subprocess.run([sys.executable, "-c", LIFE], cwd=ROOT / "src", check=True, capture_output=True, text=True)
    visited = json.loads(run.stdout)

    assert len(visited) > 100
    assert max(visited) <= VISITED_MAX <= 3_500


# Three bursts of a million objects, the last one after a pause. Each look takes a second of a clock of its own, and
# 1,500 new objects a hundredth.
BURSTS = """
import gc, json
from syncline.local.cyclic_garbage import SparseLooks, collect_in_small_parts
collect_in_small_parts()
now_s, visited = [0.0], []
looks = SparseLooks(now_s=lambda: now_s[0])
def collector_looks(phase, info):
    if phase == "start":
        visited.append(sum(len(gc.get_objects(generation=each)) for each in range(info["generation"] + 1)))
        now_s[0] += 0.01 + (visited[-1] > 100)
gc.callbacks.append(collector_looks)
in_bursts = []
for pause_s in (0, 0, 100):
    now_s[0] += pause_s
    items = [[] for _ in range(400_000)]
    in_bursts.append([each for each in visited if each > 100])
    visited.clear()
looks.close()
kept = [[] for _ in range(100_000)]
print(json.dumps([in_bursts, len([each for each in visited if each > 100])]))
"""


def test_after_a_look_the_collector_pauses_a_hundred_times_as_long() -> None:
    """A burst is interrupted once, however many objects it makes."""
    run = subprocess.run([sys.executable, "-c", BURSTS], cwd=ROOT / "src", check=True, capture_output=True, text=True)
    in_bursts, after = json.loads(run.stdout)

    assert [len(each) for each in in_bursts] == [1, 0, 1]
    assert max(in_bursts[0] + in_bursts[2]) <= VISITED_MAX
    assert after > 10


# New objects that replace as many old ones: the collector's own count stays low meanwhile.
REPLACED = """
import gc, json
from syncline.local.cyclic_garbage import SparseLooks, collect_in_small_parts
collect_in_small_parts()
items = [[] for _ in range(50_000)]
gc.freeze()
looks, visited = SparseLooks(now_s=lambda: 0.0), []
gc.callbacks.append(lambda phase, info: phase == "start" and visited.append(
    sum(len(gc.get_objects(generation=each)) for each in range(info["generation"] + 1))))
for _ in range(3):
    for number in range(len(items)):
        items[number] = []
kept = [[] for _ in range(10_000)]
print(json.dumps(visited))
"""


def test_objects_that_replace_others_are_not_visited_all_at_once() -> None:
    """Guards: a coordinator of a thousand groups replaced what it knew of them, and then a look took 50 ms."""
    run = subprocess.run([sys.executable, "-c", REPLACED], cwd=ROOT / "src", check=True, capture_output=True, text=True)
    visited = json.loads(run.stdout)

    assert len(visited) > 5
    assert max(visited) <= VISITED_MAX


class Figures:
    """What the interpreter and the system say of a process."""

    def __init__(self) -> None:
        self.middle = 100
        self.cpu_s = 0.0
        self.collections = 0

    def collect(self) -> None:
        """Count a look at everything."""
        self.collections += 1


def looked(figures: Figures, grown: int, looks: int) -> int:
    """Return how often everything was looked at within so many looks, after so many collections of the middle."""
    loop = VirtualLoop()
    old_garbage = OldGarbage(
        loop,
        LoopHolds(SystemClock()),
        cpu_s=lambda: figures.cpu_s,
        middle=lambda: figures.middle,
        collect=figures.collect,
        look_s=LOOK_S,
    )
    figures.middle += grown
    loop.call_later((looks + 0.5) * LOOK_S, loop.stop)
    loop.call_soon(lambda: setattr(figures, "cpu_s", figures.cpu_s + LOOK_S * IDLE_SHARE + 1))
    loop.run_forever()
    old_garbage.close()
    loop.close()
    return figures.collections


@pytest.mark.parametrize(
    ("grown", "looks", "expected"),
    [(WORTHWHILE, 3, 1), (WORTHWHILE - 1, 3, 0), (WORTHWHILE, 1, 0)],
    ids=["grown", "little", "still-busy"],
)
def test_everything_is_looked_at_once_when_a_grown_broker_is_idle(grown: int, looks: int, expected: int) -> None:
    """It takes as long as there are objects, so it must be worth it; the first look finds the broker busy."""
    assert looked(Figures(), grown, looks) == expected
