"""Places for connections: who may connect, who waits, and who makes room.

Clients beyond `max.connections`, and those that come faster than `max.connection.creation.rate`, stay in the backlog of
their listener, which stops accepting. The event loop may have accepted several in one go; those are not read until
there is a place for them. Other brokers always get a place: the client that has been silent for longest makes room.

Clients beyond the limit of their address are reset right after they were accepted.

Source: KIP-402, KIP-308, KIP-612.
"""

import asyncio
import contextlib
import logging
import socket
import struct
from collections.abc import Callable, Coroutine
from typing import Any, Final, Protocol

from syncline.model.config_types import INT_MAX
from syncline.model.tables import shrink
from syncline.node.clients.limits import ConnectionLimits, CreationRate, plain_address
from syncline.node.clock import Clock

log = logging.getLogger("syncline.node")

CLIENT: Final = "client"
# SO_LINGER with a time of 0: closing resets the connection.
RESET: Final = struct.pack("ii", 1, 0)
# At the limit each client that leaves lets another in, so the warning is logged at most once in this time.
TELL_AGAIN_MS: Final = 60_000


class Placed(Protocol):
    """A connection, as far as it takes a place."""

    @property
    def listener(self) -> str:
        """Return the listener that accepted it: "client" or "internal"."""

    @property
    def client_host(self) -> str:
        """Return a slash and the peer's address."""

    @property
    def transport(self) -> asyncio.Transport | None:
        """Return the transport; None when the connection is closed or closing."""

    @property
    def last_read(self) -> int:
        """Return the number of its last read, in the order of all reads of this broker."""

    # Whether it has a place; without one it is not read.
    has_place: bool

    def update_reading(self) -> None:
        """Start or stop reading, as the limits say."""

    def close(self, reason: str, /) -> None:
        """Close."""


class Accepts(Protocol):
    """The listener for clients."""

    def accept(self, *, accepts: bool) -> None:
        """Accept connections, or leave them in the backlog."""


