"""Parts of a broker, each made of its basis and of the parts below it.

The order in which `broker.py` calls these functions is the order of dependence.
"""

import random
from collections.abc import Callable
from typing import Final

from syncline.core.fetching.session_cache import SessionCache
from syncline.core.refused_heads import RefusedHeads
from syncline.model.broker_config import BrokerConfig
from syncline.model.ids import TopicPartition
from syncline.node.basis import Basis
from syncline.node.clients.memory import MemoryBudget
from syncline.node.fetching.known_partitions import KnownPartitions
from syncline.node.fetching.serving import FetchServing
from syncline.node.fetching.woken import WokenFetches
from syncline.node.groups.on_demand import GroupsOnDemand
from syncline.node.hosting.assembly import Hosting
from syncline.node.hosting.image_application import ImageApplication
from syncline.node.lag.fetch_lag import FetchLag
from syncline.node.lag.on_demand import LagOnDemand
from syncline.node.lag.read_positions import ReadPositions
from syncline.node.metadata.metadata_rows import MetadataRows
from syncline.node.metadata.topic_creation import TopicCreation
from syncline.node.observing.observer import Observer
from syncline.node.observing.reporting import Reporting
from syncline.node.producing.opening import Opening
from syncline.node.producing.serving import Producing
from syncline.node.producing.unanswered_refusals import UnansweredRefusals
from syncline.node.serving.outgoing import Outgoing

# Which part of the memory for clients their fetch sessions may take.
SESSIONS_SHARE: Final = 4


def lag_of(basis: Basis, reporting: Reporting, groups: Callable[[], GroupsOnDemand]) -> LagOnDemand:
    """Return what a broker knows of consumer lag; `groups` returns what is made of it afterwards."""
    return LagOnDemand(
        broker_id=basis.broker_id,
        clock=basis.clock,
        cluster=basis.cluster,
        configs=basis.configs,
        partitions=basis.partitions,
        links=basis.links,
        tasks=basis.tasks,
        disk=basis.disk,
        positions=ReadPositions(),
        groups=lambda: groups().coordinator,
        note=reporting.journal.note,
    )


def groups_of(
    basis: Basis,
    topics: TopicCreation,
    lag: LagOnDemand,
    memory: MemoryBudget,
    rng: random.Random,
    *,
    damaged: Callable[[TopicPartition, str], bool],
) -> GroupsOnDemand:
    """Return the groups that a broker coordinates; `damaged` takes a log offline that another replica can serve."""
    return GroupsOnDemand(
        clock=basis.clock,
        rng=rng,
        cluster=basis.cluster,
        configs=basis.configs,
        partitions=basis.partitions,
        tasks=basis.tasks,
        topics=topics,
        memory=memory,
        commits=lag,
        damaged=damaged,
    )


def images_of(
    basis: Basis,
    hosting: Hosting,
    groups: GroupsOnDemand,
    rows: MetadataRows,
    *,
    on_config: Callable[[BrokerConfig], None],
    on_unfit: Callable[[str], object],
) -> ImageApplication:
    """Return what applies new metadata."""
    return ImageApplication(
        loop=basis.loop,
        clock=basis.clock,
        holds=basis.holds,
        cluster=basis.cluster,
        configs=basis.configs,
        partitions=basis.partitions,
        replicas=hosting.replicas,
        offline=hosting.replicas.offline,
        fetchers=hosting.replicas.fetchers,
        known_brokers=basis.known_brokers,
        departures=basis.departures,
        slow_reads=hosting.slow_reads,
        low_watermarks=hosting.low_watermarks,
        groups=groups,
        metadata_rows=rows,
        throttles=hosting.throttles,
        on_config=on_config,
        on_unfit=on_unfit,
        settle=basis.settle,
        check_invariants=basis.check_invariants,
    )


def sessions_of(basis: Basis, memory: MemoryBudget, rng: random.Random) -> SessionCache:
    """Return the fetch sessions of a broker."""
    return SessionCache(
        basis.configs.broker.max_incremental_fetch_session_cache_slots,
        lambda: rng.randrange(1, 2**31 - 1),
        basis.known_brokers,
        clients_bytes_max=memory.limit_bytes // SESSIONS_SHARE,
    )


def fetching_of(
    basis: Basis,
    hosting: Hosting,
    observer: Observer,
    sessions: SessionCache,
    positions: ReadPositions,
    *,
    woken: WokenFetches,
    outgoing: Outgoing,
) -> FetchServing:
    """Return what fetches use."""
    return FetchServing(
        clock=basis.clock,
        cluster=basis.cluster,
        configs=basis.configs,
        partitions=basis.partitions,
        known=KnownPartitions(basis.partitions),
        sessions=sessions,
        deadlines=basis.deadlines,
        woken=woken,
        outgoing=outgoing,
        slow_reads=hosting.slow_reads,
        low_watermarks=hosting.low_watermarks,
        followers=observer.followers,
        disk_watch=observer.disk_watch,
        counters=basis.counters,
        throttle=hosting.throttles.leader,
        lag=FetchLag(),
        positions=positions,
    )


def producing_of(basis: Basis) -> Producing:
    """Return what produce requests use."""
    return Producing(
        clock=basis.clock,
        cluster=basis.cluster,
        partitions=basis.partitions,
        counters=basis.counters,
        deadlines=basis.deadlines,
        unanswered=UnansweredRefusals(basis.clock),
        opening=Opening(basis.disk.run_later, basis.settle),
        refused_heads=RefusedHeads(),
    )
