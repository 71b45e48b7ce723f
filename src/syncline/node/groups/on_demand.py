"""The group coordinator, created when the first group or replica of the offsets topic needs it.

Its code is imported then, too, so that a broker without groups starts sooner. This module also implements what the
coordinator uses of its broker (`groups/port.py`).
"""

import random
from collections.abc import Callable, Coroutine, Mapping
from typing import TYPE_CHECKING, Any, Protocol

from syncline.model.broker_config import BrokerConfig
from syncline.model.ids import OFFSETS_TOPIC, TopicPartition
from syncline.model.metadata import MetadataImage
from syncline.node.clients.memory import MemoryBudget
from syncline.node.clock import Clock
from syncline.node.loop.tasks import Tasks
from syncline.node.metadata.cluster_view import ClusterView
from syncline.node.metadata.live_configs import LiveConfigs
from syncline.node.metadata.topic_creation import TopicCreation
from syncline.node.partitions.led_log import LedLog
from syncline.node.partitions.partition import Partition

if TYPE_CHECKING:
    from syncline.node.groups.coordinator import GroupCoordinator
    from syncline.node.groups.port import WatchesTerms

    class WatchesOnDemand(WatchesTerms, Protocol):
        """What looks on while groups commit, once there are any."""

        def ensure(self) -> None:
            """Import the code for it. Raises OSError if that fails for want of descriptors."""


class GroupsOnDemand:
    """The group coordinator of one broker, if it has one."""

    def __init__(
        self,
        *,
        clock: Clock,
        rng: random.Random,
        cluster: ClusterView,
        configs: LiveConfigs,
        partitions: Mapping[TopicPartition, Partition],
        tasks: Tasks,
        topics: TopicCreation,
        memory: MemoryBudget,
        commits: "WatchesOnDemand",
        damaged: Callable[[TopicPartition, str], bool],
    ) -> None:
        self.clock = clock
        self.rng = rng
        self.memory = memory
        self.commits = commits
        self._cluster = cluster
        self._configs = configs
        self._partitions = partitions
        self._tasks = tasks
        self._topics = topics
        self._damaged = damaged
        self._coordinator: GroupCoordinator | None = None

    @property
    def coordinator(self) -> "GroupCoordinator":
        """Return the coordinator, created on first use."""
        self.ensure()
        assert self._coordinator is not None, "the coordinator was not created"
        return self._coordinator

    def ensure(self) -> None:
        """Create the coordinator. Raises OSError if its code cannot be imported for want of descriptors."""
        if self._coordinator is None:
            from syncline.node.groups.coordinator import GroupCoordinator

            self.commits.ensure()
            self._coordinator = GroupCoordinator(self)

    def became_leader(self, partition: int, leader_epoch: int) -> None:
        """Coordinate the groups of a partition."""
        self.coordinator.became_leader(partition, leader_epoch)

    def resigned(self, partition: int) -> None:
        """Stop coordinating the groups of a partition."""
        self.coordinator.resigned(partition)

    def topics_deleted(self, names: tuple[str, ...]) -> None:
        """Forget offsets committed for these topics."""
        if self._coordinator is not None:
            self._coordinator.topics_deleted(names)

    def renew_logs(self) -> None:
        """Let the oldest part of the groups' logs go where they have grown."""
        if self._coordinator is not None:
            self._coordinator.renewals.begin()

    def close(self) -> None:
        """Close the coordinator, if there is one."""
        if self._coordinator is not None:
            self._coordinator.close()

    def check_invariants(self) -> None:
        """Assert what must hold between two callbacks of the loop."""
        if self._coordinator is not None:
            self._coordinator.check_invariants()

    @property
    def config(self) -> BrokerConfig:
        """Return the broker's configuration as of now."""
        return self._configs.broker

    @property
    def image(self) -> MetadataImage:
        """Return the cluster's metadata as of now."""
        return self._cluster.image

    def partition(self, topic: str, partition: int, /) -> LedLog | None:
        """Return this broker's replica; None if it hosts none."""
        found = self._partitions.get(TopicPartition(topic, partition))
        return None if found is None else LedLog(found)

    def damaged(self, partition: int, reason: str, /) -> None:
        """Report that this broker's log of a partition is damaged: another replica leads, or the log is mended."""
        self._damaged(TopicPartition(OFFSETS_TOPIC, partition), reason)

    def spawn(self, work: Coroutine[Any, Any, None], /) -> object:
        """Run `work` as a task that the broker owns and cancels."""
        return self._tasks.spawn(work)

    async def create_internal_topic(self, name: str, /) -> None:
        """Ask the controller to create an internal topic; raises `RequestError`."""
        await self._topics.create_internal(name)
