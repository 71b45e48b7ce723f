"""The parts that measure group lag, put together."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from syncline.model.ids import BrokerId, TopicPartition
from syncline.node.clock import Clock
from syncline.node.cluster_view import ClusterView
from syncline.node.lag.commits import Commits
from syncline.node.lag.ends import KnownEnds
from syncline.node.lag.group_lag import GroupLag
from syncline.node.lag.leaders import Leaders
from syncline.node.lag.members import DescribesGroups
from syncline.node.lag.peers import LagPeers
from syncline.node.links import Links
from syncline.node.live_configs import LiveConfigs
from syncline.node.partition import Partition
from syncline.storage.disk import Disk


class Parts(NamedTuple):
    """What one broker measures the lag of its groups with."""

    commits: Commits
    ends: KnownEnds
    peers: LagPeers
    lag: GroupLag


def assemble(
    *,
    broker_id: BrokerId,
    clock: Clock,
    cluster: ClusterView,
    configs: LiveConfigs,
    partitions: Mapping[TopicPartition, Partition],
    links: Links,
    disk: Disk,
    groups: Callable[[], DescribesGroups],
) -> Parts:
    """Return the parts; `groups` returns the coordinator, which is created after them."""
    config = configs.broker
    ends = KnownEnds(config.lag_commit_intervals)
    commits = Commits(ends, intervals=config.lag_commit_intervals, min_distance_ms=config.lag_commit_min_distance_ms)
    peers = LagPeers(broker_id=broker_id, clock=clock, cluster=cluster, links=links)
    leaders = Leaders(
        broker_id=broker_id, clock=clock, cluster=cluster, disk=disk, partitions=partitions, peers=peers, ends=ends
    )
    lag = GroupLag(
        clock=clock,
        cluster=cluster,
        configs=configs,
        commits=commits,
        ends=ends,
        leaders=leaders,
        groups=groups,
    )
    return Parts(commits, ends, peers, lag)
