"""What a fetcher uses of its broker; all fetchers share one."""

import asyncio
from collections.abc import Callable
from typing import NamedTuple, Protocol

from syncline.core.replication.evidence import Evidence
from syncline.model.ids import BrokerEpoch, BrokerId, Offset
from syncline.node.clock import Clock
from syncline.node.counting.counters import Counters
from syncline.node.links.links import Links
from syncline.node.loop.loop_holds import LoopHolds
from syncline.node.loop.tasks import Tasks
from syncline.node.metadata.cluster_view import ClusterView
from syncline.node.metadata.departures import Departures
from syncline.node.metadata.live_configs import LiveConfigs
from syncline.node.observing.observer import Observer
from syncline.node.partitions.partition import HearsOfRefusals, Partition
from syncline.node.replication.cuts import Cuts
from syncline.node.throttle.role import RoleThrottle


class KnowsRegistration(Protocol):
    """What fetches use of the channel to the controller."""

    @property
    def broker_epoch(self) -> BrokerEpoch:
        """Return the epoch of this process's registration."""


class JournalsTruncations(Protocol):
    """What journals truncations."""

    def truncated(self, partition: Partition, leader_id: int, log_end_before: Offset, evidence: Evidence, /) -> None:
        """Report a truncation that a leader's history required."""


class FetcherSurroundings(NamedTuple):
    """The parts of one broker that its fetchers use."""

    broker_id: BrokerId
    registration: KnowsRegistration
    loop: asyncio.AbstractEventLoop
    clock: Clock
    cluster: ClusterView
    configs: LiveConfigs
    tasks: Tasks
    links: Links
    departures: Departures
    observer: Observer
    counters: Counters
    cuts: Cuts
    journal: JournalsTruncations
    refused_writes: HearsOfRefusals
    throttle: RoleThrottle
    holds: LoopHolds
    settle: Callable[[], None]
