"""Topics that brokers create: automatically created ones, and the brokers' own.

The controller decides. A broker has at most one pending request per topic.
"""

import asyncio
import logging
from collections.abc import Coroutine, Mapping
from typing import Any, Protocol

from syncline.model.errors import ErrorCode
from syncline.model.ids import JOURNAL_TOPIC, OFFSETS_TOPIC
from syncline.node.cluster_view import ClusterView
from syncline.node.live_configs import LiveConfigs
from syncline.node.tasks import Tasks

log = logging.getLogger("syncline.node")


class CreatesTopics(Protocol):
    """The channel to the controller, for creating topics."""

    async def create_topic(
        self, name: str, partitions: int, replication_factor: int, configs: Mapping[str, str], /
    ) -> tuple[ErrorCode, str | None]:
        """Create a topic; return the result."""


class TopicCreation:
    """The topics that one broker has the controller create."""

    def __init__(
        self, *, cluster: ClusterView, configs: LiveConfigs, cluster_size: int, tasks: Tasks, controller: CreatesTopics
    ) -> None:
        self._cluster = cluster
        self._configs = configs
        # How many brokers are expected: the journal's topic waits for them, to get all of its replicas.
        self._cluster_size = cluster_size
        self._tasks = tasks
        self._controller = controller
        self._under_way: dict[str, asyncio.Task[Any]] = {}

    def create_later(self, name: str) -> None:
        """Create a topic with the defaults because a client asked for it; do nothing if that is pending."""
        if name in (OFFSETS_TOPIC, JOURNAL_TOPIC):
            coroutine = self.create_internal(name)
        else:
            config = self._configs.broker
            coroutine = self._create(name, config.num_partitions, config.default_replication_factor, {})
        self._create_once(name, coroutine)

    def _create_once(self, name: str, coroutine: Coroutine[Any, Any, None]) -> None:
        if name in self._under_way or name in self._cluster.image.topics:
            coroutine.close()
            return
        task = self._tasks.spawn(coroutine)
        self._under_way[name] = task
        task.add_done_callback(lambda _: self._under_way.pop(name, None))

    async def create_internal(self, name: str, /) -> None:
        """Create the offsets topic as configured, with at most as many replicas as there are active brokers."""
        config = self._configs.broker
        await self._create(
            name,
            config.offsets_topic_num_partitions,
            min(config.offsets_topic_replication_factor, self._cluster.active_count()),
            {
                "cleanup.policy": "compact",
                "compression.type": "producer",
                "segment.bytes": str(config.offsets_topic_segment_bytes),
            },
        )

    async def create_journal(self) -> None:
        """Create the journal's topic once enough brokers are active to replicate it."""
        wanted = min(self._configs.broker.journal_topic_replication_factor, self._cluster_size)
        if self._cluster.active_count() < wanted:
            return
        await self._create(JOURNAL_TOPIC, 1, wanted, {"min.insync.replicas": "1"})

    async def _create(self, name: str, partitions: int, factor: int, configs: Mapping[str, str]) -> None:
        code, message = await self._controller.create_topic(name, partitions, factor, configs)
        if code not in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
            log.warning("cannot create topic %s: %s %s", name, code.name, message or "")
