"""The parts that measure group lag, put together."""

from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import Any, NamedTuple

from syncline.core.lag.own_pauses import OwnPauses
from syncline.model.ids import BrokerId, TopicPartition
from syncline.model.lag_events import GroupLagSample, GroupStatusChange
from syncline.node.clock import Clock
from syncline.node.lag.cluster_groups import ClusterGroups
from syncline.node.lag.commits import Commits
from syncline.node.lag.ends import KnownEnds
from syncline.node.lag.group_lag import GroupLag
from syncline.node.lag.group_rows import GroupRows
from syncline.node.lag.group_sampler import GroupLagSampler
from syncline.node.lag.leaders import Leaders
from syncline.node.lag.members import DescribesGroups
from syncline.node.lag.peers import LagPeers
from syncline.node.lag.read_positions import ReadPositions
from syncline.node.lag.standings import Standings
from syncline.node.lag.survey import Surveys
from syncline.node.links.links import Links
from syncline.node.metadata.cluster_view import ClusterView
from syncline.node.metadata.live_configs import LiveConfigs
from syncline.node.partitions.partition import Partition
from syncline.storage.disk import Disk


class Parts(NamedTuple):
    """What one broker measures the lag of its groups with."""

    commits: Commits
    ends: KnownEnds
    peers: LagPeers
    lag: GroupLag
    sampler: GroupLagSampler
    surveys: Surveys
    standings: Standings
    rows: GroupRows
    cluster: ClusterGroups


def assemble(
    *,
    broker_id: BrokerId,
    clock: Clock,
    cluster: ClusterView,
    configs: LiveConfigs,
    partitions: Mapping[TopicPartition, Partition],
    links: Links,
    disk: Disk,
    positions: ReadPositions,
    groups: Callable[[], DescribesGroups],
    note: Callable[[GroupLagSample | GroupStatusChange], None],
    pauses: OwnPauses,
    spawn: Callable[[Coroutine[Any, Any, None]], Awaitable[None]],
) -> Parts:
    """Return the parts; `groups` returns the coordinator, which is created after them, `note` journals an event."""
    config = configs.broker
    ends = KnownEnds(config.lag_commit_intervals)
    commits = Commits(ends, intervals=config.lag_commit_intervals, min_distance_ms=config.lag_commit_min_distance_ms)
    peers = LagPeers(broker_id=broker_id, clock=clock, cluster=cluster, links=links)
    leaders = Leaders(
        broker_id=broker_id,
        clock=clock,
        cluster=cluster,
        disk=disk,
        partitions=partitions,
        positions=positions,
        peers=peers,
        ends=ends,
        spawn=spawn,
    )
    lag = GroupLag(
        clock=clock,
        cluster=cluster,
        configs=configs,
        commits=commits,
        ends=ends,
        leaders=leaders,
        groups=groups,
        pauses=pauses,
    )
    sampler = GroupLagSampler(
        broker_id=broker_id, clock=clock, lag=lag, interval_ms=config.journal_group_lag_interval_ms, note=note
    )
    surveys = Surveys(clock=clock, cluster=cluster, commits=commits, ends=ends, leaders=leaders)
    standings = Standings(clock=clock, configs=configs, surveys=surveys, pauses=pauses)
    rows = GroupRows(commits=commits, groups=groups, partitions=partitions)
    in_cluster = ClusterGroups(
        broker_id=broker_id,
        clock=clock,
        cluster=cluster,
        disk=disk,
        partitions=partitions,
        peers=peers,
        rows=rows,
        positions=positions,
        spawn=spawn,
    )
    return Parts(commits, ends, peers, lag, sampler, surveys, standings, rows, in_cluster)
