"""Dispatch: from an API key to its handler, and from a failure to the right answer.

A request for a key or version that this listener does not offer closes the
connection, as in Kafka. Only ApiVersions is answered at any version, because
clients learn the versions from it. An unexpected exception in a
handler is our bug: it is logged with its traceback, the request's connection
is closed (the client retries), and the broker continues.
"""

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from syncline.model.tables import shrink
from syncline.node.clients.clients import Clients
from syncline.node.counting.counters import request_kind
from syncline.node.loop.loop_holds import LoopHolds, Work
from syncline.node.serving.long_requests import LongRequests
from syncline.node.serving.outgoing import Outgoing
from syncline.node.serving.received import Received
from syncline.node.serving.stepping import Stepping, failed
from syncline.wire.api import ApiKey, is_served

if TYPE_CHECKING:
    from syncline.node.serving.connection import Connection
    from syncline.node.serving.request import Request, Steps

log = logging.getLogger("syncline.node")

HostT = TypeVar("HostT")
HostT_contra = TypeVar("HostT_contra", contravariant=True)


class Handler(Protocol[HostT_contra]):
    """A function that serves the requests of one API key, with what it uses of the broker."""

    def __call__(self, broker: HostT_contra, request: "Request", /) -> "Steps | None":
        """Answer the request, now or later; return the work of one that may take long (`node.serving.stepping`)."""


class HandlerTable(Protocol[HostT]):
    """Which handler serves which API key."""

    def get(self, key: int, /) -> Handler[HostT] | None:
        """Return the handler of a key, None if there is none."""

    def replace(self, key: int, handler: Handler[HostT], /) -> None:
        """Replace the handler of a key."""


class Settles(Protocol):
    """What answers the fetches that the requests of a callback have woken."""

    # Whether the current callback ends with `settle`.
    will_settle: bool
    # Whether it is just now that they look again.
    is_settling: bool

    def settle(self) -> None:
        """Answer them."""


class Dispatcher(Generic[HostT]):
    """The handlers of one broker and the connections they serve."""

    def __init__(
        self,
        host: HostT,
        handlers: HandlerTable[HostT],
        *,
        woken: Settles,
        outgoing: Outgoing,
        holds: LoopHolds,
        clients: Clients,
        stepping: Stepping,
        long_requests: LongRequests,
        received: Received,
        on_connection_lost: Callable[["Connection"], None],
    ) -> None:
        # The first argument of each handler, which declares what it uses of it.
        self._host = host
        self.handlers = handlers
        self.woken = woken
        self.holds = holds
        self.clients = clients
        self._stepping = stepping
        self.long_requests = long_requests
        self.received = received
        self.outgoing = outgoing
        # What each request goes to: `dispatch`, or what stands before it (`node.faults`).
        self.take_up: Callable[[Request], None] = self.dispatch
        self._on_connection_lost = on_connection_lost
        # Of the request that was handled last.
        self._last_key: Work = "requests"
        self.connections: dict[Connection, None] = {}
        # Number of requests dispatched, by `request_kind`.
        self.counts: dict[int, int] = {}

    def dispatch(self, request: "Request") -> None:
        """Handle one request; a failure affects only its connection."""
        try:
            handler = self.handlers.get(request.key)
        except OSError as error:
            # Its code cannot be imported, for instance for want of descriptors.
            failed(request, error)
            return
        listener, counts = request.listener, self.counts
        kind = request_kind(request.key, request.version, listener)
        count = counts.get(kind)
        if count is None:
            # The first of its kind. What was served once is always served.
            count = 0
            if not is_served(request.key, request.version, listener):
                if request.key == ApiKey.API_VERSIONS:
                    # It may have any version number; an unknown one is answered and counted as version 0.
                    kind = request_kind(request.key, 0, listener)
                    count = counts.get(kind, 0)
                else:
                    handler = None
        if handler is None:
            request.connection.close(
                f"API key {request.key} version {request.version} is not served on the {listener} listener"
            )
            return
        self._last_key = request.key
        counts[kind] = count + 1
        try:
            steps = handler(self._host, request)
            if steps is not None:
                if listener != "client":
                    # Other requests of that broker go on meanwhile, in the same receive buffer. Batches are stamped.
                    request.body = memoryview(bytearray(request.body))
                self.long_requests.arrived(request, steps)
        except Exception as error:  # noqa: BLE001 - a failure affects one connection only
            failed(request, error)

    def step(self, request: "Request", steps: "Steps") -> None:
        """Work on a request in steps, now and between other work."""
        if self.woken.is_settling:
            # The callback has done its own work, and wakes many, maybe.
            self._stepping.begin_later(request, steps)
        else:
            self._stepping.begin(request, steps)

    def refuse_produce(self) -> None:
        """From now on, close each connection that sends a Produce request: the cluster is stopping."""
        self.handlers.replace(ApiKey.PRODUCE, _refuse)

    def callback_ended(self, began_ms: int) -> int:
        """Answer the fetches that the requests of this callback have woken; count and return how long it took.

        Answers that are ready leave before the woken fetches look, which takes longer. A woken fetch is answered at
        once: one follower appends while this broker looks for the next.
        """
        outgoing = self.outgoing
        if outgoing.senders:
            outgoing.leave()
        outgoing.collects = False
        self.woken.settle()
        return self.holds.ended(began_ms, self._last_key)

    def connection_lost(self, connection: "Connection") -> None:
        """Forget a connection, and report that it has ended."""
        self.connections.pop(connection, None)
        shrink(self.connections)
        self.clients.places.left(connection)
        self._on_connection_lost(connection)

    def close_all(self) -> None:
        """Close every connection, and drop unfinished requests: the broker is stopping."""
        self.long_requests.close()
        self._stepping.close()
        if self.connections:
            log.info("closing all connections (%s): the broker is stopping", len(self.connections))
        for connection in list(self.connections):
            connection.close(None)


def _refuse(_broker: object, request: "Request") -> None:
    request.connection.close("the cluster is stopping")
