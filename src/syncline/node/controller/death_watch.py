"""Evidence that a broker's process is gone.

A broker that does not answer may be busy, paused or cut off, so it gets the whole
session timeout. But when a connection to its inter-broker listener breaks and a
new one is *refused*, no process listens on that port: the broker's process has
ended, and waiting is pointless.

The controller keeps one silent connection to each broker for this. If it breaks,
the controller connects again at once; if it soon breaks again, or connecting fails
other than by refusal, the controller tries again after a growing pause. Without
descriptors for others, its journal may use these connections (`Links.spare()`).

A wrong verdict is harmless: the broker is fenced, which is always safe, and
its next heartbeat unfences it.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Final

from syncline.model.ids import BrokerId
from syncline.model.metadata import BrokerRecord
from syncline.node.links.links import Links, client_id_of
from syncline.node.links.peer import PeerConnection

RETRY_FIRST_S: Final = 0.02
RETRY_LAST_S: Final = 1.0
# After a connection that lasted this long, the controller connects again without a pause.
STEADY_S: Final = 0.2


class DeathWatch:
    """The watch over one broker process, until the process is gone or `stop` is called."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        host: str,
        port: int,
        *,
        client_id: str = "",
        on_open: Callable[[PeerConnection], None] | None = None,
        on_gone: Callable[[], None],
        on_looked: Callable[[], None],
        reach: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        self._loop = loop
        self._host = host
        self._port = port
        self._client_id = client_id
        self._on_open = on_open
        self._on_gone = on_gone
        self._on_looked = on_looked
        # Waits until the broker can be reached; raises TimeoutError.
        self._reach = reach
        self._connection: PeerConnection | None = None
        self._task = loop.create_task(self._watch())

    def stop(self) -> None:
        """End the watch; no callback comes after this."""
        self._task.cancel()
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    async def _watch(self) -> None:
        pause_s = RETRY_FIRST_S
        looked = False
        while True:
            connected_at = self._loop.time()
            lost: asyncio.Future[None] = self._loop.create_future()
            connection = PeerConnection(self._client_id, partial(_end, lost))
            is_connected = await self._connect(connection)
            if is_connected is None:
                if not looked:
                    self._on_looked()
                self._on_gone()
                return
            if not looked:
                looked = True
                self._on_looked()
            if is_connected:
                self._connection = connection
                if self._on_open is not None:
                    self._on_open(connection)
                await lost
                self._connection = None
                if self._loop.time() - connected_at >= STEADY_S:
                    pause_s = RETRY_FIRST_S
                    continue
            await asyncio.sleep(pause_s)
            pause_s = min(RETRY_LAST_S, 2 * pause_s)

    async def _connect(self, connection: PeerConnection) -> bool | None:
        """Return whether the connection was made; None if it was refused."""
        try:
            if self._reach is not None:
                await self._reach()
            await self._loop.create_connection(lambda: connection, self._host, self._port)
        except ConnectionRefusedError:
            return None
        except OSError:
            return False
        return True


class DeathWatches:
    """The watches of one controller: one for each unfenced broker except itself.

    Invariant: a watch belongs to one registered process; a new registration gets a new watch.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        own_id: BrokerId,
        links: Links,
        *,
        on_gone: Callable[[BrokerRecord], None],
        on_looked: Callable[[BrokerId], None],
    ) -> None:
        self._loop = loop
        self._own_id = own_id
        self._links = links
        self._on_gone = on_gone
        self._on_looked = on_looked
        self._watches: dict[BrokerId, tuple[BrokerRecord, DeathWatch]] = {}

    def follow(self, brokers: Mapping[BrokerId, BrokerRecord]) -> None:
        """Watch exactly those of these brokers that are unfenced."""
        for broker_id in [each for each in self._watches if each not in brokers or brokers[each].fenced]:
            self._watches.pop(broker_id)[1].stop()
        for broker_id, record in brokers.items():
            if record.fenced or broker_id == self._own_id:
                continue
            watched = self._watches.get(broker_id)
            if watched is not None:
                if watched[0].broker_epoch == record.broker_epoch:
                    continue
                watched[1].stop()
            self._watches[broker_id] = (record, self._watch(record))

    def _watch(self, record: BrokerRecord) -> DeathWatch:
        return DeathWatch(
            self._loop,
            record.internal_host,
            record.internal_port,
            client_id=client_id_of(self._own_id, "journal"),
            on_open=lambda peer: self._links.keep_spare(peer, record.broker_id),
            reach=lambda: self._links.reach(record.broker_id),
            on_gone=lambda: self._on_gone(record),
            on_looked=lambda: self._on_looked(record.broker_id),
        )

    def stop(self) -> None:
        """End all watches."""
        for _, watch in self._watches.values():
            watch.stop()
        self._watches.clear()


def _end(lost: "asyncio.Future[None]") -> None:
    if not lost.done():
        lost.set_result(None)
