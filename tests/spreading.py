"""How the tests are spread over the processes of pytest-xdist.

One hard idea: a test that waits for brokers leaves its core to others, so tests that wait and tests that compute are
mixed, from the beginning. What a process takes at a time is a *scope*: a room whose tests share what is slow to
start, a module, or one test that takes its seconds by itself.

(`--dist loadgroup` names scopes by changing the ids of tests, which pytest 9 does not allow any more.)
"""

from collections.abc import Iterable

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
# Rooms that wait for processes more than they compute.
WAITING = ("interop/", "pipeline/", "process/", "attack/", "conformance/", "lab/", "cli/", "local/")


class Spreading(LoadScopeScheduling):
    """Hands out scopes in the order in which the tests were collected."""

    def _split_scope(self, nodeid: str) -> str:
        return scope_of(nodeid)


def scope_of(nodeid: str) -> str:
    """Return the name of what a test is run together with."""
    module = nodeid.partition("::")[0].removeprefix("tests/")
    room = module.partition("/")[0]
    if room in ROOMS:
        return f"{room}/"
    return nodeid.removeprefix("tests/") if module in SINGLE else module


def mixed(nodeids: Iterable[str]) -> dict[str, int]:
    """Return the place of each scope: those that wait spread over the first half of the others, modules last."""
    scopes = list(dict.fromkeys(map(scope_of, nodeids)))
    waiting = sorted((each for each in scopes if each.startswith(WAITING)), key=_slowest_room_first)
    others = sorted((each for each in scopes if not each.startswith(WAITING)), key=lambda scope: "::" not in scope)
    places = {scope: 2 * place * len(waiting) for place, scope in enumerate(others)}
    places.update({scope: place * len(others) for place, scope in enumerate(waiting)})
    return places


def _slowest_room_first(scope: str) -> int:
    return next(place for place, room in enumerate(WAITING) if scope.startswith(room))
