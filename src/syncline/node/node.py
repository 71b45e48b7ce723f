"""The node: a broker with its listeners, its place in the cluster and its timers.

Start: open the logs (recovering them if the last stop was not clean), serve
other brokers, join the cluster, apply the first image, serve clients. Stop is
the reverse: hand leaderships over, close, write the mark of a clean stop.

The node reaches the world through ports: disk, coordination, clock, random
generator, and the event loop as network. It does not know whether they are real.
"""

import asyncio
import logging
import random
import socket
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple
from uuid import UUID

from syncline.coordination.port import Coordination
from syncline.core.cluster.broker_facts import Address, broker_facts
from syncline.core.replication.truncation import TruncationMode
from syncline.model.broker_config import BrokerConfig
from syncline.model.events import Event
from syncline.model.ids import BrokerEpoch, BrokerId
from syncline.model.immutable import Immutable
from syncline.model.topic_config import TopicConfig
from syncline.node.broker import Broker
from syncline.node.channel.channel import Channel
from syncline.node.channel.identity import BrokerIdentity
from syncline.node.channel.metadata_stream import OnImage
from syncline.node.clients.listening import Listening
from syncline.node.clock import Clock
from syncline.node.handlers import Handlers, RunLater
from syncline.node.housekeeping import start_housekeeping
from syncline.node.links.links import Links
from syncline.node.loop.clockwork import Clockwork
from syncline.node.loop.loop_holds import LoopHolds
from syncline.node.partitions.log_settings import log_settings
from syncline.node.probe import Probe
from syncline.node.serving.connection import Connection
from syncline.storage.disk import Disk
from syncline.storage.log_directory import LogDirectory

if TYPE_CHECKING:
    from syncline.node.metrics.endpoint import MetricsEndpoint
    from syncline.node.metrics.scrape import ProcessFigures

log = logging.getLogger("syncline.node")

CONTROLLED_SHUTDOWN_S: Final = 5.0
# When all brokers stop together: how long followers have to fetch the rest, and how often the node checks that.
CATCH_UP_S: Final = 2.0
CATCH_UP_LOOK_S: Final = 0.002
# The most that forwarding adds to a request: two headers and a client id of ours.
FORWARDING_BYTES: Final = 1_024


class Listen(NamedTuple):
    """Where a listener is: host and port as advertised, and the socket if it is bound already."""

    host: str
    port: int
    listener: socket.socket | None = None
    # A Unix domain socket for brokers of the same machine (`unix_sockets/`).
    beside: socket.socket | None = None


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class NodeSpec(Immutable):
    """The identity of a node, its listeners and its configuration."""

    broker_id: int
    log_directory: str
    client: Listen
    internal: Listen
    config: Mapping[str, str] = field(default_factory=dict)
    rack: str | None = None
    cluster_size: int = 1
    # The memory of this machine, of which a share may be held for clients (queued.max.request.bytes).
    memory_bytes: int = 16 << 30
    # Whether the broker's parts run `check_invariants` after each step, which is costly. Tests and simulated runs
    # switch it on.
    check_invariants: bool = False
    # The listener for metrics, if any, and the operating system's figures for them.
    metrics: Listen | None = None
    process_figures: Callable[[], "ProcessFigures"] | None = None
    # What calls of the control API must carry; None: there is no control.
    control_secret: str | None = None


