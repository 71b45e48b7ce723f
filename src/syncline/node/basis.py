"""What the parts of a broker rest on: made first, and used by nearly all of them.

Only the modules that put parts together read it (`broker.py`, `assembly.py`, `observing/reporting.py`,
`hosting/assembly.py`). A part gets what it uses of it, one by one, so that its arguments say what it depends on.
"""

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from syncline.core.replication.known_brokers import KnownBrokers
from syncline.model.ids import BrokerId, TopicPartition
from syncline.node.clock import Clock
from syncline.node.counting.counters import Counters
from syncline.node.links.links import Links
from syncline.node.loop.deadlines import Deadlines
from syncline.node.loop.loop_holds import LoopHolds
from syncline.node.loop.tasks import Tasks
from syncline.node.metadata.cluster_view import ClusterView
from syncline.node.metadata.departures import Departures
from syncline.node.metadata.live_configs import LiveConfigs
from syncline.node.partitions.partition import Partition
from syncline.storage.disk import Disk
from syncline.storage.log_directory import LogDirectory

if TYPE_CHECKING:
    from syncline.node.channel.channel import Channel


class Basis(NamedTuple):
    """What one broker is given, and what it knows before it hosts and serves anything."""

    broker_id: BrokerId
    loop: asyncio.AbstractEventLoop
    clock: Clock
    disk: Disk
    logs: LogDirectory
    links: Links
    holds: LoopHolds
    # Metadata, configurations, hosted partitions.
    cluster: ClusterView
    configs: LiveConfigs
    partitions: dict[TopicPartition, Partition]
    known_brokers: KnownBrokers
    # Parts that most others use.
    tasks: Tasks
    counters: Counters
    deadlines: Deadlines
    departures: Departures
    controller: "Channel"
    # Lets woken fetches look again, at the end of a callback.
    settle: Callable[[], None]
    check_invariants: bool
