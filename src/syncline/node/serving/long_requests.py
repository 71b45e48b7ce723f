"""Long requests in line: as many are served at once as fit into a share of the memory for clients.

One hard idea: a list takes ten to thirty times its bytes while it is served, as objects. If a hundred clients send a
megabyte each and all are decoded side by side, that is a gigabyte, although one event loop can work on one of them at a
time. So a long request is counted, as what it will take, from its first step to its answer. One for which there is no
room waits as bytes, in the order of arrival; short ones do not wait.

    Dispatcher ──steps──> arrived: room?  ──yes──> Stepping.begin
                                     └──no───> in line, until `ended` of another one ──> Stepping.queue

A request that parks would keep others in line for as long as its client likes. From then on, what it keeps is counted
for its connection alone; what a fetch keeps, with its session (`core/fetching/session_bytes.py`).
Produce and JoinGroup are not read as lists of any length, and brokers' own requests do not wait for clients.

Units: bytes. Invariant: while a request waits in line, another one is being served.
"""

from collections.abc import Callable
from typing import Final, Protocol

from syncline.node.serving.request import DECODED_AT_ONCE_BYTES, Request, Steps
from syncline.wire.api import ApiKey

# Which part of the limit all of them may take together, and how much at most: more would not be served sooner.
SHARE: Final = 4
SERVED_BYTES_MAX: Final = 64 << 20
# How many bytes of objects a byte of a list becomes, with the rows of its answer: measured with the shortest items.
GROWTH: Final = 16
FETCH_GROWTH: Final = 32
# A long SyncGroup has few assignments of many bytes, or at most as many small ones as are read.
ASSIGNMENTS_BYTES_MAX: Final = 16 << 20
_NEVER_LONG: Final = frozenset({ApiKey.PRODUCE, ApiKey.JOIN_GROUP})


class Serves(Protocol):
    """What works on requests in steps."""

    def begin(self, request: Request, steps: Steps, /) -> None:
        """Work on a request now, and between other work."""

    def queue(self, request: Request, steps: Steps, /) -> None:
        """Work on a request from the next turn of the loop on."""


def _ignore() -> None:
    """Do nothing about a long request."""


class LongRequests:
    """The long requests of one broker's clients, served or in line."""

    def __init__(self, stepping: Serves, limit_bytes: int) -> None:
        self._stepping = stepping
        # Called before a long request is served, which makes many objects.
        self.begins: Callable[[], object] = _ignore
        self._max_bytes = min(limit_bytes // SHARE, SERVED_BYTES_MAX)
        # What each request that is served takes; dicts stand for ordered sets.
        self._served: dict[Request, int] = {}
        self._served_bytes = 0
        self._line: dict[Request, Steps] = {}
        # What the parked ones keep.
        self._parked: dict[Request, int] = {}

    def __len__(self) -> int:
        return len(self._line)

    @property
    def served_bytes(self) -> int:
        """What the requests take that are being served."""
        return self._served_bytes

    def arrived(self, request: Request, steps: Steps, *, has_waited: bool = False) -> None:
        """Serve a request, or put it in line if it is long and there is no room.

        Of those that have waited, whose connections wait already, many come at once: each has turns of its own.
        """
        begin = self._stepping.queue if has_waited else self._stepping.begin
        cost_bytes = cost_of(request)
        if not cost_bytes:
            begin(request, steps)
            return
        request.line = self
        # Its body stays in the receive buffer, also while it is in line.
        request.connection.wait_for(request)
        if self._line or not self._has_room(cost_bytes):
            self._line[request] = steps
        else:
            self._serve(request, steps, begin)

    def parked(self, request: Request, kept_bytes: int) -> None:
        """Count what a long request keeps for its connection, and serve the next ones: it waits for an event."""
        if request not in self._served:
            return
        self._parked[request] = kept_bytes
        request.connection.holding.keep(kept_bytes)
        self._served_no_longer(request)

    def ended(self, request: Request) -> None:
        """Count a request no longer, and serve the next ones: it was answered, or its connection is lost."""
        steps = self._line.pop(request, None)
        if steps is not None:
            steps.close()
        kept_bytes = self._parked.pop(request, 0)
        if kept_bytes:
            request.connection.holding.keep(-kept_bytes)
        self._served_no_longer(request)

    def _served_no_longer(self, request: Request) -> None:
        cost_bytes = self._served.pop(request, 0)
        if cost_bytes:
            self._served_bytes -= cost_bytes
            request.connection.release(cost_bytes)
        while self._line:
            following = next(iter(self._line))
            if not self._has_room(cost_of(following)):
                break
            self._serve(following, self._line.pop(following), self._stepping.queue)

    def close(self) -> None:
        """Drop what is in line: the broker is stopping."""
        line, self._line = self._line, {}
        for steps in line.values():
            steps.close()

    def check_invariants(self) -> None:
        """Assert that what is served is counted, and that nothing waits without need."""
        assert self._served_bytes == sum(self._served.values()), f"{self._served_bytes} bytes of {self._served}"
        assert not self._parked.keys() & self._served.keys(), "a request is parked and served"
        assert self._served or not self._line, f"{len(self._line)} requests wait, and none is served"
        assert len(self._served) <= 1 or self._served_bytes <= self._max_bytes, (
            f"{len(self._served)} long requests take {self._served_bytes} of {self._max_bytes} bytes"
        )

    def _has_room(self, cost_bytes: int) -> bool:
        return not self._served or self._served_bytes + cost_bytes <= self._max_bytes

    def _serve(self, request: Request, steps: Steps, begin: Callable[[Request, Steps], None]) -> None:
        cost_bytes = cost_of(request)
        self._served[request] = cost_bytes
        self._served_bytes += cost_bytes
        request.connection.hold(cost_bytes)
        self.begins()
        begin(request, steps)


def cost_of(request: Request) -> int:
    """Return how much memory a long request takes while it is served; 0 for any other."""
    size_bytes = len(request.body) - request.position
    if size_bytes <= DECODED_AT_ONCE_BYTES or request.listener != "client" or request.key in _NEVER_LONG:
        return 0
    if request.key == ApiKey.SYNC_GROUP:
        return min(size_bytes * GROWTH, size_bytes + ASSIGNMENTS_BYTES_MAX)
    return size_bytes * (FETCH_GROWTH if request.key == ApiKey.FETCH else GROWTH)
