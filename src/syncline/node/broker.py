"""The broker: the parts of one process, put together.

Everything here runs on one event loop, and no part awaits while it changes state. Each part gets what it uses as
arguments, so the order of construction is the order of dependence. Where dependence is circular (the controller's
answers lead to new images, which lead to new requests), a part gets a function instead.

Handlers, metrics and verbs get the broker, and declare as protocols what they use of it.
"""

import asyncio
import random
from collections.abc import Callable, Coroutine, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from syncline.core.replication.known_brokers import KnownBrokers
from syncline.model.broker_config import BrokerConfig
from syncline.model.events import Event
from syncline.model.ids import BrokerEpoch, BrokerId, TopicPartition
from syncline.model.metadata import MetadataImage
from syncline.node.assembly import fetching_of, groups_of, images_of, lag_of, producing_of, sessions_of
from syncline.node.basis import Basis
from syncline.node.clients.clients import Clients
from syncline.node.clock import Clock
from syncline.node.counting.counters import Counters
from syncline.node.faults.on_demand import FaultsOnDemand
from syncline.node.fetching.left_sessions import LeftSessions
from syncline.node.fetching.throttled import HeldForFollowers
from syncline.node.fetching.woken import WokenFetches
from syncline.node.hosting.assembly import assemble
from syncline.node.hosting.replicas import HostedReplicas
from syncline.node.hosting.strays import delete_strays
from syncline.node.lag.cache_window import CacheWindow
from syncline.node.links.links import Links
from syncline.node.loop.deadlines import Deadlines
from syncline.node.loop.loop_holds import LoopHolds
from syncline.node.loop.tasks import Tasks
from syncline.node.metadata.cluster_view import ClusterView
from syncline.node.metadata.departures import Departures
from syncline.node.metadata.describing import Describing
from syncline.node.metadata.live_configs import LiveConfigs
from syncline.node.metadata.metadata_rows import MetadataRows
from syncline.node.metadata.topic_creation import TopicCreation
from syncline.node.observing.journal import Journal
from syncline.node.observing.observer import Observer
from syncline.node.observing.reporting import Reporting
from syncline.node.partitions.isr_ticks import IsrTicks
from syncline.node.partitions.low_watermarks import LowWatermarks
from syncline.node.partitions.partition import Partition
from syncline.node.probe import Probe, no_probe
from syncline.node.replication.leader_fetcher import LeaderFetcher
from syncline.node.serving.dispatch import Dispatcher, HandlerTable
from syncline.node.serving.long_requests import LongRequests
from syncline.node.serving.outgoing import Outgoing
from syncline.node.serving.received import Received
from syncline.node.serving.stepping import Stepping
from syncline.node.throttle.throttles import ReplicationThrottles
from syncline.storage.disk import Disk
from syncline.storage.log_directory import LogDirectory

if TYPE_CHECKING:
    from syncline.node.channel.channel import Channel
    from syncline.node.channel.metadata_stream import OnImage
    from syncline.node.faults.registry import Faults
    from syncline.node.groups.coordinator import GroupCoordinator
    from syncline.node.serving.connection import Connection

    # Creates the channel to the controller, which calls the first argument with images and the second with events.
    Connect = Callable[[OnImage, Callable[[Event], None]], Channel]

_T = TypeVar("_T")


