"""When a broker may register, and which connection its requests must use afterwards.

A new controller holds registrations back until it has checked which of the registered processes are gone. After an
outage of all brokers the dead are thus fenced first, and the last one to leave an ISR can lead when it is back.

A broker uses the connection of its last registration. A request that still arrives over an older one was delayed, and
its sender has acted on other answers since.
"""

import asyncio
from collections.abc import Callable, Iterable
from typing import Final

from syncline.model.ids import BrokerId

# How long a new controller holds registrations back until it knows which brokers are gone.
FIRST_LOOK_S: Final = 0.1


class Registrations:
    """The registrations that wait for the first check, and the connections of granted ones."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._unlooked: set[BrokerId] = set()
        self._held: list[Callable[[], None]] = []
        self._timer: asyncio.TimerHandle | None = None
        self._connections: dict[BrokerId, object] = {}

    @property
    def are_held(self) -> bool:
        """Return whether registrations wait until all brokers were checked."""
        return bool(self._unlooked)

    def hold_for(self, brokers: Iterable[BrokerId]) -> None:
        """Hold registrations back until `brokers` were checked, or the time for that has passed."""
        self._unlooked.update(brokers)
        if self._unlooked and self._timer is None:
            self._timer = self._loop.call_later(FIRST_LOOK_S, self._looked_long_enough)

    def hold(self, register: Callable[[], None]) -> None:
        """Call `register` when registrations are no longer held back."""
        assert self._unlooked, "a registration waits, but no broker has yet to be checked"
        self._held.append(register)

    def looked_at(self, broker_id: BrokerId) -> None:
        """Record that the controller has checked whether this broker's process is there."""
        self._unlooked.discard(broker_id)
        if not self._unlooked:
            # After the fencing that the check may lead to.
            self._loop.call_soon(self.release)

    def _looked_long_enough(self) -> None:
        self._unlooked.clear()
        self.release()

    def release(self) -> None:
        """Continue the registrations that were held back."""
        held, self._held = self._held, []
        for register in held:
            register()

    def stop(self) -> None:
        """Stop waiting for checks."""
        if self._timer is not None:
            self._timer.cancel()

    def registered_over(self, broker_id: BrokerId, connection: object) -> None:
        """Record the connection of a registration; requests that arrive over an older one are void."""
        self._connections[broker_id] = connection

    def is_current(self, broker_id: BrokerId, connection: object) -> bool:
        """Return whether `connection` is the one over which the broker registered last.

        A leader whose proposal was refused returns to its previous ISR. If an earlier copy of the proposal then
        arrived over a connection that the leader has replaced, and were accepted, the watermark would pass a member
        that the leader does not know. A client's forwarded request delayed in this way could undo later ones.
        """
        return self._connections.get(broker_id) is connection
