"""Connections of a coordinator to the leaders, and other coordinators, that it asks about lag.

One per broker, opened with the first question, and closed when a minute has passed without one: a broker that is not
asked about lag holds no descriptor for it.
"""

import asyncio
from collections.abc import Generator, Iterable
from typing import Final, TypeVar

from syncline.model.ids import BrokerId
from syncline.node.clock import Clock
from syncline.node.lag.messages import LagAnswer, LagRequest, decode_answer, encode_request
from syncline.node.links.links import Links, client_id_of
from syncline.node.links.peer import PeerConnection, PeerLost
from syncline.node.metadata.cluster_view import ClusterView
from syncline.wire.api import ApiKey
from syncline.wire.errors import DecodeError

Answer = TypeVar("Answer")

IDLE_MS: Final = 60_000
# Partitions and places of an answer that are read before the loop is freed: a millisecond or less.
READ_PER_TURN: Final = 100


class LagPeers:
    """The connections of one broker."""

    def __init__(self, *, broker_id: BrokerId, clock: Clock, cluster: ClusterView, links: Links) -> None:
        self._broker_id = broker_id
        self._clock = clock
        self._cluster = cluster
        self._links = links
        self._open: dict[BrokerId, PeerConnection] = {}
        self._used_ms: dict[BrokerId, int] = {}
        self._is_closed = False

    async def ask(self, leader: BrokerId, request: LagRequest) -> LagAnswer:
        """Return the answer of a leader; raises `PeerLost`. The caller limits the time."""
        body = await self.raw(leader, ApiKey.LAG, encode_request(request))
        steps = decode_answer(body, leader, request.partitions)
        # A step reads one partition with its places.
        sizes = (1 + len(each.offsets) for each in request.partitions)
        return await self.read(leader, steps, sizes)

    async def raw(self, broker: BrokerId, key: ApiKey, body: bytes) -> bytes:
        """Return the body of the answer to a request; raises `PeerLost`."""
        peer = await self._connection(broker)
        self._used_ms[broker] = self._clock.mono_ms()
        return await peer.request_raw(key, 0, (body,))

    async def read(self, broker: BrokerId, steps: Generator[None, None, Answer], sizes: Iterable[int]) -> Answer:
        """Return what decoding a broker's answer returns, in turns of the loop; step i has about `sizes[i]` items.

        Raises `PeerLost` if the answer is malformed, and closes the connection.
        """
        read = 0
        left = iter(sizes)
        try:
            while True:
                try:
                    next(steps)
                except StopIteration as end:
                    answer: Answer = end.value
                    return answer
                read += next(left, 1)
                if read >= READ_PER_TURN:
                    read = 0
                    await asyncio.sleep(0)
        except DecodeError as error:
            peer = self._open.get(broker)
            if peer is not None:
                peer.close()
            raise PeerLost(f"broker {broker} gave a malformed answer about lag: {error}") from error

    async def _connection(self, leader: BrokerId) -> PeerConnection:
        peer = self._open.get(leader)
        if peer is not None and peer.is_open:
            return peer
        known = self._cluster.image.brokers.get(leader)
        if known is None or known.fenced:
            raise PeerLost(f"broker {leader} is not there")
        made = await self._links.connect(
            leader, known.internal_host, known.internal_port, client_id_of(self._broker_id, "lag")
        )
        peer = self._open.get(leader)
        if self._is_closed or (peer is not None and peer.is_open):
            # Another question had opened one meanwhile.
            made.close()
            if peer is None or not peer.is_open:
                raise PeerLost("this broker is stopping")
            return peer
        self._open[leader] = made
        return made

    def close_idle(self) -> None:
        """Close the connections that have been idle for long, and forget those that broke."""
        now_ms = self._clock.mono_ms()
        for leader, peer in list(self._open.items()):
            if peer.is_idle and now_ms - self._used_ms.get(leader, now_ms) >= IDLE_MS:
                peer.close()
            if not peer.is_open:
                del self._open[leader]
                self._used_ms.pop(leader, None)

    def close(self) -> None:
        """Close all, for good."""
        self._is_closed = True
        for peer in self._open.values():
            peer.close()
        self._open.clear()
