"""Group lag, created with the first group: a broker without groups does not import its code."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from syncline.core.lag.own_pauses import BEAT_MS, OwnPauses
from syncline.model.ids import BrokerId, TopicPartition
from syncline.model.lag_events import GroupLagSample, GroupStatusChange
from syncline.node.clock import Clock
from syncline.node.lag.read_positions import SWEEP_MS, ReadPositions
from syncline.node.links.links import Links
from syncline.node.loop.clockwork import Every
from syncline.node.loop.tasks import Tasks
from syncline.node.metadata.cluster_view import ClusterView
from syncline.node.metadata.live_configs import LiveConfigs
from syncline.node.partitions.partition import Partition
from syncline.storage.disk import Disk

if TYPE_CHECKING:
    from syncline.node.lag.assembly import Parts
    from syncline.node.lag.cluster_groups import ClusterGroups
    from syncline.node.lag.commits import Commits, TermCommits
    from syncline.node.lag.group_lag import GroupLag
    from syncline.node.lag.group_rows import GroupRows
    from syncline.node.lag.members import DescribesGroups
    from syncline.node.lag.standings import Standings
    from syncline.node.lag.survey import Surveys


class LagOnDemand:
    """What this broker knows of the lag of its groups, if it coordinates any."""

    def __init__(
        self,
        *,
        broker_id: BrokerId,
        clock: Clock,
        cluster: ClusterView,
        configs: LiveConfigs,
        partitions: Mapping[TopicPartition, Partition],
        links: Links,
        tasks: Tasks,
        disk: Disk,
        positions: ReadPositions,
        groups: "Callable[[], DescribesGroups]",
        note: Callable[[GroupLagSample | GroupStatusChange], None],
    ) -> None:
        self.disk = disk
        # From where consumers fetch what this broker leads.
        self.positions = positions
        self._broker_id = broker_id
        self._clock = clock
        self._cluster = cluster
        self._configs = configs
        self._partitions = partitions
        self._links = links
        self._tasks = tasks
        self._groups = groups
        self._note = note
        self._pauses = OwnPauses()
        self._parts: Parts | None = None
        self._is_ticking = False
        self._is_sampling = False

    @property
    def commits(self) -> "Commits":
        """Return the commits, created on first use."""
        return self._ensured().commits

    @property
    def of_groups(self) -> "GroupLag | None":
        """Return the lag of the groups; None before there was one."""
        return None if self._parts is None else self._parts.lag

    @property
    def surveys(self) -> "tuple[Surveys, Standings] | None":
        """Return what looks at all groups at once, and what the last refresh said of them; None before the first."""
        return None if self._parts is None else (self._parts.surveys, self._parts.standings)

    @property
    def rows(self) -> "GroupRows":
        """Return the groups for other brokers, created on first use."""
        return self._ensured().rows

    @property
    def in_cluster(self) -> "ClusterGroups":
        """Return what gathers the groups of all brokers, created on first use."""
        return self._ensured().cluster

    @property
    def coordinator(self) -> "DescribesGroups | None":
        """Return what describes the groups; None before there was one."""
        return None if self._parts is None else self._groups()

    def ensure(self) -> None:
        """Begin to remember commits. Raises OSError if the code cannot be imported for want of descriptors."""
        self._ensured()

    def _ensured(self) -> "Parts":
        if self._parts is None:
            from syncline.node.lag.assembly import assemble

            self._parts = assemble(
                broker_id=self._broker_id,
                clock=self._clock,
                cluster=self._cluster,
                configs=self._configs,
                partitions=self._partitions,
                links=self._links,
                disk=self.disk,
                positions=self.positions,
                groups=self._groups,
                note=self._note,
                pauses=self._pauses,
                spawn=self._tasks.spawn,
            )
        return self._parts

    def start(self, every: Every) -> None:
        """Sample where partitions end, as long as groups have committed there, judge groups, and journal them.

        Without groups, there are readers nevertheless: what they no longer read is forgotten.
        """
        config = self._configs.broker
        every("read-positions", SWEEP_MS, lambda: self.positions.sweep(self._high_watermark_of))
        every("own-pauses", BEAT_MS, lambda: self._pauses.beat(self._clock.mono_ms(), self._clock.wall_ms()))
        every("lag", config.lag_refresh_interval_ms, self._begin_tick)
        if config.journal_enable:
            every("group-lag", config.journal_group_lag_interval_ms, self._begin_sample)

    def _high_watermark_of(self, key: TopicPartition) -> int | None:
        partition = self._partitions.get(key)
        return None if partition is None else partition.high_watermark

    def _begin_tick(self) -> None:
        # The next one waits until this one has ended: a leader may be slow to answer.
        if self._parts is not None and not self._is_ticking:
            self._is_ticking = True
            self._tasks.spawn(self._tick(self._parts))

    async def _tick(self, parts: "Parts") -> None:
        try:
            await parts.lag.tick()
            await parts.standings.refresh()
            parts.peers.close_idle()
        finally:
            self._is_ticking = False

    def _begin_sample(self) -> None:
        if self._parts is not None and not self._is_sampling:
            self._is_sampling = True
            self._tasks.spawn(self._sample(self._parts))

    async def _sample(self, parts: "Parts") -> None:
        try:
            await parts.sampler.sample()
        finally:
            self._is_sampling = False

    def close(self) -> None:
        """Close the connections to leaders."""
        if self._parts is not None:
            self._parts.peers.close()

    def term_began(self, partition: int, /) -> "TermCommits":
        """Return what hears of the commits of a new term."""
        return self.commits.term_began(partition)

    def term_ended(self, partition: int, /) -> None:
        """Forget the groups of a term."""
        self.commits.term_ended(partition)

    def check_invariants(self) -> None:
        """Assert what must hold between two callbacks of the loop."""
        self.positions.check_invariants()
        if self._parts is not None:
            self._parts.commits.check_invariants()
            self._parts.ends.check_invariants()
