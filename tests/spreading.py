"""How the tests are spread over the processes of pytest-xdist.

One hard idea: a test that waits for brokers leaves its core to others, a test that computes does not. So some
processes take what waits and the others what computes, from the beginning to the end, and whoever has nothing left of
its own kind takes from the other: no core is idle while there is something to compute, and no test that measures time
competes with more processes that compute than there are cores.

What a process takes at a time is a *scope*: a room whose tests share what is slow to start, a module, or one test that
takes its seconds by itself. What takes longest is first of its kind, so that no process ends long after the others.

(`--dist loadgroup` names scopes by changing the ids of tests, which pytest 9 does not allow any more.)
"""

from collections.abc import Iterable
from typing import Any

from xdist.scheduler import LoadScopeScheduling

# One agent for each client, one Spark session, one cluster.
ROOMS = ("interop", "pipeline", "conformance", "cli")
# Modules each of whose tests stands by itself and takes a second or more.
SINGLE = (
    "virtual/test_seeds.py",
    "virtual/test_stops.py",
    "virtual/test_planted_faults.py",
    "lab/test_scenarios.py",
    "process/test_full_disk.py",
    "process/test_pauses.py",
    "process/test_restart.py",
    "process/test_slow_leader.py",
)
# Rooms that wait for processes more than they compute, those with the longest scopes first.
WAITING = ("interop/", "pipeline/", "cli/", "conformance/", "attack/", "process/", "local/", "lab/")
# The room that computes with the longest scopes.
LONG = "virtual/"
# So many processes take what waits. With three on two cores, tests of brokers took three times as long as alone, and
# those that bound a time failed now and then.
WAITING_PROCESSES = 2


class Spreading(LoadScopeScheduling):
    """Hands out scopes of each kind in the order in which the tests were collected."""

    def _split_scope(self, nodeid: str) -> str:
        return scope_of(nodeid)

    def _assign_work_unit(self, node: Any) -> None:
        scope = next_scope(self.workqueue, number_of(node.gateway.id), self.numnodes)
        self.workqueue.move_to_end(scope, last=False)
        super()._assign_work_unit(node)


def number_of(worker: str) -> int:
    """Return the number of a process, which pytest-xdist calls gw0, gw1 and so on."""
    return int(worker.removeprefix("gw"))


def next_scope(scopes: Iterable[str], number: int, processes: int) -> str:
    """Return what a process takes next of the scopes that are left: the first of its kind, or the first of all."""
    computes = number < max(1, processes - WAITING_PROCESSES)
    left = list(scopes)
    return next((scope for scope in left if scope.startswith(WAITING) is not computes), left[0])


def scope_of(nodeid: str) -> str:
    """Return the name of what a test is run together with."""
    module = nodeid.partition("::")[0].removeprefix("tests/")
    room = module.partition("/")[0]
    if room in ROOMS:
        return f"{room}/"
    return nodeid.removeprefix("tests/") if module in SINGLE else module


def ordered(nodeids: Iterable[str]) -> dict[str, int]:
    """Return the place of each scope among those of its kind: what takes longest comes first."""
    scopes = dict.fromkeys(map(scope_of, nodeids))
    return {scope: place for place, scope in enumerate(sorted(scopes, key=_longest_first))}


def _longest_first(scope: str) -> int:
    if scope.startswith(WAITING):
        return next(place for place, room in enumerate(WAITING) if scope.startswith(room))
    return int("::" in scope) if scope.startswith(LONG) else 2
