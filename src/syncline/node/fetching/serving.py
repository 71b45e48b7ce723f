"""What fetches use of a broker; all fetches share one."""

from collections.abc import Mapping
from typing import NamedTuple

from syncline.core.fetching.session_cache import SessionCache
from syncline.model.ids import TopicPartition
from syncline.node.clock import Clock
from syncline.node.counting.counters import Counters
from syncline.node.counting.disk_watch import DiskWatch
from syncline.node.fetching.known_partitions import KnownPartitions
from syncline.node.fetching.woken import WokenFetches
from syncline.node.lag.fetch_lag import FetchLag
from syncline.node.lag.read_positions import ReadPositions
from syncline.node.loop.deadlines import Deadlines
from syncline.node.metadata.cluster_view import ClusterView
from syncline.node.metadata.live_configs import LiveConfigs
from syncline.node.observing.follower_watch import FollowerWatch
from syncline.node.partitions.low_watermarks import LowWatermarks
from syncline.node.partitions.partition import Partition
from syncline.node.partitions.slow_reads import SlowReads
from syncline.node.serving.outgoing import Outgoing
from syncline.node.throttle.role import RoleThrottle


class FetchServing(NamedTuple):
    """The parts of one broker that fetches use."""

    clock: Clock
    cluster: ClusterView
    configs: LiveConfigs
    partitions: Mapping[TopicPartition, Partition]
    known: KnownPartitions
    sessions: SessionCache
    deadlines: Deadlines
    woken: WokenFetches
    outgoing: Outgoing
    slow_reads: SlowReads
    low_watermarks: LowWatermarks
    followers: FollowerWatch
    disk_watch: DiskWatch
    counters: Counters
    throttle: RoleThrottle
    lag: FetchLag
    positions: ReadPositions
