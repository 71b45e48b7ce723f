"""A client that produces to each partition all the time, to see whether and when it is accepted.

Other clients wait long for a broker that does not answer, as they should. This
one must not measure itself: it asks the broker that accepted last, and after
`ALONE_S` without an answer all brokers, each again every `AGAIN_S` while earlier
requests wait. So a partition that can accept a record has its chance at once,
whatever the metadata say. No fault strikes the links of this client: a leader
that only a client cannot reach is no matter of the cluster.

A probe begins when the first request is sent, and ends with the first success.
Its record may be stored more than once. Times are in ns of virtual time.
"""

import asyncio
import contextlib
from collections.abc import Sequence
from typing import Final, NamedTuple

from syncline.model.errors import ErrorCode
from syncline.model.ids import TopicPartition
from syncline.node.links.peer import PeerConnection, PeerLost
from syncline.records.builder import BatchBuilder
from syncline.virtual.cluster import CLIENT_PORT, VirtualCluster
from syncline.virtual.time.clock import EPOCH_MS
from syncline.virtual.time.durations import MS
from syncline.wire.api import ApiKey
from syncline.wire.produce import encode_produce_request, parse_produce_response

HOST: Final = "prober"
# Between two probes of one partition.
PAUSE_S: Final = 0.2
ALONE_S: Final = 0.2
AGAIN_S: Final = 0.3
# After a refusal.
RETRY_S: Final = 0.1
CONNECT_S: Final = 1.0
ANSWER_S: Final = 5.0

_ACKS_ALL: Final = -1
_VERSION: Final = 9


class Probe(NamedTuple):
    """One record, from the first request to the first success."""

    key: TopicPartition
    began_ns: int
    # None if it had not been accepted when the run ended.
    accepted_ns: int | None


class Prober:
    """The client, with one task per partition."""

    def __init__(self, cluster: VirtualCluster, keys: Sequence[TopicPartition]) -> None:
        self.probes: list[Probe] = []
        self._cluster = cluster
        self._process = cluster.client_process(HOST)
        self._hosts = tuple(host.name for host in cluster.hosts.values())
        self._idle: dict[tuple[TopicPartition, str], PeerConnection] = {}
        # Since when a partition has been probed without success.
        self._began_ns: dict[TopicPartition, int] = {}
        create_task = cluster.loop.create_task
        self._tasks = [self._process.context.run(create_task, self._probe(key)) for key in keys]

    def stop(self) -> None:
        """End all probes; those without success are recorded so."""
        for task in self._tasks:
            task.cancel()
        for peer in self._idle.values():
            self._process.context.run(peer.close)
        self._idle.clear()
        self.probes.extend(Probe(key, began_ns, None) for key, began_ns in self._began_ns.items())
        self._began_ns.clear()

    async def _probe(self, key: TopicPartition) -> None:
        loop = self._cluster.loop
        likely = self._hosts[0]
        while True:
            began_ns = self._began_ns[key] = loop.now_ns
            likely = await self._accepted(key, likely)
            del self._began_ns[key]
            self.probes.append(Probe(key, began_ns, loop.now_ns))
            self._cluster.trace.record(loop.now_ns, "probe", str(key), began_ns)
            await asyncio.sleep(PAUSE_S)

    async def _accepted(self, key: TopicPartition, likely: str) -> str:
        """Return the first host that accepts a record; ask `likely` first."""
        loop = self._cluster.loop
        accepted: asyncio.Future[str] = loop.create_future()
        lanes = [loop.create_task(self._ask(key, likely, accepted))]
        try:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(ALONE_S):
                    return await asyncio.shield(accepted)
            lanes.extend(loop.create_task(self._ask(key, host, accepted)) for host in self._hosts if host != likely)
            return await accepted
        finally:
            for lane in lanes:
                lane.cancel()

    async def _ask(self, key: TopicPartition, host: str, accepted: "asyncio.Future[str]") -> None:
        """Send requests to one host until some host has accepted one."""
        tries: list[asyncio.Task[None]] = []
        try:
            while not accepted.done():
                tries.append(self._cluster.loop.create_task(self._try(key, host, accepted)))
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(AGAIN_S):
                        await asyncio.shield(tries[-1])
                await asyncio.sleep(RETRY_S)
        finally:
            for each in tries:
                each.cancel()

    async def _try(self, key: TopicPartition, host: str, accepted: "asyncio.Future[str]") -> None:
        """Send one request over a connection of its own."""
        peer = self._idle.pop((key, host), None)
        try:
            if peer is None or not peer.is_open:
                async with asyncio.timeout(CONNECT_S):
                    peer = await PeerConnection.connect(host, CLIENT_PORT, HOST)
            async with asyncio.timeout(ANSWER_S):
                answer = await peer.request_raw(ApiKey.PRODUCE, _VERSION, self._request(key))
        except (PeerLost, TimeoutError):
            if peer is not None:
                peer.close()
            return
        except asyncio.CancelledError:
            if peer is not None:
                # Its answer would be taken for that of the next request.
                peer.close()
            raise
        self._keep((key, host), peer)
        _, rows = parse_produce_response(answer, _VERSION).topics[0]
        if rows[0].error_code == ErrorCode.NONE and not accepted.done():
            accepted.set_result(host)

    def _keep(self, where: tuple[TopicPartition, str], peer: PeerConnection) -> None:
        """Keep a connection for the next request; one is enough."""
        if where in self._idle:
            peer.close()
        else:
            self._idle[where] = peer

    def _request(self, key: TopicPartition) -> list[bytes | bytearray | memoryview]:
        batch = BatchBuilder()
        now_ns = self._cluster.loop.now_ns
        batch.append(EPOCH_MS + now_ns // MS, None, f"{HOST}:{key.partition}:{now_ns}".encode())
        return encode_produce_request(
            _VERSION,
            acks=_ACKS_ALL,
            timeout_ms=int(ANSWER_S * 1_000),
            topics=[(key.topic, [(key.partition, batch.build())])],
        )