class Places:
    """The connections of one broker, counted."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        clock: Clock,
        limits: ConnectionLimits,
        spawn: Callable[[Coroutine[Any, Any, None]], object],
    ) -> None:
        self._loop = loop
        self._clock = clock
        self._limits = limits
        self._spawn = spawn
        self._listening: Accepts | None = None
        # Connections with a place, in the order in which they got it, and clients that wait for one.
        self._placed: dict[Placed, None] = {}
        self._waiting: dict[Placed, None] = {}
        # Clients with or without a place, by address.
        self._by_address: dict[str, int] = {}
        self._rate = CreationRate()
        # Set while the rate of new connections is above its limit.
        self._rate_timer: asyncio.TimerHandle | None = None
        # When the warning that no client is accepted was last logged.
        self._told_full_ms: int | None = None
        # Connections reset for the limit of their address, and clients closed to make room for brokers.
        self.refused_count = 0
        self.evicted_count = 0

    def listen(self, listening: Accepts) -> None:
        """Take the listener for clients."""
        self._listening = listening
        self._update_accepting()

    def configure(self, limits: ConnectionLimits) -> None:
        """Apply other limits; open connections stay."""
        self._limits = limits
        if limits.unresolved:
            self._spawn(self._resolve(limits))
        self._admit_waiting()

    def count(self, listener: str) -> int:
        """Return how many connections of a listener have a place."""
        return sum(connection.listener == listener for connection in self._placed)

    @property
    def waiting_count(self) -> int:
        """How many accepted clients wait for a place."""
        return len(self._waiting)

    def arrived(self, connection: Placed) -> bool:
        """Give a new connection a place, or let it wait for one; return False if it is to be reset."""
        if connection.listener != CLIENT:
            self._give_place(connection)
            if len(self._placed) > self._limits.connections_max:
                self._make_room()
            return True
        address = _address(connection)
        count = self._by_address.get(address, 0)
        if count >= self._limits.of_address(address):
            self.refused_count += 1
            log.info("refusing a connection from %s, which has %s", address, count)
            return False
        self._by_address[address] = count + 1
        self._waiting[connection] = None
        self._admit_waiting()
        return True

    def left(self, connection: Placed) -> None:
        """Free the place of a connection that is lost."""
        if connection not in self._placed and connection not in self._waiting:
            return
        self._placed.pop(connection, None)
        self._waiting.pop(connection, None)
        shrink(self._placed)
        if connection.listener == CLIENT:
            address = _address(connection)
            self._by_address[address] -= 1
            if not self._by_address[address]:
                del self._by_address[address]
                shrink(self._by_address)
        self._admit_waiting()

    def _admit_waiting(self) -> None:
        while self._waiting and len(self._placed) < self._limits.connections_max and self._is_in_time():
            connection = next(iter(self._waiting))
            del self._waiting[connection]
            shrink(self._waiting)
            self._give_place(connection)
        self._update_accepting()

    def _is_in_time(self) -> bool:
        """Return whether one more client may come now; if not, look again when it may."""
        if self._rate_timer is not None:
            return False
        if self._limits.created_per_s_max == INT_MAX:
            return True
        wait_ms = self._rate.wait_ms(self._clock.mono_ms(), self._limits.created_per_s_max)
        if wait_ms:
            self._rate_timer = self._loop.call_later(wait_ms / 1000, self._wait_over)
        return not wait_ms

    def _wait_over(self) -> None:
        self._rate_timer = None
        self._admit_waiting()

    def _give_place(self, connection: Placed) -> None:
        self._placed[connection] = None
        connection.has_place = True
        connection.update_reading()

    def _update_accepting(self) -> None:
        if self._listening is not None:
            has_room = len(self._placed) < self._limits.connections_max
            if not has_room:
                self._tell_full()
            self._listening.accept(accepts=has_room and not self._waiting)

    def _tell_full(self) -> None:
        """Log that clients wait in the backlog: they get no answer that could say so, and nothing counts them."""
        now_ms = self._clock.mono_ms()
        if self._told_full_ms is None or now_ms - self._told_full_ms >= TELL_AGAIN_MS:
            self._told_full_ms = now_ms
            log.warning(
                "no more clients are accepted until one leaves: there are %s connections, including those of "
                "brokers, and max.connections is %s",
                len(self._placed),
                self._limits.connections_max,
            )

    def _make_room(self) -> None:
        """Close the client that has been silent for longest: a broker has come."""
        clients = [each for each in self._placed if each.listener == CLIENT and each.transport is not None]
        if clients:
            self.evicted_count += 1
            min(clients, key=lambda each: each.last_read).close("another broker needs its place (max.connections)")

    async def _resolve(self, limits: ConnectionLimits) -> None:
        """Look up the hosts of overrides that are names."""
        overrides = dict(limits.overrides)
        for host in limits.unresolved:
            try:
                found = await self._loop.getaddrinfo(host, None)
            except OSError as error:
                log.warning("max.connections.per.ip.overrides: %s cannot be resolved: %s", host, error)
                continue
            for *_, address in found:
                overrides[plain_address(str(address[0]))] = limits.overrides[host]
        if self._limits is limits:
            self._limits = limits._replace(overrides=overrides)

    def close(self) -> None:
        """Stop waiting: the broker is stopping."""
        self._listening = None
        if self._rate_timer is not None:
            self._rate_timer.cancel()
            self._rate_timer = None

    def check_invariants(self) -> None:
        """Assert that connections are counted right, and that clients wait only while there is no place."""
        clients = [each for each in (*self._placed, *self._waiting) if each.listener == CLIENT]
        assert sum(self._by_address.values()) == len(clients), f"{self._by_address} are counted of {len(clients)}"
        assert not self._waiting or self._rate_timer or len(self._placed) >= self._limits.connections_max, (
            f"{len(self._waiting)} clients wait although {len(self._placed)} connections are fewer than allowed"
        )


def reset(transport: asyncio.Transport) -> None:
    """End a connection such that its peer sees a reset."""
    with contextlib.suppress(OSError, AttributeError):
        transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
    transport.abort()


def _address(connection: Placed) -> str:
    return plain_address(connection.client_host.removeprefix("/"))
