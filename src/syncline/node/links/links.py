"""Links: this broker's connections to other brokers, by the broker at the other end.

Every connection that a broker makes to another one is made here, so that one place knows all of them, and can cut a
link on purpose (`faults.links`). The client id of a connection that another broker made names that broker.
"""

from collections.abc import Awaitable, Callable
from typing import Final

from syncline.model.ids import named_broker
from syncline.node.links.peer import PeerConnection, PeerLost
from syncline.node.loop.loop_holds import LoopHolds

_CLIENT_ID: Final = "broker-"


class Links:
    """The connections of one broker to others."""

    def __init__(self, holds: LoopHolds | None = None, *, beside: bool = False) -> None:
        """`beside`: brokers of this machine are reached over the sockets beside their ports."""
        # Counts how long answers hold the loop.
        self._holds = holds
        self._beside = beside
        self._open: dict[PeerConnection, int] = {}
        # Connections that carry no requests, by the broker at the other end.
        self._spare: dict[int, PeerConnection] = {}
        # While links are faulty: the first waits until a broker can be reached, or raises TimeoutError; the second is
        # called with each new connection.
        self.gate: Callable[[int], Awaitable[None]] | None = None
        self.on_connected: Callable[[PeerConnection, int], None] | None = None

    async def connect(
        self, broker_id: int, host: str, port: int, client_id: str, on_lost: Callable[[], None] | None = None
    ) -> PeerConnection:
        """Return an open connection to another broker; raises `PeerLost` when that fails."""
        try:
            await self.reach(broker_id)
        except TimeoutError as error:
            raise PeerLost(f"cannot connect to {host}:{port}: no answer in time") from error
        peer = await PeerConnection.connect(host, port, client_id, on_lost, self._holds, beside=self._beside)
        self._open = {each: known for each, known in self._open.items() if each.is_open}
        self._open[peer] = broker_id
        if self.on_connected is not None:
            self.on_connected(peer, broker_id)
        return peer

    async def reach(self, broker_id: int) -> None:
        """Return when a broker can be reached; raise TimeoutError after the connection time-out."""
        if self.gate is not None:
            await self.gate(broker_id)

    def keep_spare(self, peer: PeerConnection, broker_id: int) -> None:
        """Remember an open connection that carries no requests; its owner closes it."""
        self._spare[broker_id] = peer

    def spare(self, broker_id: int) -> PeerConnection | None:
        """Return such a connection, for one request of a caller who has no descriptor for a connection; or None."""
        peer = self._spare.get(broker_id)
        return peer if peer is not None and peer.is_idle else None

    def connections(self) -> list[tuple[PeerConnection, int]]:
        """Return the open connections that this broker made, each with the id of the other broker."""
        return [(peer, broker_id) for peer, broker_id in self._open.items() if peer.is_open]


def client_id_of(broker_id: int, purpose: str = "") -> str:
    """Return the client id with which a broker identifies itself to others."""
    return f"{_CLIENT_ID}{broker_id}{f'-{purpose}' if purpose else ''}"


def broker_of(client_id: str | None) -> int | None:
    """Return the broker whose internal connection has this client id; None if it is no broker's."""
    if client_id is None or not client_id.startswith(_CLIENT_ID):
        return None
    # Anybody who reaches the port of brokers chooses this text.
    return named_broker(client_id[len(_CLIENT_ID) :].partition("-")[0])
