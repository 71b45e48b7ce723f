"""Cyclic garbage: when Python's collector looks for it, and how many objects it visits in one go.

A collection holds the event loop while it visits objects and all that these refer to, up to two microseconds for each.
Python's collector has three generations: young objects are visited often, survivors move to the middle and then to the
old one. What may be visited in one go is therefore decided by how many survive until the next look: a request with a
hundred thousand items makes a million objects that all survive.

    until the broker serves     rarely: a start makes objects that stay
    from then on                all objects there are stay unvisited (frozen, until `local.memory` first gives memory
                                back); of later ones, the young and the middle generation are so small that a
                                collection takes a few milliseconds, and then there is none for a hundred times as long
    the old generation          as a whole, which takes as long as there are objects: a tenth of a second for a million;
                                so only after half a minute in which the broker had next to nothing to do, and only if
                                it has grown much

Most objects are freed without the collector. It is needed for references in circles, which no object that lives long
and comes in numbers has: neither partitions nor connections, sessions or requests. A broker that is never idle keeps
for good what a circle holds if the collector pauses when it is made. So no request may leave one, however wrong it is.
"""

import asyncio
import gc
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

from syncline.node.loop.loop_holds import LoopHolds

# While starting: new objects before the young generation is looked at, its collections before one of the middle
# generation, and those before one of the old.
STARTING: Final = (50_000, 20, 100)
# While serving. The middle generation is visited with the young one, when it has the survivors of one collection.
SERVING: Final = (1_500, 0, 50_000)
VISITED_MAX: Final = (SERVING[1] + 2) * (SERVING[0] + 100)

# After a look, the collector pauses so many times as long as it took.
PAUSE: Final = 100

LOOK_S: Final = 30.0
# The share of a processor above which a broker is not idle: one without clients uses less.
IDLE_SHARE: Final = 0.03
# Collections of the middle generation after which looking at the old one is worth its time.
WORTHWHILE: Final = 130


def collect_rarely() -> None:
    """Let a start make its objects."""
    gc.set_threshold(*STARTING)


def collect_in_small_parts() -> None:
    """Visit no object again that is there now, and few of the later ones at a time."""
    gc.freeze()
    gc.set_threshold(*SERVING)


class SparseLooks:
    """Bounds the share of time that looks at young objects take, to one in `PAUSE`.

    A request that makes a million objects would be interrupted by six hundred looks, which together take longer than
    the request and find nothing. Objects that are young during a pause are put out of the collector's sight, which
    takes no time; all that are out of sight belong to the old generation when `local.memory` next gives memory back.

    So are young objects that are too many for one look. The collector counts new objects less freed ones, of any age:
    where fifty thousand new ones replace as many old ones, its next look would take 50 ms.
    """

    def __init__(self, *, now_s: Callable[[], float] = time.perf_counter) -> None:
        self._now_s = now_s
        self._began_s = self._paused_until_s = 0.0
        gc.callbacks.append(self._collector_looks)

    def _collector_looks(self, phase: str, info: Mapping[str, Any]) -> None:
        # A look at everything is asked for.
        if info["generation"] == 2:
            return
        now_s = self._now_s()
        if phase == "start":
            self._began_s = now_s
            if now_s < self._paused_until_s or _young(info["generation"]) > VISITED_MAX:
                gc.freeze()
        elif self._began_s >= self._paused_until_s:
            self._paused_until_s = now_s + PAUSE * (now_s - self._began_s)

    def close(self) -> None:
        """Let the collector look whenever it wants to."""
        gc.callbacks.remove(self._collector_looks)


def _young(generation: int) -> int:
    """Return how many objects a look at this generation visits; a hundred take a microsecond."""
    return sum(len(gc.get_objects(generation=each)) for each in range(generation + 1))


class OldGarbage:
    """Looks at the old generation of an idle broker."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        holds: LoopHolds,
        *,
        cpu_s: Callable[[], float] = time.process_time,
        middle: Callable[[], int] = lambda: gc.get_stats()[1]["collections"],
        collect: Callable[[], object] = gc.collect,
        look_s: float = LOOK_S,
    ) -> None:
        self._loop = loop
        self._holds = holds
        self._cpu_s = cpu_s
        # How many collections of the middle generation there were, and at the last one of all.
        self._middle = middle
        self._middle_before = middle()
        self._collect = collect
        self._look_s = look_s
        self._used_cpu_s = cpu_s()
        self._timer = loop.call_later(look_s, self._look)

    def close(self) -> None:
        """Look no more."""
        self._timer.cancel()

    def _look(self) -> None:
        self._timer = self._loop.call_later(self._look_s, self._look)
        before_s, self._used_cpu_s = self._used_cpu_s, self._cpu_s()
        grown = self._middle() - self._middle_before
        if self._used_cpu_s - before_s > IDLE_SHARE * self._look_s or grown < WORTHWHILE:
            return
        self._middle_before += grown
        began_ms = self._holds.now_ms()
        self._collect()
        self._holds.ended(began_ms, "garbage collection")
