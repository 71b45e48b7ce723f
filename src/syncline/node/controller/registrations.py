"""When a broker may register, and over which connection it speaks afterwards.

A new controller holds registrations back until it has looked which of the registered processes are gone. After an
outage of all brokers the dead are thus fenced first, and the last one to leave an ISR can lead when it is back.

A broker speaks over the connection of its last registration. What still arrives over an older one was delayed, and
its sender has acted on other answers since.
"""

import asyncio
from collections.abc import Callable, Iterable
from typing import Final

from syncline.model.ids import BrokerId

# How long a new controller holds registrations back until it knows which brokers are gone.
FIRST_LOOK_S: Final = 0.1


class Registrations:
    """The registrations that wait for the first look, and the connections of those that were granted."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._unlooked: set[BrokerId] = set()
        self._held: list[Callable[[], None]] = []
        self._timer: asyncio.TimerHandle | None = None
        self._connections: dict[BrokerId, object] = {}

    @property
    def are_held(self) -> bool:
        """Return whether registrations wait until all brokers were looked at."""
        return bool(self._unlooked)

    def hold_for(self, brokers: Iterable[BrokerId]) -> None:
        """Hold registrations back until `brokers` were looked at, or the time for that is over."""
        self._unlooked.update(brokers)
        if self._unlooked and self._timer is None:
            self._timer = self._loop.call_later(FIRST_LOOK_S, self._looked_long_enough)

    def hold(self, register: Callable[[], None]) -> None:
        """Call `register` when registrations are not held back any more."""
        assert self._unlooked, "a registration waits for a look at no broker"
        self._held.append(register)

    def looked_at(self, broker_id: BrokerId) -> None:
        """Record that the controller has seen whether this broker's process is there."""
        self._unlooked.discard(broker_id)
        if not self._unlooked:
            # After the fencing that the look may lead to.
            self._loop.call_soon(self.release)

    def _looked_long_enough(self) -> None:
        self._unlooked.clear()
        self.release()

    def release(self) -> None:
        """Let the registrations that were held back go on."""
        held, self._held = self._held, []
        for register in held:
            register()

    def stop(self) -> None:
        """Wait for no further look."""
        if self._timer is not None:
            self._timer.cancel()

    def registered_over(self, broker_id: BrokerId, connection: object) -> None:
        """Record the connection of a registration: what still arrives over an older one is void."""
        self._connections[broker_id] = connection

    def is_current(self, broker_id: BrokerId, connection: object) -> bool:
        """Return whether `connection` is the one over which the broker registered last.

        A leader that was refused goes back to the ISR it had. Should an earlier copy of its proposal then arrive
        over a connection that it has given up, and be accepted, the watermark would pass a member that it does
        not know of. A client's forwarded request that is late in the same way could undo what that client did since.
        """
        return self._connections.get(broker_id) is connection