class Node:
    """One broker process, or one simulated broker."""

    def __init__(
        self,
        spec: NodeSpec,
        *,
        disk: Disk,
        coordination: Coordination,
        clock: Clock,
        rng: random.Random,
        probe: Probe | None = None,
        on_unfit: Callable[[str], object] | None = None,
        block: Callable[[float], object] | None = None,
        holds: LoopHolds | None = None,
    ) -> None:
        self.spec = spec
        # Called when this broker cannot continue, for instance with a failed disk: its partitions need other leaders.
        self.on_unfit = on_unfit or _carry_on
        # Blocks the calling thread for this many seconds, as a slow disk would. None: disk faults are unavailable.
        self._block = block
        self._disk = disk
        self._coordination = coordination
        self._clock = clock
        self._rng = rng
        self._probe = probe
        # The values that it was started with, and what it is: DescribeConfigs shows both as static.
        self._static_config = {
            **spec.config,
            **broker_facts(
                spec.broker_id,
                client=Address(spec.client.host, spec.client.port),
                internal=Address(spec.internal.host, spec.internal.port),
                log_directory=spec.log_directory,
                rack=spec.rack,
            ),
        }
        # By name: client, internal, what stands beside it, and metrics if they are served.
        self.servers: dict[str, Listening] = {}
        self._is_stopping = False
        self._handlers = Handlers(spec.control_secret)
        # The connections that this broker makes to others: as it lets them connect to itself.
        self._holds = holds or LoopHolds(clock)
        self.links = Links(self._holds, beside=spec.internal.beside is not None)
        self._clockwork: Clockwork | None = None
        self.metrics: MetricsEndpoint | None = None
        self.broker: Broker

    def before_long_requests(self, begins: Callable[[], object]) -> None:
        """Call `begins` before each long client request, which makes many objects. Only after `start`."""
        self.broker.dispatcher.long_requests.begins = begins

    def import_for_tools_with(self, run_later: RunLater) -> None:
        """Import the code for requests of tools with `run_later` when the first one arrives."""
        self._handlers.import_for_tools_with(run_later)

    async def start(self) -> None:
        """Open, join, serve. Raises `ConfigError`, `StorageError` or `RegistrationRefused`."""
        loop = asyncio.get_running_loop()
        spec = self.spec
        config = BrokerConfig.resolve(self._static_config)
        self._config = config
        if config.log_truncation_mode == TruncationMode.HIGH_WATERMARK:
            log.warning(
                "log.truncation.mode is high-watermark: followers truncate their logs without comparing "
                "them, so committed records can be lost or differ between replicas. Use it for "
                "demonstrations only."
            )
        if config.fault_injection_enable and self._block is not None:
            from syncline.node.faults.disk import FaultyDisk

            self._disk = FaultyDisk(self._disk, spec.log_directory, loop, self._clock, self._block)
        logs = LogDirectory.open(
            self._disk,
            spec.log_directory,
            node_id=spec.broker_id,
            cluster_id="",
            directory_id=str(UUID(int=self._rng.getrandbits(128))),
            settings=lambda _topic: log_settings(TopicConfig.resolve({}, config)),
        )
        identity = BrokerIdentity(
            broker_id=BrokerId(spec.broker_id),
            host=spec.client.host,
            port=spec.client.port,
            internal_host=spec.internal.host,
            internal_port=spec.internal.port,
            rack=spec.rack,
            incarnation_id=UUID(int=self._rng.getrandbits(128)),
            # A disk that damaged one log may have lost records of others unnoticed: that is no clean stop.
            previous_broker_epoch=BrokerEpoch(-1 if logs.damaged else logs.previous_broker_epoch),
            cluster_id=logs.cluster_id,
        )

        def connect(on_image: OnImage, on_event: Callable[[Event], None]) -> Channel:
            return Channel(
                loop=loop,
                clock=self._clock,
                rng=self._rng,
                coordination=self._coordination,
                config=config,
                identity=identity,
                on_image=on_image,
                on_event=on_event,
                links=self.links,
                check_invariants=spec.check_invariants,
                failed_replicas=self._failed_replicas,
                on_unfit=self._unfit,
            )

        broker = self.broker = Broker(
            broker_id=BrokerId(spec.broker_id),
            config=config,
            static_config=self._static_config,
            cluster_size=spec.cluster_size,
            clock=self._clock,
            rng=self._rng,
            loop=loop,
            disk=self._disk,
            logs=logs,
            links=self.links,
            holds=self._holds,
            handlers=self._handlers,
            connect=connect,
            on_unfit=self._unfit,
            memory_bytes=spec.memory_bytes,
            probe=self._probe,
            check_invariants=spec.check_invariants,
        )
        await self.serve("internal", spec.internal)
        await broker.controller.start()
        logs.belong_to(broker.image.cluster_id)
        logs.note_broker_epoch(broker.broker_epoch)
        broker.delete_strays()
        await self.serve("client", spec.client)
        if spec.metrics is not None:
            await self.serve_metrics(spec.metrics)
        self._start_clockwork()

    def _failed_replicas(self) -> Sequence[UUID]:
        replicas = self.broker.replicas
        return (*replicas.offline.directory_ids(), *replicas.refused_writes.ids())

    def _unfit(self, reason: str) -> None:
        self.on_unfit(reason)

    async def stop(self, *, is_controlled: bool = True, with_all: bool = False) -> None:
        """Leave the cluster in good order, then close everything.

        `with_all`: all brokers are stopping, so there is no broker to hand over to.
        """
        if self._is_stopping:
            return
        self._is_stopping = True
        if self._clockwork is not None:
            self._clockwork.close()
        broker = self.broker
        if is_controlled and broker.config.controlled_shutdown_enable:
            await broker.journal.flush()
            if not (with_all and await self._stop_with_all()):
                await broker.controller.leave(CONTROLLED_SHUTDOWN_S)
        broker_epoch = broker.broker_epoch
        for server in self.servers.values():
            server.close()
        broker.dispatcher.close_all()
        if self.metrics is not None:
            self.metrics.close()
        broker.close()
        await broker.controller.stop()
        await broker.tasks.cancel()
        broker.logs.close(broker_epoch)

    async def _stop_with_all(self) -> bool:
        """Append nothing more, let followers catch up, and wait for the other brokers; return whether all are ready."""
        broker = self.broker
        broker.append_no_more()
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + CATCH_UP_S
        while not broker.replicas.followers_have_everything():
            if loop.time() > deadline_s:
                return False
            await asyncio.sleep(CATCH_UP_LOOK_S)
        return await broker.controller.leave_with_all(CONTROLLED_SHUTDOWN_S)

    async def serve(self, name: str, where: Listen) -> None:
        """Open a listener for requests of clients ("client") or of other brokers ("internal")."""
        broker = self.broker
        request_bytes_max = broker.config.socket_request_max_bytes
        if name == "internal":
            # Forwarding wraps a client's request; the largest one must still be accepted.
            request_bytes_max += FORWARDING_BYTES

        def connection() -> Connection:
            return Connection(broker.dispatcher, name, request_bytes_max)

        listening = await self._listen(name, connection, where)
        if name == "client":
            broker.dispatcher.clients.places.listen(listening)
        if where.beside is not None:
            await self._listen(f"{name}, beside", connection, where._replace(listener=where.beside))

    async def serve_metrics(self, where: Listen) -> None:
        """Open the listener for Prometheus; the code for metrics is imported with the first connection."""

        def connection() -> asyncio.Protocol:
            from syncline.node.metrics.endpoint import HttpConnection, MetricsEndpoint

            if self.metrics is None:
                self.metrics = MetricsEndpoint(self.broker, where.host, self.spec.process_figures)
            return HttpConnection(self.metrics)

        await self._listen("metrics", connection, where)

    async def _listen(self, name: str, connection: Callable[[], asyncio.BaseProtocol], where: Listen) -> Listening:
        listening = self.servers[name] = Listening(
            asyncio.get_running_loop(),
            connection,
            host=where.host,
            port=where.port,
            listener=where.listener,
            backlog=self.broker.config.socket_listen_backlog_size,
            spawn=self.broker.tasks.spawn,
        )
        await listening.open()
        return listening

    def _start_clockwork(self) -> None:
        if self._is_stopping:
            return
        clockwork = self._clockwork = Clockwork(asyncio.get_running_loop(), self._holds)
        start_housekeeping(self.broker, self._clock, clockwork.every)


def _carry_on(_reason: str) -> None:
    """Continue with the logs that have not failed."""