class Broker:
    """The parts of one broker process."""

    def __init__(
        self,
        *,
        broker_id: BrokerId,
        config: BrokerConfig,
        static_config: Mapping[str, str],
        cluster_size: int,
        clock: Clock,
        rng: random.Random,
        loop: asyncio.AbstractEventLoop,
        disk: Disk,
        logs: LogDirectory,
        links: Links,
        holds: LoopHolds,
        handlers: "HandlerTable[Broker]",
        connect: "Connect",
        on_unfit: Callable[[str], object],
        memory_bytes: int,
        probe: Probe | None = None,
        check_invariants: bool = False,
    ) -> None:
        self.broker_id = broker_id
        self.clock = clock
        self.logs = logs
        cluster = self.cluster = ClusterView()
        configs = self.configs = LiveConfigs(broker_id, static_config, config, cluster)
        partitions: dict[TopicPartition, Partition] = {}
        self.partitions: Mapping[TopicPartition, Partition] = partitions
        tasks = self.tasks = Tasks(loop, holds)
        counters = self.counters = Counters()
        deadlines = Deadlines(loop, clock)
        woken, outgoing = WokenFetches(loop), Outgoing()
        controller = self.controller = connect(self._image_came, self._event_came)
        basis = Basis(
            broker_id=broker_id,
            loop=loop,
            clock=clock,
            disk=disk,
            logs=logs,
            links=links,
            holds=holds,
            cluster=cluster,
            configs=configs,
            partitions=partitions,
            known_brokers=KnownBrokers(),
            tasks=tasks,
            counters=counters,
            deadlines=deadlines,
            departures=Departures(clock, deadlines),
            controller=controller,
            settle=woken.settle,
            check_invariants=check_invariants,
        )
        clients = Clients(
            loop=loop,
            clock=clock,
            config=config,
            memory_bytes=memory_bytes,
            connections=lambda: self.dispatcher.connections,
            spawn=tasks.spawn,
        )
        topics = TopicCreation(
            cluster=cluster, configs=configs, cluster_size=cluster_size, tasks=tasks, controller=controller
        )
        # Reporting, and hosting partitions.
        by_leader: dict[int, LeaderFetcher] = {}
        self.reporting = Reporting(basis, leaders=by_leader, topics=topics)
        lag = self.lag = lag_of(basis, self.reporting, lambda: self._groups)
        groups = self._groups = groups_of(
            basis,
            topics,
            lag,
            clients.memory,
            rng,
            # The replicas come after the groups.
            damaged=lambda key, reason: self.replicas.offline.damaged(key, reason),  # noqa: PLW0108
        )
        hosting = self.hosting = assemble(
            basis, self.reporting, groups, by_leader=by_leader, probe=probe or no_probe, on_unfit=on_unfit
        )
        rows = MetadataRows()
        self._images = images_of(basis, hosting, groups, rows, on_config=self._config_changed, on_unfit=on_unfit)
        # Serving requests.
        sessions = sessions_of(basis, clients.memory, rng)
        left_sessions = LeftSessions(loop, sessions)
        self.fetching = fetching_of(
            basis, hosting, self.observer, sessions, lag.positions, woken=woken, outgoing=outgoing
        )
        fetchers = hosting.replicas.fetchers
        hosting.throttles.connect(HeldForFollowers(sessions, partitions), fetchers, fetchers.go)
        self.cache = CacheWindow(clock, self.fetching.lag, logs.written)
        self.producing = producing_of(basis)
        self.describing = Describing(
            cluster=cluster, configs=configs, departures=basis.departures, rows=rows, topics=topics
        )

        def connection_lost(connection: "Connection") -> None:
            self.observer.followers.connection_lost(connection)
            left_sessions.connection_lost(connection.holding)

        stepping = Stepping(loop, holds, woken.settle)
        self.dispatcher = Dispatcher(
            self,
            handlers,
            woken=woken,
            outgoing=outgoing,
            holds=holds,
            clients=clients,
            stepping=stepping,
            long_requests=LongRequests(stepping, clients.memory.limit_bytes),
            received=Received(loop, holds, woken.settle),
            on_connection_lost=connection_lost,
        )

        def make_faults() -> "Faults":
            from syncline.node.faults.registry import Faults

            return Faults(
                broker_id=broker_id,
                loop=loop,
                clock=clock,
                cluster=cluster,
                sessions=sessions,
                disk=disk,
                links=links,
                dispatcher=self.dispatcher,
                journal=self.journal,
            )

        self.faults = FaultsOnDemand(make_faults)

    def _image_came(self, new: MetadataImage, applied: Callable[[], None]) -> None:
        self._images.apply(new, applied)

    def _event_came(self, event: Event) -> None:
        self.journal.note(event)

    def _config_changed(self, config: BrokerConfig) -> None:
        self.controller.set_config(config)
        self.hosting.configure()
        self.dispatcher.clients.configure(config)

    @property
    def journal(self) -> Journal:
        """Return the journal of what this broker decides and sees."""
        return self.reporting.journal

    @property
    def observer(self) -> Observer:
        """Return what this broker observes of itself and others."""
        return self.reporting.observer

    @property
    def replicas(self) -> HostedReplicas:
        """Return the hosted replicas."""
        return self.hosting.replicas

    @property
    def isr_ticks(self) -> IsrTicks:
        """Return what judges followers periodically."""
        return self.hosting.isr_ticks

    @property
    def image(self) -> MetadataImage:
        """Return the metadata as of now."""
        return self.cluster.image

    @property
    def config(self) -> BrokerConfig:
        """Return the broker's configuration as of now."""
        return self.configs.broker

    @property
    def broker_epoch(self) -> BrokerEpoch:
        """Return the epoch of this process's registration, -1 before it."""
        return self.controller.broker_epoch

    @property
    def groups(self) -> "GroupCoordinator":
        """Return the group coordinator, created on first use."""
        return self._groups.coordinator

    @property
    def low_watermarks(self) -> LowWatermarks:
        """Return the DeleteRecords requests that wait for followers."""
        return self.hosting.low_watermarks

    def spawn(self, coroutine: Coroutine[Any, Any, _T], /) -> asyncio.Task[_T]:
        """Run a coroutine as a task that this broker owns; a failure is logged."""
        return self.tasks.spawn(coroutine)

    def disk_space(self) -> tuple[int, int]:
        """Return (bytes used by logs and free, bytes free) of the log directory."""
        free_bytes = self.logs.free_bytes()
        used_bytes = sum(partition.log.size_bytes for partition in self.partitions.values())
        return free_bytes + used_bytes + self.logs.aside.size_bytes, free_bytes

    @property
    def throttles(self) -> ReplicationThrottles:
        """Return what bounds replication from and to this broker."""
        return self.hosting.throttles

    def delete_strays(self) -> None:
        """Delete logs whose topic the cluster no longer has: it was deleted while this broker was down."""
        delete_strays(self.logs, self.partitions, self.replicas.offline, self.clock.mono_ms())

    def renew_group_logs(self) -> None:
        """Let the oldest part of the groups' logs go where they have grown."""
        self._groups.renew_logs()

    def append_no_more(self) -> None:
        """Append nothing more to the logs that this broker leads: the whole cluster is stopping."""
        self.dispatcher.refuse_produce()
        self.journal.close()
        self._groups.close()

    def close(self) -> None:
        """Stop fetching and parking; the node closes connections and logs."""
        self.hosting.close()
        self.reporting.close()
        self._groups.close()
        self.lag.close()
        self._images.close()
        self.faults.close()
        self.fetching.deadlines.close()
        self.dispatcher.clients.close()

    def check_invariants(self) -> None:
        """Assert what must hold between two callbacks of the loop."""
        self._images.check_invariants()
        self.fetching.deadlines.check_invariants()
        self.low_watermarks.check_invariants()
        self.dispatcher.clients.check_invariants()
        for connection in self.dispatcher.connections:
            connection.check_invariants()
        self.fetching.sessions.check_invariants()
        self.dispatcher.long_requests.check_invariants()
        self.throttles.check_invariants()
        self.controller.check_invariants()
        self._groups.check_invariants()
        self.lag.check_invariants()
