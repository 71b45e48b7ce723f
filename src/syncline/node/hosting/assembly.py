"""What hosts partitions, put together: their logs, their roles, and the fetches of the followed ones."""

from collections.abc import Callable
from typing import NamedTuple

from syncline.core.replication.tick_index import TickIndex
from syncline.node.basis import Basis
from syncline.node.groups.on_demand import GroupsOnDemand
from syncline.node.hosting.aside import AsideCopies
from syncline.node.hosting.doubted_logs import DoubtedLogs
from syncline.node.hosting.mender import Mender
from syncline.node.hosting.offline_logs import LAST_WORDS_S, OfflineLogs
from syncline.node.hosting.partition_journal import PartitionJournal
from syncline.node.hosting.proposed_isrs import ProposedIsrs
from syncline.node.hosting.refused_writes import RefusedWrites
from syncline.node.hosting.replicas import HostedReplicas
from syncline.node.hosting.scrubber import Scrubber
from syncline.node.observing.observer import Observer
from syncline.node.observing.reporting import Reporting
from syncline.node.partitions.isr_ticks import IsrTicks
from syncline.node.partitions.low_watermarks import LowWatermarks
from syncline.node.partitions.partition import PartitionSurroundings
from syncline.node.partitions.slow_reads import SlowReads
from syncline.node.probe import Probe
from syncline.node.replication.cuts import Cuts
from syncline.node.replication.fetchers import Fetchers
from syncline.node.replication.leader_fetcher import LeaderFetcher
from syncline.node.replication.surroundings import FetcherSurroundings
from syncline.node.throttle.moves import MetadataMoves
from syncline.node.throttle.throttles import ReplicationThrottles


class Hosting(NamedTuple):
    """The parts of one broker that host partitions."""

    replicas: HostedReplicas
    isr_ticks: IsrTicks
    slow_reads: SlowReads
    low_watermarks: LowWatermarks
    throttles: ReplicationThrottles

    def configure(self) -> None:
        """Apply a changed configuration of the broker."""
        self.slow_reads.configure()
        self.isr_ticks.configure()
        self.replicas.scrubber.configure()

    def close(self) -> None:
        """Stop the fetchers and the ISR ticks; leave the logs open."""
        self.replicas.fetchers.close()
        self.replicas.scrubber.close()
        self.slow_reads.close()
        self.replicas.refused_writes.close()
        self.isr_ticks.close()
        self.throttles.close()


def assemble(
    basis: Basis,
    reporting: Reporting,
    groups: GroupsOnDemand,
    *,
    by_leader: dict[int, LeaderFetcher],
    probe: Probe,
    on_unfit: Callable[[str], object],
) -> Hosting:
    """Return what hosts the partitions of one broker; `by_leader` gets its fetchers."""
    observer, note = reporting.observer, reporting.journal.note
    ticks = TickIndex()
    journal = PartitionJournal(
        broker_id=basis.broker_id,
        clock=basis.clock,
        configs=basis.configs,
        counters=basis.counters,
        followers=observer.followers,
        disk_watch=observer.disk_watch,
        note=note,
    )
    slow_reads = SlowReads(
        broker_id=basis.broker_id,
        loop=basis.loop,
        clock=basis.clock,
        configs=basis.configs,
        counters=basis.counters,
        note=note,
        settle=basis.settle,
    )
    low_watermarks = LowWatermarks(basis.clock, basis.deadlines, basis.cluster)
    refused_writes = RefusedWrites(
        broker_id=basis.broker_id,
        loop=basis.loop,
        clock=basis.clock,
        disk=basis.disk,
        log_directory=basis.logs.path,
        episodes=observer.episodes,
        heartbeat_now=basis.controller.heartbeat_now,
    )
    throttles = ReplicationThrottles(
        broker_id=basis.broker_id,
        loop=basis.loop,
        clock=basis.clock,
        holds=basis.holds,
        config=basis.configs.broker,
        moves=MetadataMoves(basis.cluster),
        note=note,
    )
    surroundings = PartitionSurroundings(
        broker_id=basis.broker_id,
        clock=basis.clock,
        configs=basis.configs,
        brokers=basis.known_brokers,
        ticks=ticks,
        counters=basis.counters,
        disk_watch=observer.disk_watch,
        probe=probe,
        proposals=ProposedIsrs(
            controller=basis.controller,
            clock=basis.clock,
            observer=observer,
            journal=journal,
            settle=basis.settle,
        ),
        journal=journal,
        refused_writes=refused_writes,
        slow_reads=slow_reads,
        low_watermarks=low_watermarks,
        check_invariants=basis.check_invariants,
    )
    fetchers = _fetchers(basis, observer, journal, refused_writes, throttles, by_leader)
    replicas = _replicas(basis, observer, groups, surroundings, fetchers, refused_writes, on_unfit)
    isr_ticks = IsrTicks(
        loop=basis.loop,
        clock=basis.clock,
        configs=basis.configs,
        ticks=ticks,
        look_at_reads=slow_reads.tick,
        settle=basis.settle,
    )
    return Hosting(replicas, isr_ticks, slow_reads, low_watermarks, throttles)


