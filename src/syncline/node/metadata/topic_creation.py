"""Topics that brokers create: automatically created ones, and the brokers' own.

The controller decides, once for all topics of a client's request. A broker has at most one pending request per topic.
"""

import logging
from collections.abc import Coroutine, Mapping, Sequence
from typing import Any, Final, Protocol

from syncline.model.errors import ErrorCode
from syncline.model.ids import JOURNAL_TOPIC, OFFSETS_TOPIC
from syncline.model.tables import shrink
from syncline.node.loop.list_parts import in_parts
from syncline.node.loop.tasks import Tasks
from syncline.node.metadata.cluster_view import ClusterView
from syncline.node.metadata.live_configs import LiveConfigs

log = logging.getLogger("syncline.node")


# Topics of one request to the controller, which decides on them together.
TOPICS_AT_ONCE: Final = 25
# Topics that clients asked for and that are not created yet; clients ask again for those beyond.
UNDER_WAY_MAX: Final = 10_000


class CreatesTopics(Protocol):
    """The channel to the controller, for creating topics."""

    async def create_topics(
        self, names: Sequence[str], partitions: int, replication_factor: int, configs: Mapping[str, str], /
    ) -> list[tuple[str, ErrorCode, str | None]]:
        """Create topics that differ in their names alone; return the results."""


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
        self._under_way: dict[str, None] = {}

    def create_later(self, names: Sequence[str]) -> None:
        """Create topics with the defaults because a client asked for them, except those that are pending."""
        room = UNDER_WAY_MAX - len(self._under_way)
        topics = self._cluster.image.topics
        new = [name for name in names if name not in self._under_way and name not in topics][:room]
        internal = [name for name in new if name in (OFFSETS_TOPIC, JOURNAL_TOPIC)]
        for name in internal:
            self._create_once([name], self.create_internal(name))
        if len(internal) < len(new):
            others = [name for name in new if name not in internal]
            self._create_once(others, self._create_with_defaults(others))

    def _create_once(self, names: Sequence[str], coroutine: Coroutine[Any, Any, None]) -> None:
        self._under_way.update(dict.fromkeys(names))
        assert len(self._under_way) <= UNDER_WAY_MAX, f"{len(self._under_way)} topics are being created"

        def done(_task: object) -> None:
            for name in names:
                del self._under_way[name]
            shrink(self._under_way)

        self._tasks.spawn(coroutine).add_done_callback(done)

    async def _create_with_defaults(self, names: Sequence[str]) -> None:
        config = self._configs.broker
        for part in in_parts(names, TOPICS_AT_ONCE):
            await self._create(part, config.num_partitions, config.default_replication_factor, {})

    async def create_internal(self, name: str, /) -> None:
        """Create the offsets topic as configured, with at most as many replicas as there are active brokers."""
        config = self._configs.broker
        await self._create(
            [name],
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
        await self._create([JOURNAL_TOPIC], 1, wanted, {"min.insync.replicas": "1"})

    async def _create(self, names: Sequence[str], partitions: int, factor: int, configs: Mapping[str, str]) -> None:
        for name, code, message in await self._controller.create_topics(names, partitions, factor, configs):
            if code not in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
                log.warning("cannot create topic %s: %s %s", name, code.name, message or "")