def _fetchers(
    basis: Basis,
    observer: Observer,
    journal: PartitionJournal,
    refused_writes: RefusedWrites,
    throttles: ReplicationThrottles,
    by_leader: dict[int, LeaderFetcher],
) -> Fetchers:
    """Return what follows the leaders of partitions."""
    return Fetchers(
        FetcherSurroundings(
            broker_id=basis.broker_id,
            registration=basis.controller,
            loop=basis.loop,
            clock=basis.clock,
            cluster=basis.cluster,
            configs=basis.configs,
            tasks=basis.tasks,
            links=basis.links,
            departures=basis.departures,
            observer=observer,
            counters=basis.counters,
            cuts=Cuts(basis.clock, basis.loop, basis.disk, observer.disk_watch),
            journal=journal,
            refused_writes=refused_writes,
            throttle=throttles.follower,
            holds=basis.holds,
            settle=basis.settle,
        ),
        by_leader,
    )


def _replicas(
    basis: Basis,
    observer: Observer,
    groups: GroupsOnDemand,
    surroundings: PartitionSurroundings,
    fetchers: Fetchers,
    refused_writes: RefusedWrites,
    on_unfit: Callable[[str], object],
) -> HostedReplicas:
    """Return what opens logs, gives partitions their roles, and looks after logs that fail."""
    offline = OfflineLogs(
        broker_id=basis.broker_id,
        cluster=basis.cluster,
        logs=basis.logs,
        aside=AsideCopies(
            broker_id=basis.broker_id,
            clock=basis.clock,
            cluster=basis.cluster,
            disk=basis.disk,
            logs=basis.logs,
            partitions=basis.partitions,
        ),
        clock=basis.clock,
        episodes=observer.episodes,
        heartbeat_now=basis.controller.heartbeat_now,
        on_unfit=lambda reason: basis.loop.call_later(LAST_WORDS_S, on_unfit, reason),
    )
    return HostedReplicas(
        broker_id=basis.broker_id,
        cluster=basis.cluster,
        configs=basis.configs,
        logs=basis.logs,
        offline=offline,
        refused_writes=refused_writes,
        doubted=DoubtedLogs(
            clock=basis.clock,
            cluster=basis.cluster,
            disk=basis.disk,
            partitions=basis.partitions,
            damaged=offline.damaged,
        ),
        scrubber=Scrubber(
            broker_id=basis.broker_id,
            loop=basis.loop,
            clock=basis.clock,
            configs=basis.configs,
            disk=basis.disk,
            partitions=basis.partitions,
            offline=offline,
            disk_watch=observer.disk_watch,
            episodes=observer.episodes,
        ),
        mender=Mender(
            broker_id=basis.broker_id,
            loop=basis.loop,
            cluster=basis.cluster,
            configs=basis.configs,
            disk=basis.disk,
            logs=basis.logs,
            offline=offline,
            tasks=basis.tasks,
            links=basis.links,
        ),
        partitions=basis.partitions,
        surroundings=surroundings,
        fetchers=fetchers,
        groups=groups,
        counters=basis.counters,
        disk_watch=observer.disk_watch,
    )
